"""Save and load a fitted LPLLP: a zip of JSON and arrays without pickle, so no code is run.

Each graph defines what it needs to predict new rows (`Graph.state`, `Graph.from_state`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any, NoReturn, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from apportion._io.archive import (
    BYTES,
    INTEGERS,
    PLACES,
    PathOrFile,
    Stored,
    ZipReader,
    open_zip,
    write_zip,
)
from apportion._io.atomic_write import replacing
from apportion._io.identifiers import object_vector
from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.estimators import LPLLP
from apportion.exceptions import SavedModelError, hint, name_some
from apportion.graphs import AnchorGraph, Graph, KNNGraph, RBFGraph
from apportion.supervision.totals import sorted_classes

__all__ = ["SavedModel", "contains_rows", "load_model", "save_model"]

FORMAT = "apportion model"
VERSION = 1

_DOCUMENT = "model.json"
_GRAPHS: dict[str, type[Graph]] = {
    graph.__name__: graph for graph in (KNNGraph, AnchorGraph, RBFGraph)
}
_CLASS_TYPES = {kind.__name__: kind for kind in (bool, int, float, str)}
_LABELS = {
    "labels": Stored(("rows",), PLACES, below="classes"),
    "label_distributions": Stored(("rows", "classes"), shares=True),
}

Kind = TypeVar("Kind")


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
    model : LPLLP or None
        A model that predicts what the saved one did. It has no attributes of the fitted rows, such
        as `transduction_` and `bag_report_`; it has `label_distributions_` unless its graph is an
        `AnchorGraph`.
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
    model: LPLLP | None = None
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


def contains_rows(model: LPLLP, *, labels_only: bool = False) -> str:
    """Return in words which training rows a file of this model will contain.

    Parameters
    ----------
    model : LPLLP
        A fitted model.
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
    return "no training rows" if labels_only else _storable_graph(model).rows_in_state()


def save_model(
    path: PathOrFile,
    model: LPLLP,
    *,
    extra: Mapping[str, Any] | None = None,
    labels_only: bool = False,
    ids: Sequence[str] | Sequence[int] | None = None,
) -> None:
    """Write a fitted model to a file that `load_model` reads.

    New rows are compared with fitted ones, so the file contains these: all of them with a
    `KNNGraph` or an `RBFGraph`, means of them with an `AnchorGraph`; see `contains_rows`. Equal
    models give equal files.

    Parameters
    ----------
    path : str, path or binary file
        Where to write. An existing file is replaced once the new one is complete.
    model : LPLLP
        A fitted model. Its classes must be text, ints, floats or bools, and its graph must not be
        precomputed. Parameters that JSON cannot hold (a prior, a RandomState) are left out; they
        do not change predictions.
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
    if type(model) is not LPLLP:
        raise SavedModelError("the model", type(model).__name__, "LPLLP", "fit an LPLLP")
    check_is_fitted(model, "classes_")
    if labels_only != (ids is not None):
        found = "none" if labels_only else "ids of rows beside a whole model"
        raise _bad_ids(found, hint("ids with {labels_only}, and only then"), "give both or neither")
    if not isinstance(extra, Mapping | None):
        found, advice = type(extra).__name__, "put it into a dict under a name"
        raise SavedModelError("", found, "a mapping", advice, parameter="extra")
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "apportion": version("apportion"),
        "contents": contains_rows(model, labels_only=labels_only),
        "labels_only": labels_only,
        "classes": _named_types(model.classes_),
    }
    if ids is None:
        graph = _storable_graph(model)
        names = getattr(model, "feature_names_in_", None)
        document |= {
            "n_features": model.n_features_in_,
            "feature_names": None if names is None else names.tolist(),
            "graph_choice": model.graph_choice_,
            "model": _described(model),
            "graph": _described(graph),
        }
        arrays = {**graph.state(), **model._answers()}
    else:
        arrays = _labels(model)
        id_arrays = _id_arrays(ids, len(arrays["labels"]))
        document["ids"] = "int" if "ids" in id_arrays else "text"
        arrays |= id_arrays
    document["extra"] = {} if extra is None else dict(extra)
    if isinstance(path, str | os.PathLike):
        with replacing(path, force=True) as temporary:
            write_zip(temporary, document, arrays, _DOCUMENT)
    else:
        write_zip(path, document, arrays, _DOCUMENT)


def load_model(path: PathOrFile) -> SavedModel:
    """Read a file that `save_model` wrote.

    No code from the file is run. The model predicts exactly what the saved one did. There is one
    exception: if neighbors are searched approximately (`KNNGraph.search_`), another processor or
    version of faiss can change the soft labels of a few rows in a hundred slightly.

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
        fields = _DocumentFields(file, file.json(_DOCUMENT))
        _check_format(fields)
        classes = _read_classes(fields)
        extra = fields.take("extra", dict)
        if not fields.take("labels_only", bool):
            model = _read_model(file, fields, classes)
            return SavedModel(model.graph_.rows_in_state(), extra, classes, model=model)
        lengths = {"classes": len(classes)}
        arrays = {key: file.array(key, stored, lengths) for key, stored in _LABELS.items()}
        ids = _read_ids(file, fields, lengths)
        labels, soft = classes[arrays["labels"]], arrays["label_distributions"]
        return SavedModel("no training rows", extra, classes, True, None, ids, labels, soft)


