"""Displays of fitted models, in scikit-learn's style; they need matplotlib: `apportion[plot]`."""

from apportion.plotting._bag_report_display import BagReportDisplay
from apportion.plotting._calibration_display import CalibrationDisplay
from apportion.plotting._energy_display import EnergyDisplay
from apportion.plotting._soft_labels_display import SoftLabelsDisplay
from apportion.plotting._timeline_display import TimelineDisplay

__all__ = [
    "BagReportDisplay",
    "CalibrationDisplay",
    "EnergyDisplay",
    "SoftLabelsDisplay",
    "TimelineDisplay",
]
