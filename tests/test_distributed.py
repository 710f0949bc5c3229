"""On a cluster: the labels of one machine, whatever is cut, killed, interrupted or wrong."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
import zipfile
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler, scale

import apportion
from apportion import AnchorGraph, Totals, diagnose
from apportion import distributed as estimator
from apportion._core import descent
from apportion._core.decode import Decoding, Quotas
from apportion._core.descent import Status
from apportion._core.dual import RowDual, SimplexResponse, meet_totals
from apportion._core.evaluator import DualSums
from apportion._dask import checkpoint, checks, evaluator
from apportion._dask import cluster as cluster_module
from apportion._dask.anchors import HashSample, Rows, learn_anchors, merged
from apportion._dask.checkpoint import _ARRAYS, _DOCUMENT, Checkpoint, write_checkpoint
from apportion._dask.cluster import Cluster
from apportion._dask.evaluator import PartitionDual
from apportion._dask.label_files import LabelTable, write_part
from apportion._dask.labels import DecodingRound, Scored, Tally, decoded_labels, of_scores
from apportion._dask.partition import StepAnswer
from apportion._dask.quota import QuotaSolver
from apportion._dask.sums import BagValues, added, dual_sums
from apportion._dask.worker_memory import Extent, bytes_per_row, bytes_per_worker, require_memory
from apportion._io.parquet import choose_features, read_footers
from apportion._utils.groups import Groups
from apportion._utils.progress import progress_callback
from apportion.distributed import LPLLP
from apportion.exceptions import (
    AmbiguousTotalsWarning,
    BagDesignWarning,
    ClusterError,
    DuplicateRowsWarning,
    FileError,
    InputError,
    IsolatedRowsWarning,
    OutputError,
)
from apportion.labeling.rows import Supervision, label_rows
from apportion.persistence import load_model, save_model
from apportion.supervision.bags import Bags
from command_line import WAIT, done, files_of, refused, run, write

pytestmark = pytest.mark.slow

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

N_ANCHORS = 30
TOL = 1e-4


# --- Clusters: processes, and one that does every task at once, in this process.


def processes(n_workers):
    return distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
    )


@pytest.fixture(scope="module")
def two_workers():
    with processes(2) as own, distributed.Client(own, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="module")
def one_worker():
    with processes(1) as own, distributed.Client(own, set_as_default=False) as client:
        yield client


def same(value):
    return value


class Done:
    """A future whose value is there, and that lazy work can take in."""

    key = None
    status = "finished"

    def __init__(self, value):
        self.value = value

    def done(self):
        return True

    @cached_property
    def _lazy(self):
        return dask.delayed(partial(same, self.value), pure=False)()

    def __dask_graph__(self):
        return self._lazy.__dask_graph__()

    def __dask_keys__(self):
        return self._lazy.__dask_keys__()

    def __dask_layers__(self):
        return self._lazy.__dask_layers__()

    __dask_optimize__ = None

    def __dask_postcompute__(self):
        return self._lazy.__dask_postcompute__()


def settled(argument):
    if isinstance(argument, Done):
        return argument.value
    return [settled(one) for one in argument] if isinstance(argument, list) else argument


class AtOnce:
    """A client that runs every task as soon as it is asked for, and notes what comes back."""

    def __init__(self, memory_limit=2**40):
        self.back = []
        self.memory_limit = memory_limit

    def submit(self, work, *arguments, pure=True, priority=0):
        return Done(work(*map(settled, arguments)))

    def compute(self, lazies):
        return [Done(one.compute(scheduler="synchronous")) for one in lazies]

    def who_has(self, futures):
        return {}

    def gather(self, futures):
        found = [settled(one) for one in futures]
        self.back.extend(found)
        return found

    def scheduler_info(self, n_workers=5):
        return {"workers": {"one": {"memory_limit": self.memory_limit}}}


class Forgetful(AtOnce):
    """A client whose workers live for one task: nothing is remembered from one to the next."""

    def submit(self, work, *arguments, pure=True, priority=0):
        return Done(pickle.loads(pickle.dumps(work(*map(self._as_sent, arguments)))))

    def _as_sent(self, argument):
        return pickle.loads(pickle.dumps(settled(argument)))


@pytest.fixture
def at_once():
    return AtOnce()


# --- Rows, bags and totals.


def some_rows(n=1200, c=4, seed=0):
    """Return rows of classes that overlap, and the classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(c, size=n)
    return rng.normal(size=(c, 4))[y] * 1.8 + rng.normal(size=(n, 4)), y


def bags_of(kind, n=1200, seed=1):
    """Return the rows' bags."""
    rng = np.random.default_rng(seed)
    if kind == "within":  # in 1, 2 or 4 equal partitions, every bag lies in one
        return np.arange(n) // (n // 12)
    if kind == "across":
        return rng.integers(12, size=n)
    if kind == "unequal":
        return np.minimum(rng.geometric(0.25, size=n), 12)
    if kind == "missing":
        bags = np.array([f"b{k}" for k in rng.integers(4, size=n)], dtype=object)
        bags[rng.random(n) < 0.2] = None
        return bags
    raise AssertionError(kind)


def totals_of(kind, y, bags):
    """Return the bags' totals, exact, as intervals, or with cells that are not known."""
    exact = Totals.from_labels(y[bags != None], bags[bags != None])  # noqa: E711
    shares = dict(zip(exact.ids, exact.lower, strict=True))
    if kind == "exact":
        return exact
    if kind == "intervals":
        low = {bag: np.maximum(one - 0.04, 0) for bag, one in shares.items()}
        high = {bag: np.minimum(one + 0.06, 1) for bag, one in shares.items()}
        return Totals.from_intervals(low, high)
    table = exact.lower.copy()
    table[::3, :2] = np.nan
    return Totals.from_proportions(dict(zip(exact.ids, table, strict=True)))


