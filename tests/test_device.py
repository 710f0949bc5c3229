"""Work on a device, here a pretended GPU: the same code as on a GPU but for its kernels."""

from __future__ import annotations

import pickle
import re
import sys
import warnings
import weakref

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

from apportion import (
    LPLLP,
    AnchorGraph,
    DeviceWarning,
    KNNGraph,
    PrecomputedGraph,
    RBFGraph,
    Totals,
)
from apportion._core.decode import Quotas
from apportion._utils import arrays
from apportion._utils import device as devices
from apportion._utils.groups import Groups
from apportion.graphs import Graph, _device_search, _on_device
from apportion.graphs._neighbors import PairSearch
from apportion.graphs._on_device import DenseProducts, KernelProducts, SparseProducts
from apportion.supervision.bags import match_bags
from device_problems import KINDS, assert_nearest, draw_device_problem, rows_of

torch = pytest.importorskip("torch", reason="torch is not installed: apportion[gpu]")
torch.set_num_threads(1)

from apportion._utils.tensors import Segments  # noqa: E402
from pretended_gpu import GPU, MixedDevicesError, pretended_gpu  # noqa: E402


@pytest.fixture
def on_gpu(monkeypatch):
    """Let a pretended GPU stand for a GPU."""
    with pretended_gpu(monkeypatch):
        yield


def test_a_pretended_gpu_refuses_what_a_gpu_refuses(on_gpu):
    there, here = torch.ones(3, device=GPU), torch.ones(3)
    for mixed in (
        lambda: there + here,
        lambda: here[there.long()],
        lambda: torch.concatenate([here, there]),
        lambda: torch.where(there > 0, here, 0.0),
    ):
        with pytest.raises(MixedDevicesError):
            mixed()
    for mixed in (lambda: np.asarray(there), there.numpy, lambda: np.maximum(there, 0)):
        with pytest.raises(TypeError, match="no NumPy array"):
            mixed()
    assert (2 * there.sort()[0] + torch.ones(()) + here.to(GPU)).device == GPU
    np.testing.assert_array_equal(there.cpu() + here, 2.0)


def search(X):
    from apportion.graphs._device_search import DeviceSearch

    return DeviceSearch(X, torch.device("cpu"))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(KINDS), st.integers(0, 99), st.integers(1, 12), st.integers(2, 300))
def test_neighbors_are_those_in_double_precision(kind, seed, k, n):
    X = rows_of(kind, np.random.default_rng(seed), n)
    k = min(k, n - 1)
    assert_nearest(X, search(X).lists(k)[0].numpy())


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


PROBLEMS = 50


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(PROBLEMS))
@pytest.mark.filterwarnings("ignore")
def test_labels_are_those_of_the_processor(on_gpu, seed):
    problem = draw_device_problem(seed)
    cpu, gpu = problem.fit("cpu"), problem.fit("cuda")
    assert gpu.graph_.device_ is not None, "the graph is on the device"
    assert cpu.solution_.unique == gpu.solution_.unique
    if cpu.solution_.unique is not False:
        np.testing.assert_array_equal(gpu.transduction_, cpu.transduction_, problem.words)
        np.testing.assert_array_equal(gpu.tied_, cpu.tied_)
    assert isinstance(gpu.label_distributions_, np.ndarray)
    assert gpu.solution_.residual <= 1e-8 or problem.options.get("solver") == "literal"


