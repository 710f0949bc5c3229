"""Displays: they draw what was found, whatever the names and the axes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import pairwise
from zoneinfo import ZoneInfo

import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from apportion import LPLLP, InputError, InvCal, Totals
from apportion._core.descent import Status
from apportion.datasets import make_bags, make_smart_home
from apportion.model_selection import ProportionSearchCV
from apportion.plotting import (
    BagReportDisplay,
    EnergyDisplay,
    SoftLabelsDisplay,
    TimelineDisplay,
)
from apportion.plotting._drawing import class_fills, short_name
from apportion.plotting._window_times import DAY, SECOND, times_from

pytestmark = pytest.mark.slow

HALF_AN_HOUR = timedelta(minutes=30)
HOSTILE = ("$x_1$", "_hidden", "100%", r"\frac{1}{2}", "a\nb", "$", "<b>&amp;</b>", "\ud800")


@pytest.fixture(scope="module")
def wine():
    X, grower = load_wine(return_X_y=True)
    crates, totals = make_bags(X, grower, n_bags=6, random_state=0)
    return LPLLP(random_state=0).fit(scale(X), bags=crates, proportions=totals)


@pytest.fixture(autouse=True)
def closed_figures():
    matplotlib.use("agg")
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture
def ax():
    from matplotlib.figure import Figure

    return Figure().subplots()


def minutes(n, first="2024-03-04T07:00"):
    return np.datetime64(first, "s") + np.arange(n) * np.timedelta64(60, "s")


def boxes(display):
    """Every bar's label, left, right, low and high end, in hours and lanes."""
    found = []
    for label, bars in display.bars_.items():
        for path in bars.get_paths():
            (left, low), (right, high) = path.vertices.min(axis=0), path.vertices.max(axis=0)
            found.append((label, left, right, low, high))
    return np.array(found)


def every_display(model):
    yield lambda ax=None: TimelineDisplay.from_estimator(
        model, minutes(len(model.transduction_)), ax=ax
    )
    yield lambda ax=None: BagReportDisplay.from_estimator(model, ax=ax)
    yield lambda ax=None: SoftLabelsDisplay.from_estimator(model, ax=ax)
    yield lambda ax=None: EnergyDisplay.from_estimator(model, ax=ax)


# --- all of them ---


def test_every_display_is_drawn_and_saved(wine):
    for draw in every_display(wine):
        display = draw()
        assert display.figure_ is display.ax_.figure
        for kind in ("png", "svg", "pdf"):
            display.figure_.savefig(BytesIO(), format=kind)
        assert display.plot() is display


def test_given_axes_are_used_and_pyplot_knows_of_no_figure(wine):
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    for draw in every_display(wine):
        axes = Figure().subplots(1, 2)
        settings = dict(matplotlib.rcParams)
        display = draw(axes[1])
        assert display.ax_ is axes[1]
        assert display.figure_ is axes[1].figure
        assert len(display.figure_.axes) == 2
        display.figure_.savefig(BytesIO())
        assert not pyplot.get_fignums()
        assert dict(matplotlib.rcParams) == settings


@pytest.mark.parametrize("layout", [None, "constrained"])
def test_the_legend_lies_beside_the_axes_and_in_the_figure(wine, layout):
    from matplotlib.figure import Figure

    for draw in list(every_display(wine))[:3]:
        display = draw(Figure(layout=layout).subplots())
        display.figure_.draw_without_rendering()
        legend = display.legend_.get_window_extent()
        assert legend.x0 >= display.ax_.get_window_extent().x1
        assert legend.x1 <= display.figure_.bbox.x1
        assert display.ax_.yaxis.get_tightbbox().x0 >= 0


def test_models_in_a_pipeline_and_a_search_are_found():
    X, grower = load_wine(return_X_y=True)
    crates, totals = make_bags(X, grower, n_bags=10, random_state=0)
    pipeline = make_pipeline(StandardScaler(), LPLLP(random_state=0))
    with pytest.raises(NotFittedError, match="LPLLP"):
        EnergyDisplay.from_estimator(pipeline)
    pipeline.fit(X, lpllp__bags=crates, lpllp__proportions=totals)
    search = ProportionSearchCV(pipeline, {"lpllp__alpha": [0.5]}, cv=2)
    with pytest.raises(NotFittedError, match="ProportionSearchCV"):
        BagReportDisplay.from_estimator(search)
    search.fit(X, bags=crates, proportions=totals)
    for model in (pipeline, search):
        assert EnergyDisplay.from_estimator(model).line_ is not None
        assert len(BagReportDisplay.from_estimator(model).bags_) == 10
        assert SoftLabelsDisplay.from_estimator(model).masses_.shape == (178, 3)
        TimelineDisplay.from_estimator(model, minutes(178))


