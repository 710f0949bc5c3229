"""The report: it shows what was found, needs no network, and is written whole or not at all."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from apportion import (
    EMLLP,
    LPLLP,
    AggregateGP,
    AnchorGraph,
    InvCal,
    KNNGraph,
    LabelPropagation,
    MeanMap,
    PropSVM,
    RBFGraph,
    SupervisionError,
    Totals,
    WeightedKNN,
    diagnose,
    write_report,
)
from apportion.bag_report import BagReport
from apportion.exceptions import DiaryError, OutputError
from apportion.labeling._summary import fitted_run
from apportion.labeling.rows import (
    REASONS,
    RowLabels,
    Supervision,
    assess_labels,
    label_rows,
    places_among,
    reasons_of,
)
from apportion.persistence import load_model, save_model
from apportion.plotting._palette import class_styles
from apportion.plotting._segments import timeline_of
from apportion.plotting._window_times import SECOND, Times
from apportion.report import ReportData, Run, _page, require_tools, write_page
from apportion.report._glossary import glossary
from apportion.report._page import page_of
from apportion.report._plot_data import MOST_DRAWN, plot_data
from apportion.report._report_data import MOST_MAPS, answer_of, maps_of, rows_per_map
from apportion.report._row_map import MOST_ROWS, RowMap
from apportion.report._verdict import agreement_of, verdict_on

pytestmark = pytest.mark.slow

ESTIMATORS = {
    "LPLLP": LPLLP(random_state=0),
    "LPLLP knn": LPLLP(KNNGraph(5), random_state=0),
    "LPLLP rbf": LPLLP(RBFGraph(1.0), random_state=0),
    "LPLLP anchor": LPLLP(AnchorGraph(9), random_state=0),
    "LPLLP precomputed": LPLLP("precomputed", random_state=0),
    "LPLLP threshold": LPLLP(decode="threshold", random_state=0),
    "LPLLP walk": LPLLP(order=2, random_state=0),
    "LabelPropagation": LabelPropagation(),
    "WeightedKNN": WeightedKNN(),
    "InvCal": InvCal(),
    "PropSVM": PropSVM(n_starts=1, random_state=0),
    "MeanMap": MeanMap(),
    "AggregateGP": AggregateGP(("linear", "rbf")),
    "EMLLP": EMLLP(max_iter=3, random_state=0),
}
every_estimator = pytest.mark.parametrize("name", ESTIMATORS)
ON_GRAPHS = [name for name in ESTIMATORS if name.startswith(("LP", "Label", "Weighted"))]

HOSTILE = ["</script><script>alert(1)</script>", "a & b", '"', "é\u2028", "\ud800", "{{ 7 * 7 }}"]


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def rows_of(n=36, seed=0):
    """Return rows of two classes well apart, in three bags, the last row in none."""
    generator = np.random.default_rng(seed)
    truth = np.arange(n) % 12 < (np.arange(n) * 3 // n) * 3 + 3
    X = generator.normal(size=(n, 2)) + 5 * truth[:, None]
    bags = np.repeat(np.array(["mon", "tue", "wed"], dtype=object), n // 3)
    bags[-1] = None
    counts = {
        bag: {"a": int(truth[bags == bag].sum()), "b": int((~truth[bags == bag]).sum())}
        for bag in ("mon", "tue", "wed")
    }
    return X, bags, Totals.from_counts(counts)


def fitted(name):
    X, bags, totals = rows_of()
    model = clone(ESTIMATORS[name])
    if "precomputed" in name:
        X = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    return model.fit(X, bags=bags, proportions=totals), X, bags


class Page(HTMLParser):
    """The parts of a page."""

    def __init__(self, path):
        super().__init__()
        self.scripts, self.policy, self.text, self.tags = [], None, [], []
        self._inside = None
        self.source = Path(path).read_bytes().decode("utf-8")
        self.feed(self.source)
        self.close()
        self.data = json.loads(self.scripts[0][1])

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag == "meta" and found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"]
        if tag in ("script", "style"):
            self._inside = tag
            if tag == "script":
                self.scripts.append([found.get("type"), ""])

    def handle_endtag(self, tag):
        if tag == self._inside:
            self._inside = None

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts[-1][1] += data
        elif self._inside is None:
            self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


# --- every estimator ---


@every_estimator
def test_every_estimator_has_a_report(name, tmp_path):
    model, X, bags = fitted(name)
    found = Page(write_report(model, tmp_path / "report.html"))
    report, n = model.bag_report_, len(X)
    assert f"Labels by {type(model).__name__}" in found.words
    place = places_among(model.transduction_, model.classes_)
    assert [one["rows"] for one in found.data["classes"]] == np.bincount(place).tolist()
    assert found.data["bags"]["names"] == list(report.ids)
    assert found.data["bags"]["assigned"] == report.assigned[model.decode].tolist()
    assert found.data["timeline"] is None
    assert len(found.data["maps"]) == (name in ON_GRAPHS)
    assert ("pass X for a map" in found.words) == (name not in ON_GRAPHS)

    start = np.datetime64("2024-03-04T22:00") + np.arange(n) * np.timedelta64(30, "m")
    names, whose = [f"row {i}" for i in range(n)], ["p", "q"] * (n // 2)
    found = Page(
        write_report(
            model,
            tmp_path / "report.html",
            X=X,
            start=start,
            window="30min",
            participants=whose,
            names=names,
            title="A title",
            notes=["A note"],
        )
    )
    assert "A title" in found.words
    assert "A note" in found.words
    assert sum(found.data["timeline"]["rows"]) == n
    assert found.data["timeline"]["participants"] == ["p", "q"]
    (one,) = found.data["maps"]
    assert sorted(one["row"]) == sorted(names)
    for row, label, bag, masses in zip(
        one["row"], one["label"], one["bag"], one["masses"], strict=True
    ):
        at = names.index(row)
        assert label == place[at]
        assert bag == bags[at]
        np.testing.assert_allclose(masses, 100 * model.label_distributions_[at], atol=0.5)


@every_estimator
def test_bag_codes_are_the_rows_bags(name):
    model, _, bags = fitted(name)
    ids = [*model.bag_report_.ids, None]
    assert [ids[code] for code in model.bag_codes_] == bags.tolist()
    order = np.random.default_rng(0).permutation(len(bags))
    X, _, totals = rows_of()
    if "precomputed" in name:
        return
    again = clone(model).fit(X[order], bags=bags[order], proportions=totals)
    ids = [*again.bag_report_.ids, None]
    assert [ids[code] for code in again.bag_codes_] == bags[order].tolist()


@every_estimator
def test_what_a_model_tells_of_itself(name):
    model, _, _ = fitted(name)
    answer, run = answer_of(model), fitted_run(model)
    assert answer.labels.tolist() == model.transduction_.tolist()
    place = places_among(answer.labels, answer.classes)
    rows = np.arange(len(place))
    np.testing.assert_array_equal(answer.confidence, model.label_distributions_[rows, place])
    assert ["unbagged" in codes for codes in answer.reasons] == [*[False] * 35, True]
    for row, codes in enumerate(answer.reasons):
        assert ("tie" in codes.split(";")) == model.tied_[row]
    assert run.method == type(model).__name__
    assert set(run.settings) == set(model.get_params(deep=False))
    assert all(isinstance(text, str) and len(text) < 210 for text in run.settings.values())
    if hasattr(model, "solution_"):
        assert run.success == model.solution_.success
        assert run.energies[-1] == pytest.approx(model.solution_.energies[-1])
        assert (run.n_iter, run.unique) == (model.solution_.n_iter, model.solution_.unique)
    json.dumps(run.settings, allow_nan=False)


def test_rows_may_be_frames_and_sparse(tmp_path):
    X, bags, totals = rows_of()
    frame = pd.DataFrame(X, columns=["x", "y"])
    model = InvCal().fit(frame, bags=bags, proportions=totals)
    assert Page(write_report(model, tmp_path / "a.html", X=frame)).data["maps"]
    W = sparse.csr_array(np.exp(-((X[:, None] - X) ** 2).sum(axis=2)))
    model = LPLLP("precomputed").fit(W, bags=bags, proportions=totals)
    assert Page(write_report(model, tmp_path / "b.html", X=W)).data["maps"]


def test_names_may_be_anything(tmp_path):
    model, X, _ = fitted("LPLLP")
    pairs = [("p", i) for i in range(len(X))]
    (one,) = Page(write_report(model, tmp_path / "a.html", names=pairs)).data["maps"]
    assert sorted(one["row"]) == sorted(map(str, pairs))
    (one,) = Page(write_report(model, tmp_path / "a.html", names=pd.Series(pairs))).data["maps"]
    assert sorted(one["row"]) == sorted(map(str, pairs))


@pytest.mark.parametrize("size", [1e-60, 1e-6, 1.0, 1e20, 1e90])
def test_places_on_the_map_survive_being_written(size, tmp_path):
    X, bags, totals = rows_of()
    for scales in ((size, size), (size, 1.0)):
        model = LPLLP(RBFGraph(), random_state=0).fit(X * scales, bags=bags, proportions=totals)
        (one,) = Page(write_report(model, tmp_path / "a.html")).data["maps"]
        for axis, column in ((0, "x"), (1, "y")):
            true = (X * scales)[one["row"], axis]
            np.testing.assert_allclose(one[column], true, atol=1e-4 * np.ptp(true))


# --- refusals ---


def test_what_is_no_fitted_model_of_ours_is_refused(tmp_path):
    X, bags, totals = rows_of()
    path = tmp_path / "report.html"
    pipeline = make_pipeline(StandardScaler(), LPLLP())
    with pytest.raises(SupervisionError, match=r"found Pipeline.*pipeline\[-1\], of a search its"):
        write_report(pipeline, path)
    with pytest.raises(SupervisionError, match="found the class LPLLP"):
        write_report(LPLLP, path)
    with pytest.raises(SupervisionError, match="found None"):
        write_report(None, path)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        write_report(LPLLP(), path)
    model = LPLLP(random_state=0).fit(X, bags=bags, proportions=totals)
    save_model(tmp_path / "model.zip", model)
    with pytest.raises(SupervisionError, match="found LPLLP from a file, which has no labels of"):
        write_report(load_model(tmp_path / "model.zip").model, path)
    assert not path.exists()


@pytest.mark.parametrize("what", ["X", "start", "end", "participants", "names"])
def test_what_has_another_length_is_refused(what, tmp_path):
    model, X, _ = fitted("InvCal")
    good = {"X": X, "start": range(36), "end": range(1, 37), "participants": ["p"] * 36}
    for values, text in (
        (list(range(35)), "35 values"),
        (np.ones((37, 2)), r"an array of shape \(37, 2\)"),
        ([], "0 values"),
        ("a" * 36, "the str 'aaa"),
        (7, "the int 7"),
    ):
        with pytest.raises(SupervisionError, match=f"`{what}`: found {text}.*36 values, one for"):
            write_report(model, tmp_path / "a.html", **{**good, what: values})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"end": range(36)}, "`start`: found nothing, while there is `end`"),
        ({"participants": ["p"] * 36, "window": 60}, "nothing, while there is `window`, `partic"),
    ],
)
def test_times_need_a_start(given_, says, tmp_path):
    with pytest.raises(SupervisionError, match=says):
        write_report(fitted("InvCal")[0], tmp_path / "a.html", **given_)


@pytest.mark.parametrize(
    ("given_", "kind", "says"),
    [
        ({"start": [None] * 36}, DiaryError, "row 0, column 'start': found no time"),
        ({"start": ["noon"] * 36}, DiaryError, "row 0.*'noon'"),
        ({"start": range(36), "end": range(36)}, DiaryError, "row 0"),
        ({"start": range(36), "window": "long"}, DiaryError, "'long'"),
        ({"start": range(36), "end": range(1, 37), "window": 1}, DiaryError, "`end` and `window`"),
        ({"start": [0] * 36}, DiaryError, "how long a window is"),
        ({"X": np.full((36, 2), np.nan)}, ValueError, "row 0, column 0: found NaN"),
        ({"X": np.ones((36, 5))}, ValueError, "X has 5 features, but InvCal is expecting 2"),
        ({"X": np.ones(36)}, ValueError, "2D array"),
    ],
)
def test_bad_times_and_rows_get_one_clear_error(given_, kind, says, tmp_path):
    with pytest.raises(kind, match=says):
        write_report(fitted("InvCal")[0], tmp_path / "a.html", **given_)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("package", ["jinja2", "plotly"])
def test_a_missing_tool_is_named_with_its_extra_before_any_work(package, tmp_path, monkeypatch):
    model, _, _ = fitted("LPLLP")
    there = _page.find_spec
    monkeypatch.setattr(_page, "find_spec", lambda name: None if name == package else there(name))
    monkeypatch.setattr(
        "apportion.report._write.map_of_graph", lambda _: pytest.fail("work was done")
    )
    with pytest.raises(ModuleNotFoundError, match=rf"{package}: install apportion\[report\]"):
        write_report(model, tmp_path / "a.html")
    with pytest.raises(ModuleNotFoundError, match=package):
        require_tools()
    assert not list(tmp_path.iterdir())


# --- the file ---


def test_a_path_that_cannot_be_written_is_refused_before_any_work(tmp_path, monkeypatch):
    model, _, _ = fitted("LPLLP")
    monkeypatch.setattr(
        "apportion.report._write.map_of_graph", lambda _: pytest.fail("work was done")
    )
    with pytest.raises(OutputError, match="is a folder"):
        write_report(model, tmp_path)
    with pytest.raises(OutputError, match="there is no folder"):
        write_report(model, tmp_path / "none" / "a.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("old", [None, "what was there"])
@pytest.mark.parametrize("step", ["write_bytes", "replace"])
def test_a_full_disk_leaves_the_folder_as_it_was(step, old, tmp_path, monkeypatch):
    path = tmp_path / "a.html"
    if old is not None:
        path.write_text(old)
    writing = Path.write_bytes

    def full(target, *args):
        if step == "write_bytes":
            writing(target, b"<!doctype html><p>half of")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(*((Path, step, full) if step == "write_bytes" else ("os.replace", full)))
    with pytest.raises(OutputError, match=r"a\.html cannot be written: no space left"):
        write_report(fitted("LPLLP")[0], path)
    monkeypatch.undo()
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == (
        {} if old is None else {"a.html": old}
    )


def test_a_file_that_is_there_is_replaced_only_when_asked(tmp_path):
    path = tmp_path / "a.html"
    path.write_text("old")
    with pytest.raises(OutputError, match="is there already"):
        write_page(made_up(), path)
    assert path.read_text() == "old"
    write_page(made_up(), path, force=True)
    assert Page(path).data


def test_equal_inputs_give_equal_pages(tmp_path):
    X, bags, totals = rows_of()
    X = np.column_stack([X, X[:, 0] ** 2])
    pages = []
    for k in range(2):
        model = LPLLP(random_state=0).fit(X, bags=bags, proportions=totals)
        write_report(model, tmp_path / f"{k}.html", start=range(0, 36 * 60, 60))
        pages.append((tmp_path / f"{k}.html").read_bytes())
    assert pages[0] == pages[1]


# --- the page ---


def made_up(n=40, c=2, **changes):
    """Return the data of a report without any concern, made by hand."""
    classes = np.array([f"c{h}" for h in range(c)])
    place = np.arange(n) % c
    masses = np.full((n, c), 0.1 / max(c - 1, 1))
    masses[np.arange(n), place] = 0.9
    answer = RowLabels(
        classes,
        classes[place].astype(object),
        masses,
        np.full(n, 0.9),
        np.full(n, "", dtype=object),
    )
    codes = (np.arange(n) >= n // 2).astype(np.intp)
    assigned = np.stack([np.bincount(place[codes == k], minlength=c) for k in (0, 1)])
    given_ = assigned.astype(float)
    sizes = np.bincount(codes)
    report = BagReport(
        ("one", "two"), classes, sizes, given_, given_, {"quota": assigned}, "quota", {"quota": 0}
    )
    near = np.full((n, 5), -1)
    for row in range(n):
        alike = [j for j in range(n) if j != row and place[j] == place[row]][:5]
        near[row, : len(alike)] = alike
    shares = np.where(near >= 0, 0.2, 0.0)
    coordinates = np.column_stack([np.arange(n), np.zeros(n)])
    one = RowMap(np.arange(n), coordinates, near, shares, "by hand")
    bags = {"a": np.eye(c)[0].tolist(), "b": np.full(c, 1 / c).tolist()}
    design = diagnose(["a", "b"] * 5, Totals.from_proportions(bags, classes=classes.tolist()))
    run = Run("LPLLP", {"alpha": "0.5"}, "a graph", "converged", energies=[2.0, 1.0], unique=True)
    made = {
        "title": "By hand",
        "answer": answer,
        "bag_codes": codes,
        "report": report,
        "diagnoses": {"": replace(design, findings=())},
        "runs": {"": run},
        "maps": {"": one},
    }
    return ReportData(**{**made, **changes})


def test_the_policy_allows_the_scripts_of_the_page_and_nothing_else(tmp_path):
    found = Page(write_page(made_up(), tmp_path / "a.html"))
    run = [text for kind, text in found.scripts if kind != "application/json"]
    assert len(run) == len(found.scripts) - 1 == 2
    hashes = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in run}
    assert set(re.findall(r"'sha256-([^']+)'", found.policy)) == hashes
    assert "default-src 'none'" in found.policy
    assert "http" not in found.policy
    assert "unsafe" not in found.policy.split("style-src")[0]
    for tag, attributes in found.tags:
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        for name in ("src", "href", "action", "data", "srcset"):
            link = attributes.get(name) or "#"
            assert link.startswith(("#", "data:")), (tag, attributes)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_name_gets_out_of_its_place(hostile, tmp_path):
    plain = Page(write_page(made_up(), tmp_path / "plain.html"))
    base = made_up()
    classes = np.array([hostile, "c1"], dtype=object)
    labels = np.where(base.answer.labels == "c0", hostile, "c1").astype(object)
    data = replace(
        base,
        title=hostile,
        answer=replace(base.answer, classes=classes, labels=labels),
        report=replace(base.report, ids=(hostile, "two"), classes=classes),
        diagnoses={hostile: replace(base.diagnoses[""], classes=classes, findings=(hostile,))},
        runs={hostile: replace(base.runs[""], settings={hostile: hostile}, status=hostile)},
        maps={hostile: base.maps[""]},
        names=np.full(40, hostile, dtype=object),
        times=Times(np.arange(40) * SECOND, np.arange(1, 41) * SECOND, np.full(40, hostile)),
        command=hostile,
        facts={hostile: hostile},
        rules=(hostile,),
        notes=(hostile,),
    )
    found = Page(write_page(data, tmp_path / "a.html"))
    assert len(found.scripts) == len(plain.scripts)
    assert found.scripts[1:] == plain.scripts[1:]
    assert "<" not in found.scripts[0][1]
    assert found.data["classes"][0]["name"] == hostile
    assert found.data["bags"]["names"][0] == hostile
    assert found.data["timeline"]["participants"] == [hostile]
    assert found.data["maps"][0]["row"][0] == hostile
    shown = hostile.encode("utf-8", "backslashreplace").decode()
    assert found.words.count(" ".join(shown.split())) >= 8


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_in_a_script_holds_no_sign_of_html_and_comes_back(document):
    text = _page._json(document)
    assert not set("<>&\u2028\u2029") & set(text)
    text.encode("utf-8")
    assert json.loads(text) == document


def test_a_page_of_a_hundred_thousand_windows_is_below_8_mb(tmp_path):
    n, c, n_bags = 100_000, 12, 300
    generator = np.random.default_rng(0)
    classes = np.array([f"an activity {h}" for h in range(c)])
    place = generator.integers(0, c, n)
    masses = generator.dirichlet(np.ones(c), n)
    labels = classes[place].astype(object)
    answer = RowLabels(
        classes, labels, masses, masses[np.arange(n), place], np.full(n, "", dtype=object)
    )
    codes = np.arange(n) * n_bags // n
    assigned = np.zeros((n_bags, c), dtype=int)
    np.add.at(assigned, (codes, place), 1)
    ids = tuple(f"a participant, 2024-01-{k}" for k in range(n_bags))
    lower = assigned + generator.random((n_bags, c))
    report = BagReport(
        ids, classes, np.bincount(codes), lower, lower + 1, {"quota": assigned}, "quota"
    )
    rows = generator.permutation(n)[:MOST_ROWS]
    near = generator.integers(0, n, (MOST_ROWS, 5))
    one = RowMap(rows, generator.normal(size=(MOST_ROWS, 2)), near, np.full(near.shape, 0.1), "")
    starts = np.arange(n) * 30 * SECOND + 19786 * 86_400 * SECOND
    whose = np.array([f"participant {k}" for k in np.arange(n) * 10 // n], dtype=object)
    data = ReportData(
        "Large", answer, codes, report, {}, {}, Times(starts, starts + 30 * SECOND, whose),
        {"": one}, np.array([f"window {i}" for i in range(n)], dtype=object),
    )  # fmt: skip
    path = write_page(data, tmp_path / "a.html")
    assert path.stat().st_size < 8_000_000
    shown = Page(path).data["timeline"]
    assert sum(shown["rows"]) == n
    assert len(shown["rows"]) > 40_000


# --- the document ---


def test_the_document_is_what_was_found():
    data = made_up(c=3)
    answer, report = data.answer, data.report
    n = data.n_samples
    answer.labels[4] = None
    answer.masses[4] = answer.confidence[4] = np.nan
    starts = np.arange(n)[::-1] * 3600 * SECOND
    times = Times(starts, starts + 3600 * SECOND)
    data = replace(data, times=times, bag_codes=np.where(np.arange(n) == 4, -1, data.bag_codes))
    data.maps[""].neighbors[::2, 3:] = -1
    found = plot_data(data)
    json.dumps(found, allow_nan=False)
    labels = answer.labels.tolist()
    for one, name, look in zip(found["classes"], answer.classes, class_styles(3), strict=True):
        assert one["name"] == name
        assert one["rows"] == labels.count(name)
        assert (one["color"], one["pattern"], one["symbol"]) == (
            look.color,
            look.pattern,
            look.symbol,
        )
    shown = timeline_of(times, data.label_codes, answer.confidence)
    assert found["timeline"]["label"] == shown.label.tolist()
    assert found["timeline"]["start"] == shown.start.tolist()
    assert [100 if s is None else s for s in found["timeline"]["sure"]] == [
        100 if label < 0 else 90 for label in shown.label
    ]
    assert found["bags"]["rows"] == report.sizes.tolist()
    assert found["bags"]["hours"] == 1.0
    pieces = found["bags"]["pieces"]
    assert pieces["unlisted"] == []
    pairs = list(zip(pieces["lane"], pieces["bag"], strict=True))
    of_rows = zip(shown.lane_of_row.tolist(), data.bag_codes.tolist(), strict=True)
    assert pairs == sorted({(lane, bag) for lane, bag in of_rows if bag >= 0})
    for at, (lane, k) in enumerate(pairs):
        there = np.flatnonzero((data.bag_codes == k) & (shown.lane_of_row == lane))
        day = starts[there].min() // (24 * 3600 * SECOND) * 24 * 3600
        assert pieces["start"][at] == starts[there].min() / SECOND - day
        assert pieces["end"][at] == starts[there].max() / SECOND - day + 3600
    (one,) = found["maps"]
    assert one["label"][4] == -1
    assert one["bag"][4] is None
    assert one["masses"][4] == [None, None, None]
    for row in range(n):
        for near, label, bag, known in zip(
            one["near"][row], one["nearLabel"][row], one["nearBag"][row],
            data.maps[""].neighbors[row], strict=True,
        ):  # fmt: skip
            if known < 0:
                assert label == -2
                continue
            assert near == known
            assert label == data.label_codes[known]
            assert bag == (None if known == 4 else report.ids[data.bag_codes[known]])


def test_of_many_bags_those_farthest_off_are_listed():
    n = MOST_DRAWN + 50
    generator = np.random.default_rng(0)
    assigned = generator.integers(0, 9, (n, 2))
    given_ = generator.integers(0, 9, (n, 2)).astype(float)
    base = made_up()
    report = replace(
        base.report,
        ids=tuple(range(n)),
        sizes=assigned.sum(axis=1),
        lower=given_,
        upper=given_,
        assigned={"quota": assigned},
    )
    found = plot_data(replace(base, report=report))["bags"]
    listed = [int(name) for name in found["names"]]
    assert found["n"] == n
    assert listed == sorted(set(listed))
    assert len(listed) == MOST_DRAWN
    off = np.abs(assigned - given_).sum(axis=1)
    assert off[listed].min() >= np.delete(off, listed).max()
    assert found["assigned"] == assigned[listed].tolist()


@given(st.integers(2, 700) | st.integers(2, 20_000))
@settings(max_examples=20)
def test_energies_are_thinned_to_some_of_them(n):
    energies = np.random.default_rng(n).normal(size=n).tolist()
    run = Run("LPLLP", {}, energies=energies)
    (steps,) = [one["energies"] for one in plot_data(made_up(runs={"": run}))["runs"]]
    assert len(steps) <= 500
    assert steps[0] == [0, energies[0]]
    assert steps[-1] == [len(energies) - 1, energies[-1]]
    assert [k for k, _ in steps] == sorted({k for k, _ in steps})
    assert all(energies[k] == value for k, value in steps)
    if len(energies) <= 500:
        assert len(steps) == len(energies)


def test_open_totals_and_a_design_without_mass_have_a_page():
    base = made_up(c=3)
    upper = np.full_like(base.report.upper, np.inf)
    shares = {"x": {"c0": 1.0, "c1": 0.0, "c2": 0.0}}
    data = replace(
        base,
        report=replace(base.report, upper=upper),
        diagnoses={"": diagnose(["x"] * 4, Totals.from_proportions(shares))},
    )
    text = page_of(data, {"apportion": "0"})
    assert f"at least {base.report.lower[0, 0]:g}" in text
    assert ">inf" not in text
    assert plot_data(data)["bags"]["upper"] == [[None] * 3] * 2


def test_maps_of_many_groups_are_few_and_small():
    X, bags, totals = rows_of()
    model = LPLLP(random_state=0).fit(X, bags=bags, proportions=totals)
    groups = {f"p{k}": np.arange(36) + 36 * k for k in range(MOST_MAPS + 2)}
    maps, left_out = maps_of(groups, lambda group: model.graph_)
    assert list(maps) == [f"p{k}" for k in range(MOST_MAPS)]
    assert left_out == "Maps of 2 more groups are left out."
    for k, one in enumerate(maps.values()):
        assert sorted(one.rows.tolist()) == list(range(36 * k, 36 * k + 36))
        assert set(one.neighbors.ravel().tolist()) <= {-1, *range(36 * k, 36 * k + 36)}

    def left_out_of(n):
        return maps_of(dict(list(groups.items())[:n]), lambda group: model.graph_)[1]

    assert left_out_of(MOST_MAPS) == ""
    assert left_out_of(MOST_MAPS + 1) == "Maps of 1 more group are left out."
    assert rows_per_map(1) == MOST_ROWS
    assert all(rows_per_map(k) * k <= max(MOST_ROWS, 300 * k) for k in range(1, 9))


# --- the verdict ---


def slow_agreement(data):
    """Return how much of all similarity is to rows of one's own label, pair by pair."""
    labels = data.answer.labels.tolist()
    same = everything = 0.0
    for one in data.maps.values():
        for at, row in enumerate(one.rows.tolist()):
            for j, share in zip(
                one.neighbors[at].tolist(), one.similarity[at].tolist(), strict=True
            ):
                if j >= 0 and labels[row] is not None and labels[j] is not None:
                    everything += share
                    same += share * (labels[j] == labels[row])
    known = [label for label in labels if label is not None]
    return same / everything, sum((known.count(one) / len(known)) ** 2 for one in set(known))