def cut(X, n_parts):
    """Return the rows as a Dask array of some partitions."""
    return da.from_array(X, chunks=(-(-len(X) // n_parts), X.shape[1]))


def compared(model, single, client=None):
    """Hold a fit on a cluster against that of one machine; return how many rows differ."""
    found = model.labels().compute(scheduler=client)
    differ = found != single.transduction_
    ties = int(single.tied_.sum())
    print(f"{int(differ.sum())} of {len(found):,} labels differ ({ties} tied)")
    assert not (differ & ~single.tied_).any()
    soft = model.label_distributions().compute(scheduler=client)
    np.testing.assert_allclose(soft, single.label_distributions_, atol=1e-7)
    np.testing.assert_array_equal(model.anchors_, single.graph_.anchors_)
    assert model.status_ is single.solution_.status
    ours, theirs = model.bag_report_, single.bag_report_
    assert ours.ids == theirs.ids
    np.testing.assert_array_equal(ours.classes, theirs.classes)
    for name in ("sizes", "lower", "upper"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    np.testing.assert_array_equal(ours.assigned["quota"], theirs.assigned["quota"])
    assert ours.error() == theirs.error()
    return int(differ.sum())


def on_one_machine(X, bags, totals, **settings):
    """Fit on one machine by the descent alone: a cluster has no Newton's method, whose end differs
    by the tolerance."""
    model = apportion.LPLLP(AnchorGraph(N_ANCHORS), **settings)
    with mock.patch.object(descent, "_FIRST_LEAP", np.inf):
        return model.fit(X, bags=bags, proportions=totals)


CASES = [
    *((c, kind, "exact", True) for c in (2, 4) for kind in ("within", "across", "unequal")),
    *((c, "missing", "exact", False) for c in (2, 4)),
    *((c, "across", "intervals", True) for c in (2, 4)),
    *((c, "unequal", "unknown", False) for c in (2, 4)),
    (4, "within", "intervals", False),
    (4, "missing", "unknown", True),
]


@pytest.mark.parametrize(("c", "kind", "given_as", "refine"), CASES)
@pytest.mark.filterwarnings("ignore::apportion.AmbiguousTotalsWarning")
def test_labels_are_those_of_one_machine(at_once, c, kind, given_as, refine):
    X, y = some_rows(c=c)
    bags = bags_of(kind)
    totals = totals_of(given_as, y, bags)
    single = on_one_machine(X, bags, totals, refine=refine, tol=1e-6)
    spanning = []
    for n_parts in (1, 2, 4):
        model = LPLLP(N_ANCHORS, refine=refine, tol=1e-6)
        model.fit(cut(X, n_parts), bags=bags, proportions=totals, client=at_once)
        assert compared(model, single) == 0
        spanning.append(model.n_spanning_)
    if kind == "within":
        assert spanning == [0, 0, 0]
    else:
        assert 0 == spanning[0] < spanning[1] <= spanning[2]


@pytest.fixture(scope="module")
def known():
    """Rows in bags across partitions, some rows in none; the labels of one machine, found once."""
    X, y = some_rows(800, 3, seed=3)
    rng = np.random.default_rng(4)
    kinds = (y + rng.choice(4, size=800, p=[0.55, 0.25, 0.15, 0.05])) % 4
    bags = np.array(["a", "b", "c", "d"], dtype=object)[kinds]
    bags[rng.random(800) < 0.2] = None
    totals = totals_of("exact", y, bags)
    single = on_one_machine(X, bags, totals, tol=TOL)
    return SimpleNamespace(X=X, bags=bags, totals=totals, single=single)


def fitted(known, client, n_parts=2, **settings):
    model = LPLLP(N_ANCHORS, tol=TOL, **settings)
    return model.fit(
        cut(known.X, n_parts), bags=known.bags, proportions=known.totals, client=client
    )


@pytest.mark.parametrize("n_parts", [1, 2, 4])
@pytest.mark.parametrize("workers", ["one_worker", "two_workers"])
def test_worker_processes_find_the_labels_of_one_machine(request, known, workers, n_parts):
    client = request.getfixturevalue(workers)
    pids = set(client.run(os.getpid).values()) - {os.getpid()}
    assert len(pids) == {"one_worker": 1, "two_workers": 2}[workers]
    model = fitted(known, client, n_parts)
    assert compared(model, known.single, client) == 0


@pytest.mark.parametrize(("c", "kind"), [(2, "across"), (2, "missing"), (3, "unequal")])
def test_what_a_worker_forgets_is_found_again(at_once, c, kind):
    X, y = some_rows(400, c)
    bags = bags_of(kind, 400)
    totals = totals_of("exact", y, bags)
    found = [
        LPLLP(12, tol=1e-4).fit(cut(X, 3), bags=bags, proportions=totals, client=client)
        for client in (at_once, Forgetful())
    ]
    one, other = (model.labels().compute() for model in found)
    np.testing.assert_array_equal(one, other)
    one, other = (model.label_distributions().compute() for model in found)
    np.testing.assert_allclose(one, other, atol=1e-9)
    assert found[0].n_iter_ == found[1].n_iter_
    assert len(found[0]._fitted.rounds) == len(found[1]._fitted.rounds) > 1
    assert found[0].bag_report_.tied == found[1].bag_report_.tied


# --- A worker is killed; a run is interrupted.


class Hooked(Checkpoint):
    """A checkpoint that is written at every step, and does something after some of them."""

    after, act = 3, staticmethod(lambda path: None)

    def __init__(self, *run):
        super().__init__(*run, seconds=0.0)
        self.count = 0

    def __call__(self, state):
        super().__call__(state)
        self.count += 1
        if self.count == self.after:
            self.act(self._path)


def hook(monkeypatch, act, after=3):
    here = type("Here", (Hooked,), {"after": after, "act": staticmethod(act)})
    monkeypatch.setattr(estimator, "Checkpoint", here)


def test_a_worker_killed_in_the_loop_changes_no_label(monkeypatch, two_workers, known, tmp_path):
    before = set(two_workers.run(os.getpid).values())
    killed = []

    def kill(path):
        assert path.exists()
        holding = two_workers.who_has()
        pids = two_workers.run(os.getpid)
        address = max(pids, key=lambda one: sum(one in who for who in holding.values()))
        killed.append(pids[address])
        # A moment later: while the next step is on its way.
        threading.Timer(0.03, os.kill, (pids[address], signal.SIGKILL)).start()

    hook(monkeypatch, kill)
    model = fitted(known, two_workers, 4, checkpoint=tmp_path / "run.npz")
    assert len(killed) == 1
    assert killed[0] in before
    assert killed[0] not in two_workers.run(os.getpid).values()
    assert model.n_iter_ > 4
    assert compared(model, known.single, two_workers) == 0
    assert (tmp_path / "run.npz").exists()
    model.close()
    assert not (tmp_path / "run.npz").exists()
    two_workers.wait_for_workers(2, timeout=30)


def test_a_worker_killed_while_labels_are_refined_changes_no_label(two_workers, known):
    two_workers.wait_for_workers(2, timeout=30)
    killed = []

    def kill(stage, done, detail):
        if stage == "refining" and not killed:
            killed.append(min(two_workers.run(os.getpid).values()))
            os.kill(killed[0], signal.SIGKILL)

    with progress_callback(kill):
        model = fitted(known, two_workers, 4)
    assert len(killed) == 1
    assert compared(model, known.single, two_workers) == 0
    two_workers.wait_for_workers(2, timeout=30)


def test_threads_of_a_worker_may_ask_at_once(known):
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=4, processes=False, dashboard_address=None
        ) as own,
        distributed.Client(own, set_as_default=False) as client,
    ):
        model = fitted(known, client, 4)
        for part in client.gather(model._fitted.layout.parts):
            part._states, part._rounds = [], {}  # all of it is found again, by several threads
        wanted = [model.labels(), model.label_distributions(), model.labels()]
        labels, soft, again = client.gather(client.compute(wanted))
    np.testing.assert_array_equal(labels, known.single.transduction_)
    np.testing.assert_array_equal(again, labels)
    np.testing.assert_allclose(soft, known.single.label_distributions_, atol=1e-7)


def test_a_partition_that_fails_is_not_waited_for():
    failed = SimpleNamespace(done=lambda: True, status="error")
    waiting = SimpleNamespace(done=lambda: False, status="pending")

    class Failing(AtOnce):
        def gather(self, futures):
            assert futures == [failed]
            raise FileError("rows/1.parquet", "nothing", "rows", "restore it")

    with pytest.raises(FileError, match=r"rows/1\.parquet"):
        Cluster(Failing()).watch("tying rows", [waiting, failed, waiting])


def test_a_scheduler_that_is_gone_is_said_in_words(known):
    class Gone(AtOnce):
        def gather(self, futures):
            raise distributed.CancelledError("answered-1")

    with pytest.raises(ClusterError, match="no scheduler that answers any longer"):
        fitted(known, Gone())


def test_a_task_that_kills_its_workers_is_said_in_words(known):
    class Deadly(AtOnce):
        def gather(self, futures):
            raise distributed.KilledWorker("answered-1", None, 3)

    with pytest.raises(ClusterError, match="workers that died of one task, 'answered-1'") as error:
        fitted(known, Deadly())
    assert "give the workers more memory, or cut the rows into more" in str(error.value)


def interrupt(path):
    raise KeyboardInterrupt


def test_an_interrupted_run_goes_on(monkeypatch, two_workers, known, tmp_path):
    path = tmp_path / "run.npz"
    with monkeypatch.context() as patch:
        hook(patch, interrupt, after=4)
        with pytest.raises(KeyboardInterrupt):
            fitted(known, two_workers, checkpoint=path)
    assert path.exists()
    model = fitted(known, two_workers, checkpoint=path)
    assert compared(model, known.single, two_workers) == 0
    assert model.n_iter_ == known.single.n_iter_
    assert len(model._fitted.requests) == model.n_iter_ - 4
    model.to_parquet(tmp_path / "labels")
    assert [one.name for one in tmp_path.iterdir()] == ["labels"]


@pytest.mark.parametrize("after", [1, 6])
@pytest.mark.parametrize(("c", "kind"), [(2, "across"), (4, "unequal"), (4, "within")])
def test_a_resumed_run_takes_the_steps_of_a_whole_one(
    monkeypatch, at_once, tmp_path, c, kind, after
):
    X, y = some_rows(600, c)
    bags = bags_of(kind, 600)
    totals = totals_of("exact", y, bags)

    def run(checkpoint):
        model = LPLLP(N_ANCHORS, tol=1e-6, checkpoint=checkpoint)
        return model.fit(cut(X, 3), bags=bags, proportions=totals, client=at_once)

    whole = run(None)
    path = tmp_path / "run.npz"
    with monkeypatch.context() as patch:
        hook(patch, interrupt, after)
        with pytest.raises(KeyboardInterrupt):
            run(path)
    resumed = run(path)
    np.testing.assert_allclose(resumed.energies_, whole.energies_, rtol=1e-9)
    np.testing.assert_array_equal(resumed.labels().compute(), whole.labels().compute())
    np.testing.assert_allclose(
        resumed.label_distributions().compute(), whole.label_distributions().compute(), atol=1e-10
    )
    assert sum(resumed._fitted.requests) < sum(whole._fitted.requests)
    resumed.close()
    assert list(tmp_path.iterdir()) == []


def test_a_run_interrupted_at_its_end_is_not_taken_further(monkeypatch, at_once, known, tmp_path):
    path = tmp_path / "run.npz"
    whole = fitted(known, at_once)
    with monkeypatch.context() as patch:
        hook(patch, interrupt, after=whole.n_iter_)
        with pytest.raises(KeyboardInterrupt):
            fitted(known, at_once, checkpoint=path)
    resumed = fitted(known, at_once, checkpoint=path)
    assert resumed.n_iter_ == whole.n_iter_
    assert resumed.n_requests_ == 0
    assert compared(resumed, known.single) == 0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_checkpoint_stays_where_iterations_ran_out(monkeypatch, at_once, known, tmp_path):
    path = tmp_path / "run.npz"
    hook(monkeypatch, lambda path: None)
    with fitted(known, at_once, checkpoint=path, max_iter=5) as model:
        assert model.n_iter_ == 5
        model.to_parquet(tmp_path / "labels")
    assert path.exists()
    with fitted(known, at_once, checkpoint=path) as model:
        assert len(model._fitted.requests) == model.n_iter_ - 5
        assert compared(model, known.single) == 0
    assert not path.exists()


def test_the_checkpoint_of_a_second_fit_that_broke_off_stays(monkeypatch, at_once, known, tmp_path):
    path = tmp_path / "run.npz"
    again = {"bags": known.bags, "proportions": known.totals, "client": at_once}
    model = fitted(known, at_once, checkpoint=path)
    model.to_parquet(tmp_path / "labels")
    hook(monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(cut(known.X[::-1], 2), **(again | {"bags": known.bags[::-1]}))
    model.close()
    assert path.exists()


def test_a_checkpoint_that_cannot_be_written_is_refused_first(known, tmp_path):
    class Untouched(AtOnce):
        def submit(self, *arguments, **settings):
            raise AssertionError("work began")

        compute = submit

    with pytest.raises(OutputError, match="there is no folder"):
        fitted(known, Untouched(), checkpoint=tmp_path / "none" / "run.npz")


def test_checkpoints_hold_no_rows_and_are_written_now_and_then(at_once, known, tmp_path):
    sizes = []
    for n in (400, 800):
        X, bags = known.X[:n], known.bags[:n]
        path = tmp_path / f"{n}.npz"
        with pytest.MonkeyPatch.context() as patch:
            hook(patch, interrupt)
            with pytest.raises(KeyboardInterrupt):
                LPLLP(N_ANCHORS, checkpoint=path).fit(
                    cut(X, 2), bags=bags, proportions=known.totals, client=at_once
                )
        sizes.append(path.stat().st_size)
        arrays = contents(path)[1].values()
        assert max(max(array.shape, default=0) for array in arrays) < 100
    assert abs(sizes[0] - sizes[1]) < 200
    state = SimpleNamespace()
    waiting = Checkpoint(tmp_path / "none.npz", 1, np.zeros((1, 1)), "run", seconds=1e6)
    waiting._last = time.monotonic()
    waiting(state)
    assert not (tmp_path / "none.npz").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"alpha": 0.3}, "the checkpoint of another run"),
        ({"n_nearest": 3}, "the checkpoint of another run"),
        ({"n_anchors": 20}, "the checkpoint of another run"),
        ({"n_parts": 3}, "the checkpoint of another run"),
        ({"totals": None}, "the checkpoint of another run"),
        ({"rows": None}, "the checkpoint of other rows"),
        ({"bags": None}, "the checkpoint of other rows, bags or partitions"),
        ({"cut": None}, "the checkpoint of other rows, bags or partitions"),
        ({"array": None}, "no checkpoint"),
        ({"broken": None}, "no checkpoint"),
        ({"text": None}, "no checkpoint"),
        ({"other": None}, "no checkpoint"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_a_checkpoint_of_something_else_is_refused(
    monkeypatch, at_once, known, tmp_path, change, says
):
    path = tmp_path / "run.npz"
    with monkeypatch.context() as patch:
        hook(patch, interrupt)
        with pytest.raises(KeyboardInterrupt):
            fitted(known, at_once, checkpoint=path)
    rows = SimpleNamespace(**vars(known))
    if "totals" in change:
        shares = known.totals.lower[::-1]
        rows.totals = Totals.from_proportions(dict(zip(known.totals.ids, shares, strict=True)))
    elif "rows" in change:
        rows.X = known.X + 0.3
    elif "bags" in change:
        rows.bags = np.where(known.bags == "a", "b", np.where(known.bags == "b", "a", known.bags))
    elif "array" in change:
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    elif "broken" in change:
        path.write_bytes(path.read_bytes()[:-400])
    elif "text" in change:
        path.write_text("not a checkpoint")
    elif "other" in change:
        with path.open("wb") as file:
            np.savez(file, one=np.zeros(3))
    settings = {key: value for key, value in change.items() if value is not None}
    n_parts = settings.pop("n_parts", 2)
    model = LPLLP(**{"n_anchors": N_ANCHORS, "checkpoint": path, **settings})
    left = path.read_bytes()
    X = cut(rows.X, n_parts)
    X = X.rechunk(((300, 500), 4)) if "cut" in change else X
    with pytest.raises(FileError, match=says) as error:
        model.fit(X, bags=rows.bags, proportions=rows.totals, client=at_once)
    assert str(error.value).startswith(str(path))
    assert "delete it to begin anew" in str(error.value)
    assert path.read_bytes() == left


@pytest.fixture(scope="module")
def left_behind(known, tmp_path_factory):
    """The checkpoint of a run that was interrupted."""
    path = tmp_path_factory.mktemp("run") / "run.npz"
    with pytest.MonkeyPatch.context() as patch:
        hook(patch, interrupt)
        with pytest.raises(KeyboardInterrupt):
            fitted(known, AtOnce(), checkpoint=path)
    return contents(path)


def contents(path):
    """Return the numbers and arrays of a checkpoint."""
    with zipfile.ZipFile(path) as file:
        document = json.loads(file.read(_DOCUMENT))
    with np.load(path) as file:
        arrays = {name: file[name] for name in _ARRAYS if name not in document["empty"]}
    return document, arrays | {name: np.empty(shape) for name, shape in document["empty"].items()}


FORGED = {
    "NaN": {"here": lambda a: a * np.nan},
    "infinite energy": {"energies": lambda a: np.append(a, np.inf)},
    "converged": {"gap": lambda a: 0.0 * a, "here": lambda a: 0.0 * a + 0.5},
    "nothing to do": {"point_B": lambda a: 0.0 * a, "residual": lambda a: -a - 1.0},
    "shape of sums": {"here": lambda a: a[:-1]},
    "shape of a point": {"point_B": lambda a: a[:, :1]},
    "shape of multipliers": {"point_before_multipliers": lambda a: a[:-1]},
    "shape of anchors": {"anchors": lambda a: a[:, :2]},
    "anchors": {"anchors": lambda a: a[0]},
    "momentum": {"momentum": lambda a: a + 5.0},
    "no energy": {"energies": lambda a: a[:0]},
    "size": {"size": lambda a: 0.0 * a},
    "text": {"here": lambda a: a.astype(str)},
    "number": {"t": str},
    "rows": {"n_samples": lambda a: -a},
}


SEALED = ("converged", "nothing to do", "momentum", "size", "rows")
"""What an archive holds all the same: the digest is looked at before the numbers."""


@pytest.mark.parametrize("resealed", [False, True], ids=["kept digest", "new digest"])
@pytest.mark.parametrize("how", FORGED)
def test_a_checkpoint_that_was_changed_is_refused(
    monkeypatch, at_once, known, left_behind, tmp_path, how, resealed
):
    """A digest is over all that the file holds; numbers and shapes are looked at all the same."""
    document, arrays = (dict(one) for one in left_behind)
    for name, change in FORGED[how].items():
        forged = document if name in document else arrays
        forged[name] = change(forged[name])
    says = "changed after they were written|no checkpoint that can be used"
    path = tmp_path / "run.npz"
    with monkeypatch.context() as patch:
        if resealed:
            if how == "converged":
                return  # consistent in itself: the digest alone protects it
            document.pop("digest")
            says = "no checkpoint that can be used|the checkpoint of other rows"
        else:
            patch.setattr(checkpoint, "_digest", lambda *_: document["digest"])
            says = "changed after they were written" if how in SEALED else says
        write_checkpoint(path, document, arrays)
    with pytest.raises(FileError, match=says) as error:
        fitted(known, at_once, checkpoint=path)
    assert str(error.value).startswith(f"{path}: found ")
    assert "delete it to begin anew" in str(error.value)


def test_a_checkpoint_is_read_as_it_was_written(at_once, known, left_behind, tmp_path):
    document, arrays = left_behind
    document = {name: value for name, value in document.items() if name != "digest"}
    write_checkpoint(tmp_path / "run.npz", document, arrays)
    with fitted(known, at_once, checkpoint=tmp_path / "run.npz") as model:
        assert compared(model, known.single) == 0


# --- What people have.


def frame_of(known):
    import pandas as pd

    columns = {f"x{j}": known.X[:, j] for j in range(known.X.shape[1])}
    return pd.DataFrame({"x0": columns.pop("x0"), "bag": known.bags, "note": "-", **columns})


def folder_of(known, folder, n_parts=3, turned=True):
    """Write rows as Parquet files; columns stand in another order in every second one."""
    folder.mkdir()
    frame = frame_of(known)
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), n_parts)):
        columns = list(frame.columns)[:: -1 if turned and k % 2 else 1]
        table = pa.Table.from_pandas(frame.iloc[rows][columns], preserve_index=False)
        pq.write_table(table.append_column("row", pa.array(rows)), folder / f"part-{k}.parquet")
    return folder


