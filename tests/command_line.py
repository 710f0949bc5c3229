"""The command line in this process, and small files for it."""

from __future__ import annotations

import csv
import inspect
import io
import re
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from apportion.cli import app

KNOWN = ("--bags", "day", "--proportions", "totals.csv")

WAIT = 'print("slow now", file=sys.stderr, flush=True); [time.sleep(0.1) for _ in range(600)]'
"""A line of a program that a signal is sent to. Python handles one that comes just before a sleep
after it, so that the sleeps are short."""


def run(*words, app=app):
    """Return the result of a command, with stdout and stderr told apart."""
    apart = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}
    return CliRunner(**apart).invoke(app, [str(word) for word in words])


def done(*words):
    """Return the result of a command that ends well."""
    result = run(*words)
    assert result.exit_code == 0, result.stderr
    return result


def files_of(folder):
    """Return every file below a folder, hidden ones too, and what is in it."""
    return {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def refused(*words, code=1, says=()):
    """Return the message of a command that fails as it should, and leaves all files as they were.

    The message is one paragraph, and nothing but it is said or printed.
    """
    before = files_of(".")
    result = run(*words, "--quiet")
    assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
    assert isinstance(result.exception, SystemExit), result.exception
    assert files_of(".") == before
    assert result.stdout == ""
    assert re.fullmatch(r"apportion: [^\n]+[.?]\n", result.stderr), result.stderr
    for words_said in [says] if isinstance(says, str) else says:
        assert words_said in result.stderr, result.stderr
    return result.stderr


def write(name, text, encoding="utf-8"):
    """Write a text file, and return its name."""
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return name


def cells_of(text):
    """Return the rows of CSV text as mappings."""
    return list(csv.DictReader(io.StringIO(text, newline="")))


def table(**columns):
    """Return columns as CSV text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return out.getvalue()


def day_rows(seed=0):
    """Return the columns of 18 rows in three bags, two classes well apart."""
    generator = np.random.default_rng(seed)
    days = ["mon"] * 6 + ["tue"] * 6 + ["wed"] * 6
    tv = np.array([1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0])
    return {
        "id": [f"{day}{i % 6}" for i, day in enumerate(days)],
        "day": days,
        "x": (5 * tv + generator.normal(size=18)).round(3).tolist(),
        "y": (3 * tv + generator.normal(size=18)).round(3).tolist(),
    }


def day_files():
    """Write rows.csv and totals.csv, and return the rows' columns."""
    rows = day_rows()
    write("rows.csv", table(**rows))
    write("totals.csv", "day,sleep,tv\nmon,4,2\ntue,2,4\nwed,3,3\n")
    return rows


def windows(participants=("p1",), days=2, seed=0):
    """Return windows of an hour as CSV text: asleep until 8, or 6 on every second day."""
    generator = np.random.default_rng(seed)
    first = datetime(2024, 3, 4)
    lines = []
    for who in participants:
        for hour in range(24 * days):
            start = first + timedelta(hours=hour)
            asleep = start.hour < 8 - 2 * (start.day % 2)
            a, b = generator.normal(size=2).round(3) + (4 if asleep else 0)
            lines.append((who, start.isoformat(), (start + timedelta(hours=1)).isoformat(), a, b))
    columns = zip(*lines, strict=True)
    return table(**dict(zip(("participant", "start", "end", "a", "b"), columns, strict=True)))
