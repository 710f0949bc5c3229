"""One self-contained HTML page: the labels, the days and the reasons."""

from apportion.labeling._summary import Run
from apportion.report.contents import Contents
from apportion.report.page import require_tools
from apportion.report.write import page_bytes, write_contents, write_report

__all__ = ["Contents", "Run", "page_bytes", "require_tools", "write_contents", "write_report"]
