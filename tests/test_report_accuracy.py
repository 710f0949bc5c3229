"""How right the labels are, in the report and as a plot: estimates, held-out totals, methods."""

from __future__ import annotations

import json
import re
import warnings
from copy import copy
from dataclasses import replace
from io import BytesIO
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine

from apportion import EMLLP, LPLLP, AutoLLP, CalibratedLLP, InputError, MeanMap, write_report
from apportion.bag_report import BagReport
from apportion.cli.console import OPTIONS
from apportion.datasets import make_bags
from apportion.exceptions import hint
from apportion.labeling._summary import fitted_run
from apportion.model_selection import (
    CandidateReport,
    Estimate,
    EstimatedAccuracy,
    WeighedCandidate,
)
from apportion.model_selection._graph_of_model import graph_in
from apportion.plotting import CalibrationDisplay
from apportion.plotting._held_out import HeldOutTotals, held_out_totals
from apportion.plotting._window_times import SECOND, Times
from apportion.report import ReportData, write_page
from apportion.report._glossary import glossary
from apportion.report._page import page_of
from apportion.report._plot_data import plot_data
from apportion.report._reliability import (
    accuracy_in_words,
    method_in_words,
    overall_estimate,
    reliability_of,
)
from apportion.report._report_data import answer_of
from apportion.report._verdict import verdict_on
from browser import texts

pytestmark = pytest.mark.slow

HOSTILE = "</script><img src=x onerror=window.pwned=1>{{ 7 * 7 }}\u2028"


@pytest.fixture(autouse=True)
def quiet():
    matplotlib.use("agg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture(scope="module")
def wine():
    X, grower = load_wine(return_X_y=True)
    X, grower = X[10:160], np.array(["a", "b", "c"], dtype=object)[grower[10:160]]
    bags, totals = make_bags(X, grower, n_bags=10, random_state=1)
    return SimpleNamespace(X=X, bags=bags, totals=totals)


@pytest.fixture(scope="module")
def weighed(wine):
    model = AutoLLP(["mean-map", "gp"], random_state=0)
    return model.fit(wine.X, bags=wine.bags, proportions=wine.totals)


@pytest.fixture(scope="module")
def with_graph(wine):
    candidates = {"mean map": MeanMap(), HOSTILE: LPLLP(random_state=0)}
    model = AutoLLP(candidates, random_state=0)
    return model.fit(wine.X, bags=wine.bags, proportions=wine.totals)


@pytest.fixture(scope="module")
def too_few(wine):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        shares = {k: {"a": 0.3 + k / 10, "b": 0.4 - k / 10, "c": 0.3} for k in range(3)}
        model = AutoLLP(["mean-map", "gp"], random_state=0)
        return model.fit(wine.X, bags=np.arange(150) % 3, proportions=shares)


def data_of(model, **changes):
    part = reliability_of(model)
    data = ReportData(
        title="Wine",
        answer=answer_of(model),
        bag_codes=model.bag_codes_,
        report=model.bag_report_,
        diagnoses={"": model.diagnosis_},
        runs={"": fitted_run(model)},
        reliability={} if part is None else {"": part},
    )
    return replace(data, **changes)


def words_of(page):
    """Return the text of a page, without scripts and styles."""
    page = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def estimated(part, value, low=None, high=None, reason=""):
    estimate = Estimate(value, low, high, reason)
    return replace(part, accuracy=EstimatedAccuracy(estimate, estimate))


# --- totals of held-out bags ---


def slow_totals(P, codes, report):
    """Return predicted totals, standard deviations and given bounds, row by row."""
    found = {}
    for k, size in enumerate(report.sizes):
        rows = [i for i, code in enumerate(codes) if code == k]
        if not rows or any(np.isnan(P[i]).any() for i in rows):
            continue
        sums = [sum(P[i, h] for i in rows) for h in range(P.shape[1])]
        variances = [sum(P[i, h] * (1 - P[i, h]) for i in rows) for h in range(P.shape[1])]
        upper = [min(bound, size) for bound in report.upper[k]]
        found[k] = (sums, np.sqrt(variances), report.lower[k], upper)
    return found


def made_up_report(codes, n_bags, c, generator):
    sizes = np.bincount(codes[codes >= 0], minlength=n_bags)
    lower = np.floor(generator.random((n_bags, c)) * sizes[:, None])
    upper = np.where(generator.random((n_bags, c)) < 0.5, lower, np.inf)
    counts = {"quota": lower.astype(np.intp)}
    ids, classes = tuple(range(n_bags)), np.arange(c)
    return BagReport(ids, classes, sizes, lower, upper, counts, "quota")


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 6), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_held_out_totals_are_sums_over_the_rows_of_whole_bags(seed, n, n_bags, c):
    generator = np.random.default_rng(seed)
    P = generator.dirichlet(np.ones(c), n)
    P[generator.random(n) < 0.1] = np.nan
    codes = generator.integers(-1, n_bags, n)
    report = made_up_report(codes, n_bags, c, generator)
    totals = held_out_totals(P, codes, report)
    expected = slow_totals(P, codes, report)
    assert totals.bags.tolist() == list(expected)
    for place, (sums, deviations, lower, upper) in enumerate(expected.values()):
        np.testing.assert_allclose(totals.predicted[place], sums)
        np.testing.assert_allclose(totals.deviation[place], deviations, atol=1e-12)
        np.testing.assert_allclose(totals.lower[place], lower)
        np.testing.assert_allclose(totals.upper[place], upper)
    sizes = report.sizes[totals.bags, None]
    # A total from 0 to all rows says nothing.
    assert not totals.known[(totals.upper == sizes) & (totals.lower == 0) & (sizes > 0)].any()
    assert totals.known[totals.upper == totals.lower].all()
    near = np.clip(totals.predicted, totals.lower, totals.upper)
    within = np.abs(near - totals.predicted) <= 2 * totals.deviation + 1e-9
    if totals.n_known:
        assert totals.share_within == pytest.approx(within[totals.known].mean())


