"""Feature maps Φ of rows whose inner products are kernels, so that no n × n array is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.metrics.pairwise import euclidean_distances

from apportion._io.archive import Stored, numbers
from apportion._io.model_state import State, StateReader
from apportion._utils.groups import Groups
from apportion._utils.hashing import column_order
from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.estimators._forest import ExtraTrees, Forest
from apportion.estimators._kernels import Expansion, Kernel, center_of, row_blocks

_CLIP = 3.0
"""Standardized features are clipped here, so that outliers do not decide about distances, or about
the thresholds of trees, which are uniform between the extremes. On seven tables with bags of 16 and
64 rows, 200 trees were right for .800 of the rows with this, and for .790 without; on eight others,
for .683 and .678."""

_RBF_SCALES = (0.25, 1.0, 4.0, 16.0)
_LAPLACIAN_SCALES = (1.0, 4.0)
"""γ of a kernel in units in which the median (squared) distance of two rows is 1."""

_LEAF_SIZES = (5, 20, 60)
"""The smallest numbers of rows in a leaf of a random tree."""

_TREE_ROWS = 5000
"""The most rows that a random tree is grown on; all rows fall through it."""

_KEPT_CELLS = 2**25
"""Features are kept if they take at most 256 MiB, and computed again, in blocks, if more."""

_CHOLESKY_TOLERANCE = 1e-7
"""Landmarks that the others explain up to this share of k(x, x) are left out. Distances of equal
rows are computed up to 1e-8 only; below that, features would amplify rounding."""

Function = Callable[[FloatArray], FloatArray]


class FeatureMap:
    """A map of rows to features, φ(x) = finish(raw(x)), with φ(x)·φ(z) = k(x, z).

    `finish` is linear, so that raw values can be summed over bags first.
    """

    @property
    def cells(self) -> int:
        """How many raw values of a row are not 0."""
        raise NotImplementedError

    def raw(self, X: FloatArray) -> Any:
        """Return the raw values of the rows, an array that may be sparse."""
        raise NotImplementedError

    def finish(self, raw: Any) -> Any:
        """Return the features from raw values, or from sums of them."""
        return raw

    def mean_square(self, X: FloatArray) -> float:
        """Return the mean of k(x, x) before any approximation."""
        return 1.0

    def function(self, weights: FloatArray, intercept: FloatArray) -> Function:
        """Return x ↦ φ(x)·weights + intercept."""
        return FeatureFunction(self, weights, intercept)


@dataclass(frozen=True)
class Standardization:
    """Features with mean 0 and variance 1 over the fitted rows, clipped at 3 either way.

    A constant feature is 0.
    """

    center: FloatArray
    unit: FloatArray

    @classmethod
    def of(cls, X: FloatArray) -> Standardization:
        """Return the standardization of these rows."""
        center = center_of(X)
        unit = (X - center).std(axis=0)
        constant = unit <= 1e-12 * np.abs(center)  # no more than rounding
        return cls(center, np.where(constant, np.inf, unit))

    def __call__(self, X: FloatArray) -> FloatArray:
        return np.clip((X - self.center) / self.unit, -_CLIP, _CLIP)

    def state(self) -> dict[str, AnyArray]:
        """Return the arrays; the unit of a constant feature, which is infinite, as 0."""
        return {"center": self.center, "unit": np.where(np.isinf(self.unit), 0.0, self.unit)}

    @classmethod
    def from_state(cls, state: StateReader) -> Standardization:
        """Return the standardization of a file."""
        center = state.array("center", numbers("features", size=1e100))
        unit = state.array("unit", Stored(("features",), least=0.0, most=1e101))
        return cls(center, np.where(unit == 0.0, np.inf, unit))


@dataclass(frozen=True)
class LinearMap(FeatureMap):
    """The features themselves."""

    n_features: int

    @property
    def cells(self) -> int:
        return self.n_features

    def raw(self, X: FloatArray) -> FloatArray:
        return X

    def mean_square(self, X: FloatArray) -> float:
        return float((X**2).sum(axis=1).mean())


@dataclass(frozen=True)
class LandmarkMap(FeatureMap):
    """The Nyström features of a kernel: φ(x) = V k(landmarks, x), with VᵀV = k(landmarks)⁻¹.

    They are exact if the rows are among the landmarks.
    """

    kernel: Kernel
    landmarks: FloatArray
    root: FloatArray

    @classmethod
    def of(cls, kernel: Kernel, landmarks: FloatArray) -> LandmarkMap:
        """Return the features; landmarks that depend on the others are left out."""
        chosen, root = independent(kernel(landmarks, landmarks))
        return cls(kernel, landmarks[chosen], root)

    @property
    def cells(self) -> int:
        return len(self.landmarks)

    def raw(self, X: FloatArray) -> FloatArray:
        return self.kernel(X, self.landmarks)

    def finish(self, raw: FloatArray) -> FloatArray:
        return np.asarray(raw @ self.root.T)

    def mean_square(self, X: FloatArray) -> float:
        return float((X**2).sum(axis=1).mean()) if self.kernel.linear else 1.0

    def function(self, weights: FloatArray, intercept: FloatArray) -> Function:
        return Expansion(self.kernel, self.landmarks, self.root.T @ weights, intercept)


@dataclass(frozen=True)
class TreeMap(FeatureMap):
    """The leaves that a row falls into in totally random trees, each 1 / √(number of trees).

    The kernel of two rows is the share of trees in which they have a leaf in common. A tree splits
    at random features and thresholds, whatever the labels. See A. Davies, Z. Ghahramani, "The
    Random Forest Kernel and creating other kernels for big data from random partitions", 2014.
    """

    forest: ExtraTrees | Forest
    offsets: AnyArray
    columns: IntArray | None = None
    """The columns of rows as the forest sees them; None = as they are."""

    @classmethod
    def of(
        cls,
        X: FloatArray,
        leaf_size: int,
        n_estimators: int,
        seed: int,
        columns: IntArray | None = None,
    ) -> TreeMap:
        """Return the leaves of trees grown on the first rows, which are in an order of their own.

        The trees see the features in an order of their own, too: `column_order`, unless given.
        """
        columns = column_order(X) if columns is None else columns
        X = X[:_TREE_ROWS, columns]
        forest = ExtraTrees(
            n_estimators, max_features=1, min_samples_leaf=leaf_size, random_state=seed
        )
        # With one feature to choose from, the target decides nothing but must not be constant.
        forest.fit(X, np.random.RandomState(seed).uniform(size=len(X)))
        n_nodes = [tree.tree_.node_count for tree in forest.estimators_]
        return cls(forest, np.cumsum([0, *n_nodes]), columns)

    @property
    def cells(self) -> int:
        return len(self.offsets) - 1

    def raw(self, X: FloatArray) -> Any:
        seen = X if self.columns is None else X[:, self.columns]
        leaves = self.forest.apply(seen) + self.offsets[:-1]
        n, n_trees = leaves.shape
        values = np.full(n * n_trees, 1.0 / np.sqrt(n_trees))
        shape = (n, int(self.offsets[-1]))
        return sparse.csr_array((values, leaves.ravel(), n_trees * np.arange(n + 1)), shape=shape)


@dataclass(frozen=True)
class ReducedTreeMap(FeatureMap):
    """The Nyström features of the kernel of trees: φ(x) = V L leaves(x), with L for landmarks."""

    trees: TreeMap
    leaves: Any
    root: FloatArray

    @classmethod
    def of(cls, trees: TreeMap, landmarks: FloatArray) -> ReducedTreeMap:
        """Return the features; landmarks that depend on the others are left out."""
        leaves = trees.raw(landmarks)
        chosen, root = independent((leaves @ leaves.T).toarray())
        return cls(trees, leaves[chosen], root)

    @property
    def cells(self) -> int:
        return self.trees.cells

    def raw(self, X: FloatArray) -> Any:
        return self.trees.raw(X)

    def finish(self, raw: Any) -> FloatArray:
        return np.asarray((raw @ self.leaves.T).toarray() @ self.root.T)

    def function(self, weights: FloatArray, intercept: FloatArray) -> Function:
        return self.trees.function(self.leaves.T @ (self.root.T @ weights), intercept)


@dataclass(frozen=True)
class FeatureFunction:
    """The functions raw(x)·weights + intercept."""

    features: FeatureMap
    weights: FloatArray
    intercept: FloatArray

    def __call__(self, X: FloatArray) -> FloatArray:
        return np.asarray(self.features.raw(X) @ self.weights + self.intercept)


class MappedRows:
    """The features of rows under a map, computed once if they are not too many.

    Parameters
    ----------
    feature_map : FeatureMap
        The map.
    X : ndarray of shape (n_samples, n_features)
        The rows.

    Attributes
    ----------
    map : FeatureMap
        The map.
    X : ndarray
        The rows.
    """

    def __init__(self, feature_map: FeatureMap, X: FloatArray) -> None:
        self.map, self.X = feature_map, X
        self._kept: Any = None
        if len(X) * feature_map.cells <= _KEPT_CELLS:
            self._kept = self._computed(X)

    def _computed(self, X: FloatArray) -> Any:
        return self.map.finish(self.map.raw(X))

    def of(self, rows: IntArray) -> Any:
        """Return the features of some rows, an array that may be sparse."""
        return self._computed(self.X[rows]) if self._kept is None else self._kept[rows]

    def sums(self, groups: Groups) -> Any:
        """Return their sums over groups."""
        if self._kept is not None:
            return groups.sum(self._kept)
        parts = (
            Groups(groups.codes[block], groups.n_groups).sum(self.map.raw(self.X[block]))
            for block in row_blocks(len(self.X), self.map.cells)
        )
        return self.map.finish(reduce(add, parts))

    def times(self, weights: FloatArray, intercept: FloatArray) -> FloatArray:
        """Return features·weights + intercept."""
        if self._kept is not None:
            return np.asarray(self._kept @ weights + intercept)
        function = self.map.function(weights, intercept)
        return np.concatenate(
            [function(self.X[block]) for block in row_blocks(len(self.X), self.map.cells)]
        )


def independent(gram: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return rows that explain all others, and V with VᵀV the inverse of their similarities.

    Pivoted Cholesky factorization: each step takes the row that is explained least so far.
    """
    tolerance = _CHOLESKY_TOLERANCE * float(np.diagonal(gram).max(initial=0.0))
    factor, order, rank, _ = linalg.lapack.dpstrf(gram, lower=1, tol=tolerance)
    lower = np.tril(factor[:rank, :rank])
    return order[:rank] - 1, linalg.solve_triangular(lower, np.eye(rank), lower=True)