def all_inputs(known, folder):
    import dask.dataframe as dd

    X, bags, frame = cut(known.X, 3), known.bags, frame_of(known)
    lazy = dd.from_pandas(frame, npartitions=3, sort=False)
    names = ["x0", "x1", "x2", "x3"]
    unknown = da.from_array(known.X, chunks=(200, 4))
    unknown = unknown[da.ones(len(known.X), chunks=200, dtype=bool)]
    return {
        "array and list": (X, bags.tolist(), None),
        "array and series": (X, frame["bag"], None),
        "array and Dask array": (X, da.from_array(bags, chunks=123), None),
        "array of several blocks of columns": (X.rechunk((267, 2)), bags, None),
        "array of unknown length": (unknown, da.from_array(bags, chunks=200), None),
        "frame and column": (lazy, "bag", None),
        "frame, column, features": (lazy, "bag", names),
        "frame and series": (lazy, lazy["bag"], None),
        "folder": (folder_of(known, folder), "bag", names),
        "text": (str(folder), "bag", tuple(names)),
        "folder of other kinds": (odd_folder(known, folder.with_name("odd")), "bag", names),
    }


def odd_folder(known, folder):
    """Write rows as Parquet files: ids in a dictionary, an empty file, one of no bags."""
    folder.mkdir()
    frame = frame_of(known)
    cuts = [0, 300, 300, 303, 800]
    for k, (first, last) in enumerate(itertools.pairwise(cuts)):
        table = pa.Table.from_pandas(frame.iloc[first:last], preserve_index=False)
        bags = table["bag"].combine_chunks().cast(pa.string())
        place = table.column_names.index("bag")
        kinds = bags.dictionary_encode() if k == 0 else bags
        if k == 2 and bags.null_count == len(bags):
            kinds = pa.nulls(len(bags))
        pq.write_table(table.set_column(place, "bag", kinds), folder / f"part-{k}.parquet")
    return folder


def test_arrays_frames_and_folders_are_the_same_rows(at_once, known, tmp_path):
    for name, (X, bags, features) in all_inputs(known, tmp_path / "rows").items():
        model = LPLLP(N_ANCHORS, tol=TOL)
        model.fit(X, bags=bags, features=features, proportions=known.totals, client=at_once)
        assert compared(model, known.single) == 0, name
        assert model.n_samples_ == 800