def many_totals(n, c=2):
    predicted = np.random.default_rng(0).permutation(n)[:, None] + np.zeros(c)
    return HeldOutTotals(
        np.arange(n),
        predicted,
        np.ones((n, c)),
        predicted,
        predicted,
        np.ones((n, c), dtype=bool),
    )


def test_many_totals_are_thinned_evenly_whatever_the_order_of_bags():
    totals = many_totals(1000)
    few = totals.thinned(100)
    assert len(few.bags) == 50
    assert few.predicted[:, 0].min() == 0
    assert few.predicted[:, 0].max() == 999
    assert np.diff(np.sort(few.predicted[:, 0])).max() <= 21
    order = np.random.default_rng(1).permutation(1000)
    fields = ("bags", "predicted", "deviation", "lower", "upper", "known")
    other = HeldOutTotals(*(getattr(totals, name)[order] for name in fields))
    assert sorted(other.thinned(100).bags) == few.bags.tolist()
    assert totals.thinned(2000) is totals


# --- the plot ---


def test_points_are_predicted_against_given_totals(weighed):
    display = CalibrationDisplay.from_estimator(weighed)
    report = weighed.bag_report_
    for h, points in enumerate(display.points_):
        x, y = points.lines[0].get_data()
        np.testing.assert_allclose(x, report.lower[:, h])
        sums = np.bincount(weighed.bag_codes_, weighed.held_out_proba_[:, h])
        np.testing.assert_allclose(y, sums)
    x, y = display.diagonal_.get_data()
    assert x.tolist() == y.tolist()
    assert "10 held-out bags" in display.ax_.get_title(loc="left")
    assert display.plot() is display
    for kind in ("png", "svg", "pdf"):
        display.figure_.savefig(BytesIO(), format=kind)


def test_few_points_are_drawn_of_many_in_given_axes_and_hostile_names_stay_text():
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    names = np.array(["$x_1$", "_hidden"], dtype=object)
    axes = Figure().subplots(1, 2)
    display = CalibrationDisplay(many_totals(500), names).plot(axes[1], most_points=40)
    assert display.ax_ is axes[1]
    assert not pyplot.get_fignums()
    assert [len(points.lines[0].get_xdata()) for points in display.points_] == [20, 20]
    assert "20 of the bags are shown" in display.ax_.get_title(loc="left")
    drawn = display.legend_.get_texts()
    assert [text.get_text() for text in drawn] == names.tolist()
    assert not any(text.get_parse_math() for text in drawn)
    display.figure_.savefig(BytesIO())
    legend = display.legend_.get_window_extent()
    assert legend.x0 >= display.ax_.get_window_extent().x1
    assert legend.x1 <= display.figure_.bbox.x1