def function_state(function: Any) -> State:
    """Return the state of a function that a feature map returned."""
    if isinstance(function, Expansion):
        state = function.state()
        return State({"function": "expansion", **state.fields}, state.arrays)
    arrays = {"weights": function.weights, "intercept": function.intercept}
    if isinstance(function.features, TreeMap):
        return State({"function": "leaves"}, {**_trees(function.features).state(), **arrays})
    return State({"function": "linear"}, arrays)


def restored_function(state: StateReader) -> Function:
    """Return the function of a file."""
    kind = state.take("function", str)
    if kind == "expansion":
        return Expansion.from_state(state)
    features: FeatureMap
    if kind == "linear":
        features, length = LinearMap(state.lengths["features"]), "features"
    elif kind == "leaves":
        forest = Forest.from_state(state)
        features, length = TreeMap(forest, forest.offsets), "nodes"
    else:
        state.refuse(f"the function {kind[:60]!r}", "'linear', 'leaves' or 'expansion'")
    weights = state.array("weights", numbers(length, "functions", size=1e150))
    intercept = state.array("intercept", numbers("functions", size=1e150))
    return FeatureFunction(features, weights, intercept)


def _trees(features: TreeMap) -> Forest:
    forest = features.forest
    if isinstance(forest, Forest):
        return forest
    found = Forest.of(forest)
    return found if features.columns is None else found.in_columns(features.columns)


