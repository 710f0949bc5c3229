"""Threads: the same answers, whoever does the work."""

from __future__ import annotations

import multiprocessing
import threading

import numpy as np
import pytest

from apportion import project, threads
from apportion.decode import Quotas
from apportion.hashing import hash_ranks, row_hashes
from apportion.threads import in_threads, n_threads, slices


def test_results_come_in_the_order_of_the_items():
    assert in_threads(lambda item: item * item, list(range(50))) == [i * i for i in range(50)]


def test_work_that_asks_for_threads_does_not_wait_for_itself(monkeypatch):
    monkeypatch.setattr(threads, "n_threads", lambda: 2)
    outer = in_threads(lambda item: sum(in_threads(lambda x: x + item, [1, 2, 3])), [10, 20, 30])
    assert outer == [36, 66, 96]


def test_an_error_in_a_thread_is_raised():
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda item: 1 // item, [1, 0, 2])


def test_threads_are_used_and_bounded(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert n_threads() == 1
    names = set(in_threads(lambda _: threading.current_thread().name, list(range(20))))
    assert names == {threading.current_thread().name}
    monkeypatch.setenv("OMP_NUM_THREADS", "not a number")
    assert n_threads() >= 1


def _sum_in_threads(_):
    return sum(in_threads(lambda item: item, [1, 2, 3]))


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork"
)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_makes_threads_of_its_own():
    _sum_in_threads(0)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map_async(_sum_in_threads, [0]).get(timeout=30) == [6]


@pytest.mark.parametrize(("length", "most"), [(0, 3), (1, 3), (10, 3), (9, 3), (5, 100)])
def test_slices_cover_everything_once(length, most):
    parts = slices(length, most)
    assert [i for part in parts for i in range(length)[part]] == list(range(length))
    assert all(part.stop - part.start <= most for part in parts)


def test_hashes_do_not_depend_on_blocks():
    X = np.random.default_rng(0).normal(size=(70_000, 2))
    np.testing.assert_array_equal(row_hashes(X)[-1000:], row_hashes(X[-1000:]))


def test_ranks_tell_equal_rows_apart():
    ranks = hash_ranks(np.zeros((10, 2)), 10)
    assert sorted(ranks) == list(range(10))


@pytest.mark.parametrize("c", [2, 3])
def test_blocks_of_bags_do_not_change_the_answer(monkeypatch, c):
    from apportion import Totals
    from apportion.bags import match_bags

    rng = np.random.default_rng(c)
    codes, labels = rng.integers(0, 40, 600), rng.integers(0, c, 600)
    totals = Totals.from_labels(labels, codes, classes=list(range(c)))
    bags = match_bags(600, bags=codes, proportions=totals)
    F, weights = rng.dirichlet(np.ones(c), 600), rng.uniform(1, 3, 600)
    ranks = hash_ranks(None, 600)

    def answers():
        projection = project.MassProjection(bags, weights)
        soft = projection.from_columns(projection(projection.to_columns(F)))
        return soft, Quotas(bags, ranks)(F).labels

    soft, hard = answers()
    monkeypatch.setattr(threads, "_LEAST_CELLS", 50)
    monkeypatch.setattr(threads, "_MOST_CELLS", 50)
    soft_in_blocks, hard_in_blocks = answers()
    np.testing.assert_allclose(soft_in_blocks, soft, atol=1e-10)
    np.testing.assert_array_equal(hard_in_blocks, hard)
