"""Expectation–maximization: exact where totals are, weighted as it says, fussy where it should."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from scipy.special import rel_entr
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from apportion import EMLLP, MeanMap, PropSVM, Totals
from apportion.estimators._cross_fitting import QuantileBins, Rule, expectation_maximization
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
