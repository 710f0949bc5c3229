"""LP-LLP on a graph of anchors, over partitions of a Dask cluster."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from apportion._core.descent import Status
from apportion._core.propagation import refuse_nearly_1
from apportion._dask.checkpoint import (
    Checkpoint,
    read_checkpoint,
    require_fitting,
    run_of,
)
from apportion._dask.cluster import Cluster, client_for
from apportion._dask.fit import DaskFit, fit, learn_anchors
from apportion._dask.layout import lay_out
from apportion._dask.memory import Extent, require_memory
from apportion._dask.output import (
    named_labels,
    other_parts,
    refuse_output,
    soft_labels,
    write_part,
)
from apportion._dask.partitions import Partitions, partitions_of
from apportion._io.write import Outputs, require_writable
from apportion.bag_report import BagReport
from apportion.estimators import lp_llp
from apportion.exceptions import Advice, users_level
from apportion.graphs import AnchorGraph
from apportion.graphs._neighbors import FlatSearch
from apportion.graphs.anchor import usual_scales
from apportion.supervision.totals import Totals, as_totals

_log = logging.getLogger("apportion")


class LPLLP(BaseEstimator):
    """Label propagation under label proportions, on more rows than one machine can hold.

    The same soft labels as `apportion.LPLLP(AnchorGraph())` finds,
    `argmin_F ½⟨F, (I - P)F⟩` under every bag's totals, and the same labels, for rows that lie in
    the partitions of a Dask array, a Dask dataframe or a folder of Parquet files. Bags may lie in
    several partitions. Rows are never shuffled or gathered: a step sends one number an anchor and
    class to the partitions, and adds up as many that come back.

    Parameters
    ----------
    n_anchors, n_nearest
        As in `AnchorGraph`.
    alpha : float, default=0.5
        How far labels travel.
    refine : bool, default=True
        Go on exchanging labels within bags while neighbors agree more.
    tol : float, default=1e-8
        The length of a step, relative to the soft labels, below which the run has converged.
    max_iter : int, default=2000
        The most iterations.
    checkpoint : path, optional
        A file to keep the run in: one that was interrupted, or whose iterations ran out, goes on
        from it. Of a run that has converged, `to_parquet` and `close` delete it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    anchors_ : ndarray of shape (n_anchors, n_features)
        The anchors.
    bag_report_ : BagReport
        Given against assigned.
    n_iter_ : int
        Iterations.
    n_samples_ : int
        Rows.
    status_ : Status
        How the run ended.
    unique_ : bool or None
        Whether the totals have one answer; None if that is not known, which is warned of.
    diagnosis_ : Diagnosis
        What the totals can tell apart.
    n_spanning_ : int
        Bags that lie in several partitions.
    energies_ : ndarray of shape (n_iter_ + 1,)
        The energy at every iteration.
    n_requests_, n_tasks_ : int
        How often the loop asked, and all tasks that it took.
    n_gathered_ : int
        Rows of bags across partitions that were looked at one by one, to cut such bags.
    bytes_per_request_ : int
        The most that a request of the loop sends to a partition and brings back.

    Examples
    --------
    >>> import dask.array as da
    >>> from apportion.distributed import LPLLP
    >>> X = da.from_array(np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]]), chunks=(3, 1))
    >>> day = np.array(["mon", "mon", "mon", "tue", "tue", "tue"])
    >>> hours = {"mon": {"sleep": 2 / 3, "tv": 1 / 3}, "tue": {"sleep": 1 / 3, "tv": 2 / 3}}
    >>> from distributed import Client
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     model = LPLLP().fit(X, bags=day, proportions=hours, client=client)
    ...     model.labels().compute().tolist()
    ['sleep', 'sleep', 'tv', 'sleep', 'tv', 'tv']
    """

    _own: ExitStack | None = None
    _found: DaskFit | None = None

    def __init__(
        self,
        n_anchors: str | int = "auto",
        n_nearest: int = 5,
        alpha: float = 0.5,
        *,
        refine: bool = True,
        tol: float = 1e-8,
        max_iter: int = 2000,
        checkpoint: str | PathLike[str] | None = None,
    ) -> None:
        self.n_anchors = n_anchors
        self.n_nearest = n_nearest
        self.alpha = alpha
        self.refine = refine
        self.tol = tol
        self.max_iter = max_iter
        self.checkpoint = checkpoint

    def fit(
        self,
        X: Any,
        y: None = None,
        *,
        bags: Any,
        proportions: Any,
        features: Sequence[str] | None = None,
        client: Any = None,
    ) -> Self:
        """Label the rows.

        Parameters
        ----------
        X : Dask array, Dask dataframe, or path of a folder of Parquet files
            The rows; every file of a folder is a partition.
        y : None
            Labels of single rows cannot be given here.
        bags : Dask array or series, array-like, or str
            Bag ids; of a dataframe or folder, the column that holds them.
        proportions : Totals, dataframe, mapping or array
            The bags' totals.
        features : sequence of str, optional
            Of a dataframe or folder: the columns to use; by default all numbers but the bags.
        client : distributed.Client, optional
            The cluster. By default the client that is current; where there is none, a local cluster
            of one process a core is started, which `close` ends.

        Returns
        -------
        LPLLP
        """
        if y is not None:
            raise ValueError("Labels of single rows cannot be given on a cluster: leave out y.")
        self._check_parameters()
        graph = AnchorGraph(self.n_anchors, self.n_nearest)
        graph.wanted_anchors(1)
        totals = as_totals(proportions)
        source = partitions_of(X, bags, totals.ids, features)
        self._found = None
        client, own = client_for(client)
        self._own = own or self._own
        try:
            self._fit_on(Cluster(client), source, totals, graph)
        except BaseException:
            if own is not None:
                own.close()
                self._own = None
            raise
        return self

    def _fit_on(
        self, cluster: Cluster, source: Partitions, totals: Totals, graph: AnchorGraph
    ) -> None:
        path = None if self.checkpoint is None else Path(self.checkpoint)
        if path is not None:
            require_writable(path, force=True)
        run = run_of(
            totals,
            len(source.rows),
            alpha=self.alpha,
            n_anchors=self.n_anchors,
            n_nearest=self.n_nearest,
        )
        resume = None
        if source.n_samples is not None:
            self._require_memory(cluster, source, source.n_samples, totals, graph)
        if path is not None and path.exists():
            n_samples, anchors, resume = read_checkpoint(path, run, source.n_features)
            _log.info("going on from %s, after %d iterations", path, len(resume.energies) - 1)
        else:
            n_samples, anchors = learn_anchors(
                cluster, source.rows, graph.wanted_anchors(10**12), graph.wanted_anchors
            )
        if source.n_samples is None:
            self._require_memory(cluster, source, n_samples, totals, graph)
        passed = (lambda state: None) if path is None else Checkpoint(path, n_samples, anchors, run)
        layout = lay_out(cluster, source.rows, totals, anchors, self.n_nearest)
        if path is not None and resume is not None:
            require_fitting(path, resume, layout)
        found = fit(
            cluster,
            layout,
            alpha=self.alpha,
            tol=self.tol,
            max_iter=self.max_iter,
            refine=self.refine,
            resume=resume,
            accepted=passed,
        )
        self._keep(found, totals, source, cluster)

    def _require_memory(
        self,
        cluster: Cluster,
        source: Partitions,
        n_samples: int,
        totals: Totals,
        graph: AnchorGraph,
    ) -> None:
        require_memory(
            cluster.client,
            Extent(
                n_samples=n_samples,
                n_features=source.n_features,
                n_partitions=len(source.rows),
                n_classes=len(totals.classes),
                n_anchors=graph.wanted_anchors(n_samples),
                n_nearest=self.n_nearest,
            ),
        )

    def _check_parameters(self) -> None:
        if not 0.0 < self.alpha < 1.0:
            raise ValueError(
                f"The 'alpha' parameter of LPLLP must be in (0, 1). Got {self.alpha!r}."
            )
        refuse_nearly_1(self.alpha)
        if not isinstance(self.tol, Real) or not self.tol >= 0.0:
            raise ValueError(
                f"The 'tol' parameter of LPLLP must be a number of at least 0. Got {self.tol!r}."
            )
        if not isinstance(self.max_iter, Integral) or self.max_iter < 1:
            raise ValueError(
                "The 'max_iter' parameter of LPLLP must be an int of at least 1. "
                f"Got {self.max_iter!r}."
            )

    def _keep(self, found: DaskFit, totals: Totals, source: Partitions, cluster: Cluster) -> None:
        self.classes_ = totals.classes
        layout = found.layout
        self.anchors_ = layout.anchors
        self.status_ = found.status
        self.energies_ = np.array(found.state.energies)
        self.n_iter_ = len(found.state.energies) - 1
        self.n_samples_ = layout.n_samples
        self.n_spanning_ = int(layout.several.sum())
        self.unique_ = found.unique
        self.diagnosis_ = found.diagnosis
        self.n_requests_ = sum(found.requests)
        self.bytes_per_request_ = found.bytes_per_request
        self.n_tasks_ = cluster.n_tasks
        self.n_gathered_ = found.n_gathered
        there = layout.sizes > 0
        self.bag_report_ = BagReport(
            ids=tuple(bag for bag, has_rows in zip(totals.ids, there, strict=True) if has_rows),
            classes=totals.classes,
            sizes=layout.sizes[there].astype(np.intp),
            lower=layout.lower[there],
            upper=layout.upper[there],
            assigned={"quota": found.assigned[there]},
            decode="quota",
            tied={"quota": found.n_tied},
        )
        self._found, self._source, self._cluster = found, source, cluster
        if found.status is not Status.CONVERGED:
            status = found.status.value
            warnings.warn(
                Advice(
                    f"LP-LLP {status.facts}", f"{status.hint} (after {self.n_iter_} iterations)."
                ),
                ConvergenceWarning,
                stacklevel=users_level(),
            )

    def labels(self) -> Any:
        """Return the labels as a Dask array, a chunk a partition, in the order of the rows."""
        found = self._fitted()
        return self._lazily(
            named_labels, found.point, found.rounds, self.classes_, dtype=self.classes_.dtype
        )

    def label_distributions(self) -> Any:
        """Return the soft labels as a Dask array, a chunk a partition."""
        return self._lazily(soft_labels, self._fitted().point, columns=len(self.classes_))

    def to_parquet(
        self, folder: str | PathLike[str], *, keep: Sequence[str] = (), force: bool = False
    ) -> list[Path]:
        """Write the labels, a file for every partition, by the workers that hold them.

        All files take their places together once every partition is written. If one cannot be
        written, the folder is as it was.

        Parameters
        ----------
        folder : path
            A folder that every worker and this process can reach; made if it is not there.
        keep : sequence of str
            Columns of the Parquet files that were read, such as ids, to put beside the labels.
        force : bool, default=False
            Whether labels that are there may be replaced: all of them, so that none of an earlier
            run stays among the new ones. Other files stay.

        Returns
        -------
        list of Path
            The files, in the order of the partitions.
        """
        found = self._fitted()
        names = [file.name for file in self._source.files or ()] or [
            f"part-{k:05d}.parquet" for k in range(len(self._source.rows))
        ]
        read, classes, kept = self._source.files, self.classes_.tolist(), tuple(keep)
        to = Path(folder)
        refuse_output(to, names, read, kept, classes, force)
        files = [to / name for name in names]
        sources = [None] * len(files) if read is None else [str(one.absolute()) for one in read]
        told = found.point, found.rounds
        with Outputs(force=force) as outputs:
            outputs.make_folder(to)
            drafts = outputs.temporary_folder(to).absolute()
            writing = [
                self._cluster.on_one(
                    write_part,
                    part,
                    *told,
                    str(drafts / file.name),
                    str(file.absolute()),
                    source,
                    classes,
                    kept,
                )
                for part, file, source in zip(found.layout.parts, files, sources, strict=True)
            ]
            self._cluster.gather(writing)
            for file in files:
                outputs.add(drafts / file.name, file)
            for file in other_parts(to, names) if force else ():
                outputs.remove(file)
        self._forget_checkpoint()
        return files

    def _forget_checkpoint(self) -> None:
        done = self._found is not None and self._found.status is Status.CONVERGED
        if self.checkpoint is not None and done:
            Path(self.checkpoint).unlink(missing_ok=True)

    def local_model(self) -> lp_llp.LPLLP:
        """Return a model that predicts new rows on one machine, and that `save_model` can keep.

        It holds the anchors and what they say, as `apportion.LPLLP(AnchorGraph())` would after the
        same fit; of the rows, it knows nothing.
        """
        found, layout = self._fitted(), self._fitted().layout
        settings: dict[str, Any] = {"n_anchors": self.n_anchors, "n_nearest": self.n_nearest}
        state = {
            "anchors": layout.anchors,
            "usual_scales": usual_scales(layout.near, FlatSearch(layout.anchors)),
            "anchor_is_row": layout.near.same > 0,
        }
        model = lp_llp.LPLLP(
            AnchorGraph(**settings),
            alpha=self.alpha,
            refine=self.refine,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        voices = found.state.here.anchors / layout.masses[:, None]
        if len(self.classes_) == 2:
            voices = np.hstack([1.0 - voices, voices])
        graph = AnchorGraph.from_state(settings, state)
        model._restore(self.classes_, graph, {"voices": voices, "overall": layout.overall})
        model.n_features_in_ = layout.anchors.shape[1]
        if self._source.features is not None:
            model.feature_names_in_ = np.array(self._source.features, dtype=object)
        model.graph_choice_ = "AnchorGraph: fitted on a cluster"
        return model

    def close(self) -> None:
        """Let go of the partitions, and end the local cluster that `fit` may have started."""
        self._forget_checkpoint()
        self._found = None
        if self._own is not None:
            self._own.close()
            self._own = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _fitted(self) -> DaskFit:
        check_is_fitted(self, "classes_")
        if self._found is None:
            raise ValueError("The fit was closed: its partitions are gone. Fit anew.")
        return self._found

    def _lazily(
        self, work: Any, *told: Any, columns: int | None = None, dtype: Any = np.float64
    ) -> Any:
        import dask.array as da
        from dask import delayed

        found = self._fitted()
        lazily = delayed(work, pure=False)
        wide = () if columns is None else (columns,)
        return da.concatenate(
            [
                da.from_delayed(lazily(part, *told), (n, *wide), dtype)
                for part, n in zip(found.layout.parts, found.layout.lengths, strict=True)
            ]
        )