@pytest.mark.parametrize("graph", ["knn", "anchor", RBFGraph(0.1)], ids=str)
def test_rows_bags_and_classes_in_another_order_have_the_same_labels(on_gpu, graph):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 150)
    X, bags = rng.standard_normal((150, 4)) + 3 * np.eye(4)[y], rng.integers(0, 8, 150)
    order, names = rng.permutation(150), np.array(["b", "c", "a"])
    one = LPLLP(graph, random_state=0, device="cuda")
    one.fit(X, bags=bags, proportions=Totals.from_labels(y, bags))
    again = LPLLP(graph, random_state=0, device="cuda")
    again.fit(X, bags=bags, proportions=Totals.from_labels(y, bags))
    np.testing.assert_array_equal(one.label_distributions_, again.label_distributions_)
    other = LPLLP(graph, random_state=0, device="cuda")
    other.fit(X[order], bags=-bags[order], proportions=Totals.from_labels(names[y], -bags))
    np.testing.assert_array_equal(names[one.transduction_[order]], other.transduction_)


@st.composite
def groups_and_values(draw):
    n_groups = draw(st.integers(1, 6))
    long = draw(st.sampled_from([5, 60, 700]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    codes = rng.integers(-1 if draw(st.booleans()) else 0, n_groups, rng.integers(1, long))
    codes = np.sort(codes) if draw(st.booleans()) else codes
    shape = (len(codes), 3) if draw(st.booleans()) else (len(codes),)
    return Groups(codes, n_groups), rng.standard_normal(shape)


@settings(max_examples=25, deadline=None)
@given(groups_and_values())
def test_sums_over_groups_are_those_in_memory(drawn):
    ours, values = drawn
    theirs, tensor = ours.beside(torch.zeros(1)), torch.from_numpy(values)
    np.testing.assert_allclose(theirs.sum(tensor), ours.sum(values), atol=1e-12)
    np.testing.assert_array_equal(theirs.least(tensor), ours.least(values))
    np.testing.assert_array_equal(theirs.greatest(tensor), ours.greatest(values))
    np.testing.assert_array_equal(theirs.sizes, ours.sizes)
    per_group = np.arange(2.0 * ours.n_groups).reshape(-1, 2)
    np.testing.assert_array_equal(
        theirs.spread(torch.from_numpy(per_group)), ours.spread(per_group)
    )
    keep = np.arange(ours.n_groups) % 2 == 0
    rows, some = theirs.only(torch.from_numpy(keep))
    np.testing.assert_array_equal(rows, ours.only(keep)[0])
    np.testing.assert_array_equal(some.codes, ours.only(keep)[1].codes)


def test_long_runs_are_summed_in_chunks():
    """A chunk has 128 rows: these runs need three levels of them."""
    lengths = torch.tensor([0, 128**2 + 5, 1, 0, 40_000, 128])
    values = torch.rand(int(lengths.sum()), 2, dtype=torch.float64)
    segments = Segments(lengths)
    ends = lengths.cumsum(0).tolist()
    for join, ours in (
        ("sum", segments.sum),
        ("amax", segments.greatest),
        ("amin", segments.least),
    ):
        none = {"sum": 0.0, "amax": -np.inf, "amin": np.inf}[join]
        for run, (first, last) in enumerate(zip([0, *ends], ends, strict=False)):
            part = values[first:last]
            truth = getattr(part, join)(0) if len(part) else torch.full((2,), none)
            np.testing.assert_allclose(ours(values)[run], truth, rtol=1e-12)
    whole = (1000 * values).long()
    np.testing.assert_array_equal(segments.sum(whole)[4], whole[ends[3] : ends[4]].sum(0))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 999), st.sampled_from([0.02, 0.3, 1.0]), st.booleans())
def test_components_are_those_in_memory(seed, density, dense):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    W = np.triu(rng.random((n, n)) * (rng.random((n, n)) < density), 1)
    W[rng.random((n, n)) < 0.1] *= 1e-12  # too weak to connect
    W = np.triu(W, 1) + np.triu(W, 1).T
    graph = PrecomputedGraph().fit(W if dense else sparse.csr_array(W))
    number, labels = graph.components()
    products = DenseProducts(torch.from_numpy(graph.affinity_)) if dense else None
    products = products or SparseProducts.from_scipy(graph.affinity_, torch.device("cpu"))
    ours, theirs = products.components()
    assert ours == number
    assert len({*zip(labels.tolist(), theirs.tolist(), strict=True)}) == number, "the same parts"
    np.testing.assert_allclose(products.degrees_, graph.degrees_, rtol=1e-12)