@given(st.integers(0, 1000), st.integers(1, 4))
@settings(max_examples=25)
def test_agreement_is_what_neighbors_say_pair_by_pair(seed, c):
    generator = np.random.default_rng(seed)
    data = made_up(20, c)
    labels = data.answer.classes[generator.integers(0, c, 20)].astype(object)
    labels[generator.random(20) < 0.2] = None
    labels[0] = data.answer.classes[0]
    near = np.array([generator.permutation(20)[:5] for _ in range(20)])
    near[generator.random(near.shape) < 0.3] = -1
    one = replace(
        data.maps[""],
        neighbors=near,
        similarity=np.where(near < 0, 0, generator.random(near.shape)),
    )
    other = replace(
        one, rows=generator.permutation(20)[:7], neighbors=near[:7], similarity=one.similarity[:7]
    )
    data = replace(data, answer=replace(data.answer, labels=labels), maps={"p": one, "q": other})
    found = agreement_of(data)
    share, by_chance = slow_agreement(data)
    assert found.share == pytest.approx(share)
    assert found.by_chance == pytest.approx(by_chance)
    verdict = verdict_on(data)
    if by_chance < 0.999:
        little = (share - by_chance) / (1 - by_chance) < 0.4
        assert any("Similar rows often" in text for text in verdict.concerns) == little
    assert f"{share:.0%} of their neighbors agree" in verdict.sentence


