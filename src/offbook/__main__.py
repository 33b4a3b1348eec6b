"""`python -m offbook`."""

from offbook.cli.main import main

raise SystemExit(main())
