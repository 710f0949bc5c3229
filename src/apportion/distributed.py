"""LP-LLP on a graph of anchors, over the partitions of a Dask cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from apportion._core.descent import Solution, Status
from apportion._core.evidence import Refinement
from apportion._core.propagation import refuse_nearly_1
from apportion._core.warn import warn_of_status
from apportion._dask.anchors import learn_anchors
from apportion._dask.checkpoint import Checkpoint, read_checkpoint, require_fitting, run_of
from apportion._dask.cluster import Cluster, client_for
from apportion._dask.fit import DaskFit, fit
from apportion._dask.label_files import (
    bag_codes,
    named_labels,
    soft_labels,
    tied_rows,
    write_labels,
)
from apportion._dask.layout import lay_out
from apportion._dask.partitions import Partitions, partitions_of
from apportion._dask.scaling import learn_scale, scaled
from apportion._dask.worker_memory import Extent, require_memory
from apportion._io.atomic_write import require_writable
from apportion._utils.parameters import BOOL, check_parameters
from apportion._utils.typing import AnyArray, FloatArray
from apportion.bag_report import BagReport
from apportion.estimators import lp_llp
from apportion.exceptions import InputError
from apportion.graphs import AnchorGraph
from apportion.graphs._neighbors import FlatSearch
from apportion.graphs.anchor import usual_scales
from apportion.supervision.diagnosis import hard_to_place
from apportion.supervision.totals import Totals, as_totals

__all__ = ["LPLLP"]

_log = logging.getLogger("apportion")


class LPLLP(BaseEstimator):
    """Label propagation under label proportions, for more rows than one machine can hold.

    It finds the soft labels of `apportion.LPLLP(AnchorGraph())`, `argmin_F ½⟨F, (I - P)F⟩` under
    the totals of every bag, and the same labels, for rows in the partitions of a Dask array, a Dask
    dataframe or a folder of Parquet files. Bags may lie in several partitions. Rows are never
    shuffled or gathered: a step sends one number per anchor and class to the partitions, and adds
    up as many that come back.

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
        The largest number of iterations.
    scale : bool, default=False
        Whether features are scaled to mean 0 and variance 1, as `apportion cluster` does. This
        reads all rows once more.
    checkpoint : path, optional
        A file for the state of the run. A run that was interrupted, or whose iterations ran out,
        continues from it. After a run that has converged, `to_parquet` and `close` delete it.
    random_state : int, RandomState or None, default=None
        Not used: nothing is drawn at random.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    label_distributions_ : Dask array of shape (n_samples, n_classes)
        Soft labels, one chunk per partition, in the order of the rows; computed when they are asked
        for.
    transduction_ : Dask array of shape (n_samples,)
        A label for every row, likewise.
    tied_ : Dask array of bool, of shape (n_samples,)
        The rows whose label only a tie-break decided, likewise.
    bag_codes_ : Dask array of int, of shape (n_samples,)
        The bag of each row, as a position in `bag_report_.ids`; -1 = in no bag.
    bag_report_ : BagReport
        Given against assigned per bag and class.
    diagnosis_ : Diagnosis
        What the totals can tell apart.
    solution_ : Solution
        Status, energies, residuals and whether the answer is unique; its `F` is a Dask array.
    refinement_ : Refinement
        Whether labels were taken from random starts: never on a cluster.
    time_weight_ : float
        The weight of ties in time: 0, as a cluster knows no time.
    graph_ : AnchorGraph
        The graph for new rows. The ties of the fitted rows stay on the workers.
    graph_choice_ : str
        Which graph it is, and why.
    anchors_ : ndarray of shape (n_anchors, n_features)
        The anchors, of scaled features if these are scaled.
    scaler_ : StandardScaler or None
        How features are scaled; None if they are not.
    n_iter_ : int
        The number of iterations.
    n_samples_, n_features_in_ : int
        The number of rows and of features.
    feature_names_in_ : ndarray of shape (n_features,)
        The names of the features, if X has columns with names.
    status_ : Status
        How the run ended.
    unique_ : bool or None
        Whether the totals have one answer; None if that is not known, which is warned of.
    energies_ : ndarray of shape (n_iterations + 1,)
        The energy at every iteration.
    n_spanning_ : int
        The number of bags that lie in several partitions.
    n_requests_, n_tasks_ : int
        The number of requests of the loop, and of tasks of the whole fit.
    n_gathered_ : int
        The number of rows of bags in several partitions that the driver looked at.
    bytes_per_request_ : int
        The most bytes that a request of the loop sends to a partition and brings back.

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
    ...     model.transduction_.compute().tolist()
    ['sleep', 'sleep', 'tv', 'sleep', 'tv', 'tv']
    """

    _own_cluster: ExitStack | None = None
    _fitted: DaskFit | None = None

    def __init__(
        self,
        n_anchors: str | int = "auto",
        n_nearest: int = 5,
        alpha: float = 0.5,
        *,
        refine: bool = True,
        tol: float = 1e-8,
        max_iter: int = 2000,
        scale: bool = False,
        checkpoint: str | PathLike[str] | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_anchors = n_anchors
        self.n_nearest = n_nearest
        self.alpha = alpha
        self.refine = refine
        self.tol = tol
        self.max_iter = max_iter
        self.scale = scale
        self.checkpoint = checkpoint
        self.random_state = random_state

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
            Bag ids; for a dataframe or folder, the column that holds them.
        proportions : Totals, dataframe, mapping or array
            The bags' totals.
        features : sequence of str, optional
            For a dataframe or folder, the columns to use; by default all numbers but the bags.
        client : distributed.Client, optional
            The cluster. By default the current client; if there is none, a local cluster of one
            process per core is started, which `close` ends.

        Returns
        -------
        LPLLP
            The fitted estimator.
        """
        if y is not None:
            raise InputError(
                "", "labels of single rows", "None on a cluster", "leave out y", parameter="y"
            )
        graph = AnchorGraph(self.n_anchors, self.n_nearest)
        graph.check_parameters()
        self._unfitted_model()._check_parameters()
        check_parameters(self, {"scale": BOOL})
        refuse_nearly_1(self.alpha)
        totals = as_totals(proportions)
        source = partitions_of(X, bags, totals.ids, features)
        self._fitted = None
        client, own_cluster = client_for(client)
        self._own_cluster = own_cluster or self._own_cluster
        try:
            self._fit_on(Cluster(client), source, totals, graph)
        except BaseException:
            if own_cluster is not None:
                own_cluster.close()
                self._own_cluster = None
            raise
        return self

    def _unfitted_model(self) -> lp_llp.LPLLP:
        """Return the estimator of one machine with the same parameters: it also checks them."""
        return lp_llp.LPLLP(
            AnchorGraph(self.n_anchors, self.n_nearest),
            alpha=self.alpha,
            refine=self.refine,
            tol=self.tol,
            max_iter=self.max_iter,
        )

    def _fit_on(
        self, cluster: Cluster, source: Partitions, totals: Totals, graph: AnchorGraph
    ) -> None:
        def check_memory(n_samples: int) -> None:
            counts = source.n_features, len(source.rows), len(totals.classes)
            anchors = graph.anchors_for(n_samples), self.n_nearest
            require_memory(cluster.client, Extent(n_samples, *counts, *anchors))

        names = ("alpha", "n_anchors", "n_nearest", "scale")
        settings = {name: getattr(self, name) for name in names}
        run = run_of(totals, len(source.rows), **settings)
        path = None if self.checkpoint is None else Path(self.checkpoint)
        if path is not None:
            require_writable(path, force=True)
        if source.n_samples is not None:
            check_memory(source.n_samples)
        self.scaler_, rows = self._scaled(cluster, source.rows)
        resume = None
        if path is not None and path.exists():
            n_samples, anchors, resume = read_checkpoint(path, run, source.n_features)
            _log.info("continuing from %s, after %d iterations", path, len(resume.energies) - 1)
        else:
            n_samples, anchors = learn_anchors(cluster, rows, graph)
        if source.n_samples is None:
            check_memory(n_samples)
        layout = lay_out(cluster, rows, totals, anchors, self.n_nearest)
        if path is not None and resume is not None:
            require_fitting(path, resume, layout)
        fitted = fit(
            cluster,
            layout,
            alpha=self.alpha,
            tol=self.tol,
            max_iter=self.max_iter,
            refine=self.refine,
            resume=resume,
            accepted=(lambda state: None)
            if path is None
            else Checkpoint(path, n_samples, anchors, run),
        )
        self._store(fitted, totals, source, cluster)

    def _scaled(self, cluster: Cluster, rows: list[Any]) -> tuple[StandardScaler | None, list[Any]]:
        """Return how features are scaled, and the partitions with scaled features."""
        if not self.scale:
            return None, rows
        from dask import delayed

        means, deviations = learn_scale(cluster, rows)
        scaler = StandardScaler()
        scaler.mean_, scaler.scale_, scaler.var_ = means, deviations, deviations**2
        scaler.n_features_in_ = len(means)
        measures = delayed((means, deviations))
        work = delayed(scaled, pure=False)
        return scaler, [work(part, measures[0], measures[1]) for part in rows]

    def _scaled_rows(self, X: Any) -> Any:
        """Return new rows, scaled as the fitted ones."""
        check_is_fitted(self, "classes_")
        if self.scaler_ is None:
            return X
        return self.scaler_.transform(self._model._checked_rows(X, reset=False))

    def _store(self, fitted: DaskFit, totals: Totals, source: Partitions, cluster: Cluster) -> None:
        layout, state = fitted.layout, fitted.state
        self.classes_ = totals.classes
        self.anchors_ = layout.anchors
        self.status_ = fitted.status
        self.energies_ = np.array(state.energies)
        self.n_iter_ = len(state.energies) - 1
        self.n_samples_ = layout.n_samples
        self.n_spanning_ = int(layout.several.sum())
        self.unique_ = fitted.unique
        self.n_requests_ = sum(fitted.requests)
        self.bytes_per_request_ = fitted.bytes_per_request
        self.n_tasks_ = cluster.n_tasks
        self.n_gathered_ = fitted.n_gathered
        used = layout.sizes > 0
        self.bag_report_ = BagReport(
            ids=tuple(totals.ids[position] for position in np.flatnonzero(used)),
            classes=totals.classes,
            sizes=layout.sizes[used].astype(np.intp),
            lower=layout.lower[used],
            upper=layout.upper[used],
            assigned={"quota": fitted.assigned[used]},
            decode="quota",
            tied={"quota": fitted.n_tied},
        )
        report = self.bag_report_
        hard = hard_to_place(report.ids, report.classes, report.lower, report.upper)
        self.diagnosis_ = replace(fitted.diagnosis, hard_to_place=hard)
        self._model = self._fitted_model(fitted, source)
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        for name in ("graph_", "graph_choice_", "n_features_in_", "feature_names_in_"):
            if hasattr(self._model, name):
                setattr(self, name, getattr(self._model, name))
        self._fitted, self._source, self._cluster = fitted, source, cluster
        warn_of_status(fitted.status, self.n_iter_)

    def _fitted_model(self, fitted: DaskFit, source: Partitions) -> lp_llp.LPLLP:
        """Return the estimator of one machine, fitted as far as new rows need it."""
        layout, model = fitted.layout, self._unfitted_model()
        state = {
            "anchors": layout.anchors,
            "usual_scales": usual_scales(layout.census, FlatSearch(layout.anchors)),
            "anchor_is_row": layout.census.n_equal > 0,
        }
        parameters = {"n_anchors": self.n_anchors, "n_nearest": self.n_nearest}
        labels = fitted.state.here.anchors / layout.masses[:, None]
        if len(layout.classes) == 2:
            labels = np.hstack([1.0 - labels, labels])
        graph = AnchorGraph.from_state(parameters, state)
        model._restore(layout.classes, graph, labels, layout.overall)
        model.n_features_in_ = layout.anchors.shape[1]
        if source.features is not None:
            model.feature_names_in_ = np.array(source.features, dtype=object)
        model.graph_choice_ = "AnchorGraph: fitted on a cluster"
        return model

    @property
    def transduction_(self) -> Any:
        """The labels as a Dask array."""
        fitted = self._partitions()
        state = fitted.point, fitted.rounds, self.classes_
        return self._lazy(named_labels, *state, dtype=self.classes_.dtype)

    @property
    def label_distributions_(self) -> Any:
        """The soft labels as a Dask array."""
        return self._lazy(soft_labels, self._partitions().point, width=(len(self.classes_),))

    @property
    def tied_(self) -> Any:
        """The rows whose label only a tie-break decided, as a Dask array."""
        fitted = self._partitions()
        return self._lazy(tied_rows, fitted.point, fitted.rounds, dtype=bool)

    @property
    def bag_codes_(self) -> Any:
        """The bag of each row, as a Dask array."""
        return self._lazy(bag_codes, self._partitions().layout.sizes > 0, dtype=np.intp)

    @property
    def refinement_(self) -> Refinement:
        """Whether labels were taken from random starts: never on a cluster."""
        self._partitions()
        return Refinement(False, "random starts are for one machine")

    @property
    def time_weight_(self) -> float:
        """The weight of ties in time: 0, as a cluster knows no time."""
        self._partitions()
        return 0.0

    @property
    def solution_(self) -> Solution:
        """How the soft labels were reached."""
        fitted = self._partitions()
        return Solution(
            F=self.label_distributions_,
            status=fitted.status,
            n_iter=self.n_iter_,
            energies=self.energies_,
            stationarity=self.alpha * fitted.state.gap / fitted.state.size,
            residual=fitted.state.here.residual,
            unique=fitted.unique,
        )

    def labels(self) -> Any:
        """Return the labels as a Dask array, one chunk per partition: `transduction_`."""
        return self.transduction_

    def label_distributions(self) -> Any:
        """Return the soft labels as a Dask array: `label_distributions_`."""
        return self.label_distributions_

    def predict(self, X: Any, *, bags: Any = None, proportions: Any = None) -> AnyArray:
        """Return a label for every new row, on this machine; see `apportion.LPLLP.predict`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        bags, proportions : optional
            Bag ids and totals of the new rows, if these are known.

        Returns
        -------
        ndarray of shape (n_samples,)
            One label per row.
        """
        return self.local_model().predict(self._scaled_rows(X), bags=bags, proportions=proportions)

    def predict_proba(self, X: Any, *, bags: Any = None, proportions: Any = None) -> FloatArray:
        """Return soft labels of new rows, on this machine; see `apportion.LPLLP.predict_proba`.

        Parameters
        ----------
        X, bags, proportions
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The mass of every class, which sums to 1 in every row.
        """
        return self.local_model().predict_proba(
            self._scaled_rows(X), bags=bags, proportions=proportions
        )

    def to_parquet(
        self, folder: str | PathLike[str], *, keep: Sequence[str] = (), force: bool = False
    ) -> list[Path]:
        """Write the labels, one file per partition, by the workers that hold them.

        A file has the columns that are kept, `label`, one `mass_…` per class, `confidence` and
        `reason`: the codes `tie`, `isolated`, `unbagged` and `outside-interval` of the command
        line, joined by semicolons. The code `out-of-reach` is not written; a warning counts such
        rows.

        All files take their places together once every partition is written. If one cannot be
        written, the folder is as it was.

        Parameters
        ----------
        folder : path
            A folder that every worker and this process can reach; made if it does not exist.
        keep : sequence of str
            Columns of the Parquet files that were read, such as ids, to put beside the labels.
        force : bool, default=False
            Whether existing labels may be replaced: all of them, so that none of an earlier run
            stays among the new ones. Other files stay.

        Returns
        -------
        list of Path
            The files, in the order of the partitions.
        """
        fitted = self._partitions()
        files = write_labels(self._cluster, fitted, self._source, Path(folder), keep, force)
        self._delete_checkpoint()
        return files

    def local_model(self) -> lp_llp.LPLLP:
        """Return a model that predicts new rows on one machine, and that `save_model` can store.

        It holds the anchors and their soft labels, as `apportion.LPLLP(AnchorGraph())` would after
        the same fit; it knows nothing of the rows. If features are scaled, it takes rows that
        `scaler_` has scaled.

        Returns
        -------
        apportion.LPLLP
            A model with the anchors and their soft labels, but without the fitted rows.
        """
        check_is_fitted(self, "classes_")
        return self._model

    def close(self) -> None:
        """Let go of the partitions, and end the local cluster that `fit` may have started."""
        self._delete_checkpoint()
        self._fitted = None
        if self._own_cluster is not None:
            self._own_cluster.close()
            self._own_cluster = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _delete_checkpoint(self) -> None:
        converged = self._fitted is not None and self._fitted.status is Status.CONVERGED
        if self.checkpoint is not None and converged:
            Path(self.checkpoint).unlink(missing_ok=True)

    def _partitions(self) -> DaskFit:
        """Return what the partitions answer from, unless they are gone."""
        check_is_fitted(self, "classes_")
        if self._fitted is None:
            raise NotFittedError("The fit was closed: its partitions are gone. Fit again.")
        return self._fitted

    def _lazy(
        self,
        work: Callable[..., Any],
        *arguments: Any,
        width: tuple[int, ...] = (),
        dtype: Any = np.float64,
    ) -> Any:
        """Return `work(part, *arguments)` of all partitions as one Dask array."""
        import dask.array as da
        from dask import delayed

        layout, lazily = self._partitions().layout, delayed(work, pure=False)
        return da.concatenate(
            [
                da.from_delayed(lazily(part, *arguments), (n_samples, *width), dtype)
                for part, n_samples in zip(layout.parts, layout.lengths, strict=True)
            ]
        )