def test_a_sound_answer_has_nothing_against_it():
    verdict = verdict_on(made_up())
    assert verdict.level == "sound"
    assert verdict.concerns == ()
    assert verdict.sentence.startswith(
        "All 40 rows have a label, every bag keeps its totals, and 100% of their neighbors agree: "
        "nothing "
    )


def with_reason(code, count):
    data = made_up()
    data.answer.reasons[:count] = f"given;{code}" if code != "given" else code
    return data


def off_by(moved):
    """Return data in which some of 40 rows do not have the label that their totals require."""
    data = made_up()
    lower = data.report.lower.copy()
    lower[0] += [moved, -moved]
    return replace(data, report=replace(data.report, lower=lower, upper=lower))


def alike_only(share):
    """Return data in which only some of the 5 neighbors of each row have its label."""
    data = made_up()
    near = data.maps[""].neighbors.copy()
    near[:, share:] = (np.arange(40)[:, None] + 1 + 2 * np.arange(5 - share)) % 40
    return replace(data, maps={"": replace(data.maps[""], neighbors=near)})


def with_run(**changes):
    data = made_up()
    return replace(data, runs={"": replace(data.runs[""], **changes)})


def designed(uninformative):
    totals = {"a": [0.5, 0.5], "b": [0.5, 0.5] if uninformative else [0.52, 0.48]}
    found = diagnose(["a", "b"] * 20, Totals.from_proportions(totals, classes=["c0", "c1"]))
    assert found.findings
    assert found.uninformative == uninformative
    return made_up(diagnoses={"": found})


