"""The tools of responses.py."""

from ledger import ran


def handle_look(arguments: dict) -> str:
    ran("look", arguments["order"])
    return f"order {arguments['order']}"


def handle_refund(arguments: dict) -> str:
    ran("refund", arguments["order"])
    return f"refunded {arguments['order']}"
