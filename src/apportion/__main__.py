"""The command `apportion`, also as `python -m apportion`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from apportion._utils.signals import Stopped, end_at_once, leave, print_stopped, stop_cleanly


def main() -> None:
    """Run the command line; an error that the user can fix is one line on stderr."""
    run(_app)


def _app() -> Callable[[], Any]:
    from apportion.cli import app

    # With this name, `python -m apportion` prints a script of completion that works.
    return partial(app, prog_name="apportion")


def run(load: Callable[[], Callable[[], Any]]) -> None:
    """Import a command line and run it, so that a signal ends it without a traceback."""
    end_at_once()
    try:
        app = load()
    except ModuleNotFoundError as error:
        sys.exit(f"The command line needs {error.name}: install apportion[cli].")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        stop_cleanly()
        app()
    except Stopped as stop:
        print_stopped(stop.code)
        leave(stop.code)
    except (OSError, ModuleNotFoundError) as error:
        sys.exit(f"apportion: {error}")


if __name__ == "__main__":
    main()
