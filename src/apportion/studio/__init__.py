"""The studio: a page on this machine to label a table, correct labels and label again."""

from apportion.studio._server import serve

__all__ = ["serve"]
