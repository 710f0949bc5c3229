"""The data of plots and reports: styles, segments and the row map, compared with slow oracles."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import combinations
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from apportion import AnchorGraph, KNNGraph, PrecomputedGraph, RBFGraph
from apportion.plotting._palette import NO_LABEL, class_styles
from apportion.plotting._segments import episodes_per_bag, timeline_of
from apportion.plotting._window_times import DAY, SECOND, Times, times_of_diary
from apportion.report._row_map import MOST_ROWS, N_NEIGHBORS, map_of_graph
from apportion.supervision.diary import diary_bags
from apportion.supervision.diary.time_zones import shown_by

EPOCH = datetime(1970, 1, 1)


# --- styles ---


def in_lab(colors):
    """Return linear RGB colors in CIELAB."""
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    relative = colors @ to_xyz.T / (to_xyz @ np.ones(3))
    x, y, z = np.where(
        relative > (6 / 29) ** 3, np.cbrt(relative), relative / (3 * (6 / 29) ** 2) + 4 / 29
    ).T
    return np.column_stack([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def linear(color):
    """Return a color such as #0072B2 in linear RGB."""
    signs = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0
    return np.where(signs <= 0.04045, signs / 12.92, ((signs + 0.055) / 1.055) ** 2.4)


SEEN = {
    "normal": np.eye(3),
    # Machado, Oliveira and Fernandes (2009), severity 1.
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
}


@pytest.mark.parametrize("eyes", SEEN)
def test_the_first_eight_colors_are_told_apart_by_all_eyes(eyes):
    colors = np.array([linear(style.color) for style in class_styles(8)])
    seen = in_lab(np.clip(colors @ np.array(SEEN[eyes]).T, 0.0, 1.0))
    nearest = min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2))
    assert nearest > 8.0  # 2.3 is a difference just seen
    white = in_lab(linear(NO_LABEL)[None])[0]
    assert min(np.linalg.norm(seen - white, axis=1)) > 15.0


def test_an_unsafe_pair_would_be_found():
    """The oracle of the test above knows red and green that deuteranopes confuse."""
    pair = np.array([linear("#B03030"), linear("#686820")])
    seen = in_lab(np.clip(pair @ np.array(SEEN["deuteranopia"]).T, 0.0, 1.0))
    assert np.linalg.norm(seen[0] - seen[1]) < 8.0


def test_96_classes_differ_in_every_tool():
    many = class_styles(96)
    assert len({(style.color, style.pattern) for style in many}) == 96
    assert len({(style.color, style.symbol) for style in many}) == 96
    assert len({(style.color, style.hatch) for style in many}) == 96
    assert len({(style.color, style.marker) for style in many}) == 96
    assert class_styles(200)[:96] == many
    assert class_styles(0) == []


def test_eight_classes_differ_without_colors():
    for name in ("pattern", "symbol", "hatch", "marker"):
        assert len({getattr(style, name) for style in class_styles(8)}) == 8


# --- the timeline ---


def segments(shown):
    """Return the segments in words and numbers that no order of lanes changes."""
    names = [shown.participants[k] for k in shown.participant]
    columns = (shown.start, shown.end, shown.label, shown.n_samples, shown.confidence, shown.lowest)
    return sorted(
        (names[lane], shown.days[lane], *(None if x != x else round(x, 9) for x in numbers))
        for lane, *numbers in zip(
            shown.lane.tolist(), *(column.tolist() for column in columns), strict=True
        )
    )


def lanes_of(times):
    """Return each window's participant and day, found one by one."""
    found = []
    for row in range(len(times.starts)):
        middle = (int(times.starts[row]) + int(times.ends[row])) // 2
        day = (middle - times.day_start) // DAY
        who = "" if times.participants is None else str(times.participants[row])
        found.append((who, day))
    return found


def day_name(day, dated=True):
    return (EPOCH + timedelta(days=day)).strftime("%a %Y-%m-%d") if dated else f"day {day + 1}"


