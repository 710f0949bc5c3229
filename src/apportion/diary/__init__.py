"""From time-stamped windows and a diary of durations to bags and totals."""

from apportion.diary.events import EventWindows, windows_of_events
from apportion.diary.fit import UNKNOWN
from apportion.diary.match import DiaryBags, diary_bags
from apportion.diary.rules import DiaryRules

__all__ = [
    "UNKNOWN",
    "DiaryBags",
    "DiaryRules",
    "EventWindows",
    "diary_bags",
    "windows_of_events",
]
