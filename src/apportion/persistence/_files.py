"""Write a fitted model, or its labels, to a file, and read it again.

Each estimator defines what it needs to predict new rows (`BagClassifier._state`,
`BagClassifier._restore_state`), and each graph (`Graph.state`, `Graph.from_state`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from apportion._io.archive import PathOrFile, open_zip, write_zip
from apportion._io.atomic_write import replacing
from apportion._io.model_state import DOCUMENT, StateReader, short
from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.estimators import LPLLP
from apportion.estimators._base import BagClassifier
from apportion.exceptions import SavedModelError, hint
from apportion.persistence._labels import LABELS, bad_ids, id_arrays, label_arrays, read_ids
from apportion.persistence._models import (
    model_state,
    named_types,
    read_classes,
    read_model,
    require_savable,
)

FORMAT = "apportion model"

_READABLE = (1, 2)
"""Versions of the format. The first is an LPLLP or labels only, and is still written for these, so
that earlier versions of apportion can read them."""


@dataclass(frozen=True, eq=False)
class SavedModel:
    """The contents of a file: a model for new rows, or the labels of the fitted rows.

    Attributes
    ----------
    contents : str
        What of the training rows is in the file, such as "5,418 training rows".
    extra : dict
        The `extra` that was passed to `save_model`.
    classes : ndarray of shape (n_classes,)
        The classes.
    labels_only : bool
        Whether there is no model, only labels.
    model : estimator or None
        A model that predicts what the saved one did. It has no attributes of the fitted rows, such
        as `transduction_` and `bag_report_`; an `LPLLP` has `label_distributions_` unless its graph
        is an `AnchorGraph`.
    ids : ndarray of shape (n_samples,), or None
        With labels only: the ids of the rows, text or ints.
    labels : ndarray of shape (n_samples,), or None
        With labels only: the label of each row.
    label_distributions : ndarray of shape (n_samples, n_classes), or None
        With labels only: the soft labels.

    Examples
    --------
    >>> import io
    >>> X = np.arange(8.0).reshape(4, 2)
    >>> model = LPLLP().fit(X, bags=[0, 0, 1, 1], proportions={0: 1.0, 1: 0.0})
    >>> file = io.BytesIO()
    >>> save_model(file, model, labels_only=True, ids=["a", "b", "c", "d"])
    >>> saved = load_model(file)
    >>> saved.labels[saved.lookup(["d", "a"])].tolist()
    [0, 1]
    """

    contents: str
    extra: dict[str, Any]
    classes: AnyArray
    labels_only: bool = False
    model: BagClassifier | None = None
    ids: AnyArray | None = None
    labels: AnyArray | None = None
    label_distributions: FloatArray | None = None

    def lookup(self, ids: Iterable[Any]) -> IntArray:
        """Return the positions of the rows with these ids, -1 for an unknown id.

        Parameters
        ----------
        ids : iterable of text or int
            Ids, of the kind that was saved.

        Returns
        -------
        ndarray of shape (n_ids,)
            Positions in `ids`, `labels` and `label_distributions`.
        """
        return np.array([self._position.get(item, -1) for item in ids], dtype=np.intp)

    @cached_property
    def _position(self) -> dict[Any, int]:
        if self.ids is None:
            advice = hint("save with {labels_only}")
            raise SavedModelError("lookup", "a model without ids", "labels only", advice)
        return {item: position for position, item in enumerate(self.ids.tolist())}


def contains_rows(model: BagClassifier, *, labels_only: bool = False) -> str:
    """Return in words which training rows a file of this model will contain.

    Models on a graph contain the rows that new ones are compared with, and kernels that are not
    linear those of nonzero weight. Linear rules and trees contain none. Of several methods, the
    largest numbers are given.

    Parameters
    ----------
    model : estimator
        A fitted model that `save_model` can save.
    labels_only : bool, default=False
        Whether only labels are saved.

    Returns
    -------
    str
        Such as "4 training rows".

    Examples
    --------
    >>> X = np.arange(8.0).reshape(4, 2)
    >>> model = LPLLP().fit(X, bags=[0, 0, 1, 1], proportions={0: 1.0, 1: 0.0})
    >>> contains_rows(model)
    '4 training rows'
    >>> contains_rows(model, labels_only=True)
    'no training rows'
    """
    if labels_only:
        return "no training rows"
    model_state(model)  # raises an error if the model, or a part of it, cannot be saved
    return _in_words(model)


def save_model(
    path: PathOrFile,
    model: BagClassifier,
    *,
    extra: Mapping[str, Any] | None = None,
    labels_only: bool = False,
    ids: Sequence[str] | Sequence[int] | None = None,
) -> None:
    """Write a fitted model to a file that `load_model` reads.

    If new rows are compared with fitted ones, the file contains these: all of them with a
    `KNNGraph` or an `RBFGraph`, means of them with an `AnchorGraph`, some with a kernel; see
    `contains_rows`. Equal models give equal files.

    Parameters
    ----------
    path : str, path or binary file
        Where to write. An existing file is replaced once the new one is complete.
    model : estimator
        Any fitted estimator of this package, `AutoLLP` and `CalibratedLLP` around these as well,
        but `EMLLP` only with `"logistic"` or `"trees"`. Its classes must be text, ints, floats or
        bools; its graph or kernel must not be precomputed, and its kernel no function. Parameters
        that JSON cannot hold (a prior, a RandomState) are left out; they do not change predictions.
    extra : mapping, optional
        Anything that JSON can hold; it is returned by `load_model`.
    labels_only : bool, default=False
        Write no row and no graph, only the labels of the fitted rows, by their ids.
    ids : sequence of text or int, optional
        With `labels_only`: a different id for every fitted row.

    Raises
    ------
    SavedModelError
        If the model, `extra` or `ids` cannot be saved.
    OutputError
        If the file cannot be written; nothing is changed then.

    Examples
    --------
    >>> import io
    >>> X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    >>> day = ["mon", "mon", "mon", "tue", "tue", "tue"]
    >>> hours = {"mon": {"sleep": 2 / 3, "tv": 1 / 3}, "tue": {"sleep": 1 / 3, "tv": 2 / 3}}
    >>> model, file = LPLLP().fit(X, bags=day, proportions=hours), io.BytesIO()
    >>> save_model(file, model, extra={"unit": "hours"})
    >>> saved = load_model(file)
    >>> saved.model.predict([[0.3], [4.0]]).tolist(), saved.contents, saved.extra
    (['sleep', 'tv'], '6 training rows', {'unit': 'hours'})
    """
    require_savable(model)
    if labels_only != (ids is not None):
        found = "none" if labels_only else "ids of rows beside a whole model"
        raise bad_ids(found, hint("ids with {labels_only}, and only then"), "give both or neither")
    if not isinstance(extra, Mapping | None):
        found, advice = type(extra).__name__, "put it into a dict under a name"
        raise SavedModelError("", found, "a mapping", advice, parameter="extra")
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": 1 if labels_only or isinstance(model, LPLLP) else 2,
        "apportion": version("apportion"),
        "contents": contains_rows(model, labels_only=labels_only),
        "labels_only": labels_only,
    }
    if ids is None:
        fields, arrays = model_state(model).flat()
    else:
        fields, arrays = {"classes": named_types(model.classes_)}, label_arrays(model)
        of_ids = id_arrays(ids, len(arrays["labels"]))
        fields["ids"] = "int" if "ids" in of_ids else "text"
        arrays |= of_ids
    document |= fields
    document["extra"] = {} if extra is None else dict(extra)
    if isinstance(path, str | os.PathLike):
        with replacing(path, force=True) as temporary:
            write_zip(temporary, document, arrays, DOCUMENT)
    else:
        write_zip(path, document, arrays, DOCUMENT)


def load_model(path: PathOrFile) -> SavedModel:
    """Read a file that `save_model` wrote.

    No code from the file is run. The model predicts what the saved one did, but for rounding. There
    is one exception: if neighbors are searched approximately (`KNNGraph.search_`), another
    processor or version of faiss can change the soft labels of a few rows in a hundred slightly.

    Parameters
    ----------
    path : str, path or binary file
        The file.

    Returns
    -------
    SavedModel
        With the model, or with the labels of the fitted rows.

    Raises
    ------
    SavedModelError
        If anything is wrong with the file; the message names the file and the member in it.

    Examples
    --------
    >>> import io
    >>> X = np.arange(8.0).reshape(4, 2)
    >>> model = LPLLP().fit(X, bags=[0, 0, 1, 1], proportions={0: 1.0, 1: 0.0})
    >>> file = io.BytesIO()
    >>> save_model(file, model)
    >>> load_model(file).model.predict(X[:1]).tolist()
    [1]
    """
    with open_zip(path) as file:
        fields = StateReader(file, file.json(DOCUMENT), read_model)
        _check_format(fields)
        classes = read_classes(fields)
        extra = fields.take("extra", dict)
        if not fields.take("labels_only", bool):
            model = read_model(fields)
            return SavedModel(_in_words(model), extra, classes, model=model)
        fields.lengths["classes"] = len(classes)
        arrays = fields.arrays(LABELS)
        ids = read_ids(fields)
        labels, soft = classes[arrays["labels"]], arrays["label_distributions"]
        return SavedModel("no training rows", extra, classes, True, None, ids, labels, soft)


def _in_words(model: BagClassifier) -> str:
    """Return which training rows the state of a model contains."""
    words = [text for _, (_, text) in sorted(model._rows_in_state().items(), reverse=True)]
    return " and ".join(words) or "no training rows"


def _check_format(fields: StateReader) -> None:
    name = fields.take("format", str)
    if name != FORMAT:
        fields.refuse(f"the format {short(name)}", repr(FORMAT), "name the right file")
    number = fields.take("version", int)
    if number not in _READABLE:
        fields.refuse(
            f"version {number} of the format, by apportion {fields.take('apportion', str)[:20]}",
            f"versions {_READABLE[0]} to {_READABLE[-1]}",
            "install that apportion, or save the model with this one",
        )
