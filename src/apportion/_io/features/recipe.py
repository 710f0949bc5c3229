"""How a table's columns become numbers: learned from some rows, the same for others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np

from apportion._io.features.cells import (
    MISSING,
    UNSEEN,
    codes_of,
    holds_numbers,
    levels_of,
    numbers_of,
)
from apportion._io.read import no_column
from apportion._io.values import delimiter_in, texts_of, values_of
from apportion._utils.typing import BoolArray, FloatArray
from apportion.exceptions import FileError, SavedModelError, name_some

Missing = Literal["median", "drop", "error"]

_MOST_LEVELS = 50
_SINGLE_FROM = 20_000_000
"""Tables of more cells than this are held in single precision."""

_FAR = 1e3
"""Of a column that is this many standard deviations from 0, single precision holds too little."""


@dataclass(frozen=True)
class Feature:
    """How one column becomes numbers.

    Attributes
    ----------
    name : str
        The column.
    middle, mean, scale : float
        Of a number: what stands in for a missing one, and by what it is shifted and divided.
    levels : tuple of str, or None
        Of a category: its values, one 0/1 number each.
    present : float
        The share of the rows it was learned from whose cell was not missing.
    """

    name: str
    middle: float = 0.0
    mean: float = 0.0
    scale: float = 1.0
    levels: tuple[str, ...] | None = None
    present: float = 1.0

    @property
    def width(self) -> int:
        """How many numbers the column becomes."""
        return 1 if self.levels is None else len(self.levels)

    @classmethod
    def from_json(cls, feature: Mapping[str, Any]) -> Feature:
        """Return a feature from what JSON holds of it; a ValueError where that is none."""
        name, levels = feature["name"], feature["levels"]
        middle, mean, scale = (float(feature[key]) for key in ("middle", "mean", "scale"))
        texts = [name] if levels is None else [name, *levels]
        present = float(feature.get("present", 1.0))
        if not (all(map(math.isfinite, (middle, mean, scale))) and scale > 0):
            raise ValueError(feature)
        if not 0 <= present <= 1:
            raise ValueError(feature)
        if (levels is not None and not levels) or not all(isinstance(text, str) for text in texts):
            raise ValueError(feature)
        return cls(name, middle, mean, scale, None if levels is None else tuple(levels), present)


@dataclass(frozen=True)
class Encoded:
    """A table's rows as numbers.

    Attributes
    ----------
    rows : ndarray of shape (n_samples, n_numbers)
        Finite numbers.
    lacking : ndarray of bool, of shape (n_samples,)
        Rows with a missing cell, which a stand-in fills.
    poor : ndarray of bool, of shape (n_samples,)
        Rows that have less than half as many features as rows usually have.
    unseen : ndarray of bool, of shape (n_samples,)
        Rows with a category that the recipe does not know, which is 0 for all that it does.
    missing : dict of str to float
        The share of the rows whose cell is missing, by column.
    """

    rows: FloatArray
    lacking: BoolArray
    poor: BoolArray
    unseen: BoolArray
    missing: dict[str, float]


@dataclass(frozen=True)
class Recipe:
    """How a table's columns become features.

    Numbers are shifted and scaled to mean 0 and variance 1, a missing one being the column's
    median. A category is one number for each of its values, 1/√2 or 0, so that two different
    values are 1 apart; a missing one is 0 for all of them.

    Attributes
    ----------
    features : tuple of Feature
        The columns.
    missing : {"median", "drop", "error"}
        What a missing cell is: filled, a reason not to label its row, or an error.
    """

    features: tuple[Feature, ...]
    missing: Missing = "median"

    @property
    def names(self) -> list[str]:
        """The columns."""
        return [feature.name for feature in self.features]

    @property
    def width(self) -> int:
        """How many numbers a row becomes."""
        return sum(feature.width for feature in self.features)

    def encode(self, table: Any, place: Callable[[int], str]) -> Encoded:
        """Return the rows of a table as numbers.

        Parameters
        ----------
        table : pyarrow.Table
            With the recipe's columns.
        place : callable
            Says where a row stands, for messages.
        """
        known = set(table.column_names)
        for name in self.names:
            if name not in known:
                near = no_column(name, table.column_names, "the rows").hint
                raise FileError(
                    "the rows",
                    f"no column {name!r}, which the model was fitted to",
                    f"all of its features: {name_some(map(repr, self.names), 12)}",
                    near if near.endswith("?") else "add the column, or rename the one it is",
                )
        n, width = table.num_rows, self.width
        kind = np.float32 if n * width > _SINGLE_FROM else np.float64
        rows = np.empty((n, width), dtype=kind)
        n_present, unseen, first = np.zeros(n, np.intp), np.zeros(n, bool), 0
        missing: dict[str, float] = {}
        for feature in self.features:
            last = first + feature.width
            if feature.levels is None:
                cells = values_of(table, feature.name)
                values = numbers_of(cells, feature.name, place, delimiter=delimiter_in(table))
                absent = np.isnan(values)
                values = np.where(absent, feature.middle, values)
                rows[:, first] = (values - feature.mean) / feature.scale
            else:
                codes = codes_of(texts_of(table, feature.name), feature.levels)
                absent = codes == MISSING
                rows[:, first:last] = (codes[:, None] == np.arange(feature.width)) / np.sqrt(2.0)
                unseen |= codes == UNSEEN
            if self.missing == "error" and absent.any():
                raise FileError(
                    f"{place(int(np.argmax(absent)))}, column {feature.name!r}",
                    "an empty cell",
                    "no empty cell, as --missing error says",
                    "fill it, or use --missing median or drop",
                )
            n_present += ~absent
            missing[feature.name] = float(absent.mean()) if n else 0.0
            first = last
        usual = sum(feature.present for feature in self.features)
        lacking = n_present < len(self.features)
        return Encoded(rows, lacking, lacking & (2 * n_present < max(usual, 1)), unseen, missing)

    def to_json(self) -> dict[str, Any]:
        """Return the recipe as JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_json(cls, recipe: Any) -> Recipe:
        """Return a recipe from what `to_json` gave."""
        try:
            features = tuple(Feature.from_json(one) for one in recipe["features"])
            if not features or recipe["missing"] not in get_args(Missing):
                raise ValueError("recipe")
        except (KeyError, TypeError, ValueError):
            raise SavedModelError(
                "the model",
                "no recipe that makes features of columns",
                "models that 'apportion label --model' saved",
                "save the model again",
            ) from None
        return cls(features, recipe["missing"])


