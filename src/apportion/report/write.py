"""A report of a fitted model, written to a file."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from apportion._io.write import replacing, require_writable
from apportion.estimators._base import BagClassifier
from apportion.estimators._graph import GraphClassifier
from apportion.exceptions import SupervisionError, name_some
from apportion.labeling._summary import fitted_run
from apportion.plotting._row_map import RowsMap, map_of_features
from apportion.plotting._timestamps import times_from
from apportion.report.contents import Contents, answer_of, maps_of
from apportion.report.page import page_of, require_tools

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
    """Write what a fitted model found to one HTML file, which needs no network to be read.

    The page tells whether the labels can be relied on, and shows the days of every participant
    where times are given, given against assigned totals, what the bags tell apart, a map of the
    rows with the neighbors that made their labels, convergence, and the settings. It holds labels
    and totals of the rows, and features only as places on the map: share it as carefully as the
    labels. It needs `apportion[report]`.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this library.
    path : str or path
        The file to write; one that is there is replaced.
    X : array-like of shape (n_samples, n_features), optional
        The fitted rows. Needed only for the map of a method that keeps no graph.
    start : array-like of shape (n_samples,), optional
        When the rows were recorded: times, ISO text, or seconds.
    end : array-like of shape (n_samples,), optional
        When they ended.
    window : number of seconds, timedelta or str, optional
        How long each lasted, such as "1 min", in place of `end`. By default the usual time between
        two starts.
    participants : array-like of shape (n_samples,), optional
        Whose rows they are.
    names : sequence of length n_samples, optional
        Names of the rows; by default their numbers.
    title : str, optional
        The page's heading.
    notes : sequence of str
        What else the page is to tell.

    Returns
    -------
    Path
        The file.

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
    when = {"end": end, "window": window, "participants": participants}
    lonely = [f"`{what}`" for what, values in when.items() if values is not None]
    if start is None and lonely:
        raise SupervisionError(
            "`start`",
            f"nothing, while there is {name_some(lonely)}",
            "when every row began",
            f"pass `start`, or leave out {name_some(lonely)}",
        )
    of_rows = {"X": X, "start": start, "end": end, "participants": participants, "names": names}
    for what, values in of_rows.items():
        _require_length(what, values, n)
    require_tools()
    require_writable(Path(path), force=True)
    maps: dict[str, RowsMap] = {}
    no_map = ""
    if isinstance(model, GraphClassifier):
        maps, no_map = maps_of({None: (model, np.arange(n))})
    elif X is not None:
        maps = {"": map_of_features(model._checked_rows(X, reset=False))}
    else:
        no_map = f"{type(model).__name__} keeps no graph of the rows: pass X for a map."
    contents = Contents(
        title=f"Labels by {type(model).__name__}" if title is None else title,
        answer=answer_of(model),
        bag_codes=model.bag_codes_,
        report=model.bag_report_,
        diagnoses={"": model.diagnosis_} if hasattr(model, "diagnosis_") else {},
        runs={"": fitted_run(model)},
        times=None if start is None else times_from(start, end, window, participants),
        maps=maps,
        no_map=no_map,
        names=None if names is None else np.array([str(one) for one in names], dtype=object),
        notes=tuple(notes),
    )
    return write_contents(contents, path, force=True)


def write_contents(
    contents: Contents, path: str | os.PathLike[str], *, force: bool = False
) -> Path:
    """Write a report to a file, which is there whole or not at all.

    Parameters
    ----------
    contents : Contents
        What to tell.
    path : str or path
        The file.
    force : bool, default=False
        Whether a file that is there may be replaced.
    """
    page = page_bytes(contents)
    with replacing(path, force=force) as temporary:
        temporary.write_bytes(page)
    return Path(path)


def page_bytes(contents: Contents) -> bytes:
    """Return a report as the bytes of its file."""
    text = page_of(contents, {**contents.facts, **versions()})
    # A lone surrogate, as of a file whose name is no UTF-8, is no text that a file could hold.
    return text.encode("utf-8", "backslashreplace")


def versions() -> Mapping[str, str]:
    """Return the versions of what labels depend on."""
    found = {"Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _require_fitted(model: Any) -> None:
    """Raise for what is no estimator of this library, or has no labels of rows."""
    if not isinstance(model, BagClassifier):
        raise SupervisionError(
            "`model`",
            f"the class {model.__name__}" if isinstance(model, type) else repr(model),
            "a fitted estimator of this library, such as LPLLP()",
            "of a pipeline give its last step, pipeline[-1], of a search its best_estimator_",
        )
    check_is_fitted(model, "classes_")
    if not hasattr(model, "transduction_"):
        raise SupervisionError(
            "`model`",
            f"{type(model).__name__} from a file, which has no labels of the fitted rows",
            "an estimator as `fit` leaves it",
            "write the report before the model is saved",
        )


def _require_length(what: str, values: Any, n: int) -> None:
    """Raise where there is not one value for every fitted row."""
    if values is None:
        return
    shape = getattr(values, "shape", None)
    sized = hasattr(values, "__len__") and not isinstance(values, str | bytes)
    length = shape[0] if shape else len(values) if sized else None
    if length != n:
        raise SupervisionError(
            f"`{what}`",
            f"the {type(values).__name__} {values!r}" if length is None else f"{length:,} values",
            f"{n:,} values, one for every fitted row",
            "give them in the order of the rows that were fitted",
        )
