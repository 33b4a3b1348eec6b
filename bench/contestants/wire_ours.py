"""Ours: `python -m bench.contestants.wire_ours RECORDING`."""

from __future__ import annotations

import signal
import sys

from understudy.wire.serving import serving


def main() -> None:
    """Serve the recording, strictly, until the process is ended."""
    with serving(recording=sys.argv[1]) as server:
        print(f"listening on {server.url}", flush=True)
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main()
