"""The rows of the readings as the page addresses them: participants, days, ranges of time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from apportion._io.identifiers import plain_name
from apportion._utils.typing import AnyArray, IntArray
from apportion.labeling._supervised import SupervisedTable
from apportion.plotting._segments import day_name, participant_codes
from apportion.plotting._window_times import DAY, SECOND, Times
from apportion.studio._problems import ProblemError


class Day(NamedTuple):
    """A day of a participant.

    Attributes
    ----------
    name : str
        Such as "Mon 2024-03-04", or "day 3" where times have no dates.
    midnight : int
        When it began, in microseconds.
    """

    name: str
    midnight: int

    @property
    def date(self) -> str:
        """The name without the day of the week."""
        first, _, rest = self.name.partition(" ")
        return self.name if first == "day" else rest


@dataclass(frozen=True)
class RowIndex:
    """Which rows belong to whom, and when they were recorded.

    Attributes
    ----------
    task : SupervisedTable
        The rows and what is known of them.
    """

    task: SupervisedTable

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return self.task.rows.n_samples

    @cached_property
    def times(self) -> Times | None:
        """When the rows were recorded."""
        return self.task.row_times.times

    @cached_property
    def participants(self) -> list[str]:
        """The names of the participants; one empty name where rows have none."""
        return self._codes[0]

    @cached_property
    def participant(self) -> IntArray:
        """The participant of each row, as a position."""
        return self._codes[1]

    @cached_property
    def _codes(self) -> tuple[list[str], IntArray]:
        if self.times is not None:
            return participant_codes(self.times)
        return [""], np.zeros(self.n_samples, dtype=np.int64)

    @cached_property
    def day(self) -> IntArray:
        """The day of each row, as a number; a window belongs to the day of its midpoint."""
        times = self._required_times
        middle = times.starts + (times.ends - times.starts) // 2
        return np.asarray((middle - times.day_start) // DAY)

    @cached_property
    def ids(self) -> AnyArray | None:
        """The ids of the rows as text, where they differ."""
        if self.task.ids is None:
            return None
        names = self.task.rows.names(self.task.ids)
        return np.array(names, dtype=object) if len(set(names)) == len(names) else None

    @cached_property
    def bags(self) -> AnyArray:
        """The name of each row's bag; empty where it is in none."""
        bags = self.task.supervision.bags.tolist()
        return np.array(["" if bag is None else plain_name(bag) for bag in bags], dtype=object)

    def code_of(self, participant: Any) -> int:
        """Return the position of a participant; None stands for the only one."""
        name = "" if participant is None else str(participant)
        if name in self.participants:
            return self.participants.index(name)
        if participant is None and len(self.participants) == 1:
            return 0
        raise ProblemError(f"There is no participant {name!r}.", "participant")

    def rows_of(self, participant: Any) -> IntArray:
        """Return the rows of a participant."""
        return np.flatnonzero(self.participant == self.code_of(participant))

    def days_of(self, participant: Any) -> list[Day]:
        """Return the days of a participant, in order."""
        numbers = np.unique(self.day[self.rows_of(participant)]).tolist()
        dated = self._required_times.dated
        return [Day(day_name(number, dated), number * DAY) for number in numbers]

    def day_called(self, participant: Any, name: Any) -> Day:
        """Return a day by its name, with or without the weekday, or by its position."""
        days = self.days_of(participant)
        if isinstance(name, int) and 0 <= name < len(days):
            return days[name]
        for day in days:
            if name in (day.name, day.date):
                return day
        raise ProblemError(f"There is no day {name!r} of this participant.", "day")

    def day_of(self, moment: int) -> Day:
        """Return the day that a clock time belongs to."""
        times = self._required_times
        number = (moment - times.day_start) // DAY
        return Day(day_name(number, times.dated), number * DAY)

    def rows_between(self, participant: Any, start: int, end: int) -> IntArray:
        """Return a participant's windows whose midpoints lie between two clock times.

        If none does, because the range is short, the windows are returned that it touches.
        """
        times, rows = self._required_times, self.rows_of(participant)
        starts, ends = times.starts[rows], times.ends[rows]
        middle = starts + (ends - starts) // 2
        inside = (middle >= start) & (middle < end)
        if not inside.any():
            inside = (starts < end) & (ends > start)
        return rows[inside]

    def clock(self, moment: int, *, with_day: bool = False) -> str:
        """Return a clock time as text."""
        text = str(np.datetime64(moment, "us").astype("M8[s]"))
        day, _, time = text.partition("T")
        time = time if not time.endswith(":00") else time[:5]
        if not with_day:
            return time
        dated = self._required_times.dated
        return f"{day if dated else day_name(moment // DAY, dated=False)} {time}"

    def in_words(self, start: int, end: int) -> str:
        """Return a range of clock times as text, such as "2024-03-04 14:00 to 15:30"."""
        same_day = start // DAY == (end - 1) // DAY
        last = "24:00" if same_day and end % DAY == 0 else self.clock(end, with_day=not same_day)
        return f"{self.clock(start, with_day=True)} to {last}"

    def extent(self, rows: IntArray) -> tuple[int, int]:
        """Return when the first of some rows begins, and when the last one ends."""
        times = self._required_times
        return int(times.starts[rows].min()), int(times.ends[rows].max())

    @property
    def _required_times(self) -> Times:
        if self.times is None:
            raise ProblemError("The readings have no times, so that there are no days.", "start")
        return self.times


def microseconds(seconds: Any, field: str) -> int:
    """Return a number of seconds, as the page sends it, in microseconds."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise ProblemError(f"{field!r} must be a number of seconds.", field)
    if not abs(seconds) < 2**43:  # also refuses what is no number; 2**43 s fit in microseconds
        raise ProblemError(f"{field!r} is no time of a day.", field)
    return round(seconds * SECOND)
