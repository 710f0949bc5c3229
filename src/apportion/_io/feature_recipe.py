"""The recipe by which columns become numbers: learned from some rows, the same for others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np

from apportion._io.read import no_column
from apportion._io.values import (
    MISSING,
    UNSEEN,
    codes_of,
    delimiter_in,
    holds_numbers,
    levels_of,
    numbers_of,
    texts_of,
    values_of,
)
from apportion._utils.typing import BoolArray, FloatArray
from apportion.exceptions import FileError, SavedModelError, hint, name_some

Missing = Literal["median", "drop", "error"]

_MOST_LEVELS = 50
_SINGLE_FROM = 20_000_000
"""Tables of more cells than this are held in single precision."""

_FAR = 1e3
"""Standard deviations: a column farther from 0 loses too much in single precision."""


@dataclass(frozen=True)
class Feature:
    """How one column becomes numbers.

    Attributes
    ----------
    name : str
        The column.
    middle, mean, scale : float
        Of a column of numbers: the median, which replaces missing cells; and what is subtracted
        from the numbers and what they are divided by.
    levels : tuple of str, or None
        Of a column of categories: the categories, which become one number each.
    present : float
        The share of cells that were not missing when the recipe was learned.
    """

    name: str
    middle: float = 0.0
    mean: float = 0.0
    scale: float = 1.0
    levels: tuple[str, ...] | None = None
    present: float = 1.0

    @property
    def width(self) -> int:
        """The number of numbers that the column becomes."""
        return 1 if self.levels is None else len(self.levels)

    @classmethod
    def from_json(cls, feature: Mapping[str, Any]) -> Feature:
        """Return a feature from its JSON; a ValueError is raised if that is not one."""
        name, levels = feature["name"], feature["levels"]
        middle, mean, scale = (float(feature[key]) for key in ("middle", "mean", "scale"))
        present = float(feature.get("present", 1.0))
        texts = [name] if levels is None else [name, *levels]
        is_valid = (
            all(map(math.isfinite, (middle, mean, scale)))
            and scale > 0
            and 0 <= present <= 1
            and (levels is None or len(levels) > 0)
            and all(isinstance(text, str) for text in texts)
        )
        if not is_valid:
            raise ValueError(feature)
        return cls(name, middle, mean, scale, None if levels is None else tuple(levels), present)


@dataclass(frozen=True)
class Encoded:
    """The rows of a table as numbers.

    Attributes
    ----------
    rows : ndarray of shape (n_samples, n_numbers)
        Finite numbers.
    lacking : ndarray of bool, of shape (n_samples,)
        Rows with a missing cell, which was filled.
    poor : ndarray of bool, of shape (n_samples,)
        Rows that have less than half as many features as rows usually have.
    unseen : ndarray of bool, of shape (n_samples,)
        Rows with a category that the recipe does not know; its numbers are all 0.
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
    """How the columns of a table become features.

    Numbers are shifted and scaled to mean 0 and variance 1; a missing one is replaced by the
    median. A column of categories becomes one number per category, 1/√2 or 0, so that the distance
    of two categories is 1; all of them are 0 for a missing cell.

    Attributes
    ----------
    features : tuple of Feature
        The columns.
    missing : {"median", "drop", "error"}
        What happens to a missing cell: it is filled, its row is not labeled, or it is an error.
    """

    features: tuple[Feature, ...]
    missing: Missing = "median"

    @property
    def names(self) -> list[str]:
        """The columns."""
        return [feature.name for feature in self.features]

    @property
    def width(self) -> int:
        """The number of numbers that a row becomes."""
        return sum(feature.width for feature in self.features)

    def encode(self, table: Any, place: Callable[[int], str]) -> Encoded:
        """Return the rows of a table as numbers.

        Parameters
        ----------
        table : pyarrow.Table
            With the columns of the recipe.
        place : callable
            Returns the place of a row in words, for messages.
        """
        columns = set(table.column_names)
        absent = [name for name in self.names if name not in columns]
        if absent:
            near = no_column(absent[0], table.column_names, "the rows").hint
            raise FileError(
                "the rows",
                f"no column {absent[0]!r}, which the model was fitted to",
                f"all of its features: {name_some(map(repr, self.names), 12)}",
                near if near.endswith("?") else "add the column, or correct its name",
            )
        n, width = table.num_rows, self.width
        rows = np.empty((n, width), np.float32 if n * width > _SINGLE_FROM else np.float64)
        n_present, unseen, first = np.zeros(n, np.intp), np.zeros(n, bool), 0
        missing: dict[str, float] = {}
        for feature in self.features:
            last = first + feature.width
            if feature.levels is None:
                cells = values_of(table, feature.name)
                values = numbers_of(cells, feature.name, place, delimiter_in(table))
                blank = np.isnan(values)
                values = np.where(blank, feature.middle, values)
                rows[:, first] = (values - feature.mean) / feature.scale
            else:
                codes = codes_of(texts_of(table, feature.name), feature.levels)
                blank = codes == MISSING
                rows[:, first:last] = (codes[:, None] == np.arange(feature.width)) / np.sqrt(2.0)
                unseen |= codes == UNSEEN
            if self.missing == "error" and blank.any():
                row = int(np.argmax(blank))
                raise FileError(
                    "",
                    "an empty cell",
                    hint("no empty cell with {missing:error}"),
                    hint("fill it, or use {missing:median} or {missing:drop}"),
                    row=row,
                    place=place(row),
                    column=feature.name,
                )
            n_present += ~blank
            missing[feature.name] = float(blank.mean()) if n else 0.0
            first = last
        usual = sum(feature.present for feature in self.features)
        lacking = n_present < len(self.features)
        return Encoded(rows, lacking, lacking & (2 * n_present < max(usual, 1)), unseen, missing)

    def to_json(self) -> dict[str, Any]:
        """Return the recipe as an object for JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, recipe: Any) -> Recipe:
        """Return the recipe that `to_json` returned."""
        try:
            features = tuple(Feature.from_json(feature) for feature in recipe["features"])
            if not features or recipe["missing"] not in get_args(Missing):
                raise ValueError("recipe")
        except (KeyError, TypeError, ValueError):
            raise SavedModelError(
                "the model",
                "no recipe that makes features of columns",
                "models that the command line saved",
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
        Returns the place of a row in words, for messages.
    categorical : sequence of str
        Columns of categories, whatever their cells are.
    missing : {"median", "drop", "error"}
        See `Recipe`.
    scale : bool, default=True
        Whether numbers are shifted and scaled. If not, columns far from 0 are still shifted,
        because large tables are held in single precision.
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
        values = numbers_of(cells, name, place, delimiter_in(table), or_categories=True)
        numbers = values[~np.isnan(values)]
        mean, spread = (float(numbers.mean()), float(numbers.std())) if numbers.size else (0.0, 0.0)
        if spread <= 1e-12 * np.abs(numbers).max(initial=0.0):
            left_out[name] = "the same in every row" if numbers.size else "empty"
            continue
        if not scale:
            mean, spread = (mean if abs(mean) > _FAR * spread else 0.0), 1.0
        present = numbers.size / values.size
        features.append(Feature(name, float(np.median(numbers)), mean, spread, present=present))
    return Recipe(tuple(features), missing), left_out
