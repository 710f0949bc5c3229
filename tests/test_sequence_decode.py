"""Labels along time: exact counts, few changes, nothing that depends on the order of the input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from apportion import Totals
from apportion._core import episode_search
from apportion._core.chain import Chain
from apportion._core.decode import bag_counts, quota
from apportion._core.episode_moves import TimeLabels
from apportion._core.episode_search import improve, settle
from apportion._core.sequence_decode import decode_along_time
from apportion._utils.hashing import hash_ranks
from apportion._utils.sequences import Sequences
from apportion.exceptions import InputError
from apportion.supervision.bags import Bags, match_bags


def _scores(F):
    return np.log((F + 1e-3) / (F + 1e-3).sum(axis=1, keepdims=True))


def _problem(seed, n=None, c=None, *, loose=0.1, labeled=0.15, n_bags=2, smooth=False):
    """Random rows, bags, given labels and recordings."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8)) if n is None else n
    c = int(rng.integers(2, 4)) if c is None else c
    codes = np.sort(rng.integers(0, n_bags, n)) if seed % 2 else rng.integers(0, n_bags, n)
    codes = np.where(rng.random(n) < loose, -1, codes)
    codes[0] = 0
    truth = rng.integers(0, c, n)
    if smooth:
        truth = np.repeat(truth, 8)[:n]
    y = np.where(rng.random(n) < labeled, truth, -1)
    inside = codes >= 0
    totals = Totals.from_labels(truth[inside], codes[inside], classes=list(range(c)))
    bags = match_bags(
        n,
        bags=[None if k < 0 else int(k) for k in codes],
        proportions=totals,
        y=[None if h < 0 else int(h) for h in y] if (y >= 0).any() else None,
    )
    F = rng.dirichlet(np.full(c, 0.7), n) + smooth * np.eye(c)[truth]
    F /= F.sum(axis=1, keepdims=True)
    sequences = Sequences.of(rng.random(n).round(2), rng.integers(0, rng.integers(1, 3), n))
    return F, bags, sequences


def _value(F, labels, sequences, cost):
    return reference.value_along_time(
        _scores(F), labels, sequences.order, sequences.closeness, cost
    )


def _assert_kept(labels, F, bags):
    tally = bags.open_groups.sum(np.eye(bags.n_classes)[labels])
    np.testing.assert_array_equal(tally, bag_counts(F, bags))
    fixed = bags.given >= 0
    np.testing.assert_array_equal(labels[fixed], bags.given[fixed])


@given(seed=st.integers(0, 10**6))
def test_best_path_is_best_and_blocks_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    n, c = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    scores, costs = rng.integers(-4, 5, (n, c)), rng.integers(0, 6, n)
    costs[0] = 0
    path = Chain(n).best_path(scores, costs)
    values = [
        reference.value_along_time(scores, labels, np.arange(n), costs, 1.0)
        for labels in (path, *reference.labelings(n, c))
    ]
    assert values[0] == max(values)
    for length in (1, 2, 3, 10):
        np.testing.assert_array_equal(Chain(n, length).best_path(scores, costs), path)


@given(seed=st.integers(0, 10**6))
def test_posterior_adds_up_all_paths(seed):
    rng = np.random.default_rng(seed)
    n, c = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    likelihoods, draw = rng.random((n, c)) + 0.01, rng.random(n)
    draw[0], shares = 1.0, rng.dirichlet(np.ones(c))
    classes, fresh, total = reference.chain_posterior(likelihoods, 1.0 - draw, draw, shares)
    for length in (None, 1, 2, 10):
        found = Chain(n, length).posterior(likelihoods, 1.0 - draw, draw, shares)
        np.testing.assert_allclose(found.classes, classes, atol=1e-12)
        np.testing.assert_allclose(found.fresh, fresh, atol=1e-12)
        assert found.log_likelihood == pytest.approx(np.log(total))