def test_models_that_are_not_fitted_are_refused():
    for draw in (
        BagReportDisplay.from_estimator,
        SoftLabelsDisplay.from_estimator,
        EnergyDisplay.from_estimator,
        lambda model: TimelineDisplay.from_estimator(model, [0.0, 1.0]),
    ):
        with pytest.raises(NotFittedError):
            draw(LPLLP())


def test_axes_must_be_axes(wine):
    from matplotlib.figure import Figure

    with pytest.raises(InputError, match=r"`ax`.*ndarray"):
        EnergyDisplay.from_estimator(wine, ax=Figure().subplots(1, 2))


def test_without_matplotlib_the_extra_is_named(wine, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    for draw in every_display(wine):
        with pytest.raises(ModuleNotFoundError, match=r"apportion\[plot\]"):
            draw()


def test_matplotlib_is_imported_when_a_plot_is_drawn():
    code = "import sys, apportion.plotting; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_classes_differ_in_grayscale():
    assert len({fill["hatch"] for fill in class_fills(8)}) == 8
    for pale in (False, True):
        for fill in class_fills(8, pale=pale):
            lines, face = (
                np.dot([0.299, 0.587, 0.114], fill[area]) for area in ("edgecolor", "facecolor")
            )
            assert abs(lines - face) > 0.1


@given(st.text())
def test_shown_names_are_one_short_line(name):
    assert len(short_name(name)) <= 32
    assert short_name(name).isprintable()
    if name.isprintable() and len(name) <= 32:
        assert short_name(name) == name


@pytest.mark.filterwarnings("ignore::apportion.BagDesignWarning")
def test_hostile_names_stay_text():
    X = np.arange(16.0)[:, None]
    totals = {bag: dict.fromkeys(HOSTILE, 1 / 8) for bag in HOSTILE[:2]}
    model = LPLLP(random_state=0)
    whom = np.repeat(HOSTILE[:2], 8)
    model.fit(X, bags=whom, proportions=totals)
    names = [short_name(name) for name in model.classes_]
    timeline = TimelineDisplay.from_estimator(model, minutes(16), participants=whom)
    bags = BagReportDisplay.from_estimator(model)
    for display in (timeline, bags, SoftLabelsDisplay.from_estimator(model)):
        display.figure_.savefig(BytesIO())
        texts = display.legend_.get_texts()
        assert [text.get_text() for text in texts] == names
        assert all(map(_drawn_as_written, texts))
    ticks = bags.ax_.get_yticklabels()
    assert [tick.get_text() for tick in ticks] == list(HOSTILE[:2])
    assert all(map(_drawn_as_written, ticks))
    headings = timeline.ax_.texts
    assert [text.get_text() for text in headings] == list(HOSTILE[:2])
    assert all(map(_drawn_as_written, headings))


def _drawn_as_written(text):
    return not text.get_parse_math() and not text.get_usetex()


# --- labels over time ---


def test_bars_are_the_segments_and_their_widths_the_time():
    home = make_smart_home(days=2, participants=2, minutes=5)
    start, end = home.windows["start"], home.windows["end"]
    display = TimelineDisplay.from_labels(
        home.activities, start, end=end, participants=home.windows["participant"]
    )
    drawn = boxes(display)
    assert len(drawn) == display.timeline.n_segments
    assert len(display.ax_.get_yticks()) == 4
    for h, name in enumerate(display.classes):
        mine = home.activities == name
        hours = (end - start)[mine].sum() / np.timedelta64(1, "h")
        bars = drawn[drawn[:, 0] == h]
        assert np.isclose((bars[:, 2] - bars[:, 1]).sum(), hours)
    for lane in range(4):
        center = display.ax_.get_yticks()[lane]
        inside = (drawn[:, 3] < center) & (drawn[:, 4] > center)
        assert np.isclose((drawn[inside, 2] - drawn[inside, 1]).sum(), 24.0)


def test_thickness_is_the_confidence(wine):
    display = TimelineDisplay.from_estimator(wine, minutes(178))
    drawn = boxes(display)
    shown_segments = display.timeline
    order = np.lexsort([shown_segments.start, shown_segments.label])
    thick = (drawn[:, 4] - drawn[:, 3])[np.lexsort([drawn[:, 1], drawn[:, 0]])]
    assert np.allclose(thick / 0.8, shown_segments.confidence[order])
    assert display.legend_.get_title().get_text() == "thickness: confidence"
    plain = TimelineDisplay.from_labels(wine.transduction_, minutes(178))
    assert np.ptp(boxes(plain)[:, 4] - boxes(plain)[:, 3]) < 1e-12
    assert plain.legend_.get_title().get_text() == ""


@pytest.mark.parametrize("nothing", [None, np.nan, -1])
def test_windows_without_a_label_are_white_with_an_outline(nothing):
    labels = np.array([0, 0, nothing, nothing, 1, 1], dtype=object)
    display = TimelineDisplay.from_labels(labels, minutes(6), confidence=[1, 1, np.nan, 9, 1, 1])
    bars = display.bars_[-1]
    assert len(bars.get_paths()) == 1
    assert np.allclose(bars.get_facecolor(), 1.0)
    assert bars.get_linewidth()[0] > 0
    assert [text.get_text() for text in display.legend_.get_texts()] == ["0", "1", "no label"]


def test_minus_one_may_be_a_class():
    display = TimelineDisplay.from_labels([-1, 1, 1], minutes(3), classes=[-1, 1])
    assert sorted(display.bars_) == [0, 1]
    fitted = LPLLP("rbf").fit(
        [[0.0], [0.1], [5.0], [5.1]],
        bags=[0, 0, 1, 1],
        proportions=Totals.from_proportions([[1, 0], [0, 1]], classes=[-1, 1]),
    )
    assert sorted(TimelineDisplay.from_estimator(fitted, minutes(4)).bars_) == [0, 1]


def test_nothing_but_missing_labels():
    display = TimelineDisplay.from_labels([None, None], minutes(2))
    assert list(display.bars_) == [-1]
    display.figure_.savefig(BytesIO())


def test_hours_are_fitted_to_a_short_recording():
    short = TimelineDisplay.from_labels(np.arange(90) // 30, minutes(90))
    low, high = short.ax_.get_xlim()
    assert 6.9 < low <= 7.0
    assert 8.5 <= high < 8.6
    assert "07:30" in [tick.get_text() for tick in short.ax_.get_xticklabels()]
    long = TimelineDisplay.from_labels(np.arange(1440) // 30, minutes(1440, "2024-03-04T00:00"))
    assert long.ax_.get_xlim() == (0.0, 24.0)
    ticks = [tick.get_text() for tick in long.ax_.get_xticklabels()]
    assert (ticks[0], ticks[-1]) == ("00:00", "24:00")


@given(
    st.floats(1e-3, 1e4),
    st.integers(2, 50),
    st.floats(0, 1e5),
)
def test_ticks_are_few_and_differ(step, n, first):
    from matplotlib.figure import Figure

    start = first + np.arange(n) * step
    display = TimelineDisplay.from_labels(
        np.arange(n) % 3, start, window=step, ax=Figure().subplots()
    )
    ticks = [tick.get_text() for tick in display.ax_.get_xticklabels()]
    assert 1 <= len(ticks) <= 13
    assert len(set(ticks)) == len(ticks)
    low, high = display.ax_.get_xlim()
    drawn = boxes(display)
    assert low <= drawn[:, 1].min()
    assert drawn[:, 2].max() <= high + 1e-12


def test_the_title_mentions_left_out_days_and_segments(ax):
    days = np.arange("2024-01-01", "2024-04-10", dtype="M8[D]")
    many = TimelineDisplay.from_labels(np.zeros(100), days, window="1 h", ax=ax)
    assert "first 60 of 100 days" in many.ax_.get_title(loc="left")
    assert len(boxes(many)) == 60
    crowded = TimelineDisplay.from_labels(np.arange(5000) % 2, np.arange(5000.0))
    assert "slots of" in crowded.ax_.get_title(loc="left")
    assert len(boxes(crowded)) <= 601


def test_bad_input_has_one_clear_error(wine):
    for start, words in (
        (minutes(177), "`start`: found 177 values. Allowed: 178 values, one for every row"),
        ("2024-03-04", "`start`: found the str '2024-03-04'. Allowed: 178 values"),
        (np.zeros((178, 2)), r"`start`: found an array of shape \(178, 2\).*one for every row"),
        (["noon"] * 178, "noon"),
        ([], "`start`: found 0 values"),
    ):
        with pytest.raises(InputError, match=words):
            TimelineDisplay.from_estimator(wine, start)
    labels = ["a", "b"]
    with pytest.raises(InputError, match="`confidence`"):
        TimelineDisplay.from_labels(labels, minutes(2), confidence=[1.0])
    for bad in (1.5, -0.1, np.nan):
        with pytest.raises(InputError, match="row 1"):
            TimelineDisplay.from_labels(labels, minutes(2), confidence=[1.0, bad])
    with pytest.raises(InputError, match="'b'"):
        TimelineDisplay.from_labels(labels, minutes(2), classes=["a"])
    with pytest.raises(InputError, match="participant"):
        TimelineDisplay.from_labels(labels, minutes(2), participants=["p1"])


# --- window times ---


def in_forms(moments):
    """The same clock times in all forms."""
    yield np.array(moments, dtype="M8[s]")
    yield np.array(moments, dtype="M8[ns]")
    yield moments
    yield [moment.isoformat() for moment in moments]
    yield pd.Series(moments)
    yield pd.DatetimeIndex(moments)
    yield pl.Series(moments)


def test_times_in_all_forms_are_the_same():
    moments = [datetime(2024, 3, 4, 7) + k * timedelta(minutes=30) for k in range(3)]
    expected = np.array(moments, dtype="M8[us]").astype(np.int64)
    for form in in_forms(moments):
        times = times_from(form)
        assert times.dated
        assert times.starts.tolist() == expected.tolist()
        assert (times.ends - times.starts == 1800 * SECOND).all()


def test_ends_a_window_or_the_usual_step():
    start = np.array([0.0, 10.0, 20.0, 100.0])
    for given_, seconds in (
        ({}, 10),
        ({"window": 5}, 5),
        ({"window": "1 min"}, 60),
        ({"window": timedelta(minutes=2)}, 120),
        ({"end": start + 3}, 3),
    ):
        times = times_from(start, **given_)
        assert (times.ends - times.starts == seconds * SECOND).all()
    with pytest.raises(InputError, match="one of them"):
        times_from(start, end=start + 1, window=1)
    with pytest.raises(InputError, match="does not end after its start"):
        times_from(start, end=start)
    with pytest.raises(InputError, match="how long"):
        times_from([0.0])


def test_seconds_below_ten_years_have_no_date():
    assert not times_from([0.0, 3e8]).dated
    assert times_from([1.7e9, 1.7e9 + 1]).dated
    assert times_from(np.array(["1970-01-01", "1970-01-02"], dtype="M8[D]")).dated
    assert times_from(pd.date_range("1970-01-01", periods=2, tz="Europe/London")).dated
    display = TimelineDisplay.from_labels(["a", "a", "b"], [0.0, 86400.0, 2 * 86400.0], window=60)
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == [
        "day 1",
        "day 2",
        "day 3",
    ]
    assert display.ax_.get_xlabel() == "time since the start"


def test_points_in_time_are_shown_by_clocks_of_their_zone():
    moments = [datetime(2024, 3, 30, 23, 30, tzinfo=UTC) + k * HALF_AN_HOUR for k in range(4)]
    utc, there = (_in_zone(moments, zone) for zone in ("UTC", "Europe/London"))
    index = pd.DatetimeIndex(moments).tz_convert("Europe/London")  # put forward in this night
    for given_, expected in (
        (index, there),
        (index.to_series(), there),
        (pl.Series(moments).dt.convert_time_zone("Europe/London"), there),
        ([moment.astimezone(ZoneInfo("Europe/London")) for moment in moments], there),
        (moments, utc),
        ([moment.astimezone(ZoneInfo("Europe/London")).isoformat() for moment in moments], utc),
        ([moment.timestamp() for moment in moments], utc),
    ):
        times = times_from(given_)
        assert times.starts.tolist() == expected
        assert (times.ends - times.starts == 1800 * SECOND).all()
    assert np.diff(there).max() == 5400 * SECOND


def _in_zone(moments, zone):
    clock = [moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None) for moment in moments]
    return np.array(clock, dtype="M8[us]").astype(np.int64).tolist()


def test_windows_keep_their_length_when_clocks_are_put_back():
    start = pd.date_range("2024-10-27 00:00", periods=4, freq="30min", tz="UTC")
    zone = "Europe/London"
    times = times_from(start.tz_convert(zone), (start + timedelta(minutes=30)).tz_convert(zone))
    assert (times.ends - times.starts == 1800 * SECOND).all()
    assert (times.starts[2:] == times.starts[:2]).all()


def test_fixed_offsets_are_a_zone():
    start = pd.to_datetime(["2024-03-04T07:00+05:30", "2024-03-04T07:30+05:30"])
    assert times_from(start).starts[0] % DAY == 7 * 3600 * SECOND
    aware = [datetime(2024, 3, 4, 7, tzinfo=UTC), datetime(2024, 3, 4, 8, tzinfo=UTC)]
    assert times_from(aware).starts[0] % DAY == 7 * 3600 * SECOND


# --- bags ---


def widths(containers):
    return np.array([[bar.get_width() for bar in bars] for bars in containers]).T


@pytest.fixture(scope="module")
def rough():
    """A model of totals that are intervals, one of them not known at all."""
    rng = np.random.default_rng(0)
    low = {"mon": {"a": 0.3, "b": 0.0, "c": 0.1}, "tue": {"a": 0.0, "b": 0.2, "c": None}}
    high = {"mon": {"a": 0.5, "b": 0.6, "c": 0.2}, "tue": {"a": 0.4, "b": 0.3, "c": None}}
    totals = Totals.from_intervals(low, high)
    X, bags = rng.normal(size=(20, 2)), np.repeat(["mon", "tue"], 10)
    return LPLLP(random_state=0).fit(X, bags=bags, proportions=totals)


@pytest.mark.filterwarnings("ignore::apportion.BagDesignWarning")
@pytest.mark.parametrize("which", ["wine", "rough"])
@pytest.mark.parametrize("decode", ["quota", "threshold"])
def test_bars_of_a_bag_sum_to_its_rows(which, decode, request):
    report = request.getfixturevalue(which).bag_report_
    display = BagReportDisplay.from_report(report, decode=decode)
    given_, left_open, assigned = map(widths, (display.given_, display.open_, display.assigned_))
    assert np.allclose(given_, report.lower)
    assert (assigned == report.assigned[decode]).all()
    assert np.allclose((given_ + left_open).sum(axis=1), report.sizes)
    assert (assigned.sum(axis=1) == report.sizes).all()
    assert (left_open >= 0).all()
    assert (given_ + left_open <= report.upper + 1e-9).all()
    for k in range(len(report.ids)):
        for rows in ([display.given_, display.open_], [display.assigned_]):
            spans = sorted(
                (bars[k].get_x(), bars[k].get_x() + bars[k].get_width())
                for kind in rows
                for bars in kind
            )
            assert all(b <= c + 1e-9 for (_, b), (c, _) in pairwise(spans))
        assert display.given_[0][k].get_y() < display.assigned_[0][k].get_y()


def test_what_totals_leave_open_is_in_the_legend(wine, rough):
    for model, there in ((wine, False), (rough, True)):
        names = [text.get_text() for text in BagReportDisplay.from_estimator(model).legend_.texts]
        assert ("pale: left open" in names) is there


def test_of_many_bags_those_farthest_off_are_shown_first():
    X, grower = load_wine(return_X_y=True)
    crates, totals = make_bags(X, grower, n_bags=40, random_state=0)
    model = LPLLP(random_state=0, decode="threshold")
    report = model.fit(scale(X), bags=crates, proportions=totals).bag_report_
    display = BagReportDisplay.from_report(report)
    off = np.abs(report.difference()).sum(axis=1) / 2
    assert len(display.bags_) == 30
    assert display.bags_[0] == off.argmax()
    assert (np.diff(off[display.bags_]) <= 0).all()
    assert "30 of 40 bags, those farthest off first" in display.ax_.get_title(loc="left")
    assert f"{off.max():g} off" in [text.get_text() for text in display.ax_.texts]
    assert len(BagReportDisplay.from_report(report, most_bags=40).bags_) == 40


def test_reports_that_cannot_be_drawn_are_refused(wine):
    with pytest.raises(InputError, match=r"'best'.*quota, threshold"):
        BagReportDisplay.from_estimator(wine, decode="best")
    report = wine.bag_report_
    nothing = replace(
        report,
        ids=(),
        sizes=report.sizes[:0],
        lower=report.lower[:0],
        upper=report.upper[:0],
        assigned={name: counts[:0] for name, counts in report.assigned.items()},
    )
    with pytest.raises(InputError, match="no bag"):
        BagReportDisplay.from_report(nothing)


# --- soft labels ---


def test_soft_labels_are_sorted_and_stand_on_their_own_mass(wine):
    display = SoftLabelsDisplay.from_estimator(wine)
    F, labels = wine.label_distributions_, wine.transduction_
    assert np.allclose(display.masses_.sum(axis=1), 1.0)
    assert np.allclose(np.sort(display.masses_, axis=0), np.sort(F, axis=0))
    sizes = np.bincount(labels)
    for h, first in enumerate(np.cumsum(sizes) - sizes):
        own = display.masses_[first : first + sizes[h], h]
        assert np.allclose(own, -np.sort(-F[labels == h, h]))
        corners = display.areas_[h].get_paths()[0].vertices
        inside = (corners[:, 0] > first) & (corners[:, 0] < first + sizes[h])
        assert np.isclose(corners[inside, 1].min(), 0.0)
        assert np.isclose(corners[inside, 1].max(), own[:-1].max(), atol=0.05)


@pytest.mark.parametrize("most", [1, 7, 50, 177, 178, 1000])
def test_averages_keep_every_class_its_mass(wine, most):
    display = SoftLabelsDisplay.from_estimator(wine, most_columns=most)
    rows = np.diff(display.edges_)
    assert display.edges_[0] == 0
    assert rows.sum() == 178
    assert len(rows) <= most + 3
    assert np.allclose(rows @ display.masses_, wine.label_distributions_.sum(axis=0))
    assert ("means of" in display.ax_.get_xlabel()) is (most < 178)


def test_soft_labels_must_fit_together():
    with pytest.raises(InputError, match="2 rows of 2 masses, 3 labels and 2 classes"):
        SoftLabelsDisplay(np.full((2, 2), 0.5), np.zeros(3, dtype=int), ["a", "b"]).plot()


# --- energy ---


def test_the_line_is_the_energy_above_its_lowest(wine):
    display = EnergyDisplay.from_estimator(wine)
    energies = wine.solution_.energies
    x, y = display.line_.get_data()
    assert np.allclose(y, energies[x] - energies.min())
    assert set(range(len(energies))) - set(x) == set(np.flatnonzero(energies == energies.min()))
    assert display.ax_.get_yscale() == "log"


def test_the_lowest_energy_need_not_be_the_last(ax):
    x, y = EnergyDisplay(np.array([3.0, 1.0, 2.0]), Status.MAX_ITER).plot(ax).line_.get_data()
    assert (list(x), list(y)) == ([0, 2], [2.0, 1.0])


@pytest.mark.parametrize("status", list(Status))
def test_the_title_says_how_a_run_ended(status, ax):
    display = EnergyDisplay(np.array([3.0, 1.0]), status).plot(ax)
    title = display.ax_.get_title(loc="left")
    assert title.endswith("after 1 iteration")
    assert ("not converged" in title) is (not status.value.startswith(("converged", "stopped")))
    assert len(title) < 50


@pytest.mark.parametrize("energies", [[2.0], [2.0, 2.0, 2.0], [0.0, -1.0, -1.0]])
def test_runs_that_hardly_fall_are_drawn(energies, ax):
    EnergyDisplay(np.array(energies), Status.CONVERGED).plot(ax).figure_.savefig(BytesIO())


def test_methods_without_an_energy_are_refused():
    X, grower = load_wine(return_X_y=True)
    crates, totals = make_bags(X, grower, n_bags=6, random_state=0)
    model = InvCal().fit(scale(X), bags=crates, proportions=totals)
    with pytest.raises(InputError, match="InvCal without `solution_`"):
        EnergyDisplay.from_estimator(model)
    BagReportDisplay.from_estimator(model)
    SoftLabelsDisplay.from_estimator(model)
