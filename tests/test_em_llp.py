"""Expectation–maximization: exact where totals are, weighted as it says, fussy where it should."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from scipy.special import rel_entr
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from apportion import EMLLP, MeanMap, PropSVM, Totals
from apportion._core.projection import reconcile
from apportion._utils.progress import progress_callback
from apportion.datasets import make_xor
from apportion.estimators._cross_fitting import (
    QuantileBins,
    Rule,
    debiased_targets,
    expectation_maximization,
    folds_of,
)
from apportion.estimators._inductive import known_bags
from apportion.supervision.bags import match_bags
from test_inv_cal import clouds


class Recorder(ClassifierMixin, BaseEstimator):
    """A classifier that answers class shares and remembers what it was given."""

    seen: list

    def __init__(self, seen=None):
        self.seen = seen

    def fit(self, X, y, sample_weight=None):
        self.seen.append((X, y, sample_weight))
        self.classes_ = np.unique(y)
        mass = np.array([sample_weight[y == h].sum() for h in self.classes_])
        self.shares_ = mass / mass.sum()
        return self

    def predict_proba(self, X):
        return np.tile(self.shares_, (len(X), 1))

    def __sklearn_clone__(self):
        return Recorder(self.seen)


def test_soft_labels_enter_as_weights():
    X = np.arange(3.0)[:, None]
    F = np.array([[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.2, 0.3, 0.5]])
    learner = Recorder([])
    rule = Rule(learner, X, F)
    ((rows, labels, weights),) = learner.seen
    given = np.zeros((3, 3))
    given[rows[:, 0].astype(int), labels] = weights
    np.testing.assert_array_equal(given, F)
    assert len(weights) == 6
    np.testing.assert_allclose(rule(X), np.tile(F.mean(axis=0), (3, 1)))


def test_a_rare_class_is_learned():
    F = np.tile([0.6, 0.3995, 0.0005], (80, 1))
    learner = Recorder([])
    assert Rule(learner, np.zeros((80, 1)), F).present.tolist() == [0, 1, 2]
    F[0] = [0.0, 0.0, 1.0]
    Rule(learner, np.zeros((80, 1)), F)
    assert (learner.seen[-1][1] == 2).sum() == 1


def test_a_class_that_no_row_has_gets_nothing():
    X = np.random.default_rng(0).normal(size=(20, 2))
    F = np.zeros((20, 3))
    F[:10, 0] = F[10:, 2] = 1.0
    rule = Rule(LogisticRegression(), X, F)
    np.testing.assert_array_equal(rule(X)[:, 1], 0.0)
    F[:] = [0.0, 1.0, 0.0]
    np.testing.assert_array_equal(Rule(LogisticRegression(), X, F)(X), F)


@pytest.mark.parametrize(
    "learner", [None, HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2)]
)
def test_bags_of_proportion_0_and_1_are_exact(learner):
    X, y, bags, _ = clouds(0)
    bags = np.where(bags == 0, np.where(y == 1, 8, 0), bags)
    bags = np.where(bags == 1, np.where(y == 1, 9, 1), bags)
    totals = Totals.from_labels(y, bags)
    model = EMLLP(learner, max_iter=5, tol=0.05, random_state=0)
    model.fit(X, bags=bags, proportions=totals)
    for pure, label in [(0, 0), (1, 0), (8, 1), (9, 1)]:
        np.testing.assert_array_equal(model.label_distributions_[bags == pure, label], 1.0)
        np.testing.assert_array_equal(model.transduction_[bags == pure], label)


def test_neither_step_raises_the_divergence():
    X, _, bags, totals = clouds(1)
    matched = match_bags(80, None, bags, totals)
    start = MeanMap().fit(X, bags=bags, proportions=totals).label_distributions_
    learner = LogisticRegression(C=1e6, max_iter=1000, tol=1e-8)
    values = []
    for rounds in range(1, 8):
        end = expectation_maximization(X, matched, learner, start, tol=0.0, max_iter=rounds)
        values.append(rel_entr(end.F, end.rule(X)).sum())
    assert (np.diff(values) <= 1e-3).all()
    assert values[-1] < values[0]


def test_start_is_used():
    X, y, bags, totals = clouds(2)
    truth = np.eye(2)[y]
    from_truth = EMLLP(start=truth).fit(X, bags=bags, proportions=totals)
    from_lies = EMLLP(start=1.0 - truth, max_iter=3, tol=1.0).fit(X, bags=bags, proportions=totals)
    assert from_truth.score(X, y) > 0.8
    assert from_truth.score(X, y) > from_lies.score(X, y)
    by_model = EMLLP(start=MeanMap(C=0.01)).fit(X, bags=bags, proportions=totals)
    assert by_model.n_iter_ == len(by_model.moves_)
    with pytest.raises(ValueError, match="'start' parameter of EMLLP must be None, an estimator"):
        EMLLP(start=np.ones((3, 2))).fit(X, bags=bags, proportions=totals)


def test_from_the_bags_own_proportions_it_stays_there():
    """This is why it starts from MeanMap."""
    X, _, bags, totals = clouds(3)
    matched = match_bags(80, None, bags, totals)
    stuck = EMLLP(start=matched.prior(), max_iter=100).fit(X, bags=bags, proportions=totals)
    away = EMLLP().fit(X, bags=bags, proportions=totals)
    spread = stuck.label_distributions_[bags == 0, 1].std()
    assert spread < away.label_distributions_[bags == 0, 1].std()


def test_the_default_learner_goes_by_size():
    X, _, bags, totals = clouds(4)
    small = EMLLP(random_state=0).fit(X, bags=bags, proportions=totals)
    assert isinstance(small.estimator_[-1], LogisticRegression)
    X, y, bags, totals = clouds(4, n=2400, n_bags=80)
    large = EMLLP(random_state=0, max_iter=2, tol=1.0).fit(X, bags=bags, proportions=totals)
    assert isinstance(large.estimator_, ExtraTreesRegressor)
    assert large.score(X, y) > 0.7


def test_pipelines_and_routing():
    X, _, bags, totals = clouds(5)
    learner = make_pipeline(StandardScaler(), LogisticRegression())
    plain = EMLLP(learner).fit(X, bags=bags, proportions=totals)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = EMLLP(learner).fit(X, bags=bags, proportions=totals)
    np.testing.assert_array_equal(routed.predict_proba(X), plain.predict_proba(X))


def test_trees_see_rows_far_from_0_as_if_they_were_near():
    seen, (X, _, bags, totals) = [], clouds(0)
    X = np.round(X * 1024) / 1024
    for offset in (0.0, 1.7e9):
        EMLLP(Recorder(seen), max_iter=1).fit(X + offset, bags=bags, proportions=totals)
    near, far = (rows for rows, _, _ in seen[::2])
    near = near - near.mean(axis=0)
    np.testing.assert_allclose(np.sort(near, axis=0), np.sort(far, axis=0), atol=1e-6)
    tree = DecisionTreeClassifier(min_samples_leaf=10, random_state=0)
    model = EMLLP(tree, random_state=0).fit(X + 1.7e9, bags=bags, proportions=totals)
    here = EMLLP(tree, random_state=0).fit(X, bags=bags, proportions=totals)
    assert (model.predict(X + 1.7e9) == here.predict(X)).mean() > 0.9


def test_a_pipeline_sees_rows_as_they_are():
    seen, (X, _, bags, totals) = [], clouds(0)
    EMLLP(make_pipeline(Recorder(seen)), max_iter=1).fit(X + 1e6, bags=bags, proportions=totals)
    assert min(rows.min() for rows, _, _ in seen) > 9e5


def test_learners_that_cannot_serve_are_refused():
    X, _, bags, totals = clouds(6)
    with pytest.raises(ValueError, match=r"with fit and predict_proba.* Got LinearSVC\(\) instead"):
        EMLLP(LinearSVC()).fit(X, bags=bags, proportions=totals)
    with pytest.raises(ValueError, match=r"not a class: write LogisticRegression\(\)"):
        EMLLP(LogisticRegression).fit(X, bags=bags, proportions=totals)
    calibrated = CalibratedClassifierCV(LinearSVC(), cv=2)
    assert EMLLP(calibrated, max_iter=2, tol=1.0).fit(X, bags=bags, proportions=totals).n_iter_ > 0
    with pytest.raises(ValueError, match=r"whose fit takes sample_weight.*KNeighborsClassifier"):
        EMLLP(KNeighborsClassifier()).fit(X, bags=bags, proportions=totals)


def test_unrest_is_reported():
    X, _, bags, totals = clouds(7)
    with pytest.warns(ConvergenceWarning, match="did not settle within 2 rounds: the last round"):
        EMLLP(max_iter=2, tol=0.0).fit(X, bags=bags, proportions=totals)


def test_bins_keep_order_and_are_few():
    X = np.random.default_rng(0).normal(size=(5000, 2)) * [1.0, 1e-12]
    X = np.column_stack([X, np.zeros(5000), np.arange(5000) % 3])
    binned = QuantileBins().fit(X).transform(X)
    assert binned.max() <= 254
    for j in range(4):
        order = np.argsort(X[:, j], kind="stable")
        assert (np.diff(binned[order, j]) >= 0).all()
    assert [len(np.unique(binned[:, j])) for j in range(4)] == [255, 255, 1, 3]


@pytest.mark.slow
def test_slow_progress_is_not_taken_for_rest():
    X, _, bags, totals = clouds(8, n=300, n_bags=10)
    model = EMLLP().fit(X, bags=bags, proportions=totals)
    assert model.moves_[-1] <= 1e-4
    further = EMLLP(tol=1e-6, max_iter=2000).fit(X, bags=bags, proportions=totals)
    assert (model.predict(X) != further.predict(X)).mean() < 0.02


def test_the_seed_reaches_the_start():
    X, _, bags, totals = clouds(9)
    runs = [
        EMLLP(start=PropSVM(n_starts=1), max_iter=1, tol=1.0, random_state=0)
        .fit(X, bags=bags, proportions=totals)
        .predict_proba(X)
        for _ in range(3)
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2])
    for start in ("mean map", LogisticRegression()):
        with pytest.raises(ValueError, match="'start' parameter of EMLLP must be None"):
            EMLLP(start=start).fit(X, bags=bags, proportions=totals)


def test_every_round_keeps_the_totals():
    X, _, bags, totals = clouds(10)
    learner = Recorder([])
    matched = match_bags(80, None, bags, totals)
    start = np.tile([0.1, 0.9], (80, 1))
    expectation_maximization(X, matched, learner, start, tol=0.0, max_iter=3)
    assert len(learner.seen) == 4
    for _, labels, weights in learner.seen[1:]:
        assert weights[labels == 1].sum() == pytest.approx(matched.lower[:, 1].sum())


class Probe(RegressorMixin, BaseEstimator):
    """A regressor that answers means and remembers which rows it was fitted to and asked about."""

    seen: list

    def __init__(self, seen=None):
        self.seen = seen

    def fit(self, X, y):
        self.fitted_ = set(X[:, 0].astype(int).tolist())
        self.mean_ = np.mean(y, axis=0)
        return self

    def predict(self, X):
        self.seen.append((self.fitted_, set(X[:, 0].astype(int).tolist())))
        return np.tile(self.mean_, (len(X),) + (1,) * np.ndim(self.mean_))

    def __sklearn_clone__(self):
        return Probe(self.seen)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def cross_fitted(seed=0, n=60, n_bags=6, c=2):
    """Return rows numbered by their first feature, and bags, some rows of which are in none."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % c
    X = np.column_stack([np.arange(n), rng.normal(size=n) + 3.0 * y])
    return X, y, rng.permutation(np.arange(n) % n_bags)


