"""Inputs of `apportion label` in every form: rows with totals, and windows with diaries.

`CASES` maps a name to the files of a case and the words of its command line. Nothing here imports
apportion, so that the same cases run on any version of it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import numpy as np

Case = tuple[dict[str, str], tuple[str, ...]]
"""The texts of the files by name, and the words after `apportion label`."""

MONDAY = datetime(2024, 3, 4)
DAYS = ("2024-03-04", "2024-03-05", "2024-03-06")


def table(header: Iterable[str], rows: Iterable[Iterable[Any]], separator: str = ",") -> str:
    """Return a table as CSV text."""
    out = io.StringIO()
    csv.writer(out, delimiter=separator, lineterminator="\n").writerows([header, *rows])
    return out.getvalue()


def day_rows(seed: int = 0) -> list[list[Any]]:
    """Return 18 rows (id, day, x, y, known label) of three days and two classes."""
    generator = np.random.default_rng(seed)
    tv = [1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0]
    return [
        [
            f"r{i:02}",
            ("mon", "tue", "wed")[i // 6],
            *(np.array([5, 3]) * label + generator.normal(size=2)).round(3).tolist(),
            ("sleep", "tv")[label] if i % 7 == 0 else "",
        ]
        for i, label in enumerate(tv)
    ]


def windows(
    participants: tuple[str, ...] = ("p1",),
    days: int = 3,
    hours: tuple[int, int] = (0, 24),
    when: str = "%Y-%m-%dT%H:%M:%S",
    seed: int = 0,
) -> str:
    """Return windows of half an hour; people sleep until 7, eat until 8, and are out after 16."""
    generator = np.random.default_rng(seed)
    rows = []
    for who in participants:
        for step in range(48 * days):
            start = MONDAY + timedelta(minutes=30 * step)
            if not hours[0] <= start.hour < hours[1]:
                continue
            activity = int(np.searchsorted([7, 8, 16], start.hour, side="right"))
            centers = 3 * np.eye(4)[activity]
            end = start + timedelta(minutes=30)
            readings = (centers + generator.normal(size=4)).round(3).tolist()
            rows.append([who, start.strftime(when), end.strftime(when), *readings])
    return table(["participant", "start", "end", "a", "b", "c", "d"], rows)


ACTIVITIES = ("sleep", "eat", "work", "out")
HOURS = ((7, 1, 8, 8), (6.5, 1.5, 8, 8), (7, 1, 7.5, 8.5))
TWO = ("p1", "p2")


def wide(
    spell: Any = str, hours: Any = HOURS, names: Any = ACTIVITIES, separator: str = ","
) -> str:
    """Return one line per day and one column per activity."""
    rows = [
        [day, *("" if h is None else spell(h) for h in row)]
        for day, row in zip(DAYS, hours, strict=False)
    ]
    return table(["date", *names], rows, separator)


def people(names: tuple[str, ...] = TWO) -> str:
    """Return a wide diary of several participants."""
    return table(
        ["participant", "date", *ACTIVITIES],
        [[who, day, *row] for who in names for day, row in zip(DAYS, HOURS, strict=True)],
    )


def long(unit: str = "hours") -> str:
    """Return one line per day and activity."""
    factor = {"hours": 1, "minutes": 60, "duration": 1}[unit]
    rows = [
        [day, name, factor * h]
        for day, row in zip(DAYS, HOURS, strict=True)
        for name, h in zip(ACTIVITIES, row, strict=True)
    ]
    return table(["date", "activity", unit], rows)


def spans() -> str:
    """Return what was done from when to when."""
    edges = (0, 7, 8, 16, 24)
    rows = [
        [MONDAY + timedelta(days=day, hours=a), MONDAY + timedelta(days=day, hours=b), name]
        for day in range(2)
        for a, b, name in zip(edges, edges[1:], ACTIVITIES, strict=False)
    ]
    return table(["start", "end", "activity"], rows)


def shifts() -> str:
    """Return the durations of three shifts a day, as start and end on a date."""
    rows = [
        [day, start, end, *cells]
        for day in DAYS
        for start, end, *cells in (
            ("00:00", "08:00", "7h", "1h", "", ""),
            ("08:00", "16:00", "", "", "8h", ""),
            ("16:00", "24:00", "", "", "", "8h"),
        )
    ]
    return table(["date", "start", "end", *ACTIVITIES], rows)


def clock(hours: float) -> str:
    return f"{int(hours):02}:{round(60 * hours) % 60:02}"


def spoken(hours: float) -> str:
    return f"{int(hours)}h{round(60 * hours) % 60:02}"


def diary(text: str, *words: str, rows: str | None = None) -> Case:
    files = {"windows.csv": windows() if rows is None else rows, "diary.csv": text}
    return files, ("windows.csv", "--diary", "diary.csv", *words)


def totals(text: str, *words: str, header: str = "id,day,x,y") -> Case:
    names = header.split(",")
    rows = table(names, [row[: len(names)] for row in day_rows()])
    files = {"rows.csv": rows, "totals.csv": text}
    return files, ("rows.csv", "--bags", "day", "--proportions", "totals.csv", *words)


COUNTS = "day,sleep,tv\nmon,4,2\ntue,2,4\nwed,3,3\n"
PARTLY = windows(hours=(0, 12))
RECORDED = ((7, 1, 4, 0), (6.5, 1.5, 4, 0), (7, 1, 4, 0))
WITH_NONWEAR = "\n".join(
    f"{line},{'nonwear' if i == 0 else int(i % 17 == 3)}"
    for i, line in enumerate(windows().splitlines())
)

CASES: dict[str, Case] = {
    # Totals of bags
    "totals: counts": totals(COUNTS),
    "totals: shares": totals("day,sleep,tv\nmon,.6667,.3333\ntue,.3333,.6667\nwed,.5,.5\n"),
    "totals: percentages": totals("day,sleep,tv\nmon,66.7%,33.3%\ntue,33.3%,66.7%\nwed,50%,50%\n"),
    "totals: long": totals(
        "bag,class,count\nmon,sleep,4\nmon,tv,2\ntue,sleep,2\ntue,tv,4\nwed,sleep,3\nwed,tv,3\n"
    ),
    "totals: unknown cells": totals("day,sleep,tv\nmon,4,\ntue,2,\nwed,3,\n", "--unit", "count"),
    "totals: a bag without totals": totals("day,sleep,tv\nmon,4,2\ntue,2,4\n"),
    "totals: given labels": totals(COUNTS, "--given", "known", header="id,day,x,y,known"),
    "totals: all columns, threshold": totals(
        COUNTS, "--all-columns", "--decode", "threshold", "--id", "id"
    ),
    "totals: rbf graph, abstaining": totals(COUNTS, "--graph", "rbf", "--abstain-below", "0.8"),
    "totals: anchor graph": totals(COUNTS, "--graph", "anchor"),
    "totals: few neighbors": totals(COUNTS, "--graph", "knn", "--neighbors", "3"),
    "totals: a prior": totals(COUNTS, "--prior", "meanmap"),
    "totals: wrong counts": totals("day,sleep,tv\nmon,4,5\ntue,2,4\nwed,3,3\n"),
    "totals: no such option": totals(COUNTS, "--nonsense"),
    "totals: no such column": totals(COUNTS, "--features", "z"),
    # Diaries
    "diary: wide, hours": diary(wide()),
    "diary: wide, minutes in the header": diary(
        wide(lambda h: 60 * h, names=[f"{name} (min)" for name in ACTIVITIES])
    ),
    "diary: wide, 8h30": diary(wide(spoken)),
    "diary: wide, 08:30": diary(wide(clock)),
    "diary: wide, 90 min": diary(wide(lambda h: f"{60 * h:g} min")),
    "diary: wide, percentages": diary(wide(lambda h: f"{h / 0.24:.6f}%")),
    "diary: wide, shares": diary(wide(lambda h: h / 24), "--unit", "share"),
    "diary: wide, minutes by option": diary(wide(lambda h: 60 * h), "--unit", "minutes"),
    "diary: decimal commas": diary(
        wide(lambda h: str(h).replace(".", ","), separator=";")
    ),
    "diary: long, hours": diary(long()),
    "diary: long, minutes": diary(long("minutes")),
    "diary: long, duration": diary(long("duration")),
    "diary: spans that an activity filled": diary(spans()),
    "diary: shifts of a date": diary(shifts()),
    "diary: ranges of dates": diary(
        "start,end,sleep,eat,work,out\n2024-03-04,2024-03-05,13.5,2.5,16,16\n"
        "2024-03-06,2024-03-06,7,1,7.5,8.5\n"
    ),
    "diary: named periods": (
        {
            "windows.csv": table(
                ["period", "x", "y"], [[row[1], *row[2:4]] for row in day_rows()]
            ),
            "diary.csv": "period,sleep,tv\nmon,4h,2h\ntue,2h,4h\nwed,3h,3h\n",
        },
        ("windows.csv", "--diary", "diary.csv", "--window", "1h"),
    ),
    "diary: dates of another form": diary(
        "date,sleep,eat,work,out\n04.03.2024,7,1,8,8\n05.03.2024,6.5,1.5,8,8\n",
        "--date-format", "%d.%m.%Y",
    ),
    "diary: a column of another name": diary(
        wide().replace("date", "Tag"), "--diary-column", "date=Tag"
    ),
    "diary: empty cells are 0": diary(wide(hours=((7, None, 8, 8), *HOURS[1:]))),
    "diary: empty cells are unknown": diary(
        wide(hours=((7, None, 8, 8), *HOURS[1:])), "--blank", "unknown"
    ),
    "diary: uncovered time": diary(wide(hours=((7, 1, 8, 2), *HOURS[1:]))),
    "diary: uncovered time, scaled": diary(
        wide(hours=((7, 1, 8, 2), *HOURS[1:])), "--uncovered", "scale"
    ),
    "diary: uncovered time, dropped": diary(
        wide(hours=((7, 1, 8, 2), *HOURS[1:])), "--uncovered", "drop"
    ),
    "diary: tolerance": diary(wide(), "--tolerance", "15"),
    "diary: excess": diary(wide(hours=((9, 1, 8, 8), *HOURS[1:]))),
    "diary: excess, scaled": diary(wide(hours=((9, 1, 8, 8), *HOURS[1:])), "--excess", "scale"),
    "diary: recorded in part, bounds": diary(wide(), rows=PARTLY),
    "diary: recorded in part, scaled": diary(wide(), "--part", "scale", rows=PARTLY),
    "diary: recorded in part, dropped": diary(wide(), "--part", "drop", rows=PARTLY),
    "diary: of the recorded time": diary(wide(hours=RECORDED), rows=PARTLY),
    "diary: of the recorded time, by option": diary(
        wide(hours=RECORDED), "--covers", "recording", rows=PARTLY
    ),
    "diary: days from noon to noon": diary(wide(), "--day-start", "12:00"),
    "diary: a time zone": diary(wide(), "--timezone", "Europe/London"),
    "diary: windows of another time format": diary(
        wide(), "--time-format", "%d.%m.%Y %H:%M", rows=windows(when="%d.%m.%Y %H:%M")
    ),
    "diary: two people": diary(people(), rows=windows(TWO)),
    "diary: two people, one graph": diary(people(), "--graphs", "one", rows=windows(TWO)),
    "diary: two people, a graph each": diary(people(), "--graphs", "each", rows=windows(TWO)),
    "diary: one of two people": diary(people(("p1",)), rows=windows(TWO)),
    "diary: non-wear": diary(wide(), rows=WITH_NONWEAR),
    "diary: a day missing": diary(wide(hours=HOURS[:2])),
    "diary: a day twice": diary(wide() + "2024-03-04,7,1,8,8\n"),
    "diary: spans that overlap": diary(
        spans() + "2024-03-04 06:00:00,2024-03-04 07:30:00,eat\n"
    ),
    "diary: text for a duration": diary("date,sleep\n2024-03-04,well\n"),
    "diary: other days": diary("date,sleep\n2023-03-04,8h\n"),
    "diary: no column that says when": diary("Tag,sleep\n2024-03-04,8h\n"),
}  # fmt: skip
