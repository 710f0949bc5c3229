"""The command `apportion`, also as `python -m apportion`."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line; errors that a user can mend are one line on stderr."""
    try:
        from apportion.cli import app
    except ModuleNotFoundError as error:
        sys.exit(f"The command line needs {error.name}: install apportion[cli].")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    # Being told to stop ends as Ctrl-C does: what is half written is removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        app()
    except (OSError, ModuleNotFoundError) as error:
        sys.exit(f"apportion: {error}")


if __name__ == "__main__":
    main()
