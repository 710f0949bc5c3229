"""The command `apportion`, also as `python -m apportion`."""

from __future__ import annotations

import sys

from apportion._signals import Stopped, end_at_once, say_stopped, stop_cleanly


def main() -> None:
    """Run the command line; errors that a user can mend are one line on stderr."""
    end_at_once()
    try:
        from apportion.cli import app
    except ModuleNotFoundError as error:
        sys.exit(f"The command line needs {error.name}: install apportion[cli].")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        stop_cleanly()
        app()
    except Stopped as stop:
        say_stopped(stop.code)
        raise
    except (OSError, ModuleNotFoundError) as error:
        sys.exit(f"apportion: {error}")


if __name__ == "__main__":
    main()