def test_models_without_held_out_bags_are_refused(wine, too_few):
    known = {"bags": wine.bags, "proportions": wine.totals}
    with pytest.raises(InputError, match="fit an AutoLLP or CalibratedLLP"):
        CalibrationDisplay.from_estimator(LPLLP(random_state=0).fit(wine.X, **known))
    without = [too_few, EMLLP(cross_fit=0, max_iter=2, random_state=0).fit(wine.X, **known)]
    for model in without:
        with pytest.raises(InputError, match="no bag that was held out"):
            CalibrationDisplay.from_estimator(model)


# --- the verdict ---


def test_the_verdict_opens_with_the_estimated_accuracy(weighed):
    estimate = weighed.estimated_accuracy_.fitted_rows
    sentence = verdict_on(data_of(weighed)).sentence
    low, high = round(100 * estimate.low), round(100 * estimate.high)
    start = (
        f"About {estimate.value:.0%} of the labels are right ({low} to {high}%), estimated from "
        "totals that were held out. All 150 rows have a label, every bag keeps its totals"
    )
    assert sentence.startswith(start)


def test_an_estimate_that_is_withheld_says_why(weighed, too_few):
    verdict = verdict_on(data_of(too_few, bag_word="entry"))
    start = "How many of the labels are right is not estimated: 3 entries are too few to hold any"
    assert verdict.sentence.startswith(start)
    assert not any("leave open" in concern for concern in verdict.concerns)

    reason = "the totals leave it open between 0.40 and 0.90"
    part = estimated(reliability_of(weighed), None, reason=reason)
    verdict = verdict_on(data_of(weighed, reliability={"": part}))
    start = f"How many of the labels are right is not estimated: {reason}. All"
    assert verdict.sentence.startswith(start)
    assert verdict.level == "care"
    assert "leave open" in verdict.concerns[0]

    # Bags were held out, and do not tell how sure methods may be: their number is no reason.
    uncalibrated = replace(part, methods=replace(part.methods, calibrated=False))
    verdict = verdict_on(data_of(weighed, reliability={"": uncalibrated}))
    assert verdict.sentence.startswith(start)
    assert verdict.level == "care"
    page = page_of(data_of(weighed, reliability={"": uncalibrated}), {"apportion": "0"})
    assert "too few to hold" not in page
    assert "as sure as it should be" not in page


@pytest.mark.parametrize(
    ("value", "level"), [(0.9, "sound"), (0.76, "sound"), (0.74, "care"), (0.49, "doubt")]
)
def test_few_right_labels_are_a_concern_and_wrong_ones_a_doubt(weighed, value, level):
    part = estimated(reliability_of(weighed), value, value - 0.05, value + 0.05)
    verdict = verdict_on(data_of(weighed, diagnoses={}, reliability={"": part}))
    assert verdict.level == level
    assert any("labels are wrong" in text for text in verdict.concerns) == (level != "sound")


def test_the_estimate_of_several_groups_is_weighted_by_their_rows(weighed):
    part = reliability_of(weighed)
    one, other = replace(part, n_samples=300), replace(part, n_samples=100)
    parts = {"p": estimated(one, 0.9, 0.85, 0.95), "q": estimated(other, 0.5, 0.45, 0.55)}
    estimate, n = overall_estimate(parts)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((0.8, 0.75, 0.85))
    assert n == 400
    assert accuracy_in_words(parts, "bag").startswith("About 80% of the labels are right (75 to 85")
    parts["q"] = estimated(other, None, reason="of this")
    words = "About 90% of the labels of 300 rows, for which this can be estimated, are right (85 to"
    assert accuracy_in_words(parts, "bag").startswith(words)
    parts["p"] = estimated(one, None, reason="of that")
    assert "by group below" in accuracy_in_words(parts, "bag")
    assert accuracy_in_words({}, "bag") == ""
    assert reliability_of(weighed, 30).n_samples == 120


def test_a_model_without_an_estimate_has_the_report_it_had(wine, tmp_path):
    model = LPLLP(random_state=0).fit(wine.X, bags=wine.bags, proportions=wine.totals)
    page = write_report(model, tmp_path / "a.html").read_text(encoding="utf-8")
    assert verdict_on(data_of(model)).sentence.startswith("All 150 rows have a label")
    assert 'id="accuracy"' not in page
    assert "probability of its label" not in page