def slow_segments(times, labels, confidence):
    """Return the runs of labels, window by window."""
    rows = {}
    for row, lane in enumerate(lanes_of(times)):
        rows.setdefault(lane, []).append(row)
    lengths = sorted(int(b) - int(a) for a, b in zip(times.starts, times.ends, strict=True))
    n = len(lengths)
    usual = (lengths[(n - 1) // 2] + lengths[n // 2]) / 2
    found = []
    for (who, day), mine in rows.items():
        runs = []
        reached = None
        for row in sorted(mine, key=lambda r: (times.starts[r], times.ends[r], labels[r])):
            follows = runs and labels[runs[-1][-1]] == labels[row]
            if follows and times.starts[row] - reached <= usual / 2:
                runs[-1].append(row)
            else:
                runs.append([row])
            reached = int(times.ends[row]) if reached is None else max(reached, times.ends[row])
        for run in runs:
            sure = [float(confidence[row]) for row in run]
            unsure = any(one != one for one in sure)
            found.append(
                (
                    who,
                    day_name(day, times.dated),
                    (min(int(times.starts[row]) for row in run) - day * DAY) / SECOND,
                    (max(int(times.ends[row]) for row in run) - day * DAY) / SECOND,
                    int(labels[run[0]]),
                    len(run),
                    None if unsure else round(sum(sure) / len(sure), 9),
                    None if unsure else round(min(sure), 9),
                )
            )
    return sorted(found)


@st.composite
def recordings(draw, labeled=False):
    """Windows of three days: gaps, overlaps, nested and equal ones, in any order."""
    n = draw(st.integers(1, 40))
    numbers = draw(st.lists(st.integers(0, 2**40), min_size=n, max_size=n))
    base = draw(st.sampled_from([0, 19786 * DAY, 19786 * DAY + DAY // 2, -3 * DAY]))
    step = draw(st.sampled_from([30, 60, 3600]))
    starts, ends, labels, sure, whose = [], [], [], [], []
    clock = 0
    for number in numbers:
        clock += (0, 1, 1, 1, 3, 2, 7, 400)[number % 8] * step // (1 + (number >> 3) % 2)
        length = step * (1, 1, 1, 1, 2, 9)[(number >> 4) % 6]
        starts.append(base + clock * SECOND)
        ends.append(base + (clock + length) * SECOND)
        labels.append(-1 if not labeled and not (number >> 8) % 5 else (number >> 11) % 3)
        sure.append(np.nan if labels[-1] < 0 else ((number >> 13) % 9) / 8)
        whose.append(("p1", "P 2", "<b>")[(number >> 17) % 3])
    order = np.array(draw(st.permutations(range(n))), dtype=np.intp)
    participants = np.array(whose, dtype=object)[order] if draw(st.booleans()) else None
    times = Times(
        np.array(starts)[order],
        np.array(ends)[order],
        participants,
        draw(st.booleans()) if base >= 0 else True,
        draw(st.sampled_from([0, 4 * 3600 * SECOND, 18 * 3600 * SECOND])),
    )
    return times, np.array(labels)[order], np.array(sure)[order]


@given(recordings())
@settings(max_examples=150)
def test_segments_are_those_of_a_slow_walk_through_the_windows(recording):
    assert segments(timeline_of(*recording)) == slow_segments(*recording)


@given(recordings(), st.randoms(use_true_random=False))
def test_permuting_rows_changes_no_segment(recording, chance):
    times, labels, sure = recording
    order = list(range(len(labels)))
    chance.shuffle(order)
    whose = None if times.participants is None else times.participants[order]
    mixed = Times(times.starts[order], times.ends[order], whose, times.dated, times.day_start)
    one, other = timeline_of(*recording), timeline_of(mixed, labels[order], sure[order])
    assert segments(one) == segments(other)
    few = {"most_per_lane": 2}
    one, other = (
        timeline_of(times, labels, sure, **few),
        timeline_of(mixed, labels[order], sure[order], **few),
    )
    assert segments(one) == segments(other)


@given(recordings())
@settings(max_examples=150)
def test_episodes_count_in_the_bag_that_they_begin_in(recording):
    times, labels, _ = recording
    hours = times.starts // (3600 * SECOND)
    bags = hours % 4 - 1  # -1: in no bag
    usual = np.median(times.ends - times.starts)
    names = times.participants if times.participants is not None else [""] * len(labels)
    expected = np.zeros((3, 3), dtype=int)
    for name in set(names):
        before, reached = -1, -np.inf
        mine = [row for row in range(len(labels)) if names[row] == name]
        for row in sorted(mine, key=lambda r: (times.starts[r], times.ends[r], labels[r])):
            goes_on = labels[row] == before and times.starts[row] - reached <= usual
            if labels[row] >= 0 and not goes_on and bags[row] >= 0:
                expected[bags[row], labels[row]] += 1
            before, reached = labels[row], max(reached, times.ends[row])
    np.testing.assert_array_equal(episodes_per_bag(times, labels, bags, (3, 3)), expected)


@given(recordings())
def test_segments_cover_their_windows(recording):
    times, labels, _ = recording
    shown = timeline_of(*recording)
    lanes = lanes_of(times)
    assert shown.n_samples.sum() == len(labels)
    assert not shown.slot.any()
    assert len(shown.days) == len(set(lanes))
    for row, (who, day) in enumerate(lanes):
        lane = shown.lane_of_row[row]
        assert shown.participants[shown.participant[lane]] == who
        assert shown.days[lane] == day_name(day, times.dated)
        start, end = ((int(x[row]) - day * DAY) / SECOND for x in (times.starts, times.ends))
        mine = (shown.lane == lane) & (shown.label == labels[row])
        assert (mine & (shown.start <= start) & (shown.end >= end)).any()
        begins = times.day_start / SECOND
        assert begins <= (start + end) / 2 < begins + 24 * 3600


@given(recordings(), st.integers(1, 6))
def test_a_crowded_day_shows_the_majority_of_every_slot(recording, most):
    times, labels, _ = recording
    whole, thin = timeline_of(*recording), timeline_of(*recording, most_per_lane=most)
    assert thin.days == whole.days
    assert thin.n_samples.sum() == len(labels)
    for lane in range(len(whole.days)):
        there, here = (np.flatnonzero(one.lane == lane) for one in (whole, thin))
        rows = np.flatnonzero(whole.lane_of_row == lane)
        assert len(here) <= most
        assert (thin.slot[lane] > 0) == (len(there) > most)
        if not thin.slot[lane]:
            assert thin.start[here].tolist() == whole.start[there].tolist()
            assert thin.label[here].tolist() == whole.label[there].tolist()
            continue
        first = int(times.starts[rows].min())
        day = lanes_of(times)[rows[0]][1] * DAY
        slots = {}
        for row in rows.tolist():
            middle = (int(times.starts[row]) + int(times.ends[row])) / 2 - first
            slots.setdefault(int(middle / SECOND // thin.slot[lane]), []).append(row)
        held = Counter()
        for slot, mine in slots.items():
            counts = Counter(labels[mine].tolist())
            label = min(one for one in counts if counts[one] == max(counts.values()))
            middle = (first - day) / SECOND + (slot + 0.5) * thin.slot[lane]
            (segment,) = here[(thin.start[here] < middle) & (middle < thin.end[here])]
            assert thin.label[segment] == label
            held[segment] += len(mine)
        assert {k: int(thin.n_samples[k]) for k in here} == held


def test_a_long_recording_keeps_the_budget():
    generator = np.random.default_rng(0)
    n = 30_000
    starts = np.arange(n) * 30 * SECOND
    labels, sure = generator.integers(0, 4, n), generator.random(n)
    for most, most_per_lane in ((60_000, 2_000), (5_000, 2_000), (60_000, 100), (1, 2_000)):
        times = Times(starts, starts + 30 * SECOND)
        shown = timeline_of(times, labels, sure, most=most, most_per_lane=most_per_lane)
        n_lanes = len(shown.days)
        assert shown.n_segments <= max(most, 50 * n_lanes)
        assert np.bincount(shown.lane).max() <= most_per_lane
        assert shown.n_samples.sum() == n
        assert (np.diff(shown.lane) >= 0).all()


def test_windows_of_one_moment_can_be_thinned():
    n = 20
    times = Times(np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64))
    shown = timeline_of(times, np.arange(n) % 2, np.ones(n), most_per_lane=1)
    assert shown.n_segments == 1
    assert shown.n_samples.sum() == n


@pytest.mark.parametrize(("gap", "n"), [(0, 1), (15_000_000, 1), (15_000_001, 2), (30_000_000, 2)])
def test_a_gap_is_more_than_half_a_window(gap, n):
    starts = np.array([0, 30 * SECOND, 60 * SECOND + gap])
    shown = timeline_of(Times(starts, starts + 30 * SECOND), np.zeros(3, dtype=int), np.ones(3))
    assert shown.n_segments == n


def test_a_window_within_another_leaves_no_gap():
    starts, ends = np.array([0, 10, 90]) * SECOND, np.array([100, 20, 100]) * SECOND
    shown = timeline_of(Times(starts, ends), np.zeros(3, dtype=int), np.ones(3))
    assert (shown.start.tolist(), shown.end.tolist()) == ([0.0], [100.0])


# --- clocks ---


ZONES = ["Europe/London", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]


@given(
    st.sampled_from(ZONES),
    st.lists(st.datetimes(datetime(1950, 1, 1), datetime(2036, 1, 1)), min_size=1, max_size=5),
)
def test_clocks_show_what_zoneinfo_says(zone, when):
    moments = [(one - EPOCH) // timedelta(microseconds=1) for one in when]
    shown = shown_by(np.array(moments, dtype=np.int64), ZoneInfo(zone))
    for one, clock in zip(when, shown.tolist(), strict=True):
        local = one.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        assert EPOCH + timedelta(microseconds=clock) == local


@pytest.mark.parametrize(
    ("zone", "first"),
    [
        ("Europe/London", datetime(2024, 3, 30)),
        ("Europe/London", datetime(2024, 10, 26)),
        ("Australia/Lord_Howe", datetime(2024, 4, 6)),
        ("Asia/Kolkata", datetime(2024, 4, 6)),
    ],
)
def test_windows_of_a_day_with_a_change_of_the_clock_stand_where_clocks_showed_them(zone, first):
    moments = [first.replace(tzinfo=UTC) + timedelta(minutes=30 * i) for i in range(96)]
    days = sorted({str(one.astimezone(ZoneInfo(zone)).date()) for one in moments})
    diary = [{"date": day, "sleep": "8h"} for day in days]
    ends = [one + timedelta(minutes=30) for one in moments]
    matched = diary_bags({"start": moments, "end": ends}, diary, timezone=zone)
    clock = [one.astimezone(ZoneInfo(zone)).replace(tzinfo=None) for one in moments]
    assert [EPOCH + timedelta(microseconds=int(one)) for one in matched.starts] == clock
    assert set((matched.ends - matched.starts).tolist()) == {1800 * SECOND}
    times = times_of_diary(matched)
    shown = timeline_of(times, np.zeros(96, dtype=int), np.ones(96))
    assert [shown.days[lane][4:] for lane in shown.lane_of_row] == [
        str(one.date()) for one in clock
    ]
    assert matched.bags.tolist() == [str(one.date()) for one in clock]


@given(st.sampled_from(["00:00", "04:00", "18:30"]), st.integers(0, 47))
def test_a_bag_is_a_lane_whenever_the_day_begins(day_start, hour):
    starts = [datetime(2024, 3, 4) + timedelta(hours=hour + i) for i in range(24)]
    diary = [{"date": f"2024-03-0{day}", "sleep": "8h"} for day in range(3, 8)]
    matched = diary_bags({"start": starts}, diary, day_start=day_start, window="1h")
    assert [EPOCH + timedelta(microseconds=int(one)) for one in matched.starts] == starts
    times = times_of_diary(matched, day_start)
    shown = timeline_of(times, np.zeros(24, dtype=int), np.ones(24))
    assert [shown.days[lane][4:] for lane in shown.lane_of_row] == matched.bags.tolist()
    assert times.dated


def test_seconds_of_a_recording_have_days_and_no_dates():
    diary = [{"start": 0, "end": 172_800, "sleep": "50%"}]
    seconds = np.arange(0, 172_800, 3600)
    matched = diary_bags({"start": seconds}, diary)
    assert (matched.starts // SECOND).tolist() == seconds.tolist()
    times = times_of_diary(matched)
    assert not times.dated
    shown = timeline_of(times, np.zeros(48, dtype=int), np.ones(48))
    assert shown.days == ["day 1", "day 2"]
    assert shown.start.tolist() == [0.0, 0.0]
    assert shown.end.tolist() == [86_400.0, 86_400.0]


def test_windows_without_times_have_none():
    diary = [{"period": "a", "sleep": "1h"}, {"period": "b", "sleep": "1h"}]
    matched = diary_bags({"period": ["a", "a", "b"]}, diary, window="1h")
    assert matched.starts is None
    assert times_of_diary(matched) is None


# --- the map ---


def rows_of(n=40, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def map_of_features(X):
    return map_of_graph(KNNGraph().fit(X))


def similarities(X):
    apart = ((X[:, None] - X) ** 2).sum(axis=2)
    return np.exp(-apart) * ~np.eye(len(X), dtype=bool)


GRAPHS = {
    "knn": lambda X: KNNGraph(4).fit(X),
    "rbf": lambda X: RBFGraph(1.0).fit(X),
    "anchor": lambda X: AnchorGraph(8, 3).fit(X),
    "anchor of one": lambda X: AnchorGraph(5, 1).fit(X),
    "dense": lambda X: PrecomputedGraph().fit(similarities(X)),
    "sparse": lambda X: PrecomputedGraph().fit(
        sparse.csr_array(np.where(similarities(X) > 0.3, similarities(X), 0.0))
    ),
}
every_graph = pytest.mark.parametrize("name", GRAPHS)


def matrix_of(graph):
    """Return all similarities, found by another way than `similar_rows`."""
    if isinstance(graph, AnchorGraph):
        Z = graph.ties_.toarray()
        W = Z @ np.diag(1.0 / Z.sum(axis=0)) @ Z.T
    else:
        W = graph.multiply(np.eye(graph.n_samples_))
    return W * ~np.eye(len(W), dtype=bool)


def dense(W):
    return W.toarray() if sparse.issparse(W) else np.asarray(W)


@every_graph
def test_similar_rows_are_rows_of_the_matrix(name):
    graph = GRAPHS[name](rows_of())
    for rows in (np.arange(40), np.array([7]), np.array([39, 0, 12])):
        np.testing.assert_allclose(dense(graph.similar_rows(rows)), matrix_of(graph)[rows])


def test_rows_of_one_anchor_each_are_told_apart_by_their_anchors():
    graph = AnchorGraph(n_anchors=10, n_nearest=1).fit(rows_of())
    assert len(set(graph.hashes().tolist())) == len(graph.anchors_)


@every_graph
def test_what_a_graph_keeps_of_rows(name):
    X = rows_of()
    X[5] = X[6]
    graph, rows = GRAPHS[name](X), np.array([3, 5, 6, 30])
    kept, hashes = graph.features_of(rows), graph.hashes()
    assert hashes.shape == (40,)
    assert hashes.dtype == np.uint64
    if name in ("dense", "sparse"):
        assert kept is None
        assert len(set(hashes.tolist())) == 40
        return
    assert hashes[5] == hashes[6]
    if "anchor" in name:
        assert (kept[1] == kept[2]).all()
        low, high = graph.anchors_.min(axis=0), graph.anchors_.max(axis=0)
        assert ((kept >= low - 1e-9) & (kept <= high + 1e-9)).all()
        return
    np.testing.assert_array_equal(kept, X[rows])
    assert len(set(hashes.tolist())) == 39


def check_neighbors(found, W):
    """Compare a map's neighbors with all similarities, pair by pair."""
    n = len(W)
    assert found.neighbors.shape == found.similarity.shape == (len(found.rows), N_NEIGHBORS)
    for at, row in enumerate(found.rows.tolist()):
        near = [j for j in found.neighbors[at].tolist() if j >= 0]
        assert found.neighbors[at].tolist() == near + [-1] * (N_NEIGHBORS - len(near))
        assert row not in near
        assert len(set(near)) == len(near)
        best = sorted((w for w in W[row].tolist() if w > 0), reverse=True)[:N_NEIGHBORS]
        assert len(near) == len(best)
        np.testing.assert_allclose([W[row, j] for j in near], best, rtol=1e-9)
        total = max(sum(W[row, j] for j in range(n)), 1e-300)
        np.testing.assert_allclose(
            found.similarity[at], [*(w / total for w in best), *[0.0] * (N_NEIGHBORS - len(best))]
        )


@pytest.mark.slow
@every_graph
def test_neighbors_are_the_largest_similarities(name):
    for seed, n in ((0, 40), (1, 7), (2, 300)):
        graph = GRAPHS[name](rows_of(n, 2, seed))
        found = map_of_graph(graph)
        assert sorted(found.rows.tolist()) == list(range(n))
        check_neighbors(found, matrix_of(graph))


@pytest.mark.parametrize("name", ["knn", "rbf", "anchor", "dense", "sparse"])
def test_permuting_rows_permutes_the_map(name):
    X = rows_of(60)
    order = np.random.default_rng(1).permutation(60)
    one, other = map_of_graph(GRAPHS[name](X)), map_of_graph(GRAPHS[name](X[order]))
    there = np.where(other.neighbors >= 0, order[other.neighbors], -1)
    if name in ("dense", "sparse"):  # nothing but their positions tells these rows apart
        back = [order[other.rows].tolist().index(row) for row in one.rows.tolist()]
        assert there[back].tolist() == one.neighbors.tolist()
        return
    assert order[other.rows].tolist() == one.rows.tolist()
    assert there.tolist() == one.neighbors.tolist()
    np.testing.assert_allclose(other.coordinates, one.coordinates)
    np.testing.assert_allclose(other.similarity, one.similarity)


def test_equally_similar_rows_are_chosen_alike_in_any_order():
    X = np.array([(x, y) for x in range(9) for y in range(9)], dtype=np.float64)
    order = np.random.default_rng(0).permutation(81)
    one, other = (map_of_graph(RBFGraph(0.5).fit(rows)) for rows in (X, X[order]))
    assert order[other.neighbors].tolist() == one.neighbors.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 3, 6])
@pytest.mark.parametrize("kind", ["knn", "rbf", "anchor"])
def test_small_and_degenerate_rows_have_a_map(kind, d):
    generator = np.random.default_rng(0)
    for n in (1, 2, 3, 4, 5, 9):
        differ = generator.normal(size=(n, d))
        one_column = np.where(np.arange(d) == 0, differ, 3.0)
        for X in (differ, np.ones((n, d)), one_column, np.round(differ), 1e8 + differ):
            graph = GRAPHS[kind](X)
            found = map_of_graph(graph)
            assert found.coordinates.shape == (n, 2)
            assert np.isfinite(found.coordinates).all()
            check_neighbors(found, matrix_of(graph))
            assert found.layout


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_similarities_alone_make_a_map(n):
    chain = np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)
    for W in (np.ones((n, n)), np.zeros((n, n)), chain, 1e-200 * chain, 1e200 * chain):
        for given_as in (np.asarray, sparse.csr_array):
            graph = PrecomputedGraph().fit(given_as(W))
            found = map_of_graph(graph)
            assert np.isfinite(found.coordinates).all()
            check_neighbors(found, W * ~np.eye(n, dtype=bool))


@pytest.mark.parametrize("n_different", [1, 3, 4, 5, 40])
def test_equal_rows_share_a_place(n_different):
    """The places of a few rows, each many times, were not numbers, which killed Python."""
    points = rows_of(n_different, 3)
    rows = np.random.default_rng(1).integers(0, n_different, 90)
    rows[:n_different] = np.arange(n_different)
    X = points[rows]
    for found in (map_of_features(X), map_of_graph(PrecomputedGraph().fit(similarities(X)))):
        assert np.isfinite(found.coordinates).all()
        place = found.coordinates[np.argsort(found.rows)]
        assert len(np.unique(place, axis=0)) == n_different
        np.testing.assert_array_equal(place, place[:n_different][rows])
        assert found.layout.startswith("t-SNE") == (n_different >= 5)


@pytest.mark.parametrize("size", [1e-90, 1e-30, 1e-5, 1e15, 1e20, 1e60, 1e90])
def test_rows_of_any_size_are_laid_out(size):
    """t-SNE works in single precision: with raw features this collapsed, or killed Python."""
    X = np.random.default_rng(0).normal(size=(30, 3))
    X[15:] += 20
    found = map_of_features(X * size)
    assert np.isfinite(found.coordinates).all()
    groups = [found.coordinates[(found.rows < 15) == side] for side in (True, False)]
    apart = np.linalg.norm(groups[0].mean(axis=0) - groups[1].mean(axis=0))
    assert apart > 0
    assert min(len(np.unique(one, axis=0)) for one in groups) == 15


def test_the_places_of_one_and_two_features_are_the_features():
    X = rows_of(20, 2)
    found = map_of_features(X)
    np.testing.assert_array_equal(found.coordinates, X[found.rows])
    found = map_of_features(X[:, :1])
    np.testing.assert_array_equal(found.coordinates[:, 0], X[found.rows, 0])
    assert ((found.coordinates[:, 1] >= 0) & (found.coordinates[:, 1] <= 1)).all()


def test_near_rows_lie_near_each_other():
    X = rows_of(60, 5)
    X[30:] += 30
    for found in (map_of_features(X), map_of_graph(PrecomputedGraph().fit(similarities(X / 10)))):
        assert found.layout.startswith("t-SNE")
        side = found.rows < 30
        centers = [found.coordinates[side].mean(axis=0), found.coordinates[~side].mean(axis=0)]
        mine = np.linalg.norm(found.coordinates - np.where(side[:, None], *centers), axis=1)
        other = np.linalg.norm(found.coordinates - np.where(side[:, None], *centers[::-1]), axis=1)
        assert (mine < other).all()


def test_the_same_rows_make_the_same_map():
    X = rows_of(50, 4)
    one, other = map_of_features(X), map_of_features(X.copy())
    for name in ("rows", "coordinates", "neighbors", "similarity"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.slow
def test_a_large_map_is_a_sample_that_names_all_neighbors():
    X = rows_of(MOST_ROWS + 500, 2)
    graph = KNNGraph(3).fit(X)
    found = map_of_graph(graph)
    assert len(set(found.rows.tolist())) == MOST_ROWS
    check_neighbors(found, matrix_of(graph))
    assert not np.isin(found.neighbors, found.rows).all()
    few = map_of_graph(graph, most=10)
    assert few.rows.tolist() == found.rows[:10].tolist()
    assert few.neighbors.tolist() == found.neighbors[:10].tolist()


@given(st.integers(0, 100))
@settings(max_examples=10)
def test_rows_and_neighbors_have_their_numbers_in_a_larger_table(seed):
    generator = np.random.default_rng(seed)
    graph = KNNGraph(2).fit(generator.normal(size=(6, 2)))
    found = map_of_graph(graph)
    rows = np.sort(generator.choice(50, 6, replace=False))
    moved = map_of_graph(graph, rows)
    assert moved.rows.tolist() == [int(rows[row]) for row in found.rows]
    for near, there in zip(found.neighbors.tolist(), moved.neighbors.tolist(), strict=True):
        assert there == [-1 if j < 0 else int(rows[j]) for j in near]
    np.testing.assert_array_equal(moved.coordinates, found.coordinates)
    assert moved.layout == found.layout