def mixed_folder(known, folder, kinds):
    """Write rows as Parquet files, the column x1 of another type in each (None: not there)."""
    folder.mkdir()
    table = pa.Table.from_pandas(frame_of(known), preserve_index=False)
    place = table.column_names.index("x1")
    step = -(-len(table) // len(kinds))
    for k, kind in enumerate(kinds):
        part = table.slice(k * step, step)
        if kind == pa.null():
            part = part.slice(0, 0)
        cells = part["x1"]
        if kind is None:
            part = part.drop_columns(["x1"])
        elif pa.types.is_timestamp(kind):
            part = part.set_column(place, "x1", cells.cast(pa.int64(), safe=False).cast(kind))
        elif kind == pa.null():
            part = part.set_column(place, "x1", pa.nulls(0))
        else:
            part = part.set_column(place, "x1", cells.cast(kind))
        pq.write_table(part, folder / f"part-{k}.parquet")
    return folder


@pytest.mark.parametrize("first", [pa.decimal128(20, 6), pa.null(), pa.float32()])
def test_numbers_of_every_type_are_features_whatever_the_first_file_has(
    at_once, known, tmp_path, first
):
    X = np.rint(64 * known.X) / 64  # which every one of these types holds exactly
    n_lost = 267 if first == pa.null() else 0
    some = SimpleNamespace(X=X[n_lost:], bags=known.bags[n_lost:])
    kinds = [first, pa.float64(), pa.decimal128(20, 6)]
    whole = SimpleNamespace(X=X, bags=known.bags)
    folder = mixed_folder(whole, tmp_path / "rows", kinds)
    exact = Totals.from_labels(known.single.transduction_[n_lost:], some.bags)
    fits = [
        LPLLP(N_ANCHORS).fit(rows, bags=bags, proportions=exact, client=at_once)
        for rows, bags in ((folder, "bag"), (cut(some.X, 2), some.bags))
    ]
    assert fits[0]._source.features == ["x0", "x1", "x2", "x3"]
    np.testing.assert_array_equal(fits[0].anchors_, fits[1].anchors_)
    np.testing.assert_array_equal(*(one.labels().compute() for one in fits))


@pytest.mark.parametrize(
    ("kinds", "says"),
    [
        (
            [pa.float64(), pa.timestamp("us")],
            "part-0.parquet and rows/part-1.parquet, column 'x1': found the type double in the "
            "first and timestamp[us] in the second. Allowed: numbers in all files",
        ),
        (
            [pa.string(), pa.float64()],
            "part-1.parquet and rows/part-0.parquet, column 'x1': found the type double in the "
            "first and string in the second",
        ),
        (
            [None, pa.float64()],
            "part-0.parquet: found no column 'x1', which rows/part-1.parquet has. Allowed: every "
            "feature in every file",
        ),
        ([pa.float64(), None], "part-1.parquet: found no column 'x1', which rows/part-0.parquet"),
    ],
)
def test_files_that_disagree_are_named(monkeypatch, at_once, known, tmp_path, kinds, says):
    monkeypatch.chdir(tmp_path)
    folder = mixed_folder(known, Path("rows"), kinds)

    def fit(features=None):
        return LPLLP(N_ANCHORS, tol=TOL).fit(
            folder, bags="bag", features=features, proportions=known.totals, client=at_once
        )

    for features in (None, ["x0", "x1"]):
        with pytest.raises(FileError) as error:
            fit(features)
        assert str(error.value).startswith(f"rows/{says}")
        assert "leave it out of the features" in str(error.value)
    assert fit(["x0", "x2"]).anchors_.shape[1] == 2, "what is no feature may differ"


def test_features_are_chosen_as_on_one_machine(known, tmp_path):
    n, numbers = 40, np.arange(40)
    columns = {
        "bag": ["a", "b"] * 20,
        "x": numbers / 7,
        "on": numbers % 3 == 0,
        "hour": numbers % 20,
        "counter": numbers + 5,
        "truth": numbers % 3,
        "note": ["-"] * n,
        "when": pa.array(numbers, pa.timestamp("s")),
        "start_time": numbers * 2.5,
        "sensor_id": numbers // 2,
        "nothing": pa.nulls(n),
        "list": [[1.0]] * n,
    }
    table = pa.table(columns)
    for k in range(2):
        pq.write_table(table.slice(20 * k, 20), tmp_path / f"{k}.parquet", row_group_size=7)
    footers = read_footers(tmp_path)

    def chosen(features=(), exclude=()):
        return choose_features(footers, "bag", ["0", "1", "2"], features, exclude)

    found, reasons = chosen()
    assert found == ["x", "on", "hour"]
    assert reasons == {
        "bag": "the bags",
        "counter": "an id: it counts the rows",
        "truth": "its values are the classes",
        "note": "values of type string",
        "when": "a time",
        "start_time": "a time, by its name",
        "sensor_id": "an id, by its name",
        "nothing": "empty",
        "list": "values of type list<element: double>",
    }
    found, reasons = chosen(["*o*", "sensor_id"], ["hour"])
    assert found == ["on", "sensor_id"]
    assert reasons["x"] == "not asked for"
    assert reasons["hour"] == "excluded"
    with pytest.raises(FileError, match=r"`features`: found no column 'y\*'"):
        chosen(["y*"])


def test_columns_are_found_by_name_whatever_their_order(at_once, known, tmp_path):
    """Without features, all numbers; the row numbers are one of them."""
    turned = folder_of(known, tmp_path / "turned")
    plain = folder_of(known, tmp_path / "plain", turned=False)
    one, other = (
        LPLLP(N_ANCHORS).fit(one, bags="bag", proportions=known.totals, client=at_once)
        for one in (turned, plain)
    )
    np.testing.assert_array_equal(one.anchors_, other.anchors_)
    assert one.anchors_.shape[1] == 5
    np.testing.assert_array_equal(one.labels().compute(), other.labels().compute())


def test_sizes_that_one_machine_refuses_are_refused(at_once, known):
    """A cell or a table too large, and a table too small, but not a partition too small."""
    cell = known.X.copy()
    cell[700, 2] = 1.797e308
    for X, where in (
        (cell, "partition 2, row 166, column 2: found 1.797e+308"),
        (known.X * 1e200, "partition 0, row 0, column 0: found "),
        (known.X * 1e-200, "X: found values of size"),
    ):
        asked = {"bags": known.bags, "proportions": known.totals}
        with pytest.raises(ValueError, match=r"Allowed: .* Hint: .*rescale") as error:
            LPLLP(N_ANCHORS).fit(cut(X, 3), client=at_once, **asked)
        assert str(error.value).startswith(where)
        with pytest.raises(ValueError, match="whose squares cannot be represented"):
            apportion.LPLLP(AnchorGraph(N_ANCHORS)).fit(X, **asked)
    small = known.X.copy()
    small[:267] *= 1e-200
    fitted(SimpleNamespace(**vars(known) | {"X": small}), at_once, 3)


@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_single_precision_that_cannot_hold_squares_is_widened(at_once, known, scale):
    X = (known.X * scale).astype(np.float32)
    single = on_one_machine(X, known.bags, known.totals, tol=TOL)
    model = fitted(SimpleNamespace(**vars(known) | {"X": X}), at_once, 3)
    assert compared(model, single) == 0


def test_a_loop_never_runs_on_nan(at_once, known, monkeypatch):
    """Whatever makes NaN of sums: the run ends with an error, at its first iteration."""
    spoiled = lambda dual, *rest, start, **settings: (dual.at(start * np.nan).sums, 0.0)  # noqa: E731
    monkeypatch.setattr(evaluator, "meet_totals", spoiled)
    with pytest.raises(InputError, match=r"the soft labels: found .*nan"):
        fitted(known, at_once)


def test_empty_partitions_and_lonely_rows(at_once, known):
    X = da.from_array(known.X, chunks=((500, 0, 1, 299), 4))
    assert X.numblocks == (4, 1)
    model = LPLLP(N_ANCHORS, tol=TOL)
    model.fit(X, bags=known.bags, proportions=known.totals, client=at_once)
    assert compared(model, known.single) == 0


@pytest.mark.parametrize("cuts", [(800,), (500, 0, 1, 299)])
def test_scaled_features_are_those_of_one_machine(at_once, known, cuts):
    """Units do not matter, nor how rows are cut; a constant feature says nothing."""
    X = np.hstack([known.X * [1.0, 1e3, 1e-3, 7.0] + [0.0, 5.0, 1e3, 0.0], np.full((800, 1), 0.1)])
    model = LPLLP(N_ANCHORS, tol=TOL, scale=True)
    rows = da.from_array(X, chunks=(cuts, 5))
    model.fit(rows, bags=known.bags, proportions=known.totals, client=at_once)
    expected = StandardScaler().fit(X)
    np.testing.assert_allclose(model.scaler_.mean_, expected.mean_, rtol=1e-9)
    np.testing.assert_allclose(model.scaler_.scale_, expected.scale_, rtol=1e-9)
    Z = model.scaler_.transform(X)
    single = on_one_machine(Z, known.bags, known.totals, tol=TOL)
    assert compared(model, single) == 0
    np.testing.assert_allclose(model.predict_proba(X[:9]), single.predict_proba(Z[:9]), atol=1e-6)


def wrong_inputs(known, folder):
    import dask.dataframe as dd

    X, frame = cut(known.X, 3), frame_of(known)
    lazy = dd.from_pandas(frame, npartitions=3, sort=False)
    other = dd.from_pandas(frame.iloc[:-1], npartitions=3, sort=False)["bag"]
    nan, strange = known.X.copy(), known.bags.copy()
    nan[700, 2], strange[700] = np.nan, "who"
    holed = frame.copy()
    holed.loc[700, "x2"] = np.inf
    timed = frame.assign(x1=np.datetime64("2024-01-01") + np.arange(800))
    times = cut(timed[["x1"]].to_numpy(), 3)
    unknown = X[da.from_array(np.ones(800, bool), chunks=267)]
    bags, names = known.bags, ["x0", "x1", "x2", "x3"]
    return {
        "in memory": (known.X, bags, None, ["found a ndarray", "apportion.LPLLP", "from_array"]),
        "three dimensions": (X[:, :, None], bags, None, ["`X`: found 3 dimensions"]),
        "too few bags": (X, bags[:-1], None, ["799 ids", "800, one for every row"]),
        "Dask bags": (X, da.from_array(bags[1:], chunks=99), None, ["799 ids", "800"]),
        "unknown length": (unknown, bags, None, ["unknown length", "compute_chunk_sizes"]),
        "other chunks": (
            unknown,
            da.from_array(bags, chunks=90),
            None,
            ["9 partitions", "3, as"],
        ),
        "NaN": (cut(nan, 3), bags, None, ["partition 2, row 166, column 2: found nan", "drop"]),
        "unknown bag": (X, strange, None, ["partition 2, row 166 in bag 'who'", "add a line"]),
        "frame, inf": (
            dd.from_pandas(holed, npartitions=3, sort=False),
            "bag",
            None,
            ["partition 2, row 166, column 'x2': found inf"],
        ),
        "times": (times, bags, None, ["partition 0: found values of type datetime64"]),
        "frame, times": (
            dd.from_pandas(timed, npartitions=3, sort=False),
            "bag",
            ["x0", "x1"],
            ["partition 0, column 'x1': found cells that are not numbers (times)"],
        ),
        "no such bags": (lazy, "day", None, ["`bags`: found no column 'day'", "'x0', 'bag'"]),
        "no such feature": (lazy, "bag", ["x9"], ["`features`: found no column 'x9'"]),
        "no numbers": (lazy, "bag", ["note"], ["partition 0, column 'note'", "not numbers"]),
        "bags in memory": (lazy, bags, None, ["`bags`: found a ndarray", "name of a column"]),
        "series of another length": (lazy, other, None, ["`bags`, partition", "ids"]),
        "series of other parts": (lazy, lazy["bag"].repartition(npartitions=2), None, ["as X has"]),
        "none in a bag": (X, [None] * 800, None, ["no row that is in a bag"]),
        "no rows": (cut(known.X[:0], 1), [], None, ["`X`: found no rows"]),
        "empty folder": (folder / "none", "bag", None, ["none: found no Parquet file"]),
        "folder, bags in memory": (folder, bags, names, ["the name of a column"]),
        "folder, no such bags": (folder, "day", names, ["part-0.parquet: found no column 'day'"]),
        "folder, no such feature": (folder, "bag", ["x9"], ["part-0.parquet: found no column"]),
        "folder, no numbers": (folder, "bag", ["note"], ["part-0.parquet, column 'note'"]),
        "folder, no features": (folder, "bag", [], ["no column of numbers", "name the features"]),
        "folder, bags too": (folder, "bag", ["x0", "bag"], ["the bags' column 'bag' among the"]),
    }


def test_what_cannot_be_used_is_said_once_and_where(at_once, known, tmp_path):
    folder = folder_of(known, tmp_path / "rows")
    for name, (X, bags, features, says) in wrong_inputs(known, folder).items():
        with pytest.raises(InputError) as error:
            LPLLP(N_ANCHORS).fit(
                X, bags=bags, features=features, proportions=known.totals, client=at_once
            )
        for words in says:
            assert words in str(error.value), (name, str(error.value))
        again = pickle.loads(pickle.dumps(error.value))
        assert str(again) == str(error.value), "it travels from a worker"


def test_labels_and_impossible_settings_are_refused(at_once, known):
    X = cut(known.X, 2)
    kwargs = {"bags": known.bags, "proportions": known.totals, "client": at_once}
    with pytest.raises(ValueError, match="leave out y"):
        LPLLP().fit(X, np.zeros(800), **kwargs)
    for alpha in (0.0, 1.0, -1, float("nan")):
        with pytest.raises(
            ValueError, match=r"'alpha' parameter of LPLLP must be a float in the range \(0, 1\)"
        ):
            LPLLP(alpha=alpha).fit(X, **kwargs)
    with pytest.raises(ValueError, match="so near to 1 that rounding would decide"):
        LPLLP(alpha=1 - 1e-12).fit(X, **kwargs)
    for tol in (-1.0, None, float("nan")):
        with pytest.raises(
            ValueError, match=r"'tol' parameter of LPLLP must be a float in the range \[0, inf"
        ):
            LPLLP(tol=tol).fit(X, **kwargs)
    for max_iter in (0, None, 2.5):
        with pytest.raises(ValueError, match="'max_iter' parameter of LPLLP must be an int"):
            LPLLP(max_iter=max_iter).fit(X, **kwargs)
    with pytest.raises(ValueError, match="'n_anchors' parameter"):
        LPLLP(0).fit(X, **kwargs)
    with pytest.raises(ValueError, match="'n_nearest' parameter"):
        LPLLP(5, 0).fit(X, **kwargs)
    with pytest.raises(ValueError, match="'refine' parameter of LPLLP must be a bool"):
        LPLLP(refine="yes").fit(X, **kwargs)
    with pytest.raises(ValueError, match="'scale' parameter of LPLLP must be a bool"):
        LPLLP(scale="yes").fit(X, **kwargs)
    with pytest.warns(match="iterations ran out"):
        LPLLP(N_ANCHORS, max_iter=2).fit(X, **kwargs)


def broken(folder, how):
    file = folder / "part-1.parquet"
    if how == "cut short":
        file.write_bytes(file.read_bytes()[:-200])
    elif how == "garbled":
        contents = bytearray(file.read_bytes())
        contents[200 : len(contents) // 2] = b"?" * (len(contents) // 2 - 200)
        file.write_bytes(contents)
    elif how == "no Parquet":
        file.write_text("a,b\n1,2\n")
    elif how == "missing cell":
        table = pq.read_table(file)
        cells = table["x2"].to_pylist()
        cells[7] = None
        place = table.column_names.index("x2")
        pq.write_table(table.set_column(place, "x2", pa.array(cells)), file)
    elif how == "column":
        pq.write_table(pq.read_table(file).drop_columns(["x2"]), file)
    return file


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("cut short", "part-1.parquet: found no whole Parquet file"),
        ("garbled", "part-1.parquet: found no whole Parquet file"),
        ("no Parquet", "part-1.parquet: found no whole Parquet file"),
        ("missing cell", "part-1.parquet, row 7, column 'x2': found an empty cell"),
        ("column", "part-1.parquet: found no column 'x2'"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(at_once, known, tmp_path, how, says):
    folder = folder_of(known, tmp_path / "rows")
    broken(folder, how)
    with pytest.raises(FileError, match=says):
        LPLLP(N_ANCHORS).fit(folder, bags="bag", proportions=known.totals, client=at_once)


def test_a_worker_names_the_file_that_it_cannot_read(two_workers, known, tmp_path):
    folder = folder_of(known, tmp_path / "rows")
    file = broken(folder, "garbled")
    with pytest.raises(FileError) as error:
        LPLLP(N_ANCHORS).fit(folder, bags="bag", proportions=known.totals, client=two_workers)
    assert str(error.value).startswith(f"{file}: found no whole Parquet file (")
    assert "Hint: copy or export the file again." in str(error.value)


# --- The parts: multipliers, labels and sums over partitions.


def asking(f, groups):
    dual = RowDual(SimplexResponse(f, np.ones(len(f))), groups)
    return lambda lam: dual_sums(dual.at(lam))


@given(seed=st.integers(0, 10**5), c=st.integers(2, 5), width=st.sampled_from([0.0, 0.1, 1.0]))
def test_spanning_bags_meet_their_totals_as_bags_of_one_machine_do(seed, c, width):
    rng = np.random.default_rng(seed)
    n, n_bags = 60, 4
    codes = np.sort(np.concatenate([np.arange(n_bags), rng.integers(n_bags, size=n - n_bags)]))
    groups = Groups(codes, n_bags)
    f = rng.normal(size=(n, c)) * rng.choice([0.1, 1.0, 5.0])
    mass = groups.sum(np.eye(c)[rng.integers(c, size=n)])
    lower = np.maximum(mass - width * groups.sizes[:, None], 0.0)
    upper = np.minimum(mass + width * groups.sizes[:, None], groups.sizes[:, None])
    start = rng.normal(size=lower.shape) * rng.choice([0.0, 1.0])
    totals = lower, upper, groups.sizes
    dual = PartitionDual(asking(f, groups), start)
    lam, residual = meet_totals(dual, *totals, max_step=2.0, start=start)
    assert residual < 1e-10
    respond = SimplexResponse(f, np.ones(n))
    found = respond(groups.spread(lam)).labels
    expected = np.empty_like(f)
    meet_totals(RowDual(respond, groups, expected), *totals, max_step=2.0)
    np.testing.assert_allclose(found, expected, atol=1e-8)
    sums = groups.sum(found)
    np.testing.assert_allclose(sums, np.clip(sums, lower, upper), atol=1e-9)


def asking_of_scores(client, parts):
    """Return what asks partitions of rows that have been scored."""
    cluster = Cluster(client)

    def request(work, *question, join=added):
        asked = None, [], None, work, question
        return cluster.total(cluster.on_each(of_scores, parts, *asked), join)

    return request


def relabeled(codes):
    held, local = np.unique(codes, return_inverse=True)
    return local, len(held)


def as_parts(codes, hashes, scores, where, n_parts):
    """Return partitions whose rows have been scored, and which rows are in each, in its order."""
    c = scores.shape[1]
    parts, rows = [], []
    for number in range(n_parts):
        mine = np.flatnonzero(where == number)
        mine = mine[np.lexsort([hashes[mine], codes[mine]])]
        none = np.zeros(0, dtype=np.intp)
        scored = Scored(Decoding(none, none.astype(bool)), scores[mine])
        parts.append(
            SimpleNamespace(
                key=None,
                number=number,
                spanning=codes[mine],
                held=np.unique(codes[mine]),
                groups=Groups(*relabeled(codes[mine])),
                hashes=hashes[mine],
                n_classes=c,
                remembered=lambda what, number, find, scored=scored: (
                    scored if what == "scored" else find()
                ),
            )
        )
        rows.append(mine)
    return parts, rows


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**5),
    c=st.integers(2, 4),
    n_parts=st.integers(1, 12),
    digits=st.sampled_from([0, 1, 2, 9]),
    lopsided=st.booleans(),
    alike=st.booleans(),
)
def test_labels_across_partitions_are_the_best_of_their_counts(
    seed, c, n_parts, digits, lopsided, alike
):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 1500))
    codes = np.sort(rng.integers(3, size=n))
    codes -= codes.min()
    codes = np.unique(codes, return_inverse=True)[1]
    F = rng.dirichlet(np.full(c, 0.5), size=n).round(digits)
    labels = rng.choice(c, size=n, p=[0.97, *[0.03 / (c - 1)] * (c - 1)] if lopsided else None)
    quotas = np.zeros((codes.max() + 1, c), dtype=np.intp)
    np.add.at(quotas, (codes, labels), 1)
    hashes = rng.integers(2**64, size=n, dtype=np.uint64)
    hashes = hashes // np.uint64(2**61) if alike else hashes
    scores = np.rint(F / 1e-9).astype(np.int64)
    where = rng.integers(n_parts, size=n)
    parts, rows = as_parts(codes, hashes, scores, where, n_parts)
    cut = QuotaSolver(quotas)(asking_of_scores(AtOnce(), parts))
    ours, tied = np.empty(n, dtype=np.intp), np.empty(n, dtype=bool)
    for mine, part in zip(rows, parts, strict=True):
        ours[mine], tied[mine] = decoded_labels(part, None, [DecodingRound(None, cut)])

    mass = quotas.astype(float)
    bags = Bags(tuple(range(len(mass))), np.arange(c), codes, mass, mass, np.full(n, -1))
    ranks = np.empty(n, dtype=np.intp)
    place = np.empty(n, dtype=np.intp)
    for mine in rows:
        place[mine] = np.arange(len(mine))
    ranks[np.lexsort([place, where, hashes])] = np.arange(n)
    theirs = Quotas(bags, ranks)(F)
    counts = np.zeros_like(quotas)
    np.add.at(counts, (codes, ours), 1)
    np.testing.assert_array_equal(counts, quotas)
    every = np.arange(n)
    ours_worth, theirs_worth = scores[every, ours].sum(), scores[every, theirs.labels].sum()
    if c == 2:  # one machine looks at the second class alone, whose rounding is its own
        assert ours_worth == pytest.approx(theirs_worth, abs=n)
    else:
        assert ours_worth == theirs_worth
    if c == 2:
        np.testing.assert_array_equal(ours, theirs.labels)
    elif digits == 9:  # else chains of three rows may be tied
        assert not ((ours != theirs.labels) & ~theirs.tied).any()
    if c == 2 or (ours == theirs.labels).all():
        np.testing.assert_array_equal(tied, theirs.tied)