def test_similarities_are_those_in_memory(on_gpu, monkeypatch):
    X = np.random.default_rng(0).standard_normal((90, 3))
    copies = np.concatenate([X, X[:30]])
    for graph, rows in ((KNNGraph(5), X), (KNNGraph(5), copies), (RBFGraph(0.7), X)):
        ours = clone(graph).set_params(device="cuda").fit(rows)
        theirs = graph.fit(rows)
        W = ours.affinity_ - theirs.affinity_
        assert abs(W).max() < 1e-12
        np.testing.assert_allclose(ours.degrees_, theirs.degrees_, rtol=1e-9)
        F = np.random.default_rng(1).random((len(rows), 2))
        for function in ("multiply", "neighbor_mean"):
            np.testing.assert_allclose(
                getattr(ours, function)(F), getattr(theirs, function)(F), atol=1e-12
            )
    anchors, theirs = AnchorGraph(20, device="cuda").fit(X), AnchorGraph(20).fit(X)
    np.testing.assert_allclose(anchors.shared_ties(), theirs.shared_ties(), atol=1e-12)
    products = anchors.products()
    F = np.random.default_rng(1).random((90, 2))
    np.testing.assert_allclose(products.strengths.cpu(), theirs.strengths, atol=1e-12)
    monkeypatch.setattr(_on_device, "_CELLS", 450)  # one column at a time
    ours = products.neighbor_mean(torch.from_numpy(F).to(GPU))
    np.testing.assert_allclose(ours.cpu(), theirs.neighbor_mean(F), atol=1e-12)


def test_a_dense_graph_that_does_not_fit_is_computed_in_products(on_gpu, monkeypatch):
    """Tiles and blocks are made small, so that there are several."""
    monkeypatch.setattr(_on_device, "_TILE", 32)
    monkeypatch.setattr(_on_device, "_CELLS", 2000)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 100)
    X, bags = rng.standard_normal((100, 3)) + 4.0 * y[:, None], rng.integers(0, 9, 100)
    known = {"bags": bags, "proportions": Totals.from_labels(y, bags)}
    held = LPLLP(RBFGraph(0.3), device="cuda").fit(X, **known)
    W = held.graph_.products().W
    assert torch.equal(W, W.T), "symmetric to the last bit"
    np.testing.assert_allclose(W.cpu(), RBFGraph(0.3).fit(X).affinity_, atol=1e-14)
    monkeypatch.setattr(_on_device, "free_on_device", lambda device: 2**16)
    free = LPLLP(RBFGraph(0.3), device="cuda").fit(X, **known)
    assert type(free.graph_.products()).__name__ == "KernelProducts"
    assert free.graph_.components()[0] == held.graph_.components()[0]
    np.testing.assert_allclose(free.label_distributions_, held.label_distributions_, atol=1e-7)
    np.testing.assert_array_equal(free.transduction_, held.transduction_)


@pytest.mark.filterwarnings("ignore:.*almost no similar row")
def test_similarities_below_rounding_are_not_held(on_gpu, monkeypatch):
    """Rows along a line, of which only neighbors are similar: there are few more than two each."""
    rng = np.random.default_rng(0)
    X = (np.arange(80) + 0.1 * rng.random(80))[:, None]
    y, bags = np.arange(80) // 20 % 2, rng.integers(0, 9, 80)
    known = {"bags": bags, "proportions": Totals.from_labels(y, bags)}
    theirs = LPLLP(RBFGraph(40.0), refine=False).fit(X, **known)
    for free in (None, 2**16):  # from similarities that are held, and from rows
        monkeypatch.setattr(_on_device, "free_on_device", lambda device, free=free: free)
        ours = LPLLP(RBFGraph(40.0), refine=False, device="cuda").fit(X, **known)
        products = ours.graph_.products()
        assert isinstance(products, SparseProducts)
        W = products.to_scipy()
        assert W.nnz < 3 * len(X)
        np.testing.assert_allclose(W.sum(axis=1), theirs.graph_.degrees_, rtol=1e-9)
        np.testing.assert_array_equal(ours.transduction_, theirs.transduction_)
    wide = RBFGraph(0.01, device="cuda").fit(X).products()
    assert not isinstance(wide, SparseProducts)