@pytest.mark.parametrize("start", ["mean_map", "debiased"])
@pytest.mark.parametrize("c", [2, 3])
def test_no_learner_sees_the_bags_that_it_is_asked_about(start, c):
    X, y, bags = cross_fitted(c=c)
    totals = Totals.from_labels(y, bags)
    lower, upper = totals.lower.copy(), totals.upper.copy()
    lower[5], upper[5] = 0.0, 1.0  # nothing is known of bag 5
    ids = [None if i < 5 else int(k) for i, k in enumerate(bags)]
    partial = [0, *[None] * 59]
    probe = Probe([])
    model = EMLLP(probe, cross_fit=3, start=start, max_iter=2, random_state=0)
    known = Totals.from_intervals(lower, upper)
    model.fit(X, partial, bags=ids, proportions=known)
    assert len(probe.seen) == 3 * (3 if start == "debiased" else 2)
    unknown = {i for i in range(60) if i and (i < 5 or bags[i] == 5)}
    for fitted, asked in probe.seen:
        assert not fitted & unknown
        assert unknown <= asked
        assert not {bags[i] for i in fitted - {0}} & {bags[i] for i in asked - unknown - {0}}
    for start_of_round in range(0, len(probe.seen), 3):
        fold = probe.seen[start_of_round : start_of_round + 3]
        assert set().union(*(asked for _, asked in fold)) == set(range(60))
        assert sum(0 in asked for _, asked in fold) == 1