def test_many_bags_are_cut_a_few_bits_at_a_time():
    rng = np.random.default_rng(0)
    n, n_bags = 12_000, 3_000
    codes = np.sort(np.concatenate([np.arange(n_bags), rng.integers(n_bags, size=n - n_bags)]))
    scores = rng.integers(2**30, size=(n, 2))
    where = rng.integers(4, size=n)
    take = rng.integers(np.bincount(codes) + 1)
    quotas = np.column_stack([np.bincount(codes) - take, take])
    parts, rows = as_parts(codes, rng.permutation(n).astype(np.uint64), scores, where, 4)
    client = AtOnce()
    cut = QuotaSolver(quotas)(asking_of_scores(client, parts))
    assert max(one.values[0].size for one in client.back) <= n_bags * 16
    second = np.zeros(n, dtype=bool)
    for mine, part in zip(rows, parts, strict=True):
        second[mine] = decoded_labels(part, None, [DecodingRound(None, cut)]).labels == 1
    np.testing.assert_array_equal(np.bincount(codes[second], minlength=n_bags), take)
    score = scores[:, 1]
    for bag in range(n_bags):
        mine = codes == bag
        assert score[mine & second].min(initial=2**40) > score[mine & ~second].max(initial=-1)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("c", [2, 3])
def test_very_many_equal_rows_are_shared_out_exactly(c):
    """Rows that only their places tell apart, in bags across partitions: all are tied."""
    n = 9000
    y, bags = np.arange(n) % c, np.arange(n) // 5 % 2
    X = np.ones((n, 2))
    X[bags == 1] = 2.0
    client = AtOnce()
    totals = Totals.from_labels(y, bags)
    model = LPLLP(4).fit(cut(X, 4), bags=bags, proportions=totals, client=client)
    report = model.bag_report_
    np.testing.assert_array_equal(report.assigned["quota"], report.lower)
    assert report.tied["quota"] == n
    if c == 2:
        assert model.n_gathered_ == 0
        assert max(map(longest, client.back)) <= 256, "the rows that anchors are learned from"


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("c", [2, 3])
def test_ties_are_counted_as_on_one_machine(at_once, c):
    X, y = some_rows(600, c)
    X, bags = X[:, :2].round(), bags_of("across", 600)
    totals = totals_of("exact", y, bags)
    single = on_one_machine(X, bags, totals, tol=1e-6)
    model = LPLLP(N_ANCHORS, tol=1e-6)
    model.fit(cut(X, 3), bags=bags, proportions=totals, client=at_once)
    tied = model.bag_report_.tied["quota"]
    assert tied == single.tied_.sum() > 0
    if c == 2:  # refined, and some rows are tied in the first round alone
        assert len(model._fitted.rounds) > 1
        last = LPLLP(N_ANCHORS, tol=1e-6, refine=False)
        last.fit(cut(X, 3), bags=bags, proportions=totals, client=at_once)
        assert tied > last.bag_report_.tied["quota"] > 0


