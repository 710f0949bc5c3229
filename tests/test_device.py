"""Work on a device, here torch's own CPU device: the same code as on a GPU but for its kernels."""

from __future__ import annotations

import re
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import LPLLP, DeviceWarning, KNNGraph, Totals
from apportion._utils import device as devices
from apportion.graphs._neighbors import PairSearch

torch = pytest.importorskip("torch", reason="torch is not installed: apportion[gpu]")


@pytest.fixture
def on_torch(monkeypatch):
    """Let torch's CPU device stand for a GPU."""
    monkeypatch.setattr(devices, "_gpu", lambda: torch.device("cpu"))


def search(X):
    from apportion.graphs._device_search import DeviceSearch

    return DeviceSearch(X, torch.device("cpu"))


def rows(kind, rng, n=300, d=5):
    X = rng.standard_normal((n, d))
    if kind == "far from 0":
        return X + 1e6
    if kind == "outliers":
        X[: n // 20] *= 1e8
    if kind == "single precision":
        return (X + 1e3).astype(np.float32)
    if kind == "tiny":
        return 1e-60 * X
    if kind == "nearly equal":
        return 1.0 + 1e-9 * X
    return X


KINDS = ("plain", "far from 0", "outliers", "single precision", "tiny", "nearly equal")


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(KINDS), st.integers(0, 99), st.integers(1, 12), st.integers(2, 300))
def test_neighbors_are_those_in_double_precision(kind, seed, k, n):
    X = rows(kind, np.random.default_rng(seed), n)
    k = min(k, n - 1)
    found, truth = (lists.lists(k)[0] for lists in (search(X), PairSearch(X)))
    found = found.numpy()

    def distances(neighbors):
        away = X[:, None].astype(np.float64) - X[neighbors]
        return np.sqrt((away**2).sum(axis=2))

    assert (np.diff(distances(found), axis=1) >= 0).all(), "the nearest first"
    assert (found != np.arange(n)[:, None]).all()
    size = np.abs(X - np.median(X, axis=0)).max()
    np.testing.assert_allclose(distances(found), distances(truth), atol=1e-7 * size)
    assert (distances(found)[:, -1] <= distances(truth)[:, -1] * (1 + 1e-12)).all()


def test_close_calls_are_compared_in_double_precision(monkeypatch):
    """Single precision cannot order these points, and says so instead of guessing."""
    rng = np.random.default_rng(0)
    X = np.concatenate([1e3 + 1e-4 * rng.standard_normal((100, 8)), rng.standard_normal((300, 8))])
    ours = search(X)
    whole = []
    in_tiles = ours._in_tiles

    def counted(Q, *others):
        whole.append(len(Q)) if Q.dtype == torch.float64 else None
        return in_tiles(Q, *others)

    ours._in_tiles = counted
    distances = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    np.fill_diagonal(distances, np.inf)
    np.testing.assert_array_equal(ours.lists(10)[0], np.argsort(distances, axis=1)[:, :10])
    assert 100 <= sum(whole) < 200, "the rows of the dense cluster, and not all others"


def test_equally_near_points_are_taken_in_their_order():
    X = np.array([[0.0], [1.0], [-1.0], [1.0], [-1.0], [5.0]])
    assert search(X).nearest(np.array([[0.0]]), 4).tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize("n_classes", [2, 4])
def test_labels_are_those_of_the_processor(on_torch, n_classes):
    rng = np.random.default_rng(n_classes)
    y = rng.integers(0, n_classes, 600)
    X = rng.standard_normal((600, 8)) + 3 * np.eye(8)[y]
    bags = rng.integers(0, 20, 600)
    totals = Totals.from_labels(y, bags)
    cpu = LPLLP("knn", random_state=0).fit(X, bags=bags, proportions=totals)
    gpu = LPLLP("knn", random_state=0, device="cuda").fit(X, bags=bags, proportions=totals)
    assert gpu.graph_.search_ == "exact, among all pairs, on cpu"
    np.testing.assert_array_equal(gpu.transduction_, cpu.transduction_)
    np.testing.assert_allclose(gpu.label_distributions_, cpu.label_distributions_, atol=1e-9)
    np.testing.assert_array_equal(gpu.predict(X[:50] + 0.1), cpu.predict(X[:50] + 0.1))


def test_without_a_gpu_the_processor_is_used_and_this_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    X = np.random.default_rng(0).standard_normal((50, 8))
    with pytest.warns(DeviceWarning, match="torch sees no GPU: the processor is used"):
        graph = KNNGraph(device="cuda").fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KNNGraph(device="auto").fit(X)
    np.testing.assert_array_equal(graph.affinity_.toarray(), KNNGraph().fit(X).affinity_.toarray())


def test_a_model_fitted_on_a_gpu_is_read_without_one(on_torch, tmp_path, monkeypatch):
    from apportion.persistence import load_model, save_model

    X = np.random.default_rng(0).standard_normal((60, 8))
    totals = {"a": [0.5, 0.5], "b": [0.2, 0.8]}
    model = LPLLP("knn", device="cuda").fit(X, bags=["a", "b"] * 30, proportions=totals)
    with (tmp_path / "model").open("wb") as file:
        save_model(file, model)
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = load_model(tmp_path / "model").model
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_what_does_not_fit_on_a_gpu_is_refused_before_it_is_allocated(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**30, 2**31))
    gpu = torch.device("cuda")
    message = (
        "The search needs 2.50 GiB on the GPU and 1.00 GiB are free there; nothing was allocated. "
        "About 256 such rows fit. Use device='cpu', graph='anchor' or fewer rows."
    )
    with pytest.raises(MemoryError, match=re.escape(message)):
        devices.refuse_on_device("The search", 1024, 2**21, gpu, beside=2**29)


def test_a_missing_torch_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    assert devices.torch_device("auto") is None
    with pytest.raises(ModuleNotFoundError, match=r"install apportion\[gpu\]"):
        devices.torch_device("cuda")
    with pytest.raises(ValueError, match="'device' parameter of KNNGraph must be"):
        KNNGraph(device="gpu").fit(np.eye(3))
