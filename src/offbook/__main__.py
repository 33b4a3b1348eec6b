"""`python -m offbook`."""

from offbook.cli.main import main

main()