def test_masses_that_cannot_be_met_are_told(monkeypatch, at_once, known):
    met = lambda *asked, **settings: (meet_totals(*asked, **settings)[0], 1e-3)  # noqa: E731
    monkeypatch.setattr(evaluator, "meet_totals", met)
    with pytest.warns(ConvergenceWarning, match="does not meet all totals"):
        model = fitted(known, at_once)
    assert model.status_ is Status.INFEASIBLE


def test_a_bag_that_no_step_brings_nearer_is_let_be():
    """A bag of which rounding alone is left must not be asked about for ever."""
    masses = np.array([[5.0, 5.0]])
    asked = []

    def ask(lam):
        asked.append(lam)
        worth = np.full(1, len(asked), dtype=float)  # every answer is worse than the one before
        return DualSums(np.array([[5.0 + 1e-6, 5.0 - 1e-6]]), worth, worth, 0.1 * np.eye(2)[None])

    dual = PartitionDual(ask, np.zeros((1, 2)))
    sizes = np.array([10.0])
    effort = {"halvings": evaluator.HALVINGS, "patience": evaluator.PATIENCE}
    lam, residual = meet_totals(dual, masses, masses, sizes, max_step=2.0, **effort)
    assert len(asked) <= 22
    assert lam is asked[-1] or np.array_equal(lam, asked[-1])
    assert residual == pytest.approx(1e-7)


def test_one_class_is_enough(at_once, known):
    totals = {bag: {"only": 1.0} for bag in ("a", "b", "c", "d")}
    for n_parts in (1, 3):
        model = LPLLP(N_ANCHORS).fit(
            cut(known.X, n_parts), bags=known.bags, proportions=totals, client=at_once
        )
        assert set(model.labels().compute()) == {"only"}


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 64, 65, 130])
def test_any_number_of_answers_is_added_up(n):
    answers = [Tally(np.array([k, 1.0]), k) for k in range(n)]
    cluster = Cluster(AtOnce())
    total = cluster.total([cluster.send(one) for one in answers])
    assert type(total) is Tally
    np.testing.assert_array_equal(total.assigned, [n * (n - 1) / 2, n])
    assert total.n_tied == n * (n - 1) // 2
    heads = [Done(HashSample(1, k, np.array([k], np.uint64))) for k in range(n)]
    lowest = cluster.total(heads[::-1], merged, 3)
    assert lowest.n_samples == n
    assert lowest.largest == n - 1
    np.testing.assert_array_equal(lowest.hashes, np.arange(min(n, 3)))
    assert cluster.n_tasks >= n + 2 * (n > 8)


# --- What travels, and what it needs.


def longest(value):
    """Return the most entries of any array in an answer."""
    if isinstance(value, BagValues):
        return longest((value.bags, value.values))
    if isinstance(value, np.ndarray):
        return len(value) if value.ndim else 0
    return max(map(longest, value), default=0) if isinstance(value, tuple | list) else 0


def test_no_answer_is_as_long_as_the_rows():
    moved, seen = [], []
    for n in (8000, 16000):
        X, y = some_rows(n, 3)
        bags = np.arange(n) % 2
        client = AtOnce()
        model = LPLLP(5).fit(
            cut(X, 4), bags=bags, proportions=Totals.from_labels(y, bags), client=client
        )
        assert model.n_spanning_ == 2
        moved.append(model.bytes_per_request_)
        seen.append(max(map(longest, client.back)))
        assert model.bytes_per_request_ < 1000
    assert moved[0] == moved[1]
    assert max(seen) < 1500


def test_partitions_answer_of_the_bags_that_they_hold(at_once):
    """So that bytes grow with partitions, not with their square, where bags follow each other."""
    n, n_parts = 3200, 16
    X, y = some_rows(n, 3)
    bags = np.arange(n) // 80  # 40 bags; cuts at every 200 rows
    client = AtOnce()
    model = LPLLP(8, tol=1e-3).fit(
        cut(X, n_parts), bags=bags, proportions=Totals.from_labels(y, bags), client=client
    )
    assert model.n_spanning_ == 8
    held = [answer.bags.bags for answer in client.back if isinstance(answer, StepAnswer)]
    assert max(map(len, held)) <= 2 * 8, "of a partition two, joined in eights"
    assert min(map(len, held)) >= 0
    assert max(len(one.values[0]) for one in client.back if isinstance(one, BagValues)) <= 8


def test_rows_for_anchors_do_not_grow_with_partitions():
    X = np.repeat(np.arange(4.0), 600)[:, None]
    rows = [np.arange(2400) % 12 == k for k in range(12)]
    client = AtOnce()
    cluster = Cluster(client)
    parts = [dask.delayed(Rows)(X[mine], np.zeros(200, dtype=int)) for mine in rows]
    n_samples, anchors = learn_anchors(cluster, parts, AnchorGraph(2))
    assert n_samples == 2400
    assert max(map(longest, client.back)) <= 128
    whole = AnchorGraph(2).fit(X).anchors_
    np.testing.assert_array_equal(np.sort(anchors, axis=0), np.sort(whole, axis=0))


def workers_of(*limits):
    info = {"workers": {str(k): {"memory_limit": limit} for k, limit in enumerate(limits)}}
    return SimpleNamespace(scheduler_info=lambda n_workers=5: info)


def test_too_little_memory_is_said_before_it_is_used(at_once, known):
    run = Extent(10**6, 20, 50, 4, 1000, 5)
    need = [bytes_per_worker(run, k, 1) for k in (1, 2, 8)]
    assert need[0] > need[1] > need[2] > 300 * 2**20
    assert need[0] > 1e6 * bytes_per_row(4, 5)
    assert bytes_per_worker(run._replace(n_features=200), 8, 1) > need[2]
    assert bytes_per_worker(run, 8, 4) > need[2], "threads read side by side"
    assert bytes_per_worker(run._replace(n_anchors=10_000), 8, 1) > 1.6e9, "what anchors share"
    require_memory(workers_of(need[0]), run)
    require_memory(workers_of(None, 0), run)
    require_memory(workers_of(need[1], need[0]), run)
    says = "1,000,000 rows in 50 partitions with 4 classes need .* on each of 2 workers"
    with pytest.raises(MemoryError, match=says) as e:
        require_memory(workers_of(need[2], need[0]), run)
    many = int(str(e.value).split("Use ")[1].split()[0])
    assert many == 8
    require_memory(workers_of(*[need[2]] * many), run)
    with pytest.raises(MemoryError):
        require_memory(workers_of(*[need[2]] * (many - 1)), run)
    with pytest.raises(MemoryError, match="more and smaller partitions"):
        require_memory(workers_of(2**28, 2**28), run)
    small = AtOnce(memory_limit=1000)
    with pytest.raises(MemoryError, match="the smallest has"):
        fitted(known, small)


# --- What totals and similarities leave open.


def warnings_of(X, bags, totals, n_parts=3, **settings):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LPLLP(**settings).fit(
            cut(X, n_parts), bags=bags, proportions=totals, client=AtOnce()
        )
    return model, {one.category: str(one.message) for one in caught}


def test_classes_that_no_bag_tells_apart_are_named(known):
    halves = np.arange(200) % 2
    totals = Totals.from_proportions({0: [0.5, 0.5], 1: [0.5, 0.5]}, classes=["sit", "stand"])
    model, told = warnings_of(known.X[:200], halves, totals)
    assert "The totals do not tell 'sit' from 'stand' apart" in told[BagDesignWarning]
    assert "Totals in other proportions would tell them apart" in told[BagDesignWarning]
    assert model.diagnosis_.findings
    assert model.diagnosis_.hard_to_place == ()
    totals = Totals.from_counts({0: [99, 1], 1: [99, 1]}, classes=["sit", "stand"])
    model, _ = warnings_of(known.X[:200], halves, totals)
    assert model.diagnosis_.hard_to_place == diagnose(halves, totals).hard_to_place != ()
    _, told = warnings_of(known.X, known.bags, known.totals)
    assert told == {}


def test_equal_and_lonely_rows_are_counted():
    bags, totals = np.arange(60) % 3, {0: [1, 0], 1: [0, 1], 2: [0.5, 0.5]}
    model, told = warnings_of(np.ones((60, 2)), bags, totals)
    assert "All 60 rows are tied to one anchor" in told[DuplicateRowsWarning]
    assert model.bag_report_.tied == {"quota": 20}, "all rows of the bag of halves"
    X = np.random.default_rng(0).normal(size=(60, 2))
    X[7] = 1e6
    _, told = warnings_of(X, bags, totals, n_anchors=12, n_nearest=1)
    assert "1 of 60 rows have almost no similar row, 1 of them none" in told[IsolatedRowsWarning]


