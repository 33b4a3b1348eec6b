"""The tools of support.yaml."""

DOCS = {
    "password": "Choose 'Forgot password' on the sign-in page. The link in the mail is good for one hour.",
    "refund": "Refunds are paid within five working days.",
}


def search_docs(query: str) -> list[str]:
    """Search the documentation.

    Args:
        query: a few words
    """
    return [text for word, text in DOCS.items() if word in query.lower()]


def reply(text: str) -> str:
    """Answer the customer, and end the conversation."""
    return text
