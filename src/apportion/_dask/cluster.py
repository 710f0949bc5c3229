"""Functions of partitions, and sums of their results, on any Dask cluster."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from apportion._dask.sums import added
from apportion._utils.memory import free_bytes
from apportion._utils.progress import report_progress
from apportion._utils.threads import n_threads
from apportion.exceptions import ClusterError, InputError, counted

_log = logging.getLogger("apportion")

_BRANCHES = 8
"""How many results are added up by one task."""

_KEEP_MEMORY = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**30,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**30,
}
"""By default Dask's workers return the memory of every large array at once, and clear it when they
get it again; `benchmarks/cluster.py --give-back` shows what that costs."""


def _itself(value: Any) -> Any:
    return value


class Cluster:
    """Runs functions on every partition, and adds their results up in a tree.

    Nothing is scattered. A value that is sent is part of the task that passes it on, so that all
    that is lost with a worker can be computed again.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.n_tasks = 0
        self._homes: dict[Any, str] = {}

    def send(self, value: Any) -> Any:
        """Return a small value as a future that tasks can share."""
        self.n_tasks += 1
        return self.client.submit(_itself, value, pure=False, priority=10)

    def on_each(
        self, work: Callable[..., Any], partitions: Sequence[Any], *shared: Any
    ) -> list[Any]:
        """Return the futures of `work(partition, *shared)`."""
        return [self.on_one(work, partition, *shared) for partition in partitions]

    def on_one(self, work: Callable[..., Any], partition: Any, *shared: Any) -> Any:
        """Return the future of `work(partition, *shared)`, computed where the partition is."""
        self.n_tasks += 1
        home = self._homes.get(partition.key)
        where = {} if home is None else {"workers": [home], "allow_other_workers": True}
        return self.client.submit(work, partition, *shared, pure=False, **where)

    def settle(self, partitions: Sequence[Any]) -> None:
        """Compute functions of partitions where these are now: their caches do not travel."""
        holders = self.client.who_has(partitions)
        self._homes = {key: workers[0] for key, workers in holders.items() if workers}

    def on_each_read(
        self, work: Callable[..., Any], partitions: Sequence[Any], *shared: Any
    ) -> list[Any]:
        """Return the futures of `work(rows, *shared)`; rows are read for it, and not kept."""
        from dask import delayed

        self.n_tasks += 2 * len(partitions)
        lazily = delayed(work, pure=False)
        return list(self.client.compute([lazily(rows, *shared) for rows in partitions]))

    def total(self, answers: Sequence[Any], join: Callable[..., Any] = added, *more: Any) -> Any:
        """Return the results of partitions, joined in a tree whose root is this process.

        Parameters
        ----------
        answers : sequence of futures
            The results, at least one.
        join : callable
            Joins a list of results.
        *more
            Further arguments of `join`.
        """
        return join(self.gather(self.joined(answers, join, *more)), *more)

    def joined(
        self, answers: Sequence[Any], join: Callable[..., Any] = added, *more: Any
    ) -> list[Any]:
        """Return the futures of the few results that many were joined to."""
        level = list(answers)
        while len(level) > _BRANCHES:
            self.n_tasks += -(-len(level) // _BRANCHES)
            level = [
                self.client.submit(join, level[i : i + _BRANCHES], *more, pure=False)
                for i in range(0, len(level), _BRANCHES)
            ]
        return level

    def gather(self, futures: list[Any]) -> list[Any]:
        """Return the values of futures."""
        distributed = _distributed()
        try:
            return list(self.client.gather(futures))
        except distributed.KilledWorker as error:
            raise ClusterError(
                "the cluster",
                f"workers that died of one task, {error.task!r}, several times",
                "workers that survive a task; most often they lack memory",
                "give the workers more memory, or cut the rows into more and smaller partitions",
            ) from None
        except (distributed.CancelledError, distributed.comm.CommClosedError) as error:
            raise ClusterError(
                "the cluster",
                f"no scheduler that answers any longer ({error})",
                "a scheduler that runs as long as the fit",
                "start it again; a fit with a checkpoint continues where it was",
            ) from None

    def watch(self, stage: str, futures: Sequence[Any]) -> None:
        """Report how many futures are done, until all are done or one has failed."""
        while (done := sum(future.done() for future in futures)) < len(futures):
            report_progress(stage, done / len(futures))
            failed = [future for future in futures if future.status == "error"]
            if failed:
                self.gather(failed[:1])
            time.sleep(0.05)


def client_for(client: Any) -> tuple[Any, ExitStack | None]:
    """Return the client that is given, else the current one, else that of a new local cluster.

    With a new cluster comes what closes it, else None.
    """
    distributed = _distributed()
    if client is not None:
        return client, None
    try:
        return distributed.default_client(), None
    except ValueError:
        stack = ExitStack()
        client, description = stack.enter_context(started(None, None))
        _log.info("no Dask client: started %s", description)
        return client, stack


@contextmanager
def started(scheduler: str | None, n_workers: int | None) -> Iterator[tuple[Any, str]]:
    """Yield a client of a scheduler or of a local cluster of processes, and a description of it.

    The workers of a local cluster may together use the memory that is free.
    """
    distributed = _distributed()
    if scheduler is not None:
        try:
            client = distributed.Client(scheduler, timeout="10s")
        except (OSError, ValueError) as error:
            raise InputError(
                f"the scheduler {scheduler}",
                f"no answer ({error})",
                "the address of a running Dask scheduler, such as tcp://10.0.0.1:8786",
                "start one with 'dask scheduler', or leave the address out for a local cluster",
            ) from None
        with client:
            yield client, _described(client, f"the cluster of {scheduler}")
        return
    import dask

    count = n_workers or n_threads()
    free = free_bytes()
    with ExitStack() as stack:
        with dask.config.set(_KEEP_MEMORY), _out_of_reach_of_ctrl_c():
            cluster = distributed.LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                memory_limit="auto" if free is None else free // count,
                dashboard_address="localhost:0",
                silence_logs=logging.CRITICAL,  # what fails in a worker is raised here
            )
            stack.enter_context(cluster)
        client = stack.enter_context(distributed.Client(cluster))
        yield client, _described(client, "a local cluster")


@contextmanager
def _out_of_reach_of_ctrl_c() -> Iterator[None]:
    """Keep the signals that a terminal sends to all processes from those started in the block.

    Each of them would print a traceback, and die before the driver can end it. The processes, and
    the threads that start further ones, inherit the blocked signals. The driver receives them when
    the block ends.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    to_all = {signal.SIGINT, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, to_all)
    try:
        resource_tracker.ensure_running()  # if it was not, it unblocks SIGINT
        signal.pthread_sigmask(signal.SIG_BLOCK, to_all)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _distributed() -> Any:
    try:
        import distributed
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("A cluster needs Dask: install apportion[dask].") from error
    return distributed


def _described(client: Any, what: str) -> str:
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    limits = [worker["memory_limit"] for worker in workers if worker.get("memory_limit")]
    memory = f" of at most {min(limits) / 2**30:.1f} GiB each" if limits else ""
    return f"{what}: {counted(len(workers), 'worker')}{memory}"
