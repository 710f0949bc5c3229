"""The command line: one module per command."""

from apportion.cli.app import app

__all__ = ["app"]
