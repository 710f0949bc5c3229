"""Totals that given labels contradict: an error, or totals that give way."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

pytest.importorskip("pyarrow")

from apportion import Totals
from apportion.exceptions import GivenLabelError, SupervisionError
from apportion.labeling import label_table
from apportion.labeling.rows import Supervision
from apportion.supervision.bags import match_bags
from apportion.supervision.total_bounds import room_for


@st.composite
def crowded_bags(draw):
    """Draw feasible bounds of a bag, and numbers of given labels that may exceed them."""
    c = draw(st.integers(2, 4))
    n = draw(st.integers(1, 8))
    shares = np.array(draw(st.lists(st.floats(0, 1), min_size=c, max_size=c))) + 1e-3
    middle = n * shares / shares.sum()
    width = np.array(draw(st.lists(st.sampled_from([0.0, 0.4, 1.5]), min_size=c, max_size=c)))
    labels = draw(st.lists(st.integers(0, c - 1), max_size=n))
    taken = np.bincount(labels, minlength=c).astype(float)
    return np.maximum(middle - width, 0.0), middle + width, taken, float(n - taken.sum())


@settings(max_examples=100, deadline=None)
@given(crowded_bags())
def test_bounds_that_give_way_are_feasible_and_change_as_little_as_possible(bag):
    lower, upper, taken, n_open = bag
    low, high = (x[0] for x in room_for(lower[None], upper[None], taken[None], np.array([n_open])))
    assert (low <= lower + 1e-9).all()
    assert (high >= upper - 1e-9).all()
    # There is room: the open rows can have classes within what is left.
    open_low, open_high = np.maximum(low - taken, 0.0), high - taken
    assert (open_high >= -1e-9).all()
    assert open_low.sum() <= n_open + 1e-9
    assert open_high.sum() >= n_open - 1e-9
    # No bounds with room differ less in total: a linear program says how much they must.
    c = len(lower)
    eye, zero = np.eye(c), np.zeros((c, c))
    answer = linprog(
        np.r_[np.zeros(c), np.ones(2 * c)],  # masses of open rows, rise, fall
        A_ub=np.r_[np.c_[eye, -eye, zero], np.c_[-eye, zero, -eye]],
        b_ub=np.r_[upper - taken, taken - lower],
        A_eq=np.r_[np.ones(c), np.zeros(2 * c)][None],
        b_eq=[n_open],
    )
    assert (lower - low).sum() + (high - upper).sum() == pytest.approx(answer.fun, abs=1e-6)


def test_the_next_whole_row_is_allowed():
    totals = Totals.from_proportions({"a": {"x": 0.29, "y": 0.71}})
    bags = match_bags(10, ["x"] * 3 + [None] * 7, ["a"] * 10, totals)
    assert bags.open_upper.tolist() == [[0.0, 7.0]]
    np.testing.assert_allclose(bags.lower, [[2.9, 7.1]])
    with pytest.raises(GivenLabelError, match=r"'x', given to 4 rows.*exactly 2\.9"):
        match_bags(10, ["x"] * 4 + [None] * 6, ["a"] * 10, totals)
    full = match_bags(10, ["x"] * 3 + ["y"] * 7, ["a"] * 10, totals)
    assert full.open_upper.tolist() == [[0.0, 0.0]]
    match_bags(10, ["x"] * 2 + ["y"] * 8, ["a"] * 10, totals)
    with pytest.raises(GivenLabelError, match="'y', given to 9 rows"):
        match_bags(10, ["y"] * 9 + [None], ["a"] * 10, totals)


ROWS = {
    "day": ["mon"] * 6 + ["tue"] * 6,
    "x": [0.0, 0.1, 0.2, 0.3, 5.0, 5.1, 0.05, 0.15, 5.2, 5.3, 5.4, 5.5],
}
TOTALS = {"day": ["mon", "tue"], "sleep": [4, 2], "tv": [2, 4]}


def labeled_with(conflict, given, **more):
    import pyarrow as pa

    rows = pa.table({**ROWS, "truth": pa.array(given, pa.string())})
    known = {"bags": "day", "proportions": TOTALS, "given": "truth", "method": "lpllp"}
    return label_table(rows, **known, conflict=conflict, features=["x"], **more)


def test_totals_give_way_with_a_note():
    given_labels = ["tv", "tv", "tv", *[None] * 9]
    with pytest.raises(SupervisionError, match=r"conflict='given'"):
        labeled_with("error", given_labels)
    labeled = labeled_with("given", given_labels)
    note = next(note for note in labeled.notes if "give way" in note)
    assert note == (
        "'mon': 3 rows were given the label 'tv', and the totals allow 2; the totals give way"
    )
    assert labeled.labels.labels[:3].tolist() == ["tv"] * 3
    days = {bag["bag"]: bag["assigned"] for bag in labeled.summary["bags"]}
    assert days == {"mon": {"sleep": 3, "tv": 3}, "tue": {"sleep": 2, "tv": 4}}


def test_labels_that_fit_change_nothing():
    given_labels = ["sleep", None, None, None, "tv", *[None] * 7]
    one, other = (labeled_with(conflict, given_labels) for conflict in ("error", "given"))
    assert one.labels.labels.tolist() == other.labels.labels.tolist()
    assert one.notes == other.notes


def test_shares_of_bags_that_lost_rows_give_way():
    """Rows that are left out, here because a cell is missing, do not count for a bag's room."""
    import pyarrow as pa

    rows = {**ROWS, "x": [*ROWS["x"][:3], None, *ROWS["x"][4:]]}
    given_labels = ["tv", "tv", "tv", *[None] * 9]
    table = pa.table({**rows, "truth": pa.array(given_labels, pa.string())})
    known = {"bags": "day", "proportions": TOTALS, "given": "truth", "method": "lpllp"}
    labeled = label_table(table, **known, conflict="given", features=["x"], missing="drop")
    mon = labeled.summary["bags"][0]
    assert mon["rows"] == 5
    assert mon["assigned"] == {"sleep": 2, "tv": 3}


def test_other_words_for_a_conflict_are_refused():
    with pytest.raises(ValueError, match=r"conflict must be 'error' or 'given'. Got 'maybe'."):
        labeled_with("maybe", ["tv", *[None] * 11])


def test_groups_see_totals_that_gave_way():
    totals = Totals.from_counts({"a": {"x": 1, "y": 1}, "b": {"x": 1, "y": 1}})
    known = Supervision(
        np.array(["a", "a", "b", "b"]),
        totals,
        np.array(["x", "x", None, None], dtype=object),
        np.array([0, 0, 1, 1]),
        {},
        conflict="given",
    )
    (_, _, first), (_, _, second) = known.by_group(np.ones(4, dtype=bool))
    assert first.totals.lower[0].tolist() == [1.0, 0.0]
    assert first.totals.upper[0].tolist() == [2.0, 1.0]
    assert len(first.notes) == 1
    assert second.notes == ()


def test_the_command_line(tmp_path):
    pytest.importorskip("typer")
    from command_line import KNOWN, day_files, done, refused, table, write

    with chdir(tmp_path):
        day_files()
        write("given.csv", table(id=["mon0", "mon1", "mon2"], label=["tv"] * 3))
        words = ("label", "rows.csv", *KNOWN, "--id", "id", "--given", "given.csv", "-o", "l.csv")
        refused(*words, says="--conflict given")
        result = done(*words, "--conflict", "given")
        assert "'mon': 3 rows were given the label 'tv', and the totals allow 2" in result.stderr
        assert Path("l.csv").is_file()
