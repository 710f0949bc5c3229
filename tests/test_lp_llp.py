"""LPLLP and LabelPropagation on their own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

import reference
from apportion import (
    LPLLP,
    AmbiguousTotalsWarning,
    BagDesignWarning,
    DuplicateRowsWarning,
    IsolatedRowsWarning,
    LabelPropagation,
    RBFGraph,
    SupervisionError,
    Totals,
)
from apportion.datasets import make_bags, make_xor

DESIGNS = {"A": [0.6, 0.4, 0.5], "B": [0.85, 0.25, 0.4]}


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("graph", ["knn", "rbf"])
@pytest.mark.filterwarnings("ignore::apportion.AmbiguousTotalsWarning")
@pytest.mark.filterwarnings("ignore::apportion.IsolatedRowsWarning")
def test_xor_is_solved(design, graph):
    accuracy = []
    for seed in (1, 2, 3) if graph == "knn" else (4,):
        X, y = make_xor(120, random_state=seed)
        bags, totals = make_bags(None, y, proportions=DESIGNS[design], random_state=seed)
        model = LPLLP(graph, random_state=0).fit(X, bags=bags, proportions=totals)
        accuracy.append((model.transduction_ == y).mean())
    assert np.mean(accuracy) >= 0.98


@pytest.mark.slow
@pytest.mark.parametrize(
    ("load", "standardize", "least"),
    [(load_digits, False, 0.96), (load_breast_cancer, True, 0.93), (load_wine, True, 0.97)],
)
def test_real_data_in_twenty_bags(load, standardize, least):
    X, y = load(return_X_y=True)
    X = scale(X) if standardize else X
    bags, totals = make_bags(None, y, 20, random_state=0)
    model = LPLLP(graph="knn", decode="quota").fit(X, bags=bags, proportions=totals)
    assert (model.transduction_ == y).mean() >= least


def test_label_propagation_is_algorithm_1():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    y = np.where(rng.random(20) < 0.5, np.arange(20) % 3, np.nan)
    model = LabelPropagation(RBFGraph(0.5)).fit(X, y)
    W = reference.rbf_similarities(X, 0.5)
    Y = np.zeros((20, 3))
    for i in range(20):
        if not np.isnan(y[i]):
            Y[i, int(y[i])] = 1.0
    F = reference.algorithm_1(W, Y, 0.5)
    assert not model.graph_.weak_rows().size
    np.testing.assert_allclose(
        model.label_distributions_, F / F.sum(axis=1, keepdims=True), atol=1e-9
    )
    np.testing.assert_array_equal(model.transduction_, model.classes_[F.argmax(axis=1)])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_precomputed_similarities(form):
    X, y = make_xor(80, random_state=0)
    bags, totals = make_bags(None, y, proportions=[0.85, 0.15], random_state=0)
    W = reference.rbf_similarities(X, 1.0)
    given = LPLLP("precomputed", random_state=0).fit(form(W), bags=bags, proportions=totals)
    built = LPLLP(RBFGraph(1.0), random_state=0).fit(X, bags=bags, proportions=totals)
    np.testing.assert_allclose(given.label_distributions_, built.label_distributions_, atol=1e-3)
    assert given.predict(form(W[:3])).shape == (3,)
    with pytest.warns(IsolatedRowsWarning, match=r"1 of 1 new rows have no similar"):
        proba = given.predict_proba(form(np.zeros((1, 80))))
    np.testing.assert_allclose(proba, [[0.5, 0.5]])


def test_gamma_is_chosen_without_labels():
    X, y = make_xor(120, random_state=1)
    bags, totals = make_bags(None, y, proportions=DESIGNS["B"], random_state=1)
    grid = [1e-4, 0.5, 1.0]
    chosen = LPLLP(RBFGraph(grid), random_state=0).fit(X, bags=bags, proportions=totals)
    assert chosen.graph_.gamma_ in grid
    smoothness = []
    for gamma in grid:
        model = LPLLP(RBFGraph(gamma), random_state=0).fit(X, bags=bags, proportions=totals)
        labels = np.eye(2)[model.transduction_]
        smoothness.append(model.graph_.smoothness(labels))
    assert chosen.graph_.gamma_ == grid[int(np.argmax(smoothness))]


def test_what_is_warned_of():
    X = np.random.default_rng(0).normal(size=(40, 2))
    bags = np.arange(40) % 4
    same = np.full(4, 0.5)
    with pytest.warns(BagDesignWarning, match=r"do not tell 0 from 1 apart: they have equal"):
        LPLLP().fit(X, bags=bags, proportions=same)
    with pytest.warns(BagDesignWarning, match=r"stand 0.8 to 0.2 everywhere"):
        LPLLP().fit(X, bags=bags, proportions=np.full(4, 0.2))
    with pytest.warns(ConvergenceWarning, match=r"Raise max_iter.*stationarity"):
        LPLLP(max_iter=1).fit(X, bags=bags, proportions=np.array([0.1, 0.9, 0.4, 0.6]))
    X[7] = 1e6
    with pytest.warns(
        IsolatedRowsWarning, match=r"1 of 40 rows .* 1 of them none at all \(rows 7\)"
    ):
        LPLLP().fit(X, bags=bags, proportions=np.array([0.1, 0.9, 0.4, 0.6]))
    W = np.zeros((40, 40))
    W[:10, :10] = W[10:, 10:] = 1.0
    with pytest.warns(IsolatedRowsWarning, match=r"30 of 40 rows are out of reach of any label"):
        LabelPropagation("precomputed").fit(W, [0, 1] + [None] * 38)
    with pytest.warns(DuplicateRowsWarning, match=r"40 of 40 rows equal all of their nearest"):
        LPLLP().fit(np.ones((40, 2)), bags=bags, proportions=np.array([0.1, 0.9, 0.4, 0.6]))
    with pytest.warns(DuplicateRowsWarning, match=r"40 of 40 rows equal"):
        LPLLP("rbf").fit(np.ones((40, 2)), bags=bags, proportions=np.array([0.1, 0.9, 0.4, 0.6]))
    with pytest.warns(AmbiguousTotalsWarning, match=r"The totals admit several labelings"):
        LPLLP("precomputed", random_state=0).fit(
            W, bags=[0] * 40, proportions=np.array([[0.25, 0.75]])
        )


def test_far_new_rows_are_reported():
    X, y = make_xor(80, random_state=0)
    model = LPLLP().fit(X, y)
    with pytest.warns(IsolatedRowsWarning, match=r"1 of 2 new rows .* \(rows 1\)"):
        proba = model.predict_proba([[0.0, 0.0], [1e7, 1e7]])
    assert np.isfinite(proba).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 1.0}, r"'alpha' parameter of LPLLP must be a float in the range \(0, 1\)"),
        ({"alpha": "half"}, "'alpha'"),
        ({"decode": "argmax"}, "'decode' parameter of LPLLP must be one of 'quota', 'threshold'"),
        ({"solver": "fast"}, "'solver'"),
        ({"metric": "cosine"}, "'metric'"),
        ({"projection": "dykstra"}, "'projection'"),
        ({"order": 0}, "'order'"),
        ({"n_probes": -1}, "'n_probes'"),
        ({"tol": -1.0}, "'tol'"),
        ({"max_iter": 0}, "'max_iter'"),
        ({"max_iter": True}, "'max_iter'"),
        ({"prior_weight": -0.1}, "'prior_weight'"),
        ({"graph": "star"}, "'graph' parameter of LPLLP must be one of 'auto', 'knn'"),
        ({"prior": np.zeros((3, 3))}, r"soft labels .* of shape \(4, 2\)"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        LPLLP(**parameters).fit(np.eye(4), bags=[0, 0, 1, 1], proportions=np.array([0.5, 1.0]))


def test_contradictions_reach_the_user():
    with pytest.raises(SupervisionError, match="row 1 in bag 0"):
        LPLLP().fit(np.eye(4), [1, 1, None, None], bags=[0, 0, 1, 1], proportions=[0.5, 1.0])


def test_prior_speaks_only_with_weight():
    X, y = make_xor(120, random_state=2)
    bags, totals = make_bags(None, y, proportions=DESIGNS["B"], random_state=2)
    rng = np.random.default_rng(0)
    noise = rng.dirichlet(np.ones(2), 120)
    settings = {"graph": RBFGraph(0.05), "tol": 1e-9, "max_iter": 20000}
    without = LPLLP(**settings).fit(X, bags=bags, proportions=totals)
    start_only = LPLLP(**settings, prior=noise, prior_weight=0.0)
    start_only.fit(X, bags=bags, proportions=totals)
    np.testing.assert_allclose(
        start_only.label_distributions_, without.label_distributions_, atol=1e-4
    )
    with_weight = LPLLP(**settings, prior=noise).fit(X, bags=bags, proportions=totals)
    gap = np.abs(with_weight.label_distributions_ - without.label_distributions_)
    assert gap.max() > 0.01


def test_a_perfect_prior_helps():
    X, y = make_xor(120, random_state=3)
    X = X + np.random.default_rng(0).normal(size=X.shape) * 4
    bags, totals = make_bags(None, y, proportions=DESIGNS["A"], random_state=3)
    truth = 0.8 * np.eye(2)[y] + 0.1
    without = LPLLP(random_state=0).fit(X, bags=bags, proportions=totals)
    informed = LPLLP(prior=truth, prior_weight=1.0).fit(X, bags=bags, proportions=totals)
    assert (informed.transduction_ == y).mean() > (without.transduction_ == y).mean()


def test_intervals_and_unknown_cells_end_to_end():
    X, y = make_xor(120, random_state=4)
    bags, exact = make_bags(None, y, proportions=DESIGNS["B"], random_state=4)
    wide = Totals.from_intervals(exact.lower - 0.05, np.minimum(exact.upper + 0.05, 1))
    model = LPLLP(random_state=0).fit(X, bags=bags, proportions=wide)
    assert model.solution_.residual < 1e-9
    shares = model.bag_report_.assigned["quota"] / model.bag_report_.sizes[:, None]
    assert (shares >= wide.lower - 0.5 / 40).all()
    assert (shares <= wide.upper + 0.5 / 40).all()
    partly = Totals.from_proportions({0: [0.15, 0.85], 1: [None, None], 2: [0.6, 0.4]})
    model.fit(X, bags=bags, proportions=partly)
    assert (model.transduction_ == y).mean() > 0.9


def test_literal_algorithm_runs_and_converges_or_warns():
    X, y = make_xor(120, random_state=0)
    bags, totals = make_bags(None, y, proportions=DESIGNS["B"], random_state=0)
    model = LPLLP("rbf", solver="literal", decode="threshold", max_iter=50)
    model.fit(X, bags=bags, proportions=totals)
    assert model.solution_.residual < 1e-6


def test_refinement_makes_neighbors_agree_more_and_keeps_counts():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    bags, totals = make_bags(None, y, 20, random_state=0)
    rough = LPLLP(refine=False).fit(X, bags=bags, proportions=totals)
    fine = LPLLP(refine=True).fit(X, bags=bags, proportions=totals)
    np.testing.assert_array_equal(fine.label_distributions_, rough.label_distributions_)
    np.testing.assert_array_equal(
        fine.bag_report_.assigned["quota"], rough.bag_report_.assigned["quota"]
    )
    smoothness = [m.graph_.smoothness(np.eye(2)[m.transduction_]) for m in (rough, fine)]
    assert smoothness[1] > smoothness[0]
    assert (fine.transduction_ == y).mean() > (rough.transduction_ == y).mean()


@pytest.mark.filterwarnings("ignore::apportion.BagDesignWarning")
def test_refinement_does_not_hide_ties():
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = LPLLP().fit(X, bags=np.zeros(60, int), proportions=[0.5])
    assert model.tied_.all()
    assert model.bag_report_.tied["quota"] == 60


def test_unknown_bags_of_many_classes_are_decoded():
    """Soft labels outside the bounds, exact cells beside unknown ones: counts must still add up."""
    X = np.random.default_rng(0).normal(size=(200, 2))
    bags = np.repeat([0, 1], 100)
    totals = Totals.from_proportions(
        {0: {"x": 0.8, "y": 0.15, "z": 0.05}, 1: {"x": 0.02, "y": None, "z": None}}
    )
    model = LabelPropagation(decode="quota").fit(X, bags=bags, proportions=totals)
    assert model.bag_report_.error() == 0


def test_rows_out_of_reach_are_reported():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(40, 2)), rng.normal(size=(20, 2)) + 50])
    totals = Totals.from_proportions({0: [0.3, 0.7], 1: [0.8, 0.2], 2: [None, None]})
    with pytest.warns(IsolatedRowsWarning, match=r"20 of 60 rows are out of reach of any known"):
        model = LPLLP(random_state=0).fit(
            X, bags=[0] * 20 + [1] * 20 + [2] * 20, proportions=totals
        )
    np.testing.assert_allclose(model.label_distributions_[40:], [[0.55, 0.45]] * 20, atol=1e-6)


def test_values_too_large_to_square_are_refused():
    with pytest.raises(ValueError, match=r"values of size 1.0e\+160.*rescale the features"):
        LPLLP().fit(np.eye(4) * 1e160, bags=[0, 0, 1, 1], proportions=[0.5, 1.0])


def test_the_literal_solver_takes_no_prior():
    with pytest.raises(ValueError, match="takes no prior"):
        LPLLP(solver="literal", prior_weight=0.5).fit(np.eye(2), [0, 1])


def test_lists_are_rows_too():
    X, y = make_xor(40, random_state=0)
    bags, totals = make_bags(None, y, proportions=[0.8, 0.2], random_state=0)
    model = LPLLP(random_state=0).fit(X.tolist(), bags=bags, proportions=totals)
    assert model.predict(X.tolist(), bags=bags, proportions=totals).shape == (40,)


@pytest.mark.parametrize("seed", range(12))
def test_runs_on_xor_converge(seed):
    X, y = make_xor(120, random_state=seed)
    bags, totals = make_bags(X, y, proportions=[0.6, 0.4, 0.5], random_state=seed)
    model = LPLLP(refine=False, random_state=0).fit(X, bags=bags, proportions=totals)
    assert model.solution_.converged


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 4, 6])
def test_the_order_of_a_grid_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, 120)
    X = rng.normal(size=(120, 2)) + 1.5 * rng.normal(size=(3, 2))[y]
    bags = np.arange(120) % 12
    totals = Totals.from_labels(y, bags)
    grid = list(2.0 ** np.arange(-2, 7))
    # On the graph of seed 6 (γ = 64), the default tolerance leaves .05 of some soft labels open.
    parameters = {"tol": 1e-10, "random_state": 0}
    models = [
        LPLLP(RBFGraph(values), **parameters).fit(X, bags=bags, proportions=totals)
        for values in (grid, grid[::-1])
    ]
    alone = LPLLP(RBFGraph(models[0].graph_.gamma_), **parameters)
    alone.fit(X, bags=bags, proportions=totals)
    assert models[0].graph_.gamma_ == models[1].graph_.gamma_
    np.testing.assert_array_equal(models[0].transduction_, models[1].transduction_)
    np.testing.assert_allclose(
        models[0].label_distributions_, alone.label_distributions_, atol=1e-3
    )


def test_a_grid_with_the_literal_solver_ends_where_one_value_does():
    X, y = make_xor(120, random_state=3)
    bags, totals = make_bags(X, y, proportions=[0.6, 0.4, 0.5], random_state=3)
    settings = {"solver": "literal", "decode": "threshold"}
    chosen = LPLLP(RBFGraph([0.1, 1.0, 5.0]), **settings).fit(X, bags=bags, proportions=totals)
    alone = LPLLP(RBFGraph(chosen.graph_.gamma_), **settings)
    alone.fit(X, bags=bags, proportions=totals)
    np.testing.assert_array_equal(chosen.label_distributions_, alone.label_distributions_)


def test_rows_out_of_reach_keep_the_overall_shares_with_a_grid():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(40, 2)), rng.normal(size=(10, 2)) + 1000.0])
    y = (X[:40, 0] > 0).astype(int)
    bags = [int(i % 4) for i in range(40)] + [None] * 10
    totals = Totals.from_labels(y, bags[:40])
    with pytest.warns(IsolatedRowsWarning, match="they keep the overall class shares"):
        model = LPLLP(RBFGraph([0.1, 1.0, 5.0]), n_probes=0).fit(X, bags=bags, proportions=totals)
    np.testing.assert_allclose(model.label_distributions_[40:, 1], y.mean(), atol=1e-9)


def test_runs_with_several_solutions_do_not_stop_early():
    X, y = make_xor(120, random_state=1)
    bags, totals = make_bags(X, y, proportions=[0.6, 0.4, 0.5], random_state=1)
    early = LPLLP(stop="settled", random_state=0).fit(X, bags=bags, proportions=totals)
    whole = LPLLP(random_state=0).fit(X, bags=bags, proportions=totals)
    assert early.solution_.unique == whole.solution_.unique
    if not whole.solution_.unique:
        np.testing.assert_array_equal(early.transduction_, whole.transduction_)


def test_probes_that_were_not_tried_are_reported(monkeypatch):
    """Two groups of rows far apart in one bag, and probes that may take hardly an iteration."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) + 1e3 * (np.arange(60) % 2)[:, None]
    known = {"bags": np.arange(60) // 2 % 3, "proportions": np.array([0.3, 0.5, 0.7])}
    monkeypatch.setattr("apportion._core.uniqueness._SHARE_OF_FIRST", -1.0)
    monkeypatch.setattr("apportion._core.uniqueness._CHEAP_CELLS", 0.0)
    monkeypatch.setattr("apportion._core.uniqueness._LARGEST_PROGRAM", 0)
    words = r"is not known: the comparison stopped after 0 of 1 random starts.*Raise n_probes"
    with pytest.warns(AmbiguousTotalsWarning, match=words):
        model = LPLLP("knn", n_probes=1, refine=False, random_state=0).fit(X, **known)
    assert model.solution_.unique is None
    assert model.solution_.probes_left == 1


def test_warnings_about_rows_carry_them():
    X = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [500.0]])
    totals = {"a": {"x": 0.5, "y": 0.5}, "b": {"x": 0.5, "y": 0.5}}
    with pytest.warns(IsolatedRowsWarning) as caught:
        LPLLP(RBFGraph(gamma=1.0)).fit(X, bags=list("aababb"), proportions=totals)
    isolated = [w.message for w in caught if isinstance(w.message, IsolatedRowsWarning)]
    assert isolated[0].rows == (5,)
    assert "(rows 5)" in str(isolated[0])
