"""Writing the report of a fitted model to a file."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from apportion._io.atomic_write import replacing, require_writable
from apportion.estimators._base import BagClassifier
from apportion.exceptions import SupervisionError, hint, name_some
from apportion.graphs import KNNGraph
from apportion.labeling._summary import fitted_run as run_of
from apportion.model_selection._graph_of_model import graph_in
from apportion.plotting._window_times import require_lengths, times_from
from apportion.report._page import page_of, require_tools
from apportion.report._reliability import no_graph_in_words, reliability_of
from apportion.report._report_data import ReportData, answer_of
from apportion.report._row_map import RowMap, map_of_graph

_PACKAGES = ("apportion", "numpy", "scipy", "scikit-learn", "faiss-cpu", "plotly")


def write_report(
    model: BagClassifier,
    path: str | os.PathLike[str],
    *,
    X: Any = None,
    start: Any = None,
    end: Any = None,
    window: Any = None,
    participants: Any = None,
    names: Sequence[Any] | None = None,
    title: str | None = None,
    notes: Sequence[str] = (),
) -> Path:
    """Write a report of a fitted model to one HTML file, which can be read without a network.

    The page contains a verdict on the labels, how right they are if the model estimates that
    (`AutoLLP`, `CalibratedLLP`), the days of every participant if times are passed, given and
    assigned totals, what the totals tell apart, a map of the rows with their neighbors,
    the convergence, and the settings. It shows labels and totals of the rows, and features only as
    coordinates on the map: share it as carefully as the labels. It needs `apportion[report]`.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this library.
    path : str or path
        The file to write; an existing file is replaced.
    X : array-like of shape (n_samples, n_features), optional
        The fitted rows. Only needed for the map of a method that keeps no graph.
    start : array-like of shape (n_samples,), optional
        When the rows started: date-times, ISO text, or seconds.
    end : array-like of shape (n_samples,), optional
        When they ended.
    window : number of seconds, timedelta or str, optional
        The length of every row, such as "1 min", instead of `end`. By default the usual time
        between two starts.
    participants : array-like of shape (n_samples,), optional
        The participant of each row.
    names : sequence of length n_samples, optional
        Names of the rows; by default their numbers.
    title : str, optional
        The heading of the page.
    notes : sequence of str
        Remarks to show on the page.

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    SupervisionError
        If the model is not a fitted estimator of this library, or if an argument does not have
        one value per fitted row.

    Examples
    --------
    >>> import tempfile
    >>> from apportion import LPLLP
    >>> X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    >>> day = ["mon", "mon", "mon", "tue", "tue", "tue"]
    >>> hours = {"mon": {"sleep": 2 / 3, "tv": 1 / 3}, "tue": {"sleep": 1 / 3, "tv": 2 / 3}}
    >>> model = LPLLP().fit(X, bags=day, proportions=hours)
    >>> page = write_report(model, Path(tempfile.mkdtemp()) / "report.html")
    >>> "every bag keeps its totals" in page.read_text(encoding="utf-8")
    True
    """
    _require_fitted(model)
    n = len(model.transduction_)
    times = {"end": end, "window": window, "participants": participants}
    without_start = [f"`{name}`" for name, values in times.items() if values is not None]
    if start is None and without_start:
        raise SupervisionError(
            "",
            f"nothing, while there is {name_some(without_start)}",
            "when every row began",
            hint("pass {start}, or leave out {names}", names=name_some(without_start)),
            parameter="start",
        )
    require_lengths(n, X=X, start=start, end=end, participants=participants, names=names)
    require_tools()
    require_writable(Path(path), force=True)
    maps: dict[str, RowMap] = {}
    graph, reliability = graph_in(model), reliability_of(model)
    if graph is not None:
        maps[""] = map_of_graph(graph)
    elif X is not None:
        maps[""] = map_of_graph(KNNGraph().fit(model._checked_rows(X, reset=False)))
    method = type(model).__name__
    data = ReportData(
        title=f"Labels by {method}" if title is None else title,
        answer=answer_of(model),
        bag_codes=model.bag_codes_,
        report=model.bag_report_,
        diagnoses={"": model.diagnosis_} if hasattr(model, "diagnosis_") else {},
        runs={"": run_of(model)},
        times=None if start is None else times_from(start, end, window, participants),
        maps=maps,
        no_map="" if maps else f"{no_graph_in_words(model)}: pass X for a map.",
        names=None if names is None else np.array([str(name) for name in names], dtype=object),
        notes=tuple(notes),
        reliability={} if reliability is None else {"": reliability},
    )
    return write_page(data, path, force=True)


def write_page(data: ReportData, path: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Write a report to a file, completely or not at all.

    Parameters
    ----------
    data : ReportData
        What the report shows.
    path : str or path
        The file to write.
    force : bool, default=False
        Whether an existing file may be replaced.

    Returns
    -------
    Path
        The path of the file.
    """
    page = page_bytes(data)
    with replacing(path, force=force) as temporary:
        temporary.write_bytes(page)
    return Path(path)


def page_bytes(data: ReportData) -> bytes:
    """Return a report as the bytes of its file.

    Parameters
    ----------
    data : ReportData
        What the report shows.

    Returns
    -------
    bytes
    """
    facts = {**data.facts, "Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            continue
    # A file cannot contain a lone surrogate, as in a file name that is not UTF-8.
    return page_of(data, facts).encode("utf-8", "backslashreplace")


def _require_fitted(model: Any) -> None:
    """Raise unless the model is an estimator of this library with labels of its rows."""
    if not isinstance(model, BagClassifier):
        raise SupervisionError(
            "",
            f"the class {model.__name__}" if isinstance(model, type) else repr(model),
            "a fitted estimator of this library, such as LPLLP()",
            "pass the last step of a pipeline, pipeline[-1], of a search its best_estimator_",
            parameter="model",
        )
    check_is_fitted(model, "classes_")
    if not hasattr(model, "transduction_"):
        raise SupervisionError(
            "",
            f"{type(model).__name__} from a file, which has no labels of the fitted rows",
            "a fitted estimator",
            "write the report before the model is saved",
            parameter="model",
        )