@pytest.mark.parametrize(
    ("data", "level", "says"),
    [
        (lambda: designed(True), "doubt", "The totals do not tell 'c0' from 'c1' apart"),
        (lambda: with_run(success=False, status="stopped"), "doubt", "LPLLP stopped."),
        (lambda: with_run(unique=False), "doubt", "The totals admit several labelings"),
        (lambda: off_by(1), "care", "2.5% of the rows in bags are off their bag's totals"),
        (lambda: off_by(4), "care", "10.0% of the rows in bags are off"),
        (lambda: off_by(5), "doubt", "12.5% of the rows in bags are off"),
        (lambda: with_reason("tie", 3), "care", "3 rows (8%) have a label that only a tie-break"),
        (lambda: with_reason("isolated", 40), "care", "All rows have almost no similar row"),
        (lambda: with_reason("out-of-reach", 4), "care", "4 rows (10%) are out of reach"),
        (lambda: with_reason("missing-features", 4), "care", "4 rows (10%) have less than half"),
        (lambda: alike_only(3), "care", "Similar rows often have different labels: 60% agree, and"),
    ],
)
def test_each_concern_is_mentioned_and_no_other(data, level, says):
    verdict = verdict_on(data())
    assert verdict.level == level
    (concern,) = verdict.concerns
    assert concern.startswith(says)
    words = {"care": "look at the points below", "doubt": "do not rely on them"}
    assert words[level] in verdict.sentence


