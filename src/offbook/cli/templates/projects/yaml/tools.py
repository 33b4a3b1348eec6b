"""The tools of flow.yaml."""

DOCS = {
    "refunds": "Refunds are paid within five working days.",
    "delivery": "Parcels arrive within two working days.",
}


def search_docs(query: str) -> list[str]:
    """Search the documentation.

    Args:
        query: a few words
    """
    return [text for word, text in DOCS.items() if word in query.lower()]
