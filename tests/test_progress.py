"""Progress: what a fit tells whoever listens, and that listening changes nothing."""

from __future__ import annotations

import threading
from itertools import groupby

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from apportion import LPLLP, RBFGraph, Totals
from apportion.graph import anchor, neighbours
from apportion.progress import listening, tell, told


def some_bags(n=400, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 8)) + 4.0 * np.eye(3, 8)[y]
    bags = rng.integers(0, 12, n)
    return X, {"bags": bags, "proportions": Totals.from_labels(y, bags)}


def heard_from(work):
    heard = []
    with listening(lambda stage, done: heard.append((stage, done))):
        work()
    return heard


def stages(heard):
    return [stage for stage, _ in groupby(heard, lambda one: one[0])]


def test_nobody_has_to_listen():
    tell("working")
    tell("working", 0.5)
    assert list(told("working", "abc")) == ["a", "b", "c"]


def test_the_share_of_items_is_told_after_each():
    assert heard_from(lambda: list(told("working", [1, 2]))) == [("working", 0.5), ("working", 1.0)]
    assert heard_from(lambda: list(told("working", []))) == []


def test_the_inner_listener_hears_and_then_the_outer_one_again():
    outer, inner = [], []
    with listening(lambda stage, done: outer.append(stage)):
        tell("one")
        with listening(lambda stage, done: inner.append(stage)):
            tell("two")
        tell("three")
    tell("four")
    assert (outer, inner) == (["one", "three"], ["two"])


def test_what_a_listener_raises_goes_through_and_the_one_before_listens_again():
    def refuse(stage, done):
        raise KeyboardInterrupt(stage)

    heard = []
    with listening(lambda stage, done: heard.append(stage)):
        with pytest.raises(KeyboardInterrupt, match="one"), listening(refuse):
            tell("one")
        tell("two")
    assert heard == ["two"]


def test_other_threads_are_not_heard():
    def work():
        other = threading.Thread(target=tell, args=("elsewhere",))
        other.start()
        other.join()
        tell("here")

    assert heard_from(work) == [("here", None)]


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ("knn", ["searching neighbours", "propagating", "decoding", "refining"]),
        (
            "anchor",
            ["choosing anchors", "tying rows to anchors", "propagating", "decoding", "refining"],
        ),
    ],
)
@pytest.mark.parametrize("solver", ["accelerated", "plain"])
def test_a_fit_tells_its_stages(monkeypatch, graph, expected, solver):
    monkeypatch.setattr(neighbours, "_BLOCK_ROWS", 100)
    monkeypatch.setattr(anchor, "BLOCK_ROWS", 100)
    X, given = some_bags()
    model = LPLLP(graph, solver=solver, random_state=0)
    heard = heard_from(lambda: model.fit(X, **given))
    assert model.solution_.n_starts == 1
    assert stages(heard) == expected
    for stage in expected:
        shares = [done for name, done in heard if name == stage and done is not None]
        assert shares == sorted(shares)
        assert all(0.0 <= share <= 1.0 for share in shares)
        if stage in ("searching neighbours", "tying rows to anchors", "propagating"):
            assert len(set(shares)) >= 4
            assert shares[-1] == 1.0


@pytest.mark.parametrize("graph", ["knn", "anchor", RBFGraph([0.05, 0.1])], ids=str)
def test_listening_changes_nothing(graph):
    X, given = some_bags(150)
    alone = LPLLP(graph, random_state=0).fit(X, **given)
    heard = LPLLP(graph, random_state=0)
    assert heard_from(lambda: heard.fit(X, **given))
    np.testing.assert_array_equal(heard.label_distributions_, alone.label_distributions_)
    np.testing.assert_array_equal(heard.transduction_, alone.transduction_)


@pytest.mark.filterwarnings("ignore:LP-LLP not converged")
@pytest.mark.parametrize("tol", [0.0, 1e-8, 1.0])
def test_any_tolerance_can_be_approached(tol):
    X, given = some_bags(60)
    model = LPLLP(tol=tol, max_iter=20, n_probes=0)
    shares = [
        done
        for stage, done in heard_from(lambda: model.fit(X, **given))
        if stage == "propagating" and done is not None
    ]
    assert shares == sorted(shares)
    assert all(0.0 <= share <= 1.0 for share in shares)


def test_a_listener_can_end_a_fit():
    def stop(stage, done):
        if stage == "propagating":
            raise KeyboardInterrupt

    X, given = some_bags(60)
    model = LPLLP()
    with pytest.raises(KeyboardInterrupt), listening(stop):
        model.fit(X, **given)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