# --- the panel, in words ---


def test_methods_and_their_weights_are_listed(weighed):
    words = words_of(page_of(data_of(weighed), {"apportion": "0"}))
    for one in weighed.candidate_report_.candidates:
        row = f"{one.name} {one.weight:.2f} {one.log_likelihood:.1f} {one.temperature:.2f}"
        assert row in words
    assert "The labels are an average of methods" in words
    new = weighed.estimated_accuracy_.new_rows
    assert f"of new rows without totals {new.value:.0%} (" in words
    share = reliability_of(weighed).totals.share_within
    assert f"{100 * share:.0f} of 100 do, of 30 totals of 10 bags." in words


def test_methods_left_out_and_warnings_are_listed_and_names_stay_text(weighed):
    known = replace(weighed.diagnosis_, findings=("A finding",))
    first, *others = weighed.candidate_report_.candidates
    noted = [replace(one, notes=("same", "A finding. A hint")) for one in others]
    first = replace(first, notes=("same", HOSTILE, hint("set {unit}")))
    left_out = {HOSTILE: f"too slow {HOSTILE}"}
    methods = CandidateReport((first, *noted), 10, left_out=left_out, calibrated=True)
    model = copy(weighed)
    model.candidate_report_, model.diagnosis_ = methods, known
    part = reliability_of(model, parameters=OPTIONS)
    assert part.notes == {"same": "all methods", HOSTILE: first.name, "set --unit": first.name}
    part = replace(part, names=(HOSTILE,) * 10)
    page = page_of(data_of(weighed, reliability={HOSTILE: part}), {"apportion": "0"})
    body, _, scripts = page.partition('<script type="application/json" id="data">')
    assert "<img" not in body
    assert "window.pwned" in body
    assert "</script>" not in scripts.partition("</script>")[0]
    assert json.loads(scripts.partition("</script>")[0])["heldOut"][0]["bags"] == [HOSTILE] * 10
    assert body.count("<strong>all methods</strong>: same") == 1
    assert "left out" in words_of(body)


@pytest.mark.parametrize(
    ("temperature", "weight", "says"),
    [
        (0.05, 0.5, "no better than"),
        (0.5, 0.5, "too sure"),
        (1.1, 0.5, "about as sure"),
        (3.0, 0.5, "not sure enough"),
        (1.0, 0.0, "no part in the average"),
    ],
)
def test_a_temperature_is_put_into_words(temperature, weight, says):
    one = WeighedCandidate("gp", weight, 3.0, temperature, 0.0, 1.0)
    assert method_in_words(one).startswith(says)
    assert "nothing was held out" in method_in_words(replace(one, log_likelihood=np.nan))
    assert "no better than" in method_in_words(replace(one, log_likelihood=-0.1))


@pytest.mark.parametrize("bag", ["bag", "entry"])
def test_only_calibrated_numbers_are_called_probabilities(weighed, too_few, bag):
    for model, calibrated in ((weighed, True), (too_few, False)):
        times = Times(np.arange(150) * SECOND, np.arange(1, 151) * SECOND)
        data = data_of(model, bag_word=bag, diagnoses={}, times=times)
        words = words_of(page_of(data, {"apportion": "0"}))
        assert data.calibrated == calibrated == plot_data(data)["calibrated"]
        if calibrated:
            assert "mass" not in words
            assert "its confidence, the probability of its label (of 100 rows" in words
        else:
            assert "probability of its label" not in words
            assert "probabilities" not in words
            assert "its confidence, the mass of its label" in words
        assert not re.search(r"\bbags?\b" if bag == "entry" else r"\bentr(y|ies)\b", words)
    terms = glossary(bag, calibrated=True)
    assert terms["confidence"].startswith("the probability of")
    assert glossary(bag)["confidence"].startswith("the mass of")


def test_terms_of_the_panel_are_explained_once(weighed):
    words = words_of(page_of(data_of(weighed), {"apportion": "0"})).lower()
    terms = glossary(calibrated=True)
    for term in ("estimated accuracy", "held out", "calibration", "weight"):
        assert words.count(terms[term].lower()) == 1, term


# --- a graph, or none ---