def feature_maps(
    X: FloatArray,
    names: tuple[str, ...],
    *,
    max_rank: int,
    max_directions: float,
    n_estimators: int,
    seed: int,
) -> dict[str, FeatureMap]:
    """Return the maps of the named kernels by name and scale, for standardized rows.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows, standardized and sorted by their hashes.
    names : tuple of {"linear", "rbf", "laplacian", "trees"}
        The kernels.
    max_rank : int
        The most landmarks. The first distinct rows are taken, a random sample because of the order.
    max_directions : float
        A map to more features than this is replaced by landmarks.
    n_estimators : int
        The number of random trees.
    seed : int
        The seed of the trees.

    Returns
    -------
    dict
        One map per kernel and scale; none if all rows are equal.
    """
    distinct = distinct_rows(X)
    if len(distinct) < 2:
        return {}
    landmarks = distinct[:max_rank]
    maps: dict[str, FeatureMap] = {}
    # Two landmarks at least, so that there is a distance to take the unit from.
    for label, kernel in distance_kernels(distinct[: max(max_rank, 2)], names).items():
        maps[label] = LandmarkMap.of(kernel, landmarks)
    if "linear" in names:
        wide = X.shape[1] > max_directions
        linear = LandmarkMap.of(Kernel("linear"), landmarks) if wide else LinearMap(X.shape[1])
        maps = {"linear": linear, **maps}
    columns = column_order(X) if "trees" in names else None
    for size in _LEAF_SIZES if "trees" in names else ():
        trees = TreeMap.of(X, size, n_estimators, seed, columns)
        wide = trees.offsets[-1] > max_directions
        maps[f"trees {size}"] = ReducedTreeMap.of(trees, landmarks) if wide else trees
    return maps


def distinct_rows(X: FloatArray) -> FloatArray:
    """Return the rows without copies, if equal rows follow each other."""
    return X[np.append(True, np.any(X[1:] != X[:-1], axis=1))]


def distance_kernels(X: FloatArray, names: tuple[str, ...]) -> dict[str, Kernel]:
    """Return the kernels of distances with their scales, for rows that are not all equal."""
    distances = euclidean_distances(X)[np.triu_indices(len(X), 1)]
    typical = float(np.median(distances)) or float(distances.max())
    scales = {"rbf": (_RBF_SCALES, typical**2), "laplacian": (_LAPLACIAN_SCALES, typical)}
    return {
        f"{name} {factor:g}": Kernel(name, factor / unit)
        for name, (factors, unit) in scales.items()
        if name in names
        for factor in factors
    }