class _DocumentFields:
    """The fields of a JSON object in a file."""

    def __init__(self, file: ZipReader, document: Any) -> None:
        self._file = file
        if not isinstance(document, dict):
            self.refuse(f"{type(document).__name__} {_short(document)}", "an object")
        self._document: dict[str, Any] = document

    def take(self, name: str, kind: type[Kind]) -> Kind:
        """Return a field of one kind, and no other."""
        if name not in self._document:
            self.refuse(f"no {name!r}", f"{name!r} as save_model writes it")
        value = self._document[name]
        if type(value) is not kind:
            self.refuse(f"{name!r}: {_short(value)}", f"{name!r} of type {kind.__name__}")
        return value

    def within(self, name: str) -> _DocumentFields:
        """Return the fields of an object in a field."""
        return _DocumentFields(self._file, self.take(name, dict))

    def holds(self, name: str, kind: type[Any]) -> bool:
        """Return whether there is such a field, of this kind."""
        return type(self._document.get(name)) is kind

    def refuse(self, found: str, allowed: str, *hint: str) -> NoReturn:
        """Raise an error about the document."""
        self._file.refuse(_DOCUMENT, found, allowed, *hint)


def _check_format(fields: _DocumentFields) -> None:
    name = fields.take("format", str)
    if name != FORMAT:
        fields.refuse(f"the format {_short(name)}", repr(FORMAT), "name the right file")
    number = fields.take("version", int)
    if number != VERSION:
        fields.refuse(
            f"version {number} of the format, by apportion {fields.take('apportion', str)[:20]}",
            f"version {VERSION}",
            "install that apportion, or save the model with this one",
        )


def _read_model(file: ZipReader, fields: _DocumentFields, classes: AnyArray) -> LPLLP:
    n_features = fields.take("n_features", int)
    lengths = {"classes": len(classes), "features": n_features}
    described = fields.within("model")
    parameters = described.within("parameters")
    graphs = {}
    if parameters.holds("graph", dict):
        graphs["graph"] = _built(parameters.within("graph"), _GRAPHS)
    model = _built(described, {"LPLLP": LPLLP}, **graphs)
    kind, graph_parameters = _description(fields.within("graph"), _GRAPHS)
    state = {key: file.array(key, stored, lengths) for key, stored in kind.stored.items()}
    # Files call the labels of the prototypes "voices", as the first version of the format did.
    prototype_labels = Stored((kind.prototype_kind, "classes"), shares=True)
    answers = {
        "voices": file.array("voices", prototype_labels, lengths),
        "overall": file.array("overall", Stored(("classes",), shares=True), lengths),
    }
    try:
        graph = kind.from_state(graph_parameters, state)
        model._check_parameters()
        model._asked_graph()
    except (TypeError, ValueError, OverflowError) as error:
        fields.refuse(f"what makes no model ({error})", "parameters and arrays of a fitted model")
    model._restore(classes, graph, answers)
    model.n_features_in_ = n_features
    model.graph_choice_ = fields.take("graph_choice", str)
    if not fields.holds("feature_names", type(None)):
        names = fields.take("feature_names", list)
        if len(names) != n_features or not all(isinstance(name, str) for name in names):
            fields.refuse(f"{len(names)} names of features", f"{n_features} names, all text")
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def _storable_graph(model: LPLLP) -> Graph:
    graph = model.graph_
    if type(graph) not in _GRAPHS.values():
        raise SavedModelError(
            "the model's graph",
            type(graph).__name__,
            ", ".join(_GRAPHS),
            "fit the model on features with one of these graphs, or save labels only",
        )
    return graph


