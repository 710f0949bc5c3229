"""Plots of fitted models, in scikit-learn's style; they need matplotlib: `apportion[plot]`."""

from apportion.plots.bag_report import BagReportDisplay
from apportion.plots.energy import EnergyDisplay
from apportion.plots.soft_labels import SoftLabelsDisplay
from apportion.plots.timeline import TimelineDisplay

__all__ = ["BagReportDisplay", "EnergyDisplay", "SoftLabelsDisplay", "TimelineDisplay"]