@pytest.mark.filterwarnings("ignore::apportion.exceptions.IsolatedRowsWarning")
def test_rows_out_of_reach_and_totals_of_several_answers_are_told():
    rng = np.random.default_rng(0)
    group = np.arange(120) // 40
    X = rng.normal(size=(120, 2)) + 1000.0 * group[:, None]
    settings = {"n_anchors": 12, "n_nearest": 2}
    nan = float("nan")
    _, told = warnings_of(X, group, {0: [1, 0], 1: [0, 1], 2: [nan, nan]}, **settings)
    assert "40 of 120 rows are out of reach of any known total" in told[IsolatedRowsWarning]
    mixed = np.arange(120) % 2
    model, told = warnings_of(X, mixed, {0: [0.4, 0.6], 1: [0.6, 0.4]}, **settings)
    assert "The totals may admit several labelings" in told[AmbiguousTotalsWarning]
    assert "3 groups that the totals leave room to shift" in told[AmbiguousTotalsWarning]
    assert model.unique_ is None
    for totals in ({0: [1, 0], 1: [0, 1]}, {0: [1, 0], 1: [1, 0]}):
        model, told = warnings_of(X, mixed, totals, **settings)
        assert AmbiguousTotalsWarning not in told, "every row is at a bound"
        assert model.unique_ is True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "_MOST_CELLS", 1)
        model, told = warnings_of(X, mixed, {0: [0.4, 0.6], 1: [0.6, 0.4]}, **settings)
    assert "several labelings is not known" in told[AmbiguousTotalsWarning]
    assert model.unique_ is None
    model, told = warnings_of(X, group, {0: [0.5, 0.5], 1: [0.4, 0.6], 2: [0.3, 0.7]}, **settings)
    assert AmbiguousTotalsWarning not in told, "one bag a group"
    assert model.unique_ is True


# --- The attributes of one machine, and new rows there.


ON_A_CLUSTER_ONLY = {
    "scaler_": "a scaler before the estimator on one machine",
    "anchors_": "an attribute of `graph_` on one machine",
    "status_": "in `solution_` on one machine",
    "unique_": "in `solution_` on one machine",
    "energies_": "in `solution_` on one machine",
    "n_samples_": "the length of `transduction_` on one machine",
    "n_spanning_": "one machine has one partition",
    "n_requests_": "what a fit on a cluster costs",
    "n_tasks_": "what a fit on a cluster costs",
    "n_gathered_": "what a fit on a cluster costs",
    "bytes_per_request_": "what a fit on a cluster costs",
}


def attributes_of(model):
    return {name for name in dir(model) if name.endswith("_") and not name.startswith("_")}


def test_a_cluster_has_the_attributes_of_one_machine(at_once, known):
    import dask.dataframe as dd

    frame = frame_of(known)
    names = ["x0", "x1", "x2", "x3"]
    single = on_one_machine(frame[names], known.bags, known.totals, tol=TOL)
    model = LPLLP(N_ANCHORS, tol=TOL, random_state=3)
    assert attributes_of(model) == set()
    lazy = dd.from_pandas(frame, npartitions=3, sort=False)
    model.fit(lazy, bags="bag", features=names, proportions=known.totals, client=at_once)
    assert attributes_of(model) == attributes_of(single) | {*ON_A_CLUSTER_ONLY}
    for name in ("transduction_", "tied_", "bag_codes_"):
        found = getattr(model, name)
        assert isinstance(found, da.Array)
        np.testing.assert_array_equal(found.compute(), getattr(single, name), err_msg=name)
    soft = model.label_distributions_
    assert soft.shape == (800, 3)
    np.testing.assert_allclose(soft.compute(), single.label_distributions_, atol=1e-7)
    np.testing.assert_array_equal(model.labels().compute(), single.transduction_)
    np.testing.assert_array_equal(model.classes_, single.classes_)
    np.testing.assert_array_equal(model.feature_names_in_, single.feature_names_in_)
    assert model.n_features_in_ == single.n_features_in_ == 4
    assert model.n_iter_ == single.n_iter_
    assert type(model.graph_) is type(single.graph_)
    assert model.graph_choice_.startswith("AnchorGraph")
    ours, theirs = model.solution_, single.solution_
    assert (ours.status, ours.unique, ours.n_iter) == (theirs.status, theirs.unique, theirs.n_iter)
    np.testing.assert_allclose(ours.energies, theirs.energies, rtol=1e-5)
    assert ours.stationarity < TOL
    assert ours.residual < 1e-8
    new = frame[names].iloc[:50]
    np.testing.assert_array_equal(model.predict(new), single.predict(new))
    np.testing.assert_allclose(model.predict_proba(new), single.predict_proba(new), atol=1e-6)
    model.fit(cut(known.X, 2), bags=known.bags, proportions=known.totals, client=at_once)
    assert not hasattr(model, "feature_names_in_"), "arrays have no names"
    model.close()
    with pytest.raises(ValueError, match="The fit was closed"):
        _ = model.transduction_
    assert "classes_" in attributes_of(model)
    assert "transduction_" not in attributes_of(model)


@pytest.mark.parametrize("c", [2, 3])
def test_a_local_model_predicts_as_one_machine_would(at_once, tmp_path, c):
    X, y = some_rows(600, c)
    bags = bags_of("unequal", 600)
    totals = Totals.from_labels(np.array(["a", "b", "c"])[y], bags)
    single = on_one_machine(X, bags, totals)
    model = LPLLP(N_ANCHORS).fit(cut(X, 3), bags=bags, proportions=totals, client=at_once)
    local = model.local_model()
    model.close()
    new = np.vstack([some_rows(50, c, seed=1)[0], X[:5]])
    far = np.vstack([new, np.full((1, 4), 1e5)])
    np.testing.assert_allclose(local.predict_proba(new), single.predict_proba(new), atol=1e-6)
    np.testing.assert_array_equal(local.predict(new), single.predict(new))
    for one in (local, single):
        with pytest.warns(IsolatedRowsWarning, match="1 of 56 new rows"):
            one.predict(far)
    np.testing.assert_allclose(local.graph_._usual_scales, single.graph_._usual_scales)
    np.testing.assert_array_equal(local.graph_._anchor_is_row, single.graph_._anchor_is_row)
    save_model(tmp_path / "model.apportion", local)
    again = load_model(tmp_path / "model.apportion").model
    np.testing.assert_array_equal(again.predict(new), single.predict(new))
    with pytest.raises(ValueError, match="The fit was closed"):
        model.labels()


def test_a_local_model_knows_the_names_of_features(at_once, known, tmp_path):
    folder = folder_of(known, tmp_path / "rows")
    names = ["x2", "x0"]
    model = LPLLP(N_ANCHORS).fit(
        folder, bags="bag", features=names, proportions=known.totals, client=at_once
    )
    local = model.local_model()
    assert local.feature_names_in_.tolist() == names
    assert set(local.predict(frame_of(known)[names])) <= set(known.totals.classes)


# --- Labels in files.


def test_labels_are_written_one_file_per_partition_in_order(at_once, known, tmp_path):
    folder = folder_of(known, tmp_path / "rows")
    model = LPLLP(N_ANCHORS, tol=TOL)
    model.fit(
        folder,
        bags="bag",
        features=["x0", "x1", "x2", "x3"],
        proportions=known.totals,
        client=at_once,
    )
    out = tmp_path / "new" / "labels"
    files = model.to_parquet(out, keep=["row", "note"])
    assert [file.name for file in files] == ["part-0.parquet", "part-1.parquet", "part-2.parquet"]
    assert sorted(out.iterdir()) == files
    table = pa.concat_tables([pq.read_table(file) for file in files])
    masses = [f"mass_{h}" for h in range(3)]
    assert table.column_names == ["row", "note", "label", *masses, "confidence", "reason"]
    np.testing.assert_array_equal(table["row"], np.arange(800))
    np.testing.assert_array_equal(table["label"], known.single.transduction_)
    soft = np.column_stack([table[f"mass_{h}"] for h in range(3)])
    np.testing.assert_allclose(soft, known.single.label_distributions_, atol=1e-7)
    np.testing.assert_array_equal(
        table["confidence"], soft[np.arange(800), known.single.transduction_]
    )

    files[0].unlink()  # the first could be written, but the others are there
    before = files_of(tmp_path)
    with pytest.raises(OutputError, match=r"part-1.parquet is there already"):
        model.to_parquet(out)
    with pytest.raises(OutputError, match="is the folder that is read"):
        model.to_parquet(folder, force=True)
    with pytest.raises(FileError, match="no column 'who'"):
        model.to_parquet(out, keep=["who"], force=True)
    with pytest.raises(OutputError, match="cannot be made"):
        model.to_parquet(files[1] / "below")
    with pytest.raises(OutputError, match="'label' cannot be kept: the labels have a column"):
        model.to_parquet(out, keep=["label"], force=True)
    assert files_of(tmp_path) == before
    model.to_parquet(out, force=True)
    assert pq.read_table(files[0]).column_names[0] == "label"
    model.close()


