"""Columns as features: which ones, and the numbers they become."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion._io.feature_columns import choose_columns
from apportion._io.feature_recipe import Feature, Recipe, learn_recipe
from apportion._io.values import MISSING, UNSEEN, codes_of, levels_of, numbers_of
from apportion.exceptions import FileError, SavedModelError


def place(row):
    return f"row {row}"


def learn(table, **options):
    return learn_recipe(table, table.column_names, place, **options)


def maybe(values):
    return st.lists(st.none() | values, min_size=2, max_size=12)


floats = st.floats(-1e6, 1e6, width=32)
KINDS = {
    "ints": (maybe(st.integers(-(2**62), 2**62)), pa.int64()),
    "bytes": (maybe(st.integers(0, 255)), pa.uint8()),
    "large": (maybe(st.integers(0, 2**64 - 1)), pa.uint64()),
    "bools": (maybe(st.booleans()), pa.bool_()),
    "floats": (maybe(floats), pa.float64()),
    "single": (maybe(floats), pa.float32()),
    "decimals": (maybe(st.decimals(-1000, 1000, places=2)), pa.decimal128(12, 2)),
    "nulls": (maybe(st.nothing()), pa.null()),
    "texts": (maybe(st.text("ab ", max_size=2)), pa.string()),
    "large texts": (maybe(st.text("ab ", max_size=2)), pa.large_string()),
    "categories": (maybe(st.text("ab ", max_size=2)), pa.dictionary(pa.int32(), pa.string())),
    "digits": (maybe(st.integers(0, 99).map(str)), pa.string()),
}


@st.composite
def columns(draw):
    """Draw a column of any kind, in one or two chunks."""
    cells, kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    values = draw(cells)
    cut = draw(st.integers(0, len(values)))
    if cut in (0, len(values)):
        return pa.chunked_array([pa.array(values, kind)])
    return pa.chunked_array([pa.array(values[:cut], kind), pa.array(values[cut:], kind)])


@given(columns(), st.sampled_from(["median", "drop"]), st.booleans(), st.booleans())
def test_any_column_becomes_finite_numbers_or_says_why_not(cells, missing, scale, categorical):
    table = pa.table({"c": cells})
    options = {"missing": missing, "scale": scale, "categorical": ["c"] * categorical}
    recipe, left_out = learn(table, **options)
    assert len(recipe.features) + len(left_out) == 1
    encoded = recipe.encode(table, place)
    assert encoded.rows.shape == (len(cells), recipe.width)
    assert np.isfinite(encoded.rows).all()
    assert not encoded.unseen.any()
    assert sum(encoded.missing.values()) * len(cells) == pytest.approx(encoded.lacking.sum())
    assert (encoded.poor == encoded.lacking).all()
    if left_out:
        assert left_out["c"] in ("empty", "the same in every row")
        return
    blank = [one is None or not str(one).strip() for one in cells.to_pylist()]
    assert encoded.lacking.tolist() == blank
    if recipe.features[0].levels is not None:
        sums = encoded.rows.sum(axis=1) * np.sqrt(2.0)
        np.testing.assert_allclose(sums, ~encoded.lacking, atol=1e-12)
    elif scale:
        known = encoded.rows[~encoded.lacking, 0]
        np.testing.assert_allclose([known.mean(), known.std()], [0.0, 1.0], atol=1e-6)


@given(columns(), columns())
def test_a_recipe_is_the_same_after_json(one, other):
    n = min(len(one), len(other))
    table = pa.table({"a": one[:n], "b": other[:n]})
    recipe, _ = learn(table)
    if not recipe.features:
        with pytest.raises(SavedModelError):
            Recipe.from_json(recipe.to_json())
        return
    again = Recipe.from_json(json.loads(json.dumps(recipe.to_json())))
    assert again == recipe
    np.testing.assert_array_equal(again.encode(table, place).rows, recipe.encode(table, place).rows)


@given(st.permutations(range(6)))
def test_the_order_of_columns_and_rows_does_not_matter(order):
    table = pa.table({"x": [1.0, 2, None, 4, 7, 9], "c": ["a", "b", "a", None, "c", "c"]})
    recipe, _ = learn(table)
    expected = recipe.encode(table, place)
    mixed = table.take(order).select(["c", "x"])
    found = recipe.encode(mixed, place)
    np.testing.assert_array_equal(found.rows, expected.rows[order])
    np.testing.assert_array_equal(found.lacking, expected.lacking[order])
    again, _ = learn_recipe(mixed, ["x", "c"], place)
    np.testing.assert_allclose(again.encode(table, place).rows, expected.rows, atol=1e-12)


def test_the_numbers_of_a_small_table():
    table = pa.table({"x": [1.0, 3.0, None], "c": ["b", None, "a"], "y": [True, False, True]})
    recipe, _ = learn(table)
    assert recipe.names == ["x", "c", "y"]
    assert recipe.features[0] == Feature("x", middle=2.0, mean=2.0, scale=1.0, present=2 / 3)
    assert recipe.features[1].levels == ("a", "b")
    half = np.sqrt(0.5)
    y = np.array([1.0, -2.0, 1.0]) * half
    expected = [[-1.0, 0.0, half, y[0]], [1.0, 0.0, 0.0, y[1]], [0.0, half, 0.0, y[2]]]
    encoded = recipe.encode(table, place)
    np.testing.assert_allclose(encoded.rows, expected)
    assert encoded.lacking.tolist() == [False, True, True]
    assert encoded.missing == {"x": pytest.approx(1 / 3), "c": pytest.approx(1 / 3), "y": 0}


def test_two_categories_are_one_apart():
    recipe, _ = learn(pa.table({"c": ["a", "b", "c"]}))
    rows = recipe.encode(pa.table({"c": ["a", "b", "c"]}), place).rows
    assert np.linalg.norm(rows[0] - rows[1]) == pytest.approx(1.0)
    assert np.linalg.norm(rows[0] - rows[2]) == pytest.approx(1.0)


def test_numbers_without_scale():
    table = pa.table({"x": [100.0, 300.0, None]})
    recipe, _ = learn(table, scale=False)
    assert recipe.encode(table, place).rows.ravel().tolist() == [100.0, 300.0, 200.0]


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ([None, None], "empty"),
        ([float("nan"), None], "empty"),
        (["", " "], "empty"),
        ([3, 3, None], "the same in every row"),
        ([1e9, 1e9 + 1e-7], "the same in every row"),
        (["a", " a"], "the same in every row"),
        ([f"t{i}" for i in range(51)], "51 different texts such as 't0'"),
    ],
)
def test_columns_that_say_nothing(cells, why):
    recipe, left_out = learn(pa.table({"c": cells}))
    assert not recipe.features
    assert left_out == {"c": why}


def test_many_categories_are_used_when_they_are_named():
    table = pa.table({"c": [f"t{i}" for i in range(51)]})
    recipe, left_out = learn(table, categorical=["c"])
    assert not left_out
    assert recipe.width == 51


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["1", "2", "x"], "row 2, column 'c': found 'x'.*categorical='c'"),
        (["1", "2", "inf"], "row 2, column 'c': found inf"),
        ([1.0, float("-inf")], "row 1, column 'c': found -inf"),
        ([1.0, 1e101], r"row 1, column 'c': found 1e\+101"),
    ],
)
def test_cells_that_are_no_numbers(cells, message):
    with pytest.raises(FileError, match=message):
        learn(pa.table({"c": cells}))


def test_missing_cells_can_be_an_error():
    table = pa.table({"x": [1, 2, None]})
    recipe, _ = learn(table, missing="error")
    with pytest.raises(FileError, match="row 2, column 'x': found an empty cell"):
        recipe.encode(table, place)


def test_new_rows():
    recipe, _ = learn(pa.table({"x": [1.0, 2.0, 3.0], "c": ["1", "2", "b"]}), categorical=["c"])
    new = pa.table({"c": [1, 2, 7, None], "x": pa.array(["2", "", "3.5", "1"])})
    encoded = recipe.encode(new, place)
    assert encoded.unseen.tolist() == [False, False, True, False]
    assert encoded.lacking.tolist() == [False, True, False, True]
    with pytest.raises(FileError, match="the rows: found no column 'c'"):
        recipe.encode(pa.table({"x": [1.0]}), place)
    with pytest.raises(FileError, match="row 1, column 'x': found 'b'"):
        recipe.encode(pa.table({"x": ["1", "b"], "c": ["1", "1"]}), place)


def test_large_tables_are_held_in_single_precision(monkeypatch):
    monkeypatch.setattr("apportion._io.feature_recipe._SINGLE_FROM", 5)
    table = pa.table({"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0]})
    recipe, _ = learn(table)
    assert recipe.encode(table, place).rows.dtype == np.float32


def test_codes_of_categories():
    cells = pa.chunked_array([["b", None], ["a", "z", " b ", ""]])
    assert levels_of(cells) == ("a", "b", "z")
    assert codes_of(cells, ("a", "b")).tolist() == [1, MISSING, 0, UNSEEN, 1, MISSING]
    floats_too = pa.chunked_array([pa.array([2.0, float("nan"), 1.5])])
    assert levels_of(floats_too) == ("1.5", "2")
    assert codes_of(floats_too, ("1.5", "2")).tolist() == [1, MISSING, 0]


def test_whole_numbers_too_large_to_be_exact():
    for cells in (pa.array([2**62 + 1, 2]), pa.array([2**63 + 1, 2], pa.uint64())):
        found = numbers_of(pa.chunked_array([cells]), "c", place)
        np.testing.assert_allclose(found, [float(cells[0].as_py()), 2.0], rtol=1e-15)


def test_numbers_of_every_type():
    for cells in (
        pa.array([1, None, 3], pa.int8()),
        pa.array([1, None, 3], pa.float32()),
        pa.array([Decimal(1), None, Decimal(3)]),
        pa.array(["1", None, " 3.0 "]),
        pa.array(["1", None, "3"]).dictionary_encode(),
    ):
        found = numbers_of(pa.chunked_array([cells]), "c", place)
        np.testing.assert_array_equal(found, [1.0, np.nan, 3.0])


# Which columns


@pytest.mark.parametrize(
    "name",
    ["id", "ID", "row_id", "userID", "userId", "subject-id", "window", "Participant", "uuid",
     "Unnamed: 0", "__index_level_0__",
     "start", "end", "timestamp", "t", "created_at", "start_time", "Date"],
)  # fmt: skip
def test_names_of_ids_and_times_are_no_features_unless_they_are_named(name):
    table = pa.table({name: [3.5, 1.0, 2.0], "x": [1, 2, 2]})
    chosen, left_out, ids_and_times = choose_columns(table)
    assert chosen == ["x"]
    assert "by its name" in left_out[name]
    assert ids_and_times == [name]
    assert choose_columns(table, features=["x"]).ids_and_times == [name]
    assert choose_columns(table, features=[name, "x"])[0] == [name, "x"]
    assert choose_columns(table, features=["*"])[0] == ["x"]


@pytest.mark.parametrize("name", ["humid", "grid", "void", "hour", "temperature", "x_t", "rate"])
def test_names_that_only_look_like_ids(name):
    assert choose_columns(pa.table({name: [3.5, 1.0]}))[0] == [name]


@pytest.mark.parametrize(
    "texts",
    [
        ["2024-03-04", "2024-03-05"],
        ["2024-03-04 05:06:07.5", "2024-03-05T05:06Z"],
        ["4.3.2024", "05.03.24"],
        ["04/03/2024 5:06 PM", "05/03/2024 6:06 pm"],
        ["05:06", "17:00:30"],
    ],
)
def test_texts_that_are_times(texts):
    assert choose_columns(pa.table({"when": texts}))[1] == {"when": "a time"}


def test_other_types_are_no_features():
    columns = {
        "list": pa.array([[1], [2]]),
        "struct": pa.array([{"a": 1}, {"a": 2}]),
        "bytes": pa.array([b"a", b"b"]),
        "fixed": pa.array([b"a", b"b"], pa.binary(1)),
        "when": pa.array([1, 2], pa.timestamp("s")),
        "length": pa.array([1, 2], pa.duration("s")),
    }
    chosen, left_out, _ = choose_columns(pa.table(columns))
    assert chosen == []
    assert set(left_out) == set(columns)


def test_ids_by_their_content():
    n = 30
    columns = {
        "key": [f"k{i}" for i in range(n)],
        "number": range(7, 7 + n),
        "digits": [str(i * 7) for i in range(n)],
        "x": [i * i for i in range(n)],
    }
    chosen, left_out, _ = choose_columns(pa.table(columns))
    assert chosen == ["digits", "x"]
    assert left_out["key"] == "an id: a different text in every row"
    assert left_out["number"] == "an id: it counts the rows"


@pytest.mark.parametrize(
    ("cells", "classes", "leaks"),
    [
        (["tv", "sleep", None], ["sleep", "tv"], True),
        (["TV ", " Sleep", ""], ["sleep", "tv"], True),
        (["tv", "tv", None], ["sleep", "tv"], True),
        (["tv", "sleep", "x"], ["sleep", "tv"], False),
        ([0, 1, 1], ["0", "1"], True),
        ([0.0, 1.0, None], ["0", "1"], True),
        ([True, False, True], ["true", "false"], True),
        ([1, 1, 1], ["0", "1"], False),
        ([0, 1, 2], ["0", "1"], False),
        ([0.5, 1.0, 0.0], ["0", "1"], False),
        (["a", "b", "a"], [], False),
    ],
)
def test_a_column_of_classes_is_never_a_feature(cells, classes, leaks):
    for table in (
        pa.table({"c": cells}),
        pa.table({"c": pa.chunked_array([pa.array(cells).dictionary_encode()])}),
    ):
        for features in ((), ("c",), ("*",)):
            chosen, left_out, _ = choose_columns(table, features=features, classes=classes)
            assert (chosen == []) == leaks
            assert ("its values are the classes" in left_out.get("c", "")) == leaks


def test_classes_are_found_far_down():
    cells = [None] * 2000 + ["tv", "sleep"]
    assert choose_columns(pa.table({"c": cells}), classes=["tv", "sleep"])[0] == []


def test_patterns_match_names_with_brackets():
    table = pa.table({"acc[x]": [1.0, 2.0], "accx": [1.0, 3.0]})
    assert choose_columns(table, features=["acc[x]"])[0] == ["acc[x]"]
    assert choose_columns(table, exclude=["acc[[]x]"])[0] == ["accx"]


def test_roles_are_no_features():
    table = pa.table({"a": [1.0, 2.0], "b": [1.0, 3.0]})
    assert choose_columns(table, roles={"a": "the bags"}) == (["b"], {"a": "the bags"}, [])
    with pytest.raises(FileError, match="column 'a': found a feature that is the bags"):
        choose_columns(table, features=["a"], roles={"a": "the bags"})


@pytest.mark.parametrize("scale", [True, False])
def test_single_precision_distinguishes_rows_far_from_0(scale, monkeypatch):
    monkeypatch.setattr("apportion._io.feature_recipe._SINGLE_FROM", 0)
    times = np.arange(50.0)
    table = pa.table({"time": times + 1.7e9, "near": times})
    rows = learn(table, scale=scale)[0].encode(table, place).rows
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.ptp(rows, axis=0), np.ptp(rows[:, 1]), rtol=1e-5)
    assert len(np.unique(rows[:, 0])) == 50
    if not scale:
        np.testing.assert_array_equal(rows[:, 1], times)


def test_rows_are_poor_in_features_by_what_is_usual_and_never_all_of_them():
    """Where every row lacks something, columns are to blame; a row is poor next to the others."""
    rng = np.random.default_rng(0)
    cells = rng.standard_normal((200, 20))
    cells[:, 8:] = np.where(rng.random((200, 12)) < 0.9, np.nan, cells[:, 8:])
    cells[:, 8:][np.arange(200), np.arange(200) % 12] = np.nan
    cells[3, :6] = cells[7, :] = np.nan
    table = pa.table({f"x{j}": pa.array(cells[:, j], from_pandas=True) for j in range(20)})
    recipe, _ = learn(table)
    encoded = recipe.encode(table, place)
    assert encoded.lacking.all()
    assert np.flatnonzero(encoded.poor).tolist() == [3, 7]
    shares = np.isnan(cells).mean(axis=0)
    assert list(encoded.missing.values()) == pytest.approx(shares.tolist())
    again = Recipe.from_json(json.loads(json.dumps(recipe.to_json())))
    one = again.encode(table.slice(7, 1), place)
    assert one.poor.tolist() == [True], "what is usual is learned, not taken from the new rows"


def test_recipes_of_older_models_have_no_shares_of_missing_cells():
    recipe, _ = learn(pa.table({"x": [1.0, 3.0, None], "y": [1.0, 2.0, 4.0]}))
    saved = recipe.to_json()
    for feature in saved["features"]:
        del feature["present"]
    assert [feature.present for feature in Recipe.from_json(saved).features] == [1.0, 1.0]