def test_the_map_is_drawn_of_a_method_that_has_a_graph(with_graph, weighed, tmp_path, wine):
    assert graph_in(weighed) is None
    assert graph_in(with_graph) is with_graph.candidates_[HOSTILE].graph_
    page = write_report(with_graph, tmp_path / "a.html").read_text(encoding="utf-8")
    assert "neighbors agree" in page
    assert 'id="map-plot"' in page
    page = write_report(weighed, tmp_path / "b.html").read_text(encoding="utf-8")
    assert "neighbors agree" not in page
    assert 'id="map-plot"' not in page
    assert re.search("keeps (no|a) graph of the rows", page)
    page = write_report(weighed, tmp_path / "b.html", X=wine.X).read_text(encoding="utf-8")
    assert 'id="map-plot"' in page


def test_one_calibrated_method_has_a_report(wine, tmp_path):
    model = CalibratedLLP(MeanMap()).fit(wine.X, bags=wine.bags, proportions=wine.totals)
    words = words_of(write_report(model, tmp_path / "a.html").read_text(encoding="utf-8"))
    assert "average of methods" not in words
    assert "The method that CalibratedLLP fitted keeps no graph" in words
    assert "MeanMap 1.00" in words


def test_many_held_out_bags_are_thinned_for_the_page(weighed):
    part = replace(reliability_of(weighed), totals=many_totals(9000, 3), names=tuple(range(9000)))
    (shown,) = plot_data(data_of(weighed, reliability={"": part}))["heldOut"]
    assert len(shown["bags"]) == 1000
    assert shown["n"] == 9000
    many = {f"p{k}": part for k in range(20)}
    shown = plot_data(data_of(weighed, reliability=many))["heldOut"]
    assert [len(one["bags"]) for one in shown] == [100] * 20


# --- in a browser ---


@pytest.fixture(scope="module")
def several(with_graph, weighed, tmp_path_factory):
    """A page of two groups whose names, bags and methods are hostile."""
    part, other = reliability_of(with_graph), reliability_of(weighed)
    totals = other.totals
    lower, upper = totals.lower.copy(), totals.upper.copy()
    lower[0], upper[0] = 0.0, 15.0
    upper[1] += 2.0
    known = upper - lower < 14.5
    other = replace(other, totals=replace(totals, lower=lower, upper=upper, known=known))
    parts = {HOSTILE: replace(part, names=(HOSTILE,) * 10), "second": other}
    path = tmp_path_factory.mktemp("pages") / "several.html"
    return write_page(data_of(with_graph, reliability=parts), path)


def test_marks_are_drawn_for_the_chosen_group(tabs, several):
    with tabs.opened(several) as found:
        page = found.page
        assert page.locator("#calibration-plot .point").count() == 30
        assert page.locator("table.methods:visible").count() == 1
        assert len(texts(page, "#accuracy-table tbody tr")) == 2
        page.select_option("#accuracy-choice", label="second")
        # The totals of one bag say nothing.
        assert page.locator("#calibration-plot .point").count() == 27
        assert page.locator("#calibration-plot .xerror").count() > 0
        assert texts(page, "table.methods:visible caption") == ["second"]
        page.locator("#classes input").first.click()
        assert page.locator("#calibration-plot .point").count() == 18
        assert page.evaluate("window.pwned") is None
        assert page.locator("img").count() == 0


def test_the_panel_fits_a_narrow_screen_and_paper(tabs, several):
    with tabs.opened(several, width=400, height=800) as found:
        assert found.page.evaluate("document.documentElement.scrollWidth") <= 400
    with tabs.opened(several, width=1031, height=702) as found:
        page = found.page
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        assert page.evaluate("document.documentElement.scrollWidth") <= 1031
        box = page.locator("#calibration-plot .main-svg").first.bounding_box()
        text = page.locator("#calibration-plot + div").bounding_box()
        assert box["x"] + box["width"] <= text["x"] + 1


def test_a_page_without_held_out_bags_has_no_plot(tabs, too_few, tmp_path):
    with tabs.opened(write_report(too_few, tmp_path / "a.html")) as found:
        assert found.page.locator("#calibration-plot").count() == 0
        assert "3 bags are too few to hold any out" in found.page.inner_text("#accuracy")
        assert found.page.locator("table.methods tbody tr").count() == 2