@pytest.mark.parametrize("cost", [0.5, 2.0, 1e6])
def test_value_is_nearly_always_the_best(cost):
    """Never above the best of all labels with the counts, and equal to it in most problems.

    At the largest cost these are the fewest changes that the counts allow.
    """
    n_best, n_problems = 0, 60
    for seed in range(n_problems):
        F, bags, sequences = _problem(seed)
        labels, _ = decode_along_time(F, bags, hash_ranks(None, len(F)), sequences, cost)
        _assert_kept(labels, F, bags)
        best = reference.best_along_time(
            _scores(F),
            bags.codes,
            bags.given,
            bag_counts(F, bags),
            sequences.order,
            sequences.closeness,
            cost,
        )
        value, rounding = _value(F, labels, sequences, cost), 1e-6 * max(cost, 1.0)
        assert value <= best + rounding
        n_best += value >= best - rounding
    assert n_best >= 0.95 * n_problems


@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), c=st.integers(1, 4))
def test_cost_0_is_quota_by_log_scores(seed, n, c):
    F, bags, sequences = _problem(seed, n, c, loose=0.0, labeled=0.0)
    labels, _ = decode_along_time(F, bags, hash_ranks(None, n), sequences, 0.0)
    best = reference.best_assignment_value(_scores(F), bags.codes, bag_counts(F, bags))
    assert _scores(F)[np.arange(n), labels].sum() == pytest.approx(best, abs=1e-6)


@given(seed=st.integers(0, 10**6), cost=st.sampled_from([0.01, 1.0, 9.0]))
def test_value_is_never_below_that_of_quota_labels(seed, cost):
    F, bags, sequences = _problem(seed, 40, 3, loose=0.0, n_bags=3)
    labels, _ = decode_along_time(F, bags, np.arange(40), sequences, cost)
    by_quota, _ = decode_along_time(F, bags, np.arange(40), sequences, 0.0)
    assert _value(F, labels, sequences, cost) >= _value(F, by_quota, sequences, cost) - 1e-6


@pytest.mark.parametrize("cost", [0.7, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_permuting_rows_bags_and_classes_permutes_the_labels(seed, cost):
    n, c = 120, 3
    F, bags, sequences = _problem(seed, n, c, n_bags=4, smooth=True)
    rng = np.random.default_rng(seed)
    ranks = hash_ranks(F, n)
    labels, tied = decode_along_time(F, bags, ranks, sequences, cost)
    rows, ids = rng.permutation(n), rng.permutation(len(bags.ids))
    moved = Sequences(np.argsort(rows)[sequences.order], sequences.closeness)
    again = decode_along_time(F[rows], bags.take(rows, ids), ranks[rows], moved, cost)
    np.testing.assert_array_equal(again.labels, labels[rows])
    np.testing.assert_array_equal(again.tied, tied[rows])

    classes = rng.permutation(c)
    position = np.append(np.argsort(classes), -1)
    other = Bags(
        bags.ids,
        bags.classes[classes],
        bags.codes,
        bags.lower[:, classes],
        bags.upper[:, classes],
        position[bags.given],
    )
    again = decode_along_time(F[:, classes], other, ranks, sequences, cost)
    np.testing.assert_array_equal(classes[again.labels], labels)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 50),
    c=st.integers(1, 4),
    kind=st.sampled_from(["smooth", "rounded", "constant", "vertices"]),
    labeled=st.sampled_from([0.0, 0.3, 1.0]),
    times=st.sampled_from(["random", "equal", "alone"]),
    cost=st.sampled_from([0.0, 1e-12, 1.0, 30.0, 1e300, np.inf]),
)
def test_counts_are_kept_whatever_comes(seed, n, c, kind, labeled, times, cost):
    F, bags, sequences = _problem(seed, n, c, labeled=labeled, n_bags=5)
    rng = np.random.default_rng(seed)
    if kind == "rounded":
        F = np.round(F, 1)
    elif kind == "constant":
        F[:] = 1 / c
    elif kind == "vertices":
        F = np.eye(c)[rng.integers(0, c, n)]
    if times != "random":
        recording = np.zeros(n, int) if times == "equal" else np.arange(n)
        sequences = Sequences.of(np.zeros(n), recording)
    slack = rng.integers(0, 3, bags.lower.shape)
    empty = np.zeros((1, c))
    lower, upper = np.maximum(bags.lower - slack, 0.0), bags.upper + slack
    bags = Bags(
        (*bags.ids, "empty"),
        bags.classes,
        bags.codes,
        np.concatenate([lower if seed % 2 else bags.lower, empty]),
        np.concatenate([upper if seed % 2 else bags.upper, empty]),
        bags.given,
    )
    limits = np.where(rng.random(bags.lower.shape) < 0.5, np.nan, rng.integers(0, 3))
    for most_episodes in (None, limits):
        labels, tied = decode_along_time(
            F, bags, hash_ranks(None, n), sequences, cost, most_episodes
        )
        _assert_kept(labels, F, bags)
        assert not tied[bags.given >= 0].any()


