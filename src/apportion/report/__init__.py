"""One HTML page with the labels, the days, the totals and the reasons."""

from apportion.labeling._summary import Run
from apportion.report._page import require_tools
from apportion.report._report_data import ReportData
from apportion.report._write import page_bytes, write_page, write_report

__all__ = ["ReportData", "Run", "page_bytes", "require_tools", "write_page", "write_report"]
