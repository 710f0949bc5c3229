"""What notebooks show: tables of reports, and the diagrams of estimators."""

from html.parser import HTMLParser

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.fixes import parse_version

from apportion import (
    LPLLP,
    AutoLLP,
    BagReport,
    CalibratedLLP,
    KNNGraph,
    MeanMap,
    Totals,
    diagnose,
)
from apportion._utils.html_table import SHOWN_COLUMNS, SHOWN_ROWS, text
from apportion.model_selection import ProportionSearchCV
from apportion.model_selection.candidate_report import CandidateReport, WeighedCandidate
from test_contract import ESTIMATORS

HOSTILE = [
    "<script>alert(1)</script>",
    "\"' onmouseover='alert(2)",
    "</td></table></style><img src=x onerror=alert(3)>",
    "\u202eright to left \u05d0\u05d1\u05d2",
    "&lt;b&gt;",
    "half of a pair \ud800",
    "long " * 1000,
]


class Elements(HTMLParser):
    """The tags, attributes and texts of HTML, with every tag closed in order."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.attributes, self.texts, self.open = [], set(), [], []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attributes}
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def bag_report(ids, classes):
    K, c = len(ids), len(classes)
    counts = np.arange(K * c).reshape(K, c)
    given = counts + (np.arange(c) == 1) * 3.0
    labels = np.array(classes, dtype=object)
    sizes = counts.sum(axis=1)
    return BagReport(tuple(ids), labels, sizes, given, given, {"quota": counts}, "quota")


def all_reprs(ids, names):
    """Return every object with a table, of bags and classes of these names."""
    n = len(ids)
    shares = {bag: dict.fromkeys(names, 1 / len(names)) for bag in ids}
    candidates = tuple(WeighedCandidate(name, 0.5, 1.0, 1.0, 0.0, 0.1) for name in names)
    return [
        bag_report(ids, names),
        Totals.from_proportions(shares),
        diagnose(list(ids) * 2, shares),
        CandidateReport(candidates, n, left_out={names[0]: names[-1]}),
    ]


KINDS = ["BagReport", "Totals", "Diagnosis", "CandidateReport"]


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_names_stay_text(kind):
    shown = all_reprs(HOSTILE, HOSTILE)[KINDS.index(kind)]._repr_html_()
    found = Elements(shown)
    assert set(found.tags) <= {
        *("div", "style", "table", "caption", "thead", "tbody", "tr", "th", "td"),
        *("bdi", "strong", "ul", "li"),
    }
    assert found.attributes <= {"class", "scope", "title", "colspan", "style"}
    assert HOSTILE[0] in found.texts
    assert shown.encode("utf-8")
    assert len(shown) < 40_000
    assert found.tags.count("style") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_tables_say_what_rows_and_columns_are(kind):
    shown = all_reprs(["mon", "tue", "wed"], ["sit", "walk"])[KINDS.index(kind)]._repr_html_()
    found = Elements(shown)
    assert found.tags.count("caption") == 1
    assert shown.count('scope="col"') >= 2
    assert shown.count('scope="row"') == found.tags.count("tr") - 1
    names = {"sit", "walk"} | ({"mon", "tue", "wed"} if kind in ("BagReport", "Totals") else set())
    assert names <= set(found.texts)


@pytest.mark.parametrize("kind", KINDS[:3])
def test_long_tables_show_their_head_and_the_number_of_what_is_left(kind):
    ids = [f"bag {k}" for k in range(1000)]
    names = [f"class {c:02}" for c in range(40)]
    found = Elements(all_reprs(ids, names)[KINDS.index(kind)]._repr_html_())
    n_left = (40 if kind == "Diagnosis" else 1000) - SHOWN_ROWS
    assert any(f"… and {n_left:,} more " in part for part in found.texts)
    assert found.tags.count("tr") == SHOWN_ROWS + 2
    assert f"… {40 - SHOWN_COLUMNS} more" in found.texts
    assert "class 11" in found.texts
    assert "class 12" not in found.texts


def test_totals_that_labels_miss_are_bold():
    shown = bag_report(["mon"], ["sit", "walk"])._repr_html_()
    assert "<strong><bdi>4 → 1</bdi></strong>" in shown
    assert "<td><bdi>0 → 0</bdi></td>" in shown


def test_text_is_cut_with_its_title():
    assert text("a" * 40) == f"<bdi>{'a' * 40}</bdi>"
    assert text("a" * 41) == f'<bdi title="{"a" * 41}">{"a" * 39}…</bdi>'


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_has_a_diagram(name):
    shown = clone(ESTIMATORS[name])._repr_html_()
    assert type(ESTIMATORS[name]).__name__ in shown
    assert "Not fitted" in shown


@pytest.mark.parametrize(
    ("estimator", "inside"),
    [
        (AutoLLP(), ["gp-trees", "taught", "AggregateGP", "InvCal"]),
        (AutoLLP({"mine": LPLLP(alpha=0.25), "his": "gp"}), ["mine", "his", "0.25"]),
        (CalibratedLLP(MeanMap()), ["estimator: MeanMap"]),
        (LPLLP(KNNGraph(7), prior=MeanMap()), ["graph: KNNGraph", "prior: MeanMap"]),
        (make_pipeline(StandardScaler(), AutoLLP(["gp", "lpllp"])), ["StandardScaler", "lpllp"]),
        (ProportionSearchCV(LPLLP(), {"alpha": [0.1]}), ["estimator: LPLLP"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_diagrams_show_what_is_inside(estimator, inside):
    shown = estimator._repr_html_()
    assert [part for part in inside if part not in shown] == []
    assert "Not fitted" in shown


def test_the_diagram_of_a_fitted_average_has_weights():
    generator = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    X = generator.normal(size=(80, 2)) + 4 * y[:, None]
    bags = generator.permutation(80) // 8
    totals = Totals.from_labels(y, bags)
    model = AutoLLP(["mean-map", "knn"], random_state=0).fit(X, bags=bags, proportions=totals)
    shown = model._repr_html_()
    assert "mean-map, weight " in shown
    assert "Fitted" in shown
    if parse_version(sklearn.__version__) >= parse_version("1.9"):  # shows fitted attributes, too
        assert "bag_report_" in shown
    assert "<table" in model.candidate_report_._repr_html_()


def test_hostile_names_of_candidates_stay_text_in_the_diagram():
    assert HOSTILE[0] not in AutoLLP({HOSTILE[0]: LPLLP()})._repr_html_()


@pytest.mark.slow
def test_tables_in_a_browser_run_nothing_and_can_be_read_in_the_dark(browser):
    tables = "".join(item._repr_html_() for item in all_reprs(HOSTILE, HOSTILE))
    page = browser.new_page()
    dialogs = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.set_content(f'<body style="color:#eee;background:#111">{tables}')
    assert dialogs == []
    assert page.evaluate("document.querySelectorAll('table, script, img').length") == 4
    colors = "[...document.querySelectorAll('th, td, caption, li')].map(e => getComputedStyle(e))"
    assert page.evaluate(f"[...new Set({colors}.map(s => s.color))]") == ["rgb(238, 238, 238)"]
    page.close()