@pytest.mark.parametrize(
    "data",
    [
        lambda: with_reason("tie", 2),
        lambda: with_reason("given", 40),
        lambda: with_reason("unbagged", 40),
        lambda: with_reason("non-wear", 40),
        lambda: off_by(0.3),
        lambda: alike_only(4),
        lambda: with_run(unique=None, status="", energies=[]),
        lambda: made_up(maps={}),
        lambda: made_up(diagnoses={}, runs={}),
    ],
)
def test_what_is_no_concern_is_not_mentioned(data):
    verdict = verdict_on(data())
    assert (verdict.level, verdict.concerns) == ("sound", ())


def test_a_weak_design_is_no_reason_to_doubt():
    verdict = verdict_on(designed(False))
    assert verdict.level == "care"


def test_the_gravest_concern_comes_first_and_groups_are_named():
    base = made_up()
    run = base.runs[""]
    base.answer.reasons[:20] = "tie"
    poor = designed(True).diagnoses[""]
    verdict = verdict_on(
        replace(
            base,
            diagnoses={"p1": base.diagnoses[""], "p2": poor},
            runs={"p1": run, "p2": replace(run, success=False, status="stopped")},
        )
    )
    assert verdict.level == "doubt"
    assert [text[:8] for text in verdict.concerns] == ["p2: The ", "p2: LPLL", "20 rows "]


