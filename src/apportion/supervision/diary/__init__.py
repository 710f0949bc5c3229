"""From time-stamped windows and a diary of durations to bags and totals."""

from apportion.supervision.diary.diary_rules import DiaryRules
from apportion.supervision.diary.entry_totals import UNKNOWN
from apportion.supervision.diary.event_windows import EventWindows, windows_of_events
from apportion.supervision.diary.matching import DiaryBags, diary_bags

__all__ = [
    "UNKNOWN",
    "DiaryBags",
    "DiaryRules",
    "EventWindows",
    "diary_bags",
    "windows_of_events",
]
