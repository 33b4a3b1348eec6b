"""An exploration as one page that needs nothing else."""

from __future__ import annotations

from offbook.report.encoding import encoded
from offbook.report.exploration.account import Account
from offbook.report.exploration.page_data import page_data
from offbook.report.standalone_page import standalone_page


def exploration_page(account: Account) -> bytes:
    """The exploration as a page. What runs said is in it as JSON; its script shows it as text, never as HTML."""
    return standalone_page("offbook.report.exploration", encoded(page_data(account)))