def test_reasons_are_those_of_one_machine(at_once, tmp_path):
    """Ties, rows alone, rows in no bag, and bags whose totals labels cannot keep."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2)).round(1)
    X[:30] = X[0]
    X[44] = 1e6
    bags = np.array([f"b{k}" for k in np.arange(90) % 5], dtype=object)
    bags[[50, 51, 52]] = None
    share = {f"b{k}": {"a": 0.03 + 0.22 * k, "b": 0.97 - 0.22 * k} for k in range(5)}
    totals = Totals.from_proportions(share)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        single = label_rows(
            X,
            Supervision(bags, totals, None, None, {}),
            apportion.LPLLP(AnchorGraph(12, 1)),
        )
        model = LPLLP(12, 1).fit(cut(X, 3), bags=bags, proportions=totals, client=at_once)
    files = model.to_parquet(tmp_path / "labels")
    reasons = pa.concat_tables([pq.read_table(file) for file in files])["reason"].to_pylist()
    theirs = [
        ";".join(code for code in codes.split(";") if code != "out-of-reach")
        for codes in single.reasons
    ]
    assert reasons == theirs
    found = {code for codes in reasons for code in codes.split(";") if code}
    assert {"tie", "isolated", "unbagged"} <= found


def test_files_are_written_again_where_a_worker_was_lost(at_once, known, tmp_path):
    model = fitted(known, at_once, 2)
    files = model.to_parquet(tmp_path / "labels")
    left = files[0].read_bytes()
    found = model._fitted
    file = str(files[0])
    outside = np.zeros((len(known.totals.ids) + 1, 3), dtype=bool)
    table = LabelTable([0, 1, 2], (), outside, 0.0)
    told = found.layout.parts[0], found.point, found.rounds, table, None, file, file
    at_once.submit(write_part, *told)
    assert files[0].read_bytes() == left


def test_workers_are_told_whole_paths(monkeypatch, at_once, known, tmp_path):
    monkeypatch.chdir(tmp_path)
    folder = folder_of(known, Path("rows"))

    class Elsewhere(AtOnce):
        def submit(self, work, *arguments, **settings):
            with monkeypatch.context() as patch:
                patch.chdir("/")
                return super().submit(work, *arguments, **settings)

        def compute(self, lazies):
            with monkeypatch.context() as patch:
                patch.chdir("/")
                return super().compute(lazies)

    model = LPLLP(N_ANCHORS).fit(
        folder, bags="bag", proportions=known.totals, client=Elsewhere(), features=["x0", "x1"]
    )
    files = model.to_parquet("labels", keep=["row"])
    assert files == [Path("labels") / f"part-{k}.parquet" for k in range(3)]
    assert all(file.exists() for file in files)


def test_labels_of_arrays_are_written_too(at_once, known, tmp_path):
    model = fitted(known, at_once, 4)
    files = model.to_parquet(tmp_path / "labels")
    assert [file.name for file in files] == [f"part-{k:05d}.parquet" for k in range(4)]
    found = np.concatenate([pq.read_table(file)["label"].to_numpy() for file in files])
    np.testing.assert_array_equal(found, known.single.transduction_)
    with pytest.raises(OutputError, match="columns can be kept of Parquet files only"):
        model.to_parquet(tmp_path / "other", keep=["row"])
    assert not (tmp_path / "other").exists()


def test_nothing_is_left_half_written(monkeypatch, at_once, known, tmp_path):
    model = fitted(known, at_once, 2)

    def fails(table, file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", fails)
    with pytest.raises(OutputError, match=r"no space left on device\. Nothing was changed"):
        model.to_parquet(tmp_path / "labels")
    assert files_of(tmp_path) == {}


def test_parts_are_replaced_all_or_none(monkeypatch, at_once, known, tmp_path):
    """One part of two cannot be written: the folder, and the checkpoint, are as they were."""
    folder, path = tmp_path / "labels", tmp_path / "run.npz"
    hook(monkeypatch, lambda path: None)
    model = fitted(known, at_once, 2, checkpoint=path)
    folder.mkdir()
    for name in ("part-00000.parquet", "part-00001.parquet"):
        (folder / name).write_text("mine")
    before = files_of(tmp_path)
    write_table, written = pq.write_table, []

    def full_at_the_second(table, file):
        written.append(file)
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        write_table(table, file)

    monkeypatch.setattr(pq, "write_table", full_at_the_second)
    says = r"labels/part-00001.parquet cannot be written: no space .* Nothing was changed"
    with pytest.raises(OutputError, match=says):
        model.to_parquet(folder, force=True)
    assert files_of(tmp_path) == before
    assert path in before
    model.to_parquet(folder, force=True)
    assert not path.exists()


def test_no_part_of_an_earlier_run_stays_among_the_new_ones(at_once, known, tmp_path):
    folder = tmp_path / "labels"
    fitted(known, at_once, 4).to_parquet(folder)
    write(folder / "notes.txt", "mine")
    pq.write_table(pa.table({"day": ["mon"], "tv": [1.0]}), folder / "totals.parquet")
    (folder / "part-00000.parquet").chmod(0o600)
    files = fitted(known, at_once, 2).to_parquet(folder, force=True)
    others = [folder / "notes.txt", folder / "totals.parquet"]
    assert sorted(folder.iterdir()) == sorted([*files, *others])
    if os.name != "nt":
        assert files[0].stat().st_mode & 0o777 == 0o600


# --- A cluster of our own, and the command.


def test_a_cluster_of_our_own_ends_with_the_fit_that_fails(monkeypatch, known):
    ended = []

    class Own:
        def close(self):
            ended.append(True)

    broke = AtOnce(memory_limit=1000)
    monkeypatch.setattr(estimator, "client_for", lambda client: (broke, Own()))
    with pytest.raises(MemoryError):
        fitted(known, None)
    assert ended == [True]
    monkeypatch.setattr(estimator, "client_for", lambda client: (AtOnce(), Own()))
    with fitted(known, None) as model:
        assert ended == [True]
        assert len(model.labels().compute()) == 800
    assert ended == [True, True]


def test_a_model_without_a_fit_can_be_closed(known):
    LPLLP().close()
    with pytest.raises(ValueError, match="'alpha' parameter"), LPLLP(alpha=2) as model:
        model.fit(cut(known.X, 2), bags=known.bags, proportions=known.totals)


def test_the_current_client_is_used(two_workers):
    with two_workers.as_current():
        assert cluster_module.client_for(None) == (two_workers, None)
    given = object()
    assert cluster_module.client_for(given) == (given, None)


@pytest.fixture
def small_folder(monkeypatch, tmp_path):
    """Two files of rows in three bags, and their totals as a table."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    tv = np.arange(60) % 20 < np.repeat([15, 10, 8], 20)
    days = np.array(["mon", "tue", "wed"])[np.arange(60) // 20]
    columns = {"row": np.arange(60), "day": days, "x": 5.0 * tv + rng.normal(size=60)}
    (tmp_path / "rows").mkdir()
    for k in range(2):
        table = pa.table({name: column[30 * k : 30 * k + 30] for name, column in columns.items()})
        pq.write_table(table, tmp_path / "rows" / f"{k}.parquet")
    write("totals.csv", "day,sleep,tv\nmon,5,15\ntue,10,10\nwed,12,8\n")
    return tmp_path


COMMAND = ("cluster", "rows", "--bags", "day", "--proportions", "totals.csv", "--features", "x")


def test_the_command_names_columns_that_say_when(small_folder, monkeypatch):
    def started(scheduler, workers):
        raise ValueError("No cluster is needed here.")

    monkeypatch.setattr(cluster_module, "started", started)
    for file in Path("rows").iterdir():
        rows = pq.read_table(file)
        for name in ("hour", "weekday"):
            rows = rows.append_column(name, pa.array(np.arange(30) % 5))
        pq.write_table(rows, file)
    said = run(*COMMAND[:-2], "--output", "labels").stderr
    assert "columns that say when, not what, are used: hour (time of day)" in said
    assert "columns that say when, not what, are not used: weekday" in said


def test_the_command_labels_a_folder(small_folder):
    result = done(*COMMAND, "--workers", 1, "--keep", "row", "--output", "labels")
    table = pq.read_table("labels")
    np.testing.assert_array_equal(table["row"], np.arange(60))
    rows = pa.concat_tables(pq.read_table(f"rows/{k}.parquet") for k in range(2))
    single = apportion.LPLLP(AnchorGraph()).fit(
        scale(rows["x"].to_numpy())[:, None],
        bags=rows["day"].to_pylist(),
        proportions=Totals.from_counts({"mon": [5, 15], "tue": [10, 10], "wed": [12, 8]}),
    )
    names = np.array(["sleep", "tv"])[single.transduction_]
    assert table["label"].to_pylist() == names.tolist()
    assert "rows: 60 rows in 2 files, 1 feature: x\n" in result.stderr
    assert "not features: row (not asked for), day (the bags)\n" in result.stderr
    assert "a local cluster: 1 worker" in result.stderr
    assert "60 rows in 2 partitions: a worker needs about 0.29 GiB" in result.stderr
    assert "60 rows, 2 partitions, 1 bag in several of them" in result.stderr
    assert "written: labels, 2 files" in result.stderr
    refused(*COMMAND, "--output", "labels", code=3, says="0.parquet is there already")


def test_a_command_says_one_paragraph_of_a_broken_file(small_folder):
    file = small_folder / "rows" / "1.parquet"
    file.write_bytes(file.read_bytes()[:-50])
    words = [sys.executable, "-m", "apportion", *COMMAND, "--workers", "1", "-o", "labels", "-q"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("apportion: rows/1.parquet: found no whole Parquet file")
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert not (small_folder / "labels").exists()


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="Windows has no groups of processes")
def test_ctrl_c_ends_workers_without_a_word(small_folder):
    """A terminal sends the signal to the workers too, which would print tracebacks."""
    code = f"""
import sys, time
from apportion.distributed import LPLLP

def slow(*_, **__):
    {WAIT}

LPLLP.fit = slow
from apportion.__main__ import main
if __name__ == "__main__":
    main()
"""
    words = [sys.executable, write("slow.py", code), *COMMAND, "--workers", "1", "-o", "out", "-q"]
    running = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert running.stderr.readline() == "slow now\n"
    os.killpg(running.pid, signal.SIGINT)
    out, said = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert said == "apportion: interrupted; no file is left half written.\n"
    assert not Path("out").exists()


def test_commands_that_cannot_work_are_refused(monkeypatch, small_folder):
    out = ("--output", "labels")
    refused(*COMMAND, *out, "--alpha", 1, code=2, says="--alpha must be above 0 and below 1")
    refused(
        *COMMAND, *out, "--scheduler", "tcp://h:1", "--workers", 2, code=2, says="--workers is for"
    )
    refused(*COMMAND, "--output", "rows/", "--force", code=3, says="is the folder that is read")
    refused(*COMMAND, *out, "--keep", "who", says="no column 'who'")
    refused(*COMMAND[:-2], *out, "--exclude", "x", says=["no column that can be", "x (excluded)"])
    refused(*COMMAND, *out, "--features", "day", says="a feature that is the bags")
    other = pq.read_table("rows/1.parquet").drop_columns(["x"])
    pq.write_table(other, "rows/2.parquet")
    refused(*COMMAND, *out, says="rows/2.parquet: found no column 'x', which rows/0.parquet has")
    (small_folder / "rows" / "2.parquet").unlink()
    refused(
        *COMMAND, *out, "--scheduler", "nonsense", says="the scheduler nonsense: found no answer"
    )

    class Impatient(distributed.Client):
        def __init__(self, address, timeout):
            super().__init__(address, timeout="0.5s")

    monkeypatch.setattr(distributed, "Client", Impatient)
    refused(
        *COMMAND,
        *out,
        "--scheduler",
        "tcp://127.0.0.1:9",
        says=["the scheduler tcp://127.0.0.1:9: found no answer", "dask scheduler"],
    )