def test_folds_are_balanced_and_no_more_than_bags():
    sizes = np.repeat(np.arange(12), np.arange(12) + 1)
    matched = match_bags(len(sizes), None, sizes, np.full(12, 0.5))
    folds = folds_of(matched, 4)
    assert np.ptp(np.bincount(folds.of_row)) <= 3
    assert folds_of(matched, 40).n_folds == 12
    assert folds_of(match_bags(3, None, [0, 0, 0], [0.5]), 4).n_folds == 1


def test_one_bag_is_not_cross_fitted():
    X, y, _, _ = clouds(0)
    one = EMLLP("trees", max_iter=2, tol=1.0, random_state=0)
    one.fit(X, bags=np.zeros(80, int), proportions=[y.mean()])
    assert one.held_out_proba_ is None
    assert one.label_distributions_[:, 1].sum() == pytest.approx(y.sum())


def test_soft_labels_are_the_reconciled_probabilities_of_rules_that_saw_other_bags():
    X, y, bags, totals = clouds(1, n=160, n_bags=16)
    model = EMLLP("trees", cross_fit=4, random_state=0).fit(X, bags=bags, proportions=totals)
    matched = match_bags(160, None, bags, totals)
    expected = reconcile(model.held_out_proba_, matched)
    np.testing.assert_allclose(model.label_distributions_, expected, atol=1e-12)
    assert np.abs(model.held_out_proba_ - model.predict_proba(X)).max() > 0.05
    assert (model.transduction_ == y).mean() > 0.75
    plain = EMLLP("logistic").fit(X, bags=bags, proportions=totals)
    assert plain.held_out_proba_ is None


