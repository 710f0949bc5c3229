"""Kernels for GPUs, in Triton's interpreter; on a GPU with `TRITON_INTERPRET=0` (`conftest.py`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import LPLLP, RBFGraph, Totals
from apportion.graphs import _device_search, _on_device
from device_problems import KINDS, assert_nearest, rows_of

torch = pytest.importorskip("torch", reason="torch is not installed: apportion[gpu]")
triton = pytest.importorskip("triton", reason="triton is not installed: make torch")
DEVICE = torch.device("cpu" if triton.knobs.runtime.interpret else "cuda")
if DEVICE.type == "cuda" and not torch.cuda.is_available():
    pytest.skip("TRITON_INTERPRET is 0, and there is no GPU", allow_module_level=True)

from apportion.graphs._kernel_sums import in_columns, kernel_sums  # noqa: E402


@pytest.fixture(autouse=True)
def with_triton(monkeypatch):
    """Let kernels run on this device."""
    for module in (_device_search, _on_device):
        monkeypatch.setattr(module, "triton_runs", lambda device: True)


def search(X):
    return _device_search.DeviceSearch(X, DEVICE)


@settings(max_examples=15)
@given(st.integers(1, 300), st.integers(1, 9), st.integers(1, 9), st.integers(0, 99))
def test_sums_are_those_of_similarities(n, d, n_columns, seed):
    rng = np.random.default_rng(seed)
    X, F = rng.standard_normal((n, d)), rng.random((n, n_columns))
    sums = kernel_sums(in_columns(torch.from_numpy(X).to(DEVICE)), torch.from_numpy(F).to(DEVICE))
    W = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    np.fill_diagonal(W, 0.0)
    np.testing.assert_allclose(sums.cpu(), W @ F, rtol=1e-5, atol=1e-12)


def test_similarities_are_symmetric_to_the_last_bit():
    X = torch.from_numpy(np.random.default_rng(0).standard_normal((150, 3))).to(DEVICE)
    some = torch.arange(0, 150, 19, device=DEVICE)
    one_hot = torch.eye(150, dtype=torch.float64, device=DEVICE)[:, some]
    W = kernel_sums(in_columns(X), one_hot)[some]
    assert torch.equal(W, W.T)
    assert not W.diagonal().any()
    assert (W > 0).sum() == 8 * 7


def test_labels_are_those_of_similarities_that_are_held(monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 100)
    X, bags = rng.standard_normal((100, 3)) + 4.0 * np.eye(3)[y], rng.integers(0, 9, 100)
    known = {"bags": bags, "proportions": Totals.from_labels(y, bags)}
    theirs = LPLLP(RBFGraph(0.3), refine=False).fit(X, **known)
    monkeypatch.setattr("apportion._utils.device._gpu", lambda: DEVICE)
    monkeypatch.setattr(_on_device, "free_on_device", lambda device: 2**16)
    ours = LPLLP(RBFGraph(0.3, device="cuda"), refine=False, tol=1e-6).fit(X, **known)
    assert isinstance(ours.graph_.products(), _on_device.KernelProducts)
    np.testing.assert_array_equal(ours.transduction_, theirs.transduction_)
    np.testing.assert_allclose(ours.label_distributions_, theirs.label_distributions_, atol=1e-4)


@settings(max_examples=15)
@given(st.sampled_from(KINDS), st.integers(0, 99), st.integers(1, 12), st.integers(2, 300))
def test_neighbors_in_bins_are_those_in_double_precision(kind, seed, k, n):
    X = rows_of(kind, np.random.default_rng(seed), n)
    assert_nearest(X, search(X).lists(min(k, n - 1))[0].cpu().numpy())


@pytest.mark.parametrize("together", [2, 3, 7])
def test_neighbors_that_a_bin_loses_are_found(together, monkeypatch):
    """Programs share the points, of which every 64th has the same bin; a bin keeps two."""
    n, per_program = 8 * 256, 256
    rng = np.random.default_rng(0)
    X = rng.uniform(5.0, 9.0, (n, 4))
    cluster = per_program + 64 * np.arange(4) + 3
    cluster = np.concatenate([cluster, cluster + per_program])[:together]
    X[cluster] = 0.1 * rng.standard_normal((together, 4))
    ours, anew = search(X), []
    in_tiles = ours._in_tiles
    monkeypatch.setattr(
        ours, "_in_tiles", lambda Q, *others: anew.append(len(Q)) or in_tiles(Q, *others)
    )
    k = together - 1
    nearest = ours.nearest(X[cluster], k + 1)
    assert {frozenset(row) for row in nearest.tolist()} == {frozenset(cluster.tolist())}
    assert sum(anew) == (together if together > 2 else 0), "only where a bin may have lost one"
    assert_nearest(X, ours.lists(k)[0].cpu().numpy())


def test_features_whose_tiles_do_not_fit_are_searched_without_bins(monkeypatch):
    """Shared memory is 227 KiB on an H200 and 99 KiB on many others."""
    from apportion.graphs import _bin_kernels

    def too_large(*arguments):
        raise triton.OutOfResources(131072, 101376, "shared memory")

    monkeypatch.setattr(_bin_kernels, "least_in_bins", too_large)
    X = rows_of("plain", np.random.default_rng(0), n=80, d=70)
    assert_nearest(X, search(X).lists(5)[0].cpu().numpy())
    monkeypatch.undo()
    assert not _bin_kernels.tiles_fit(DEVICE, _bin_kernels.MOST_FEATURES + 1)


_KIB = 1024


@pytest.mark.slow
def test_kernels_compile_for_gpus(tmp_path):
    """An A100 has 163 KiB of shared memory for a block, an H100 or H200 has 227."""
    script = Path(__file__).with_name("compiled_gpu_kernels.py")
    environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for capability, most in (("80", 163 * _KIB), ("90", 227 * _KIB)):
        shared = json.loads(done.stdout)[capability]
        assert len(shared) == 6
        assert max(shared.values()) <= most, shared
