"""From time-stamped windows and a diary of durations to bags and totals."""

from apportion.supervision.diary.events import EventWindows, windows_of_events
from apportion.supervision.diary.fit import UNKNOWN
from apportion.supervision.diary.match import DiaryBags, diary_bags
from apportion.supervision.diary.rules import DiaryRules

__all__ = [
    "UNKNOWN",
    "DiaryBags",
    "DiaryRules",
    "EventWindows",
    "diary_bags",
    "windows_of_events",
]