# --- plain words ---


def all_terms(**changes):
    """Return data whose page uses every term of the glossary except the other decoding."""
    times = Times(np.arange(40) * SECOND, np.arange(1, 41) * SECOND)
    return replace(off_by(1), diagnoses=designed(False).diagnoses, times=times, **changes)


@pytest.mark.parametrize("bag", ["bag", "entry"])
@pytest.mark.parametrize("decode", ["quota", "threshold"])
def test_words_are_explained_once_where_they_first_appear(bag, decode, tmp_path):
    data = all_terms(bag_word=bag)
    assigned = {decode: data.report.assigned["quota"]}
    report = replace(data.report, assigned=assigned, decode=decode, tied={decode: 0})
    page = Page(write_page(replace(data, report=report), tmp_path / "a.html")).words
    body = page[page.index("rows have a label") :].lower()
    others = {"bag", "entry", "quota", "sequence", "threshold", "confidence"} - {bag, decode}
    others |= {"probability", "held out", "estimated accuracy", "calibration", "weight"}
    for term, clause in glossary(bag).items():
        assert body.count(clause.lower()) == (term not in others), term
        if term not in others:
            first = re.search(rf"\b{term}\b", body)
            assert 0 < body.index(clause.lower()) - first.start() < 500, term


def test_a_word_that_the_verdict_does_not_use_waits_for_its_section(tmp_path):
    page = Page(write_page(made_up(), tmp_path / "a.html")).words
    head, _, rest = page.partition("Given and assigned")
    words = glossary()
    assert words["bag"] in head
    for term in ("information index", "off totals"):
        assert words[term] not in head
        assert words[term] in rest