def _described(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the class of an estimator and those of its parameters that JSON can hold."""
    parameters, left_out = {}, []
    for name, value in estimator.get_params(deep=False).items():
        try:
            parameters[name] = _json_value(value)
        except TypeError:
            left_out.append(name)
    return {"class": type(estimator).__name__, "parameters": parameters, "left_out": left_out}


def _json_value(value: Any) -> Any:
    """Return a number, text, None, a graph, or a list of numbers, as a value for JSON."""
    if isinstance(value, Graph) and type(value) in _GRAPHS.values():
        return _described(value)
    if isinstance(value, np.ndarray | list | tuple) and np.ndim(value) == 1:
        return [float(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is not None and type(value) not in _CLASS_TYPES.values():
        raise TypeError("not for JSON")
    return value


def _built(fields: _DocumentFields, kinds: Mapping[str, type[Kind]], **instead: Any) -> Kind:
    """Return the estimator that is described; `instead` replaces some of its parameters."""
    kind, parameters = _description(fields, kinds)
    try:
        return kind(**{**parameters, **instead})
    except TypeError as error:
        fields.refuse(
            f"parameters of another version ({error})",
            f"those of {kind.__name__}",
            "install the apportion that wrote the file",
        )


def _description(
    fields: _DocumentFields, kinds: Mapping[str, type[Kind]]
) -> tuple[type[Kind], dict[str, Any]]:
    name = fields.take("class", str)
    if name not in kinds:
        fields.refuse(f"the class {_short(name)}", " or ".join(kinds))
    return kinds[name], fields.take("parameters", dict)


def _named_types(classes: AnyArray) -> list[list[Any]]:
    """Return the classes with their types."""
    for label in classes.tolist():
        kind = type(label).__name__
        if type(label) is not _CLASS_TYPES.get(kind) or label in (np.inf, -np.inf):
            raise SavedModelError(
                f"class {label!r}",
                f"a class of type {kind}",
                "text, ints, finite floats and bools",
                "name the classes by text",
            )
    return [[type(label).__name__, label] for label in classes.tolist()]


def _read_classes(fields: _DocumentFields) -> AnyArray:
    named = fields.take("classes", list)
    for pair in named:
        match pair:
            case [str(kind), label] if type(label) is _CLASS_TYPES.get(kind):
                continue
        fields.refuse(f"the class {_short(pair)}", "a type (bool, int, float, str) and a value")
    classes, order = sorted_classes([label for _, label in named])
    if not named or len(set(classes.tolist())) < len(named) or np.any(order[1:] < order[:-1]):
        fields.refuse(f"the classes {_short(named)}", "different classes, sorted, at least one")
    return classes


def _labels(model: LPLLP) -> dict[str, AnyArray]:
    """Return the labels of the fitted rows, as positions in the classes, and soft labels."""
    if not hasattr(model, "transduction_"):
        found, allowed = "no labels of its rows", "a model as `fit` leaves it"
        raise SavedModelError("the model", found, allowed, "fit it again")
    labels = np.empty(len(model.transduction_), dtype=np.int32)
    for position, label in enumerate(model.classes_.tolist()):
        labels[model.transduction_ == label] = position
    return {"labels": labels, "label_distributions": model.label_distributions_}


def _id_arrays(ids: Iterable[Any], n_samples: int) -> dict[str, AnyArray]:
    """Return ids as arrays: ints as they are, text as UTF-8 with one line per id, and its ends."""
    plain = [item.item() if isinstance(item, np.generic) else item for item in ids]
    if len(plain) != n_samples:
        raise _bad_ids(f"{len(plain):,} ids", f"{n_samples:,}, one per row", "add them")
    kinds = {type(item) for item in plain}
    if kinds not in ({int}, {str}):
        found = name_some(sorted(kind.__name__ for kind in kinds))
        raise _bad_ids(f"ids of type {found}", "text only, or ints only", "turn them into text")
    if len(set(plain)) < n_samples:
        twice = Counter(plain).most_common(1)[0][0]
        raise _bad_ids(f"{twice!r} twice", "every id once", "rename one of the two")
    try:
        if kinds == {int}:
            return {"ids": np.array(plain, dtype=np.int64)}
        text = "".join(f"{item}\n" for item in plain).encode("utf-8")
    except (OverflowError, UnicodeEncodeError) as error:
        allowed = "ints of 64 bits, or text that UTF-8 can hold"
        raise _bad_ids(str(error), allowed, "rename the row") from error
    ends = np.cumsum([len(item) + 1 for item in plain], dtype=np.int64)
    return {"ids_text": np.frombuffer(text, dtype=np.uint8), "ids_ends": ends}


def _bad_ids(found: str, allowed: str, advice: str) -> SavedModelError:
    return SavedModelError("", found, allowed, advice, parameter="ids")


def _read_ids(file: ZipReader, fields: _DocumentFields, lengths: dict[str, int]) -> AnyArray:
    if fields.take("ids", str) == "int":
        ids = file.array("ids", Stored(("rows",), INTEGERS), lengths)
    else:
        ends = file.array("ids_ends", Stored(("rows",), INTEGERS, least=1), lengths)
        raw = file.array("ids_text", Stored(("bytes",), BYTES), lengths)
        try:
            text = raw.tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            file.refuse("ids_text.npy", f"what is not UTF-8 ({error})", "text")
        begins = np.append(0, ends[:-1])
        lines = [text[begin:end] for begin, end in zip(begins, ends, strict=True)]
        fits = ends[-1] == len(text) and np.all(begins < ends)
        if not fits or not all(line.endswith("\n") for line in lines):
            file.refuse("ids_ends.npy", "ends that do not fit the text", "the end of every id")
        ids = object_vector([line[:-1] for line in lines])
    if len(set(ids.tolist())) < len(ids):
        fields.refuse("the same id twice", "every id once")
    return ids


def _short(value: object) -> str:
    """Return the beginning of a value's repr."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
