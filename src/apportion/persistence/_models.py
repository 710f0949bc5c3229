"""Which models can be saved, and how their states are read again."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from apportion._io.model_state import SCALARS, State, StateReader, built, described, short
from apportion._utils.typing import AnyArray
from apportion.estimators import (
    EMLLP,
    LPLLP,
    AggregateGP,
    CountLogistic,
    InvCal,
    LabelPropagation,
    LaplacianMeanMap,
    MeanMap,
    PropSVM,
    WeightedKNN,
)
from apportion.estimators._base import BagClassifier
from apportion.estimators._graph import SAVED_GRAPHS
from apportion.exceptions import SavedModelError
from apportion.model_selection import AutoLLP, CalibratedLLP
from apportion.supervision.totals import sorted_classes

_KINDS: dict[str, type[BagClassifier]] = {
    kind.__name__: kind
    for kind in (
        LPLLP,
        LabelPropagation,
        WeightedKNN,
        AggregateGP,
        CountLogistic,
        EMLLP,
        InvCal,
        LaplacianMeanMap,
        MeanMap,
        PropSVM,
        AutoLLP,
        CalibratedLLP,
    )
}
"""The models that can be saved."""

_REMOVED = {"AutoLLP": ("context",)}
"""Parameters of development versions. Models that were saved with them are read without them."""


def require_savable(model: Any, what: str = "the model") -> None:
    """Raise an error unless a model is of a kind that can be saved, and fitted."""
    name = type(model).__name__
    if type(model) is not _KINDS.get(name):
        raise SavedModelError(what, name, ", ".join(_KINDS), "fit one of these")
    check_is_fitted(model, "classes_")


def model_state(model: Any, what: str = "the model") -> State:
    """Return all that is saved of a fitted model, beside its labels."""
    require_savable(model, what)
    state, names = model._state(), getattr(model, "feature_names_in_", None)
    fields = {
        "classes": named_types(model.classes_),
        "n_features": model.n_features_in_,
        "feature_names": None if names is None else names.tolist(),
        "model": described(model, SAVED_GRAPHS),
    }
    parts = {
        name: part if isinstance(part, State) else model_state(part, f"the model's {name}")
        for name, part in state.parts.items()
    }
    return State({**fields, **state.fields}, state.arrays, parts)


def read_model(state: StateReader) -> BagClassifier:
    """Return a model that predicts what the saved one did."""
    classes, n_features = read_classes(state), state.take("n_features", int)
    state.lengths |= {"classes": len(classes), "features": n_features}
    fields = state.within("model")
    name = fields.take("class", str)
    if name not in _KINDS:
        fields.refuse(f"the class {short(name)}", " or ".join(_KINDS))
    parameters = fields.within("parameters")
    graphs: dict[str, Any] = {}
    if parameters.holds("graph", dict):
        graphs["graph"] = built(parameters.within("graph"), SAVED_GRAPHS)
    model = built(fields, {name: _KINDS[name]}, without=_REMOVED.get(name, ()), **graphs)
    model.classes_, model.n_features_in_ = classes, n_features
    try:
        model._check_parameters()
        model._restore_state(state)
    except SavedModelError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        state.refuse(f"what makes no model ({error})", "parameters and arrays of a fitted model")
    if not state.holds("feature_names", type(None)):
        names = state.take("feature_names", list)
        if len(names) != n_features or not all(isinstance(name, str) for name in names):
            state.refuse(f"{len(names)} names of features", f"{n_features} names, all text")
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def named_types(classes: AnyArray) -> list[list[Any]]:
    """Return the classes with their types."""
    for label in classes.tolist():
        kind = type(label).__name__
        if type(label) is not SCALARS.get(kind) or label in (np.inf, -np.inf):
            raise SavedModelError(
                f"class {label!r}",
                f"a class of type {kind}",
                "text, ints, finite floats and bools",
                "name the classes by text",
            )
    return [[type(label).__name__, label] for label in classes.tolist()]


def read_classes(fields: StateReader) -> AnyArray:
    """Return the classes of a file, sorted."""
    named = fields.take("classes", list)
    for pair in named:
        match pair:
            case [str(kind), label] if type(label) is SCALARS.get(kind):
                continue
        fields.refuse(f"the class {short(pair)}", "a type (bool, int, float, str) and a value")
    classes, order = sorted_classes([label for _, label in named])
    if not named or len(set(classes.tolist())) < len(named) or np.any(order[1:] < order[:-1]):
        fields.refuse(f"the classes {short(named)}", "different classes, sorted, at least one")
    return classes