def test_the_report_of_a_diary_speaks_of_entries(tmp_path):
    times = Times(np.arange(40) * SECOND, np.arange(1, 41) * SECOND)
    for data in (
        all_terms(),
        alike_only(3),
        made_up(times=times),
        made_up(diagnoses={}, runs={}, maps={}),
        with_reason("unbagged", 3),
        with_reason("no-totals", 40),
        designed(True),
    ):
        path = tmp_path / "a.html"
        write_page(replace(data, bag_word="entry"), path, force=True)
        words = Page(path).words
        assert "entry" in words
        assert not re.search(r"\bbag", words, re.IGNORECASE)
        assert Page(path).data["words"] == {"bag": "entry", "bags": "entries"}
        write_page(data, path, force=True)
        assert not re.search(r"\bentr(y|ies)\b", Page(path).words)


def test_a_reason_of_all_rows_is_said_once_and_not_of_each_row(tmp_path):
    data = with_reason("tie", 3)
    data.answer.reasons[:] = [
        ";".join(filter(None, [codes, "missing-features"])) for codes in data.answer.reasons
    ]
    found = Page(write_page(data, tmp_path / "a.html"))
    assert found.data["maps"][0]["reason"] == [*["given;tie"] * 3, *[""] * 37]
    assert "All rows have the reason code missing-features" in found.words
    assert "tie 3 rows" in found.words
    assert "missing-features 40 rows" not in found.words


