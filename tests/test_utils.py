"""Hashing, data sets, the package itself and the code of the pages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import apportion
from apportion._utils.hashing import hash_ranks, row_hashes

ROOT = Path(__file__).parents[1]


def test_hashes_know_features_and_not_positions():
    X = np.random.default_rng(0).normal(size=(1000, 3))
    hashes = row_hashes(X)
    assert len(set(hashes.tolist())) == 1000
    order = np.random.default_rng(1).permutation(1000)
    np.testing.assert_array_equal(row_hashes(X[order]), hashes[order])
    np.testing.assert_array_equal(hash_ranks(X[order], 1000), hash_ranks(X, 1000)[order])
    np.testing.assert_array_equal(
        row_hashes(X.astype(np.float32).astype(float)), row_hashes(X.astype(np.float32))
    )


@pytest.mark.parametrize("X", [None, np.zeros((1000, 2))])
def test_equal_rows_are_scrambled(X):
    ranks = hash_ranks(X, 1000)
    assert sorted(ranks.tolist()) == list(range(1000))
    assert abs(np.corrcoef(ranks, np.arange(1000))[0, 1]) < 0.1


def test_public_names_exist_and_are_documented():
    for name in apportion.__all__:
        public = getattr(apportion, name)
        if name != "__version__":
            assert public.__doc__
    assert (Path(apportion.__file__).parent / "py.typed").exists()


WITHOUT_EXTRAS = """
import sys


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pandas", "polars", "pyarrow", "matplotlib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())
import numpy as np
from apportion import LPLLP
model = LPLLP().fit(np.eye(4), bags=[0, 0, 1, 1], proportions={0: 1.0, 1: 0.0})
print(model.transduction_.tolist())
print(model.bag_report_)
try:
    model.bag_report_.to_frame("polars")
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.slow
def test_the_core_needs_no_extra_and_names_the_one_to_install():
    out = subprocess.check_output([sys.executable, "-c", WITHOUT_EXTRAS], text=True)
    assert "[1, 1, 0, 0]" in out
    assert "needs polars: install apportion[polars]" in out
