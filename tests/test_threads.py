"""Threads: the same results with any number of threads."""

from __future__ import annotations

import multiprocessing
import threading

import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

from apportion import (
    EMLLP,
    LPLLP,
    AggregateGP,
    AnchorGraph,
    CountLogistic,
    InvCal,
    KNNGraph,
    MeanMap,
    RBFGraph,
    Totals,
)
from apportion._core import projection as project
from apportion._core import propagation as propagate
from apportion._core.decode import Quotas
from apportion._core.propagation import Cholesky
from apportion._utils import threads
from apportion._utils.hashing import hash_ranks, row_hashes
from apportion._utils.threads import in_threads, n_threads, reproducible_sums, slices


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


def _predict_and_fit(model):
    X, supervision = many_rows()
    predicted = model.predict_proba(X[:50])
    return predicted, clone(model).fit(X, **supervision).label_distributions_


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork"
)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_can_predict_and_fit():
    """libgomp would wait forever for the threads that faiss used in the parent."""
    X, supervision = many_rows()
    model = LPLLP(AnchorGraph(n_anchors=50)).fit(X, **supervision)
    here = _predict_and_fit(model)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        there = pool.map_async(_predict_and_fit, [model]).get(timeout=60)[0]
    for mine, its in zip(here, there, strict=True):
        np.testing.assert_array_equal(its, mine)


def many_rows():
    """Rows and supervision of which searches, products and factors are shared among threads."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 1200)
    X = rng.normal(size=(1200, 8))
    X[:, 0] += 2.0 * y
    bags = np.arange(1200) % 30
    return X, {"bags": bags, "proportions": Totals.from_labels(y, bags)}


@pytest.mark.parametrize(
    "estimator",
    [
        LPLLP(KNNGraph()),
        LPLLP(RBFGraph(0.1)),
        LPLLP(AnchorGraph(n_anchors=300)),
        LPLLP(RBFGraph(0.1), order=2),
        InvCal("rbf"),
        MeanMap("rbf"),
        CountLogistic("rbf"),
        AggregateGP(("laplacian", "trees"), n_estimators=10, random_state=0),
        EMLLP(max_iter=3, random_state=0),
    ],
    ids=str,
)
def test_the_number_of_threads_changes_no_digit(estimator, monkeypatch):
    X, supervision = many_rows()
    answers = []
    for n in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", n)
        with threadpool_limits(int(n)):
            model = clone(estimator).fit(X, **supervision)
            answers.append((model.label_distributions_, model.predict_proba(X[:20] + 0.1)))
    np.testing.assert_array_equal(answers[1][0], answers[0][0])
    np.testing.assert_array_equal(answers[1][1], answers[0][1])


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_limits_of_several_calls_end_with_the_last():
    with threadpool_limits(2):
        first, second = reproducible_sums(), reproducible_sums()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(blas_threads()) == {1}
        second.__exit__(None, None, None)
        assert set(blas_threads()) == {2}


@pytest.mark.parametrize("n", [1, 5, 16, 37])
def test_cholesky_by_tiles(n, monkeypatch):
    monkeypatch.setattr(propagate, "_TILE", 8)
    rng = np.random.default_rng(n)
    root = rng.normal(size=(n, n))
    A, B = root @ root.T + n * np.eye(n), rng.normal(size=(n, 2))
    np.testing.assert_allclose(Cholesky(A.copy()).solve(B), np.linalg.solve(A, B), rtol=1e-9)
    with pytest.raises(np.linalg.LinAlgError):
        Cholesky(-A)


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
    from apportion.supervision.bags import match_bags

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
    np.testing.assert_array_equal(soft_in_blocks, soft)
    np.testing.assert_array_equal(hard_in_blocks, hard)


def test_a_library_that_is_imported_late_gets_one_thread(monkeypatch):
    """faiss is imported within a fit, and brings a BLAS of its own."""

    def threads_of_blas():
        return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]

    threads._controller(False)
    before = threads_of_blas()
    with reproducible_sums(), threadpool_limits(2, user_api="blas"):  # as a new library comes
        threads.limit_late_libraries()
        assert set(threads_of_blas()) == {1}
    assert threads_of_blas() == before