def learn_recipe(
    table: Any,
    names: Sequence[str],
    place: Callable[[int], str],
    *,
    categorical: Sequence[str] = (),
    missing: Missing = "median",
    scale: bool = True,
) -> tuple[Recipe, dict[str, str]]:
    """Return how columns become features, and which cannot, with the reason.

    Parameters
    ----------
    table : pyarrow.Table
        The rows.
    names : sequence of str
        The columns.
    place : callable
        Says where a row stands, for messages.
    categorical : sequence of str
        Columns that are categories, whatever they hold.
    missing : {"median", "drop", "error"}
        See `Recipe`.
    scale : bool, default=True
        Whether numbers are shifted and scaled. Without, columns far from 0 are still shifted: large
        tables are held in single precision.
    """
    features: list[Feature] = []
    left_out: dict[str, str] = {}
    for name in names:
        cells = values_of(table, name)
        if name in categorical or not holds_numbers(cells):
            texts = texts_of(table, name)
            levels = levels_of(texts)
            if len(levels) < 2:
                left_out[name] = "the same in every row" if levels else "empty"
            elif len(levels) > _MOST_LEVELS and name not in categorical:
                left_out[name] = f"{len(levels):,} different texts such as {levels[0]!r}"
            else:
                present = float(np.mean(codes_of(texts, levels) != MISSING))
                features.append(Feature(name, levels=levels, present=present))
            continue
        or_else = f"; if the column holds categories, pass --categorical {name}"
        values = numbers_of(cells, name, place, or_else, delimiter_in(table))
        known = values[~np.isnan(values)]
        mean, spread = (float(known.mean()), float(known.std())) if known.size else (0.0, 0.0)
        if spread <= 1e-12 * np.abs(known).max(initial=0.0):
            left_out[name] = "the same in every row" if known.size else "empty"
            continue
        if not scale:
            mean, spread = (mean if abs(mean) > _FAR * spread else 0.0), 1.0
        present = known.size / values.size
        features.append(Feature(name, float(np.median(known)), mean, spread, present=present))
    return Recipe(tuple(features), missing), left_out
