"""Decision trees as arrays, so that they can be saved without code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn import config_context
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.tree import ExtraTreeRegressor
from sklearn.utils import check_random_state

from apportion._io.archive import PLACES, Stored
from apportion._io.model_state import StateReader
from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.estimators._kernels import row_blocks


class ExtraTrees(ExtraTreesRegressor):
    """Extremely randomized trees as those of scikit-learn, with less to do for every tree.

    Where hundreds of small trees are grown, checks and copies of parameters take most of the time.
    With `bootstrap`, a tree is grown on its rows alone.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Grow the trees."""
        X = np.ascontiguousarray(X, dtype=np.float32)
        y = np.ascontiguousarray(np.reshape(y, (len(X), -1)), dtype=np.float64)
        rng = check_random_state(self.random_state)
        n_drawn = max(round(len(X) * (self.max_samples or 1.0)), 1) if self.bootstrap else None
        self.estimators_ = []
        with config_context(skip_parameter_validation=True):
            for _ in range(self.n_estimators):
                tree = ExtraTreeRegressor(
                    min_samples_leaf=self.min_samples_leaf,
                    max_features=self.max_features,
                    random_state=rng,  # a seed of its own would cost a tenth of a small tree
                )
                if n_drawn is None:
                    tree.fit(X, y, check_input=False)
                else:
                    rows = rng.randint(len(X), size=n_drawn)
                    tree.fit(X[rows], y[rows], check_input=False)
                self.estimators_.append(tree)
        self.n_features_in_, self.n_outputs_ = X.shape[1], y.shape[1]
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the mean of the trees' predictions, as their outputs were given."""
        X = np.ascontiguousarray(X, dtype=np.float32)
        total = np.zeros((len(X), self.n_outputs_))
        for tree in self.estimators_:
            total += tree.tree_.predict(X).reshape(len(X), -1)
        total /= len(self.estimators_)
        return total[:, 0] if self.n_outputs_ == 1 else total

    def apply(self, X: Any) -> IntArray:
        """Return the leaf of every row in every tree."""
        X = np.ascontiguousarray(X, dtype=np.float32)
        return np.column_stack([tree.tree_.apply(X) for tree in self.estimators_])

    def joined(self, others: Sequence[ExtraTrees]) -> ExtraTrees:
        """Return the trees of this forest and of others as one."""
        one = copy(self)
        one.estimators_ = [tree for forest in (self, *others) for tree in forest.estimators_]
        return one


