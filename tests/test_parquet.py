"""Features from Parquet files."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apportion import read_rows


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "day": [f"day {i % 7}" for i in range(1000)],
            "mean": rng.normal(size=1000),
            "steps": rng.integers(0, 100, 1000),
            "awake": rng.random(1000) < 0.5,
            "gap": pa.array([None if i == 700 else 1.0 for i in range(1000)]),
        }
    )
    pq.write_table(table, tmp_path / "windows.parquet", row_group_size=130)
    return tmp_path / "windows.parquet", table


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_come_in_the_order_they_are_named(file, dtype):
    path, table = file
    X = read_rows(path, ["steps", "awake", "mean"], dtype=dtype)
    assert X.dtype == dtype
    for place, name in enumerate(["steps", "awake", "mean"]):
        np.testing.assert_array_equal(X[:, place], table[name].to_numpy().astype(dtype))


def test_an_empty_cell_is_named(file):
    with pytest.raises(ValueError, match=r"row 700, column 'gap': found an empty cell"):
        read_rows(file[0])


@pytest.mark.parametrize(
    ("columns", "found"),
    [(["day"], r"column 'day': found values of type string"), (["age"], "no column 'age'")],
)
def test_a_column_without_numbers_is_refused(file, columns, found):
    with pytest.raises(ValueError, match=found) as caught:
        read_rows(file[0], columns)
    assert "'mean', 'steps'" in str(caught.value)


def test_a_file_without_numbers_is_refused(tmp_path):
    pq.write_table(pa.table({"day": ["mon"]}), tmp_path / "text.parquet")
    with pytest.raises(ValueError, match="found no numeric column"):
        read_rows(tmp_path / "text.parquet")
    with pytest.raises(ValueError, match="must be float32 or float64"):
        read_rows(tmp_path / "text.parquet", dtype=np.int8)


def test_no_copy_in_double_precision(tmp_path):
    n, d = 300_000, 10
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.normal(size=n).astype(np.float32) for j in range(d)}
    pq.write_table(pa.table(columns), tmp_path / "many.parquet", row_group_size=20_000)
    tracemalloc.start()
    X = read_rows(tmp_path / "many.parquet")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * X.nbytes
    np.testing.assert_array_equal(X[:, 3], columns["x3"])


@pytest.mark.parametrize("columns", ["mean", ["mean", "mean"]])
def test_columns_are_a_list_of_different_names(file, columns):
    with pytest.raises(ValueError, match="must be different names in a list"):
        read_rows(file[0], columns)


def test_a_number_too_large_for_single_precision_is_named(tmp_path):
    pq.write_table(pa.table({"size": [1.0, 1e300]}), tmp_path / "large.parquet")
    with pytest.raises(ValueError, match=r"row 1, column 'size': .*1e\+300.*dtype=numpy.float64"):
        read_rows(tmp_path / "large.parquet")
    assert read_rows(tmp_path / "large.parquet", dtype=np.float64)[1, 0] == 1e300