@pytest.mark.filterwarnings("ignore:.*almost no similar row")
@pytest.mark.parametrize("in_time", [False, True])
def test_newton_takes_few_products_with_all_similarities(on_gpu, monkeypatch, in_time):
    """The same minimum, where the strongest similarities stand for all in Newton's system."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 500)
    X, bags = rng.standard_normal((500, 6)) + np.eye(3, 6)[y], rng.permutation(500) % 25
    known = {"bags": bags, "proportions": Totals.from_labels(y, bags)}
    known |= {"times": np.arange(500.0)} if in_time else {}
    n_products, multiply = [], DenseProducts.multiply
    monkeypatch.setattr(
        DenseProducts, "multiply", lambda graph, F: n_products.append(1) or multiply(graph, F)
    )

    def solved():
        n_products.clear()
        model = LPLLP(RBFGraph(5.0), device="cuda", refine=False, time_weight=0.1 * in_time)
        return model.fit(X, **known).solution_, len(n_products)

    ours, few = solved()
    monkeypatch.setattr(DenseProducts, "sparsified", lambda graph: None)
    theirs, many = solved()
    assert ours.converged
    assert theirs.converged
    assert few < 0.5 * many
    assert (np.diff(ours.energies) <= 1e-9).all()
    np.testing.assert_allclose(ours.energies[-1], theirs.energies[-1], rtol=1e-8)
    np.testing.assert_allclose(ours.F, theirs.F, atol=1e-3)


@pytest.mark.parametrize(
    ("gamma", "kind", "free"),
    [(8.0, DenseProducts, None), (8.0, KernelProducts, 2**24), (30.0, SparseProducts, None)],
)
def test_a_sparsified_graph_keeps_nearly_all_of_each_degree(gamma, kind, free, monkeypatch):
    """Of a dense graph that is held or not, and of one without what rounding would lose."""
    monkeypatch.setattr(_on_device, "free_on_device", lambda device: free)
    X = np.random.default_rng(0).standard_normal((500, 6))
    graph = _on_device.gaussian_products(X, gamma, torch.device("cpu"))
    assert isinstance(graph, kind)
    W, all_of_them = graph.sparsified().to_scipy(), RBFGraph(gamma).fit(X).affinity_
    assert W.nnz < len(X) ** 2 / 16
    assert abs(W - W.T).max() <= (1e-14 if kind is KernelProducts else 0.0)
    np.testing.assert_allclose(W.data, all_of_them[W.nonzero()], rtol=1e-9)
    lost = 1.0 - W.sum(axis=1) / all_of_them.sum(axis=1)
    assert (lost <= 0.1).all()
    assert 0.0 < lost.mean() < 0.01


def test_nothing_is_sparsified_without_memory_for_it(monkeypatch):
    X = np.random.default_rng(0).standard_normal((500, 6))
    graphs = [_on_device.gaussian_products(X, gamma, torch.device("cpu")) for gamma in (8.0, 30.0)]
    assert all(graph.sparsified() for graph in graphs)
    monkeypatch.setattr(_on_device, "free_on_device", lambda device: 2**10)
    assert not any(graph.sparsified() for graph in graphs)


def test_a_graph_with_many_similarities_or_few_is_not_sparsified():
    X = np.random.default_rng(0).standard_normal((500, 6))
    for gamma in (1.0, 100.0):
        graph = _on_device.gaussian_products(X, gamma, torch.device("cpu"))
        assert isinstance(graph, SparseProducts) == (gamma == 100.0)
        assert graph.sparsified() is None
    assert KNNGraph().fit(X).sparsified() is None


def test_a_device_holds_the_similarities_of_one_width_at_a_time(on_gpu, monkeypatch):
    made = []
    gaussian = _on_device._gaussian

    def counted(rows):
        alive = [one for one in made if one() is not None]
        assert not alive, "the last matrix is dropped before the next is made"
        W = gaussian(rows)
        made.append(weakref.ref(W))
        return W

    monkeypatch.setattr(_on_device, "_gaussian", counted)
    X = np.random.default_rng(0).standard_normal((60, 2))
    totals = {"a": [0.5, 0.5], "b": [0.2, 0.8]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        LPLLP(RBFGraph([0.1, 1.0, 5.0]), device="cuda").fit(
            X, bags=["a", "b"] * 30, proportions=totals
        )
    assert len(made) >= 3
    assert all(one() is None for one in made), "nothing is held after the fit"


@pytest.mark.parametrize("graph", ["knn", "anchor", RBFGraph(0.5)], ids=str)
def test_a_fitted_model_travels_without_the_device(on_gpu, graph):
    X = np.random.default_rng(0).standard_normal((60, 8))
    totals = {"a": [0.5, 0.5], "b": [0.2, 0.8]}
    times = {"times": np.arange(60.0)}
    model = LPLLP(graph, device="cuda", time_weight=1.0)
    model.fit(X, bags=["a", "b"] * 30, proportions=totals, **times)
    again = pickle.loads(pickle.dumps(model))
    assert again.graph_.device_ is None
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    F = np.eye(2)[model.transduction_]
    np.testing.assert_allclose(again.graph_.smoothness(F), model.graph_.smoothness(F))
    assert again.graph_.components()[0] == model.graph_.components()[0]


@pytest.mark.parametrize("seed", range(6))
def test_tied_scores_are_decoded_as_in_memory(on_gpu, seed):
    rng = np.random.default_rng(seed)
    c = int(rng.integers(2, 5))
    y, bags = rng.integers(0, c, 120), rng.integers(0, 6, 120)
    y[:c] = np.arange(c)
    matched = match_bags(120, bags=bags, proportions=Totals.from_labels(y, bags))
    F = rng.integers(0, 4, (120, c)) / 4.0
    ranks = rng.permutation(120)
    ours, theirs = (Quotas(matched, ranks, device)(F) for device in (GPU, None))
    np.testing.assert_array_equal(ours.labels, theirs.labels)
    np.testing.assert_array_equal(ours.tied, theirs.tied)


def test_without_a_gpu_the_processor_is_used_and_this_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    X = np.random.default_rng(0).standard_normal((50, 8))
    with pytest.warns(DeviceWarning, match="torch sees no GPU: the processor is used"):
        graph = KNNGraph(device="cuda").fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KNNGraph(device="auto").fit(X)
    np.testing.assert_array_equal(graph.affinity_.toarray(), KNNGraph().fit(X).affinity_.toarray())


def test_a_model_fitted_on_a_gpu_is_read_without_one(on_gpu, tmp_path, monkeypatch):
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
        "The search needs 8.00 GiB on the GPU and 1.00 GiB are free there; nothing was allocated. "
        "About 11,585 such rows fit. Use device='cpu', graph='anchor' or fewer rows."
    )
    instead = Graph.instead_of_device
    with pytest.raises(MemoryError, match=re.escape(message)):
        devices.refuse_on_device("The search", 2**15, lambda rows: 8 * rows**2, gpu, instead)


def test_triton_needs_a_compiler(monkeypatch):
    monkeypatch.setattr(devices, "find_spec", lambda name: name)
    monkeypatch.setattr(devices, "which", lambda name: None)
    monkeypatch.delenv("CC", raising=False)
    assert not devices.triton_runs(GPU)
    monkeypatch.setenv("CC", "cc")
    assert devices.triton_runs(GPU)
    assert not devices.triton_runs(torch.device("cpu"))


def test_a_missing_torch_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    assert devices.torch_device("auto") is None
    with pytest.raises(ModuleNotFoundError, match=r"install apportion\[gpu\]"):
        devices.torch_device("cuda")
    with pytest.raises(ValueError, match="'device' parameter of KNNGraph must be"):
        KNNGraph(device="gpu").fit(np.eye(3))


@pytest.mark.slow
def test_the_command_line_works_on_a_device(on_gpu, tmp_path, monkeypatch):
    pytest.importorskip("typer")
    from command_line import KNOWN, day_files, done, refused

    monkeypatch.chdir(tmp_path)
    day_files()
    words = ("label", "rows.csv", *KNOWN, "--device")
    done(*words, "cpu", "--method", "lpllp", "-o", "cpu.csv")
    for device in ("cuda", "auto"):
        done(*words, device, "--method", "lpllp", "-o", "gpu.csv", "--force")
        ours, theirs = (pd.read_csv(name) for name in ("gpu.csv", "cpu.csv"))
        pd.testing.assert_frame_equal(ours, theirs, rtol=1e-7, atol=1e-9)
    says = "--device: for --method lpllp, and --method is mean-map. Leave it out"
    refused(*words, "cuda", "--method", "mean-map", code=2, says=says)
    words = (*words, "cuda", "--method", "lpllp")

    def full(*arguments, **options):
        gpu, instead = torch.device("cuda"), Graph.instead_of_device
        devices.refuse_on_device("The search", 1024, lambda rows: 2**21 * rows, gpu, instead)

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**30, 2**31))
    monkeypatch.setattr(LPLLP, "fit", full)
    says = "About 512 such rows fit. Use --device cpu, --graph anchor or fewer rows."
    refused(*words, code=4, says=says)
    monkeypatch.setattr(LPLLP, "fit", lambda *known, **options: np.empty((10**9, 10**6)))
    refused(*words, code=4, says="Unable to allocate")
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(devices, "_gpu", lambda: None)
    said = " ".join(done(*words, "-o", "l.csv").stderr.split())
    assert "torch sees no GPU: the processor is used, with the same labels." in said
    assert "or use --device auto" in said


def test_corrections_follow_labels_that_were_found_on_a_device(on_gpu):
    pytest.importorskip("pyarrow")
    import pyarrow as pa

    from apportion.datasets import make_smart_home
    from apportion.labeling._features import learn_features
    from apportion.labeling._supervision import supervised_table
    from apportion.labeling.relabel import relabel
    from apportion.labeling.table import label_supervised

    home = make_smart_home(2, 1, seed=0, minutes=60)
    task = supervised_table(pa.table(home.windows), diary=home.diary)
    features = learn_features(task)
    before = label_supervised(task, features, LPLLP(random_state=0, device="cuda"), method="lpllp")
    after = relabel(before, task, features)
    assert after.labels.labels.tolist() == before.labels.labels.tolist()


def test_a_gpu_that_runs_full_says_how_many_rows_fit(monkeypatch):
    monkeypatch.setattr(devices, "free_on_device", lambda device: 2**30)
    known = 9000, lambda rows: 2**20 * rows, torch.device("cuda"), "Use {device:cpu}."
    message = (
        "The GPU has too little memory for 9,000 rows: 1.00 GiB were free. About 1,024 such rows "
        "fit. Use device='cpu'."
    )
    with (
        pytest.raises(MemoryError, match=re.escape(message)),
        devices.out_of_memory_explained(*known),
    ):
        raise torch.OutOfMemoryError("CUDA out of memory")
    for text in ("Triton Error [CUDA]: out of memory", "CUBLAS_STATUS_ALLOC_FAILED when calling"):
        with (
            pytest.raises(MemoryError, match="About 1,024 such rows fit"),
            devices.out_of_memory_explained(*known),
        ):
            raise RuntimeError(text)
    with (
        pytest.raises(MemoryError, match=r"0 GiB were free. Use device='cpu'.$"),
        devices.out_of_memory_explained(1000, *known[1:]),
    ):
        raise torch.OutOfMemoryError("though the estimate says that these rows fit")
    with (
        pytest.raises(RuntimeError, match="something else"),
        devices.out_of_memory_explained(*known),
    ):
        raise RuntimeError("something else")


def test_what_ran_out_of_memory_leaves_nothing_there(monkeypatch):
    monkeypatch.setattr(devices, "free_on_device", lambda device: 2**30)
    known = 9000, lambda rows: 2**20 * rows, torch.device("cuda"), "Use {device:cpu}."

    def run_out():
        tensor = torch.ones(3)
        kept.append(weakref.ref(tensor))
        raise torch.OutOfMemoryError("CUDA out of memory")

    kept = []
    with pytest.raises(MemoryError) as caught, devices.out_of_memory_explained(*known):
        run_out()
    assert [tensor() for tensor in kept] == [None], f"while {caught.value} is handled"


def test_a_graph_that_was_chosen_for_a_gpu_is_chosen_again_for_the_processor(on_gpu, monkeypatch):
    from apportion.graphs import _choice

    monkeypatch.setattr(_choice, "_MOST_ROWS", 50)
    monkeypatch.setattr(_device_search, "refuse_on_device", devices.refuse_on_device)
    monkeypatch.setattr(devices, "free_on_device", lambda device: 2**10)
    X = np.random.default_rng(0).standard_normal((60, 8))
    known = {"bags": ["a", "b"] * 30, "proportions": {"a": [0.5, 0.5], "b": [0.2, 0.8]}}
    with pytest.warns(DeviceWarning, match="The processor is used"):
        model = LPLLP(device="auto").fit(X, **known)
    assert type(model.graph_) is AnchorGraph
    assert "are more than the 50" in model.graph_choice_


def test_more_similarities_than_32_bits_count_are_refused(monkeypatch):
    monkeypatch.setattr(_on_device, "_MOST_SIMILARITIES", 3)
    W = sparse.csr_array(1.0 - np.eye(3))
    with pytest.raises(
        MemoryError, match=r"6 similarities, and a device takes 3. Use device='cpu'"
    ):
        SparseProducts.from_scipy(W, torch.device("cpu"))


def test_factors_may_be_rounded_where_torch_does_not_say(on_gpu, monkeypatch):
    Q = torch.ones(2, device=GPU)
    assert not _device_search._rounds_factors(Q)

    def mixed():
        raise RuntimeError("you have used mix of the legacy and new APIs")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", mixed)
    assert _device_search._rounds_factors(Q)
    assert not _device_search._rounds_factors(Q.cpu())


@pytest.mark.parametrize("c", [1, 3])
def test_pseudo_inverses_are_found_in_parts(c, monkeypatch):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((7, c, 2))
    A[2] = 0.0
    matrices = A @ A.transpose(0, 2, 1)
    monkeypatch.setattr(arrays, "_MOST_TOGETHER", 3)
    expected = np.linalg.pinv(matrices, 1e-9, hermitian=True)
    for ours in (matrices, torch.from_numpy(matrices)):
        np.testing.assert_allclose(arrays.pseudo_inverses(ours, 1e-9), expected, atol=1e-9)


def test_a_gpu_that_is_too_small_leaves_the_work_to_the_processor_if_that_may_choose(
    on_gpu, monkeypatch
):
    monkeypatch.setattr(_device_search, "refuse_on_device", devices.refuse_on_device)
    monkeypatch.setattr(devices, "free_on_device", lambda device: 2**10)
    X = np.random.default_rng(0).standard_normal((60, 8))
    known = {"bags": ["a", "b"] * 30, "proportions": {"a": [0.5, 0.5], "b": [0.2, 0.8]}}
    theirs = LPLLP("knn").fit(X, **known)
    with pytest.warns(DeviceWarning, match=r"1.0 KiB|0.0 MiB are free.* The processor is used"):
        ours = LPLLP("knn", device="auto").fit(X, **known)
    np.testing.assert_array_equal(ours.transduction_, theirs.transduction_)
    assert ours.graph_.device_ is None
    with pytest.raises(MemoryError, match="Use device='cpu', graph='anchor' or fewer rows"):
        LPLLP("knn", device="cuda").fit(X, **known)


@pytest.mark.parametrize(
    "graph", [KNNGraph(), RBFGraph(0.5), RBFGraph(), AnchorGraph()], ids=lambda graph: str(graph)
)
def test_a_graph_that_is_fitted_again_forgets_what_it_was(on_gpu, graph):
    rng = np.random.default_rng(0)
    X, other = rng.standard_normal((60, 3)), rng.standard_normal((40, 3))
    known = {"bags": ["a", "b"] * 30, "proportions": {"a": [0.5, 0.5], "b": [0.2, 0.8]}}
    model = LPLLP(graph, device="cuda", time_weight=1.0, max_iter=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, **known, times=np.arange(60.0))
    again, fresh = model.graph_.fit(other), clone(graph).fit(other)
    assert again.time_weight == 0.0
    assert again.untied is again
    F = rng.random((40, 2))
    np.testing.assert_allclose(again.multiply(F), fresh.multiply(F), atol=1e-12)
    near = again.in_memory()
    assert near.products() is near
    np.testing.assert_allclose(near.multiply(F), fresh.multiply(F), atol=1e-12)
    rows = np.array([3, 0])
    ours, theirs = (sparse.csr_array(one.similar_rows(rows)) for one in (again, fresh))
    np.testing.assert_allclose(ours.toarray(), theirs.toarray(), atol=1e-12)


def test_the_width_is_chosen_as_in_memory(on_gpu):
    X = np.random.default_rng(0).standard_normal((60, 3))
    ours, theirs = RBFGraph(device="cuda").fit(X), RBFGraph().fit(X)
    np.testing.assert_allclose(ours.gamma_, theirs.gamma_, rtol=1e-12)
    equal = np.repeat(X[:5], 12, axis=0)
    ours, theirs = RBFGraph(device="cuda").fit(equal), RBFGraph().fit(equal)
    np.testing.assert_allclose(ours.gamma_, theirs.gamma_, rtol=1e-9)


def test_new_rows_are_searched_in_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((80, 4)), rng.standard_normal((50, 4))
    ours, theirs = search(X), PairSearch(X)
    monkeypatch.setattr(_device_search, "BLOCK_ROWS", 16)
    neighbors, distances = ours.measured(new, 3)
    np.testing.assert_array_equal(neighbors, theirs.nearest(new, 3))
    np.testing.assert_allclose(distances, theirs.measured(new, 3)[1])


def test_an_alpha_near_1_names_the_processor(on_gpu):
    X = np.random.default_rng(0).standard_normal((60, 3))
    known = {"bags": ["a", "b"] * 30, "proportions": {"a": [0.5, 0.5], "b": [0.2, 0.8]}}
    with pytest.raises(ValueError, match=r"on a device, with 60 rows.* or use device='cpu'\."):
        LPLLP("knn", alpha=0.9999999, device="cuda").fit(X, **known)


@pytest.mark.parametrize("value", [0, 1, -1, 2**62, -(2**63)])
def test_words_are_scrambled_alike(value):
    from apportion._utils.hashing import scramble

    ours = scramble(torch.tensor([value]))
    theirs = scramble(np.array([value], dtype=np.int64).view(np.uint64))
    assert ours.numpy().view(np.uint64).tolist() == theirs.tolist()