@dataclass(frozen=True)
class Forest:
    """Decision trees for new rows; the nodes of all trees follow each other.

    A row goes from a node to its left child if its feature, in single precision, is at most the
    threshold, as in scikit-learn. A leaf is its own child. Every other node comes before its
    children, so that each path ends.

    Attributes
    ----------
    left, right : ndarray of int, of shape (n_nodes,)
        The children, as positions among all nodes.
    feature : ndarray of int, of shape (n_nodes,)
        The feature of a split; 0 for a leaf.
    threshold : ndarray of shape (n_nodes,)
        The threshold of a split; 0 for a leaf.
    roots : ndarray of int, of shape (n_trees,)
        The first node of each tree.
    """

    left: IntArray
    right: IntArray
    feature: IntArray
    threshold: FloatArray
    roots: IntArray

    stored: ClassVar[Mapping[str, Stored]] = {
        "left": Stored(("nodes",), PLACES, below="nodes"),
        "right": Stored(("nodes",), PLACES, below="nodes"),
        "feature": Stored(("nodes",), PLACES, below="features"),
        "threshold": Stored(("nodes",)),
        "roots": Stored(("trees",), PLACES, below="nodes"),
    }

    @classmethod
    def of(cls, forest: Any) -> Self:
        """Return the trees of a fitted forest of scikit-learn."""
        trees = [estimator.tree_ for estimator in forest.estimators_]
        roots = np.cumsum([0, *(tree.node_count for tree in trees[:-1])])
        first = np.repeat(roots, [tree.node_count for tree in trees])
        left = np.concatenate([tree.children_left for tree in trees])
        right = np.concatenate([tree.children_right for tree in trees])
        leaf, itself = left < 0, np.arange(len(left))
        return cls(
            np.where(leaf, itself, left + first).astype(np.int32),
            np.where(leaf, itself, right + first).astype(np.int32),
            np.where(leaf, 0, np.concatenate([tree.feature for tree in trees])).astype(np.int32),
            np.where(leaf, 0.0, np.concatenate([tree.threshold for tree in trees])),
            roots.astype(np.int32),
        )

    def in_columns(self, columns: IntArray) -> Forest:
        """Return the same trees for rows of which they saw the columns in this order."""
        leaf = self.left == np.arange(len(self.left))
        return replace(self, feature=np.where(leaf, 0, columns[self.feature]).astype(np.int32))

    @property
    def offsets(self) -> AnyArray:
        """The first node of each tree, and the number of nodes."""
        return np.append(self.roots, len(self.left))

    def apply(self, X: FloatArray) -> IntArray:
        """Return the leaf of every row in every tree, as its position in the tree."""
        X = np.asarray(X, dtype=np.float32)
        leaves = np.empty((len(X), len(self.roots)), dtype=np.intp)
        for block in row_blocks(len(X), 4 * len(self.roots)):
            leaves[block] = self._leaves(X[block])
        return leaves

    def _leaves(self, X: FloatArray) -> IntArray:
        rows = np.repeat(np.arange(len(X)), len(self.roots))
        nodes = np.tile(self.roots, len(X)).astype(np.intp)
        moving = np.arange(len(nodes))
        while moving.size:
            at = nodes[moving]
            goes_left = X[rows[moving], self.feature[at]] <= self.threshold[at]
            to = np.where(goes_left, self.left[at], self.right[at])
            nodes[moving] = to
            moving = moving[self.left[to] != to]
        return np.asarray(nodes.reshape(len(X), -1) - self.roots)

    def state(self) -> dict[str, AnyArray]:
        """Return the arrays."""
        return {key: getattr(self, key) for key in self.stored}

    @classmethod
    def from_state(cls, state: StateReader) -> Self:
        """Return the trees of a file; refuse those in which a path does not end."""
        forest = cls(**state.arrays(cls.stored))
        itself = np.arange(len(forest.left))
        for key, children in {"left": forest.left, "right": forest.right}.items():
            if np.any(children < itself):
                found, allowed = "a child before its parent", "children after their parents"
                state.refuse_array(key, found, allowed)
        if np.any((forest.left == itself) != (forest.right == itself)):
            state.refuse_array("right", "a node with one child", "no child, or two")
        if forest.roots[0] != 0 or np.any(np.diff(forest.roots) <= 0):
            state.refuse_array("roots", "trees in disorder", "the first node of every tree")
        return forest


@dataclass(frozen=True)
class ForestRegressor:
    """The mean of the trees' values, as `predict` of a forest of scikit-learn.

    Attributes
    ----------
    forest : Forest
        The trees.
    values : ndarray of shape (n_nodes, n_outputs)
        What the leaves predict.
    """

    forest: Forest
    values: FloatArray

    @classmethod
    def of(cls, forest: Any) -> Self:
        """Return the trees and values of a fitted forest of scikit-learn."""
        values = [estimator.tree_.value[:, :, 0] for estimator in forest.estimators_]
        return cls(Forest.of(forest), np.concatenate(values))

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the mean of the values, summed in the order of the trees as scikit-learn does."""
        leaves = self.forest.apply(X) + self.forest.roots
        total = np.zeros((len(X), self.values.shape[1]))
        for nodes in leaves.T:
            total += self.values[nodes]
        return np.asarray(total / len(self.forest.roots))