def test_the_sentence_counts_labels_and_rows_off_their_totals():
    data = off_by(1)
    data.answer.labels[:3] = None
    sentence = verdict_on(data).sentence
    start = "37 of 40 rows have a label, 2.5% of the rows in bags are off their totals"
    assert sentence.startswith(start)
    assert "neighbors" not in verdict_on(replace(data, maps={})).sentence


@pytest.mark.parametrize("name", ["LPLLP", "LPLLP threshold", "InvCal"])
def test_the_verdict_of_a_fitted_model_is_recomputed(name, tmp_path):
    model, _, _ = fitted(name)
    found = Page(write_report(model, tmp_path / "a.html"))
    assigned = np.zeros((3, 2))
    for row, code in enumerate(model.bag_codes_):
        if code >= 0:
            assigned[code, model.classes_.tolist().index(model.transduction_[row])] += 1
    off = np.abs(assigned - rows_of()[2].lower).sum() / 2 / 35
    assert f"{100 * off:.1f} % of the rows in bags are off" in found.words
    assert ("every bag keeps its totals" in found.words) == (off < 5e-4)
    if name in ON_GRAPHS:
        W = np.asarray(model.graph_.affinity_.todense())
        share = total = 0.0
        for i in range(36):
            for j in np.argsort(-W[i], kind="stable")[:5]:
                total += W[i, j] / W[i].sum()
                share += W[i, j] / W[i].sum() * (model.transduction_[i] == model.transduction_[j])
        assert f"{share / total:.0%} of their neighbors agree" in found.words


# --- labels judged, and reasons counted ---


def test_judging_labels_again_finds_what_the_fit_found():
    X, bags, totals = rows_of()
    groups = np.array(["p", "q"], dtype=object)[(np.arange(36) >= 12).astype(int)]
    out = np.isin(np.arange(36), [2, 20])
    for known in (
        Supervision(bags, totals, None, None, {}),
        Supervision(bags, totals, None, groups, {}),
        Supervision(bags, totals, None, groups, {"non-wear": out}),
    ):
        found = label_rows(X, known)
        again = assess_labels(found.labels, known, "quota")
        assert again.report.ids == found.report.ids
        assert again.report.sizes.tolist() == found.report.sizes.tolist()
        np.testing.assert_allclose(again.report.lower, found.report.lower)
        np.testing.assert_allclose(again.report.upper, found.report.upper)
        assert again.report.assigned["quota"].tolist() == found.report.assigned["quota"].tolist()
        assert list(again.diagnoses) == list(found.models)
        for group, model in found.models.items():
            assert again.rows[group].tolist() == found.rows[group].tolist()
            assert again.diagnoses[group].index == pytest.approx(model.diagnosis_.index)
            assert again.diagnoses[group].findings == model.diagnosis_.findings
            mine = found.rows[group]
            assert found.labels[mine].tolist() == model.transduction_.tolist()
            ids = [*model.bag_report_.ids, None]
            assert [ids[code] for code in model.bag_codes_] == bags[mine].tolist()


def test_judging_counts_the_labels_as_they_are():
    _, bags, totals = rows_of()
    known = Supervision(bags, totals, None, None, {})
    generator = np.random.default_rng(0)
    labels = np.array(["a", "b"], dtype=object)[generator.integers(0, 2, 36)]
    labels[[0, 13]] = None
    report = assess_labels(labels, known, "by hand").report
    for k, bag in enumerate(report.ids):
        mine = [one for one, of in zip(labels, bags, strict=True) if of == bag and one is not None]
        assert report.assigned["by hand"][k].tolist() == [mine.count("a"), mine.count("b")]
        assert report.sizes[k] == len(mine)
        assert report.lower[k].sum() == pytest.approx(len(mine))
    with pytest.raises(SupervisionError, match="a label for at least one row"):
        assess_labels(np.full(36, None), known, "by hand")


def test_judging_names_rows_as_they_stand_among_all():
    bags = np.array([None, None, "mon", "mon", "mon"], dtype=object)
    totals = Totals.from_counts({"mon": {"a": 0, "b": 3}})
    given_labels = np.array([None, None, None, None, "a"], dtype=object)
    groups = np.array(["p", "p", "q", "q", "q"], dtype=object)
    known = Supervision(bags, totals, given_labels, groups, {})
    with pytest.raises(SupervisionError, match="row 4 in bag 'mon'"):
        assess_labels(np.array(["b", "b", "b", "b", "a"], dtype=object), known, "by hand")


@given(st.lists(st.sets(st.sampled_from([*REASONS, "a new code"])), max_size=20))
def test_reasons_are_counted_in_their_order(codes):
    n = len(codes)
    texts = np.array([";".join(sorted(one)) for one in codes], dtype=object)
    answer = RowLabels(np.array(["a"]), np.full(n, "a", object), np.ones((n, 1)), np.ones(n), texts)
    counts = reasons_of(answer)
    assert list(counts) == [code for code in REASONS if code in counts]
    for code in REASONS:
        assert counts.get(code, 0) == sum(code in one for one in codes)