@pytest.mark.parametrize("seed", range(60, 90))
def test_rows_in_no_bag_take_what_is_best_beside_the_others(seed):
    F, bags, sequences = _problem(seed, 12, 3, loose=0.5)
    labels, _ = decode_along_time(F, bags, np.arange(12), sequences, 1.5)
    value = _value(F, labels, sequences, 1.5)
    for row in np.flatnonzero((bags.codes < 0) & (bags.given < 0)):
        for other in range(3):
            changed = np.where(np.arange(12) == row, other, labels)
            assert _value(F, changed, sequences, 1.5) <= value + 1e-6


def test_an_episode_goes_on_past_midnight():
    """Rows beside midnight are in doubt; the counts say how many there are of each class."""
    truth = np.repeat([0, 1, 0], [6, 8, 6])
    day = np.repeat([0, 1], 10)
    F = np.eye(2)[truth] * 0.6 + 0.2
    F[8:12], F[[2, 17]] = [0.55, 0.45], [0.4, 0.6]
    bags = match_bags(20, bags=day, proportions=Totals.from_labels(truth, day))
    week = Sequences.of(np.arange(20.0), np.zeros(20, int))
    labels, _ = decode_along_time(F, bags, np.arange(20), week, 1.0)
    np.testing.assert_array_equal(labels, truth)
    assert week.n_changes(quota(F, bags, np.arange(20)).labels) > 2


def test_a_gap_makes_changes_cheap():
    F = np.array([[0.9, 0.1]] * 4 + [[0.7, 0.3]] * 4)
    bags = match_bags(8, bags=[0] * 8, proportions=np.array([[0.5, 0.5]]))
    times = np.array([0.0, 1.0, 50.0, 51.0, 52.0, 53.0, 54.0, 55.0])
    F[2:6] = [0.6, 0.4]
    week = Sequences.of(times, np.zeros(8, int))
    labels, _ = decode_along_time(F, bags, np.arange(8), week, 10.0)
    assert week.closeness[2] < 0.05
    assert labels[0] == labels[1] != labels[2]


def _episodes(labels, bags, sequences):
    begun = np.zeros(bags.lower.shape)
    for k, row in enumerate(sequences.order):
        if sequences.begins[k] or labels[row] != labels[sequences.order[k - 1]]:
            begun[bags.codes[row], labels[row]] += 1
    return begun


def test_limits_of_episodes_merge_short_ones():
    truth = np.zeros(40, int)
    truth[5:9], truth[20:22], truth[30] = 1, 1, 1
    F = np.eye(2)[truth] * 0.8 + 0.1
    bags = match_bags(40, bags=[0] * 40, proportions=Totals.from_labels(truth, [0] * 40))
    week = Sequences.of(np.arange(40.0), np.zeros(40, int))
    for limit, begun in ((np.nan, 3), (np.inf, 3), (3, 3), (2, 2), (1, 1)):
        limits = np.array([[np.nan, limit]])
        labels, _ = decode_along_time(F, bags, np.arange(40), week, 0.5, limits)
        _assert_kept(labels, F, bags)
        assert _episodes(labels, bags, week)[0, 1] == begun
        assert labels[5:9].all()