def test_sharpened_soft_labels_are_reconciled_powers():
    X, _, bags, totals = clouds(2)
    matched = match_bags(80, None, bags, totals)
    start = MeanMap().fit(X, bags=bags, proportions=totals).label_distributions_
    learner, folds = Ridge(), folds_of(matched, 4)
    end = expectation_maximization(
        X, matched, learner, start, tol=0.0, max_iter=1, folds=folds, sharpness=3.0
    )
    P = np.zeros((80, 2))
    for fold in range(4):
        mine = folds.of_row == fold
        P[mine, 1] = Ridge().fit(X[~mine], start[~mine, 1]).predict(X[mine]).clip(0.001, 0.999)
    P[:, 0] = 1.0 - P[:, 1]
    np.testing.assert_allclose(end.held_out, P, atol=2e-3)
    np.testing.assert_allclose(end.F, reconcile(end.held_out**3, matched), atol=1e-12)


def test_labels_that_every_rule_confirms_stay():
    """A fixed point of sharpening: hard labels that keep the totals, far apart in the features."""
    X, y, bags = cross_fitted()
    X = 100.0 * y[:, None] + X[:, 1:]
    totals = Totals.from_labels(y, bags)
    matched = match_bags(60, None, bags, totals)
    learner = DecisionTreeRegressor(max_depth=1)
    end = expectation_maximization(
        X,
        matched,
        learner,
        np.eye(2)[y],
        tol=1e-4,
        max_iter=9,
        folds=folds_of(matched, 3),
        sharpness=2.0,
    )
    assert end.converged
    assert len(end.moves) == 1
    np.testing.assert_allclose(end.F, np.eye(2)[y], atol=1e-5)


