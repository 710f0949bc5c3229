"""Gaussian process regression of bag totals, averaged over kernels by their evidence."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp, softmax

from apportion._io.archive import Stored
from apportion._io.model_state import State, StateReader
from apportion._utils.parameters import integer, parameter_error
from apportion._utils.typing import FloatArray
from apportion.estimators._aggregate_regression import (
    MANY_ROWS,
    Posterior,
    centered_totals,
    regress,
)
from apportion.estimators._base import training_rows
from apportion.estimators._feature_maps import (
    MappedRows,
    Standardization,
    feature_maps,
    function_state,
    restored_function,
)
from apportion.estimators._inductive import InductiveClassifier, known_bags
from apportion.estimators._kernels import Expansion, row_blocks
from apportion.estimators._prepared import Prepared
from apportion.supervision.bags import Bags

_NAMES = ("linear", "rbf", "laplacian", "trees")

_TEMPERED = 0.5
"""The power of a kernel's evidence in its weight: labels are not normal, so that the evidence is
too sure of itself. On tables with random bags, this was no worse than 1."""

_LEAST_WEIGHT = 1e-3
"""A kernel of smaller weight is left out."""

_LEAST_PROBABILITY = 1e-3
"""The smallest probability before normalization; a regression may leave [0, 1]."""

_RANKS = (1000, 500)
"""The landmarks of a kernel up to 5,000 rows, and of more rows. On three tables of 4,000 rows, 300
landmarks were right for at most .008 fewer rows than 1,000, in a sixth of the time."""

_MAX_DIRECTIONS = 1000
"""The largest eigenproblem; if there are both more bags and more features, landmarks replace the
features."""


class AggregateGP(InductiveClassifier):
    """Gaussian process regression of totals, averaged over kernels by their marginal likelihood.

    The label of row i is `y_ih = π̄_h + g_h(x_i) + ε_ih`, 0 or 1, with the overall share π̄_h of
    class h, `g_h ~ GP(0, θ v_h k)`, noise of variance `(1 - θ) v_h`, and `v_h = π̄_h (1 - π̄_h)`.
    The kernel k is centered and has mean 1 on the diagonal over the fitted rows, so that θ is the
    share of the labels' variance that the rows explain. A bag's counts are sums of labels. They
    have mean `n_b π̄_h` and covariance `v_h S`, `S = θ A k Aᵀ + (1 - θ) diag(n_b)`, where A sums
    over the rows of a bag. Given the counts c_h, the posterior mean of g_h is
    `argmin_g ‖g‖²_k / θ + Σ_b (c_bh - n_b π̄_h - Σ_{i in b} g(x_i))² / (n_b (1 - θ))`, that is,
    `θ k Aᵀ S⁻¹ (c_h - n π̄_h)`. The evidence `-½ Σ_h ((c_h - n π̄_h)ᵀ S⁻¹ (c_h - n π̄_h) / v_h +
    log |v_h S|)`, times (c - 1) / c because shares sum to one, weighs θ and the kernels: all
    posterior means are averaged, and nothing has to be chosen by the user or by held-out bags.
    The method assumes that rows are in bags regardless of their labels, given their features.

    Features are standardized and clipped at 3 standard deviations first, so that neither units nor
    outliers matter.

    Parameters
    ----------
    kernel : "auto", name or sequence of names, default="auto"
        Among `"linear"`, `"rbf"` (`exp(-γ‖x - z‖²)`), `"laplacian"` (`exp(-γ‖x - z‖)`), each with
        several γ, and `"trees"`, the share of totally random trees in which two rows have a leaf
        in common, for several sizes of leaves. `"auto"` is all of them.
    max_rank : "auto" or int, default="auto"
        With more rows than this, kernels of distances are replaced by their Nyström approximation
        on a sample of this many rows; the other kernels only if there are more than 1,000
        bags and features. `"auto"` is 1,000 up to 5,000 rows, else 500.
    n_estimators : int, default=200
        The number of trees of each of the kernels of trees.
    decode : {"quota", "threshold"}, default="quota"
        Label the fitted rows with exactly the counts of every bag, or every row with its most
        likely class under the totals of its bag. `predict` without totals does not use it.
    random_state : int, RandomState or None, default=None
        The seed of the trees.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        Soft labels of the fitted rows, reconciled with their bags' totals.
    transduction_ : ndarray of shape (n_samples,)
        A label for every fitted row.
    bag_report_ : BagReport
        Given and assigned totals per bag and class, for both decodings.
    diagnosis_ : Diagnosis
        Which classes the totals can tell apart.
    kernel_weights_ : dict
        The weight of each kernel, by name and scale: γ in units of the median distance, or the
        smallest size of a leaf. Kernels for which all rows are equal are left out.
    explained_share_ : float
        The posterior mean of θ; 0 if all rows are equal. What a Nyström approximation leaves out of
        a kernel does not count.
    log_evidence_ : float
        The logarithm of the marginal likelihood, averaged over kernels and θ, minus that of labels
        that do not depend on the rows.

    References
    ----------
    H. C. L. Law, D. Sejdinovic, E. Cameron, T. Lucas, S. Flaxman, K. Battle, K. Fukumizu,
    "Variational Learning on Aggregate Outputs with Gaussian Processes", NeurIPS 2018.

    J. Yang et al., "Common SNPs explain a large proportion of the heritability for human height",
    Nature Genetics 42, 2010, for the share of variance that a kernel explains.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    >>> model = AggregateGP("rbf").fit(X, bags=[0, 0, 0, 1, 1, 1], proportions=[1 / 3, 2 / 3])
    >>> model.predict([[-1.0], [6.0]]).tolist()
    [0, 1]
    """

    _allowed: ClassVar = {
        **InductiveClassifier._allowed,
        "max_rank": integer(1, "auto"),
        "n_estimators": integer(1),
    }

    def __init__(
        self,
        kernel: Any = "auto",
        *,
        max_rank: Any = "auto",
        n_estimators: int = 200,
        decode: str = "quota",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.max_rank = max_rank
        self.n_estimators = n_estimators
        self.decode = decode
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        names = self._names
        if not names or not set(names) <= set(_NAMES):
            allowed = f"'auto', or one or several of {', '.join(map(repr, _NAMES))}"
            raise parameter_error(self, "kernel", allowed)

    @property
    def _names(self) -> tuple[Any, ...]:
        """The names of the kernels; without any if they are not names."""
        if isinstance(self.kernel, str):
            return _NAMES if self.kernel == "auto" else (self.kernel,)
        try:
            names = tuple(self.kernel)
        except TypeError:
            return ()
        return names if all(isinstance(name, str) for name in names) else ()

    def _learn(
        self, prepared: Prepared, bags: Bags, start: FloatArray | None, seed: int
    ) -> FloatArray:
        known = known_bags(bags)
        groups = known.groups
        self._standardize, X = prepared.once(
            ("standardized",), lambda: _standardized(prepared.rows)
        )
        self._overall = bags.overall
        totals = centered_totals(groups.sizes, known.shares, known.certainty, bags.overall)
        wide = groups.n_groups > _MAX_DIRECTIONS
        key = ("maps", self._names, self.max_rank, wide, self.n_estimators, seed)
        mapped = prepared.once(key, lambda: self._mapped(X, wide, seed))
        posteriors = {
            name: posterior
            for name, rows in mapped.items()
            if (posterior := regress(rows, groups, totals)) is not None
        }
        return self._average(mapped, posteriors, len(X))

    def _mapped(self, X: FloatArray, wide: bool, seed: int) -> dict[str, MappedRows]:
        """Return the features of standardized rows under each kernel."""
        maps = feature_maps(
            X,
            self._names,
            max_rank=_RANKS[len(X) > MANY_ROWS] if self.max_rank == "auto" else self.max_rank,
            max_directions=_MAX_DIRECTIONS if wide else math.inf,
            n_estimators=self.n_estimators,
            seed=seed,
        )
        return {name: MappedRows(feature_map, X) for name, feature_map in maps.items()}

    def _average(
        self, mapped: dict[str, MappedRows], posteriors: dict[str, Posterior], n_samples: int
    ) -> FloatArray:
        """Average the posterior means by their evidence, and return probabilities of the rows."""
        self.kernel_weights_, self.explained_share_, self.log_evidence_ = {}, 0.0, 0.0
        if posteriors:
            evidence = np.array([p.log_evidence for p in posteriors.values()])
            weights = softmax(_TEMPERED * evidence)
            self.kernel_weights_ = dict(zip(posteriors, weights.tolist(), strict=True))
            self.explained_share_ = float(
                weights @ [p.explained_share for p in posteriors.values()]
            )
            self.log_evidence_ = float(logsumexp(evidence) - np.log(len(evidence)))
        kept = {k: w for k, w in self.kernel_weights_.items() if w >= _LEAST_WEIGHT}
        total = sum(kept.values())
        self._terms = []
        P = np.tile(self._overall, (n_samples, 1))
        for name, weight in kept.items():
            mean = posteriors[name].weights, posteriors[name].intercept
            self._terms.append((weight / total, mapped[name].map.function(*mean)))
            P += weight / total * mapped[name].times(*mean)
        return _probabilities(P)

    def _soft_labels(self, X: Any) -> FloatArray:
        X = self._standardize(np.asarray(X))
        P = np.tile(self._overall, (len(X), 1))
        for block in row_blocks(len(X), _MAX_DIRECTIONS):
            for weight, function in self._terms:
                P[block] += weight * function(X[block])
        return _probabilities(P)

    def _state(self) -> State:
        arrays = {**self._standardize.state(), "overall": self._overall}
        arrays["term_weights"] = np.array([weight for weight, _ in self._terms])
        parts = {f"term{j}": function_state(term) for j, (_, term) in enumerate(self._terms)}
        return State({}, arrays, parts)

    def _restore_state(self, state: StateReader) -> None:
        state.lengths["functions"] = len(self.classes_)
        self._standardize = Standardization.from_state(state)
        self._overall = state.array("overall", Stored(("classes",), shares=True))
        form = Stored(("terms",), least=0.0, most=1.0, may_be_empty=True)
        weights = state.array("term_weights", form).tolist()
        functions = [restored_function(state.part(f"term{j}")) for j in range(len(weights))]
        self._terms = list(zip(weights, functions, strict=True))

    def _rows_in_state(self) -> dict[str, tuple[int, str]]:
        held = [term.n_training_rows for _, term in self._terms if isinstance(term, Expansion)]
        return training_rows(max(held, default=0))


def _standardized(rows: FloatArray) -> tuple[Standardization, FloatArray]:
    standardize = Standardization.of(rows)
    return standardize, standardize(rows)


def _probabilities(P: FloatArray) -> FloatArray:
    """Return what a regression says as probabilities; it may leave [0, 1]."""
    P = np.maximum(P, _LEAST_PROBABILITY)
    return np.asarray(P / P.sum(axis=1, keepdims=True))
