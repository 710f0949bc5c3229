"""Plots of fitted models, in scikit-learn's style; they need matplotlib: `apportion[plot]`."""

from apportion.plotting.bag_report import BagReportDisplay
from apportion.plotting.energy import EnergyDisplay
from apportion.plotting.soft_labels import SoftLabelsDisplay
from apportion.plotting.timeline import TimelineDisplay

__all__ = ["BagReportDisplay", "EnergyDisplay", "SoftLabelsDisplay", "TimelineDisplay"]