@pytest.mark.parametrize("size", [2, 10])
def test_debiased_targets_are_right_on_average_in_random_bags(size):
    rng = np.random.default_rng(size)
    n = 60_000
    x = rng.random(n)
    y = (rng.random(n) < 0.2 + 0.6 * x).astype(int)
    bags = rng.permutation(np.arange(n) // size)
    matched = match_bags(n, None, bags, Totals.from_labels(y, bags))
    w = debiased_targets(known_bags(matched), matched.overall)
    np.testing.assert_allclose(w.sum(axis=1), 1.0)
    for low in (0.0, 0.25, 0.5, 0.75):
        part = (low <= x) & (x < low + 0.25)
        error = w[part, 1].mean() - (0.2 + 0.6 * (low + 0.125))
        assert abs(error) < 4.0 * np.sqrt(size * 0.25 / part.sum())
    labeled = match_bags(3, [1, 0, None], [0, 0, 0], [2 / 3])
    w = debiased_targets(known_bags(labeled), labeled.overall)
    np.testing.assert_allclose(w, [[0, 1], [1, 0], [0, 1]])


def test_debiased_start_finds_what_no_line_can():
    X, y = make_xor(600, random_state=0)
    bags = np.random.default_rng(0).permutation(np.arange(600) // 8)
    totals = Totals.from_labels(y, bags)
    model = EMLLP("trees", cross_fit=3, start="debiased", max_iter=2, random_state=0)
    model.fit(X, bags=bags, proportions=totals)
    assert (model.transduction_ == y).mean() > 0.95
    line = MeanMap().fit(X, bags=bags, proportions=totals)
    assert (line.transduction_ == y).mean() < 0.7


@pytest.mark.parametrize("c", [2, 3])
def test_regressors_and_classifiers_agree_on_easy_data(c):
    X, y, bags = cross_fitted(c=c, n=120, n_bags=12)
    X = X[:, 1:] + 7.0 * y[:, None]
    totals = Totals.from_labels(y, bags)
    learners = [
        "logistic",
        "trees",
        "boosting",
        DecisionTreeClassifier(min_samples_leaf=5),
        DecisionTreeRegressor(min_samples_leaf=5),
        GradientBoostingRegressor(n_estimators=10, min_samples_leaf=5),
        make_pipeline(StandardScaler(), KNeighborsRegressor(5)),
    ]
    for learner in learners:
        model = EMLLP(learner, cross_fit=4, random_state=0).fit(X, bags=bags, proportions=totals)
        assert (model.transduction_ == y).mean() > 0.95
        assert (model.predict(X) == y).mean() > 0.95


@pytest.mark.parametrize("start", ["mean_map", "debiased"])
def test_trees_do_not_depend_on_the_order_of_rows_bags_and_classes(start):
    X, y, bags, totals = clouds(3, n=200, n_bags=20)
    order = np.random.default_rng(0).permutation(200)
    model = EMLLP("trees", cross_fit=3, start=start, max_iter=2, random_state=0)
    whole = clone(model).fit(X, bags=bags, proportions=totals)
    renamed = 19 - bags[order]
    shuffled = clone(model).fit(X[order], bags=renamed, proportions=totals.lower[::-1, 1])
    np.testing.assert_allclose(
        shuffled.label_distributions_, whole.label_distributions_[order], atol=1e-6
    )
    np.testing.assert_allclose(shuffled.held_out_proba_, whole.held_out_proba_[order], atol=1e-6)
    swapped = clone(model).fit(X, bags=bags, proportions=Totals.from_labels(1 - y, bags))
    np.testing.assert_allclose(
        swapped.label_distributions_[:, ::-1], whole.label_distributions_, atol=1e-6
    )


def test_cross_fitting_with_intervals_and_given_labels():
    X, y, bags, totals = clouds(4, n=120, n_bags=10)
    bounds = Totals.from_intervals((totals.lower - 0.1).clip(0), (totals.upper + 0.1).clip(0, 1))
    partial = np.where(np.arange(120) < 6, y, None)
    model = EMLLP("trees", cross_fit=4, start="debiased", random_state=0)
    model.fit(X, partial, bags=bags, proportions=bounds)
    np.testing.assert_array_equal(model.transduction_[:6], y[:6])
    np.testing.assert_array_equal(model.label_distributions_[:6], np.eye(2)[y[:6]])
    assert model.bag_report_.error("quota") == 0
    assert (model.transduction_ == y).mean() > 0.75


def test_rounds_are_reported():
    X, _, bags, totals = clouds(5)
    reports = []
    with progress_callback(lambda *report: reports.append(report)):
        EMLLP("trees", cross_fit=2, max_iter=2).fit(X, bags=bags, proportions=totals)
    assert [(stage, done) for stage, done, _ in reports] == [
        ("fitting rules", 0.5),
        ("fitting rules", 1.0),
    ]


def test_trees_see_at_most_some_thousand_rows():
    X, y, bags, totals = clouds(6, n=6000, n_bags=300)
    model = EMLLP("trees", max_iter=1, random_state=0).fit(X, bags=bags, proportions=totals)
    assert max(tree.tree_.n_node_samples[0] for tree in model.estimator_) <= 4000
    assert (model.transduction_ == y).mean() > 0.7
