"""The labels of the fitted rows by their ids, for files without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from apportion._io.archive import BYTES, INTEGERS, PLACES, Stored
from apportion._io.identifiers import object_vector
from apportion._io.model_state import StateReader
from apportion._utils.typing import AnyArray
from apportion.estimators._base import BagClassifier
from apportion.exceptions import SavedModelError, name_some

LABELS = {
    "labels": Stored(("rows",), PLACES, below="classes"),
    "label_distributions": Stored(("rows", "classes"), shares=True),
}


def label_arrays(model: BagClassifier) -> dict[str, AnyArray]:
    """Return the labels of the fitted rows, as positions in the classes, and soft labels."""
    if not hasattr(model, "transduction_"):
        found, allowed = "no labels of its rows", "a model as `fit` leaves it"
        raise SavedModelError("the model", found, allowed, "fit it again")
    labels = np.empty(len(model.transduction_), dtype=np.int32)
    for position, label in enumerate(model.classes_.tolist()):
        labels[model.transduction_ == label] = position
    return {"labels": labels, "label_distributions": model.label_distributions_}


def id_arrays(ids: Iterable[Any], n_samples: int) -> dict[str, AnyArray]:
    """Return ids as arrays: ints as they are, text as UTF-8 with one line per id, and its ends."""
    plain = [item.item() if isinstance(item, np.generic) else item for item in ids]
    if len(plain) != n_samples:
        raise bad_ids(f"{len(plain):,} ids", f"{n_samples:,}, one per row", "add them")
    kinds = {type(item) for item in plain}
    if kinds not in ({int}, {str}):
        found = name_some(sorted(kind.__name__ for kind in kinds))
        raise bad_ids(f"ids of type {found}", "text only, or ints only", "turn them into text")
    if len(set(plain)) < n_samples:
        twice = Counter(plain).most_common(1)[0][0]
        raise bad_ids(f"{twice!r} twice", "every id once", "rename one of the two")
    try:
        if kinds == {int}:
            return {"ids": np.array(plain, dtype=np.int64)}
        text = "".join(f"{item}\n" for item in plain).encode("utf-8")
    except (OverflowError, UnicodeEncodeError) as error:
        allowed = "ints of 64 bits, or text that UTF-8 can hold"
        raise bad_ids(str(error), allowed, "rename the row") from error
    ends = np.cumsum([len(item) + 1 for item in plain], dtype=np.int64)
    return {"ids_text": np.frombuffer(text, dtype=np.uint8), "ids_ends": ends}


def bad_ids(found: str, allowed: str, advice: str) -> SavedModelError:
    """Return the error of ids that cannot be saved."""
    return SavedModelError("", found, allowed, advice, parameter="ids")


def read_ids(fields: StateReader) -> AnyArray:
    """Return the ids of a file."""
    if fields.take("ids", str) == "int":
        ids = fields.array("ids", Stored(("rows",), INTEGERS))
    else:
        ends = fields.array("ids_ends", Stored(("rows",), INTEGERS, least=1))
        raw = fields.array("ids_text", Stored(("bytes",), BYTES))
        try:
            text = raw.tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            fields.refuse_array("ids_text", f"what is not UTF-8 ({error})", "text")
        begins = np.append(0, ends[:-1])
        lines = [text[begin:end] for begin, end in zip(begins, ends, strict=True)]
        fits = ends[-1] == len(text) and np.all(begins < ends)
        if not fits or not all(line.endswith("\n") for line in lines):
            fields.refuse_array("ids_ends", "ends that do not fit the text", "the end of every id")
        ids = object_vector([line[:-1] for line in lines])
    if len(set(ids.tolist())) < len(ids):
        fields.refuse("the same id twice", "every id once")
    return ids
