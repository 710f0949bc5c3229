"""The command line: one file a command."""

from apportion.cli.app import app

__all__ = ["app"]
