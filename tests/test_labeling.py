"""The whole job on arrays: labels, masses and reasons."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import LPLLP, Totals
from apportion._io.label_table import joined_codes
from apportion.exceptions import SupervisionError
from apportion.labeling.rows import REASONS, Supervision, label_rows

COUNTS = {"mon": {"a": 2, "b": 4}, "tue": {"a": 4, "b": 2}, "wed": {"a": 3, "b": 3}}


def made_up(seed=0):
    generator = np.random.default_rng(seed)
    truth = np.array([1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0])
    X = generator.normal(size=(18, 2)) + 3 * truth[:, None]
    bags = np.repeat(np.array(["mon", "tue", "wed"], dtype=object), 6)
    return X, bags, Totals.from_counts(COUNTS)


def known(bags, totals, given=None, groups=None, **left_out):
    marks = {code.replace("_", "-"): rows for code, rows in left_out.items()}
    return Supervision(bags, totals, given, groups, marks)


def test_it_is_what_the_estimator_finds():
    X, bags, totals = made_up()
    found = label_rows(X, known(bags, totals))
    model = LPLLP(random_state=0).fit(X, bags=bags, proportions=totals)
    assert found.labels.tolist() == model.transduction_.tolist()
    np.testing.assert_array_equal(found.masses, model.label_distributions_)
    place = [found.classes.tolist().index(label) for label in found.labels]
    np.testing.assert_array_equal(found.confidence, found.masses[np.arange(18), place])
    assert set(found.models) == {None}


@pytest.mark.parametrize("unit", ["counts", "shares"])
def test_rows_that_are_left_out(unit):
    X, bags, totals = made_up()
    if unit == "shares":
        totals = Totals.from_proportions(
            {bag: {h: n / 6 for h, n in row.items()} for bag, row in COUNTS.items()}
        )
    out = np.zeros(18, dtype=bool)
    out[[0, 1, 6]] = True
    found = label_rows(X, known(bags, totals, non_wear=out))
    assert [label is None for label in found.labels] == out.tolist()
    assert np.isnan(found.masses[out]).all()
    assert np.isnan(found.confidence[out]).all()
    assert set(found.reasons[out]) == {"non-wear"}
    assert not any("non-wear" in codes for codes in found.reasons[~out])
    kept = np.delete(np.arange(18), [0, 1, 6])
    shares = Totals.from_proportions(
        {bag: {h: n / 6 for h, n in row.items()} for bag, row in COUNTS.items()}
    )
    alone = LPLLP(random_state=0).fit(X[kept], bags=bags[kept], proportions=shares)
    assert found.labels[kept].tolist() == alone.transduction_.tolist()


@pytest.mark.filterwarnings("ignore:The totals do not tell")
def test_groups_are_labeled_apart():
    X, bags, totals = made_up()
    groups = np.array(["p", "q", "r"], dtype=object)[np.repeat([0, 1, 2], 6)]
    order = np.random.default_rng(0).permutation(18)
    found = label_rows(X[order], known(bags[order], totals, groups=groups[order]))
    assert set(found.models) == {"p", "q", "r"}
    for name, bag in zip("pqr", COUNTS, strict=True):
        rows = np.flatnonzero(groups[order] == name)
        mine = order[rows]
        alone = LPLLP(random_state=0).fit(X[mine], bags=bags[mine], proportions=totals)
        assert found.labels[rows].tolist() == alone.transduction_.tolist()
        assert found.report.ids.index(bag) >= 0
    assert sorted(found.report.ids) == sorted(COUNTS)
    assert found.report.error() == 0.0


def test_a_group_without_totals_is_not_labeled():
    X, bags, totals = made_up()
    groups = np.array(["p"] * 12 + ["q"] * 6, dtype=object)
    bags = np.where(groups == "q", None, bags)
    found = label_rows(X, known(bags, totals, groups=groups))
    assert set(found.reasons[12:]) == {"no-totals"}
    assert set(found.labels[12:]) == {None}
    given = np.full(18, None, dtype=object)
    given[12] = "a"
    found = label_rows(X, known(bags, totals, given, groups))
    assert all(label is not None for label in found.labels)
    assert "given" in found.reasons[12]


def test_nothing_to_go_by():
    X, bags, totals = made_up()
    with pytest.raises(SupervisionError, match="no row with a bag or a label"):
        label_rows(X, known(np.full(18, None, dtype=object), totals))
    with pytest.raises(SupervisionError, match="no row with a bag or a label"):
        label_rows(X, known(bags, totals, non_wear=np.ones(18, dtype=bool)))


def test_errors_name_the_row_where_it_stands():
    X, bags, totals = made_up()
    given = np.array(["a"] * 6 + [None] * 12, dtype=object)
    with pytest.raises(SupervisionError, match="row 5 in bag 'mon'"):
        label_rows(X, known(bags, totals, given))
    out = np.zeros(18, dtype=bool)
    out[:2] = True
    with pytest.raises(SupervisionError, match="row 5 in bag 'mon'"):
        label_rows(X, known(bags, totals, given, non_wear=out))
    order = np.arange(18)[::-1]
    groups = np.array(["q"] * 12 + ["p"] * 6, dtype=object)
    with pytest.raises(SupervisionError, match="row 17 in bag 'mon'"):
        label_rows(X[order], known(bags[order], totals, given[order], groups))


def test_an_error_keeps_its_fields_where_its_row_has_a_place():
    error = SupervisionError("", "a", "b", "c", row=12, bag="row 3")
    placed = error.placed(lambda row: f"line {row + 2}")
    assert str(placed) == "line 14 in bag 'row 3': found a. Allowed: b. Hint: c."
    assert (placed.row, placed.bag) == (12, "row 3")
    assert type(placed) is SupervisionError


def test_marks_are_reasons():
    X, bags, totals = made_up()
    rows = np.arange(18) == 3
    found = label_rows(X, known(bags, totals), marks={"missing-features": rows})
    assert found.reasons[3] == "missing-features"
    assert found.labels[3] is not None


def test_reasons_are_where_they_should_be():
    X, bags, totals = made_up()
    X[0] = 1e6
    bags[5] = None
    totals = Totals.from_counts({**COUNTS, "mon": {"a": 1, "b": 4}})
    given = np.full(18, None, dtype=object)
    given[5], given[17] = "a", "b"
    model = LPLLP("rbf", random_state=0, decode="threshold")
    found = label_rows(X, known(bags, totals, given), model)
    codes = [set(text.split(";")) - {""} for text in found.reasons]
    assert {row for row in range(18) if "given" in codes[row]} == {5, 17}
    assert not any("unbagged" in one for one in codes)
    assert "isolated" in codes[0]
    assert set().union(*codes) <= set(REASONS)
    off = np.abs(found.report.difference()) >= 1.0
    for row in range(18):
        bag = bags[row]
        wrong = (
            bag is not None
            and off[found.report.ids.index(bag), found.classes.tolist().index(found.labels[row])]
        )
        assert ("outside-interval" in codes[row]) == wrong


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1, max_size=11)
    )
)
def test_codes_are_joined_in_order(marks):
    names = [f"code-{i}" for i in range(len(marks))]
    joined = joined_codes({name: np.array(rows) for name, rows in zip(names, marks, strict=True)})
    for row, text in enumerate(joined.tolist()):
        wanted = [name for name, rows in zip(names, marks, strict=True) if rows[row]]
        assert text.split(";") == (wanted or [""])
