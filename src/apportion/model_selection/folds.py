"""Folds of whole bags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples

from apportion._io.identifiers import factorize
from apportion._utils.groups import balanced_folds
from apportion._utils.parameters import parameter_error
from apportion._utils.typing import IntArray
from apportion.exceptions import SupervisionError
from apportion.supervision.totals import sorted_classes


class BagKFold(BaseCrossValidator):
    """K folds of whole bags, of about equal numbers of rows.

    Rows in no bag are never held out.

    Parameters
    ----------
    n_splits : int, default=5
        The number of folds, from 2 to the number of bags.
    shuffle : bool, default=False
        Assign the bags in random order, each to the fold with the fewest rows. By default, larger
        bags come first, and bags of equal size in the order of their ids.
    random_state : int, RandomState or None, default=None
        The seed of the order, used with `shuffle`.

    Examples
    --------
    >>> folds = BagKFold(2).split(range(6), bags=["a", "a", "b", "b", "c", None])
    >>> [(train.tolist(), test.tolist()) for train, test in folds]
    [([2, 3, 5], [0, 1, 4]), ([0, 1, 4, 5], [2, 3])]
    """

    __metadata_request__split = {"bags": True, "groups": True}  # noqa: RUF012

    def __init__(
        self, n_splits: int = 5, *, shuffle: bool = False, random_state: Any = None
    ) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def split(
        self, X: Any, y: Any = None, groups: Any = None, *, bags: Any = None
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the rows to fit and the rows that are held out, fold by fold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.
        y : ignored
            Labels are not used.
        groups, bags : array-like of shape (n_samples,)
            Bag ids, by either name.

        Yields
        ------
        train, test : ndarray of int
            The positions of the rows to fit and of those held out.
        """
        folds = self._folds(groups if bags is None else bags, _num_samples(X))
        for fold in range(self.n_splits):
            held_out = folds == fold
            yield np.flatnonzero(~held_out), np.flatnonzero(held_out)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **_: Any) -> int:
        """Return the number of folds.

        Parameters
        ----------
        X, y, groups : ignored
            They do not change the number.

        Returns
        -------
        int
            The number of folds.
        """
        return self.n_splits

    def _folds(self, bags: Any, n_samples: int) -> IntArray:
        """Return the fold of every row, -1 for rows in no bag."""
        if bags is None:
            raise SupervisionError(
                "BagKFold",
                "no bag ids",
                "one id per row",
                "pass bags=... to split; to scikit-learn's searches as well, with "
                "sklearn.set_config(enable_metadata_routing=True)",
            )
        codes, ids = factorize(bags, "bag id")
        if len(codes) != n_samples:
            raise ValueError(f"`bags` has {len(codes)} values for {n_samples} rows of X.")
        if not (isinstance(self.n_splits, int | np.integer) and 2 <= self.n_splits <= len(ids)):
            allowed = f"an int from 2 to the number of bags, {len(ids)}"
            raise parameter_error(self, "n_splits", allowed)
        sizes = np.bincount(codes[codes >= 0], minlength=len(ids))
        order = sorted_classes(ids)[1]
        if self.shuffle:
            order = check_random_state(self.random_state).permutation(order)
        else:
            order = order[np.argsort(-sizes[order], kind="stable")]
        return np.append(balanced_folds(sizes, int(self.n_splits), order), -1)[codes]