@pytest.mark.parametrize("seed", range(6))
def test_limits_never_lead_to_more_episodes_above_them(seed):
    F, bags, sequences = _problem(seed, 200, 3, loose=0.0, n_bags=4, smooth=True)
    ranks, limits = hash_ranks(None, 200), np.full(bags.lower.shape, 2.0)
    before, _ = decode_along_time(F, bags, ranks, sequences, 0.5)
    after, _ = decode_along_time(F, bags, ranks, sequences, 0.5, limits)
    _assert_kept(after, F, bags)
    excess = [
        np.maximum(_episodes(labels, bags, sequences) - 2, 0).sum() for labels in (before, after)
    ]
    assert excess[1] < excess[0]


def _time_labels(seed, *, starts):
    rng = np.random.default_rng(seed)
    n, c = int(rng.integers(2, 25)), int(rng.integers(2, 4))
    begins = rng.random(n) < 0.1
    begins[0] = True
    bags = rng.integers(-1, 3, n)
    return TimeLabels(
        np.repeat(rng.integers(0, c, n), 3)[:n],
        rng.integers(-9, 9, (n, c)),
        np.where(begins, 0, rng.integers(0, 9, n)),
        begins,
        np.sort(bags) if seed % 2 else bags,
        rng.permutation(n),
        rng.integers(0, 9, (n, c)) if starts else None,
    )


@given(seed=st.integers(0, 10**6), starts=st.booleans())
def test_gains_of_moves_are_differences_of_values(seed, starts):
    state = _time_labels(seed, starts=starts)
    most = np.full((3, state.n_classes, state.n_classes), 5)
    moves = state.moves(np.flatnonzero(state.bags >= 0), most, (0, 1, 2))
    for k in range(len(moves.bag)):
        moved = state.applied(moves.take([k]))
        assert moved.value() - state.value() == moves.gain[k]


@given(seed=st.integers(0, 10**6), starts=st.booleans(), patience=st.sampled_from([0, 50]))
def test_settling_meets_quotas_and_cycles_raise_the_value(seed, starts, patience):
    state = _time_labels(seed, starts=starts)
    rng = np.random.default_rng(seed)
    drawn = replace(state, labels=rng.integers(0, state.n_classes, len(state.labels)))
    quotas = drawn.counts(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(episode_search, "_PATIENT_ROUNDS", patience)
        settled = settle(state, quotas)
    np.testing.assert_array_equal(settled.counts(3), quotas)
    better = improve(settled, 3)
    np.testing.assert_array_equal(better.counts(3), quotas)
    assert better.value() >= settled.value()
    outside = state.bags < 0
    np.testing.assert_array_equal(better.labels[outside], state.labels[outside])


@pytest.mark.parametrize("seed", range(0, 70, 2))
def test_every_round_of_cycles_raises_the_value(seed):
    """Also where rows of several bags alternate, and cycles of two bags are side by side."""
    state = _time_labels(seed, starts=False)
    labels = np.random.default_rng(seed).integers(0, state.n_classes, len(state.labels))
    state = replace(state, labels=labels)
    for _ in range(6):
        better = improve(state, 3, rounds=1)
        changed = (better.labels != state.labels).any()
        assert better.value() > state.value() if changed else True
        state = better


def test_quotas_must_fit_their_bags():
    state = _time_labels(0, starts=False)
    quotas = state.counts(3)
    quotas[np.flatnonzero(quotas.any(axis=1))[0]] += 1
    with pytest.raises(ValueError, match="must sum to the number of its rows"):
        settle(state, quotas)


def test_rows_that_could_swap_are_tied():
    F = np.full((6, 2), 0.5)
    bags = match_bags(6, bags=[0] * 6, proportions=np.array([[0.5, 0.5]]))
    alone = Sequences.of(np.zeros(6), np.arange(6))
    assert decode_along_time(F, bags, np.arange(6), alone, 2.0).tied.all()
    F[:3], F[3:] = [0.9, 0.1], [0.1, 0.9]
    week = Sequences.of(np.arange(6.0), np.zeros(6, int))
    assert not decode_along_time(F, bags, np.arange(6), week, 2.0).tied.any()


@pytest.mark.parametrize("cost", [-1.0, np.nan])
def test_a_cost_that_is_none_is_refused(cost):
    F, bags, sequences = _problem(0)
    with pytest.raises(InputError, match="the cost per change: found"):
        decode_along_time(F, bags, np.arange(len(F)), sequences, cost)
