"""Label the rows of a table: a dataframe or a file in, a labeled table out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from typing import IO, Any

from apportion._io.feature_recipe import Missing, Recipe
from apportion._io.identifiers import plain_name
from apportion._io.label_table import label_column_names
from apportion._utils.typing import BoolArray, FloatArray
from apportion.estimators._base import BagClassifier
from apportion.exceptions import (
    Advice,
    FileError,
    GivenLabelError,
    InputError,
    SupervisionError,
    hint,
)
from apportion.labeling._episodes import choose_decoding, episodes_in_table
from apportion.labeling._features import TableFeatures, learn_features, missing_notes
from apportion.labeling._methods import name_of_method, resolved_method
from apportion.labeling._output_tables import episodes_table, labeled_table, written_times
from apportion.labeling._source import SourceTable
from apportion.labeling._summary import (
    PROBABILITY,
    method_notes,
    run_summary,
    uncertain_notes,
)
from apportion.labeling._supervised import NONWEAR, RowTimes, SupervisedTable
from apportion.labeling._supervision import Graphs, supervised_table
from apportion.labeling.rows import Conflict, LabeledRows, RowLabels, Supervision, label_rows
from apportion.persistence import contains_rows, save_model
from apportion.supervision.totals_table import Unit


@dataclass(frozen=True)
class PredictedTable:
    """The rows of a table with predicted labels.

    Attributes
    ----------
    labels : RowLabels
        Labels, masses, confidence and reasons, as arrays with one entry per row.
    summary : dict
        What was found, and how, as JSON can hold it.
    notes : tuple of str
        What was found and decided, and warnings.
    rows : SourceTable
        The rows as they came.
    recipe : Recipe
        How their columns become features.
    kept : frozenset of str
        The columns that stand beside the labels.
    ids : str or None
        The column of row ids.
    row_times : RowTimes
        When the rows were recorded.
    time_format : str or None
        How times are written, if not in ISO 8601.
    table : pyarrow.Table, or a dataframe of the kind that came in
        The kept columns, with columns `label`, `mass_…` for every class, `confidence` and `reason`
        beside them.

    Examples
    --------
    See `predict_table`.
    """

    labels: RowLabels
    summary: dict[str, Any]
    notes: tuple[str, ...]
    rows: SourceTable
    recipe: Recipe
    kept: frozenset[str]
    ids: str | None
    row_times: RowTimes
    time_format: str | None = None

    @cached_property
    def table(self) -> Any:
        """The rows with their labels, of the kind that came in; Arrow if they are from a file."""
        return self.rows.like_source(self.to_arrow())

    @property
    def covered_columns(self) -> list[str]:
        """Columns of the rows that are left out, because columns of the labels have their names."""
        added = self.kept.intersection(label_column_names(self.labels.classes))
        return [name for name in self.rows.table.column_names if name in added]

    def to_arrow(self, *, typed: bool = True) -> Any:
        """Return the rows with their labels as an Arrow table.

        Parameters
        ----------
        typed : bool, default=True
            Whether columns of a text file become numbers and times, or stay text.

        Returns
        -------
        pyarrow.Table
            One row per labeled row.
        """
        table = self.rows.table
        times = written_times(table, self.row_times, self.time_format, typed=typed)
        return labeled_table(
            self.labels,
            table,
            self.kept,
            self.recipe,
            times,
            numbered=self.ids is None,
            typed=typed,
        )


@dataclass(frozen=True)
class LabeledTable(PredictedTable):
    """The rows of a table with labels that were found from the totals of their bags.

    Attributes
    ----------
    labels : LabeledRows
        Labels, masses, confidence and reasons, the fitted models and the report on the bags.
    rules : tuple of str
        The rules by which a diary was read, one per parameter.
    nonwear : str or None
        The column that marks windows in which the sensor was not worn.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.table({"day": ["mon"] * 3 + ["tue"] * 2, "x": [0.0, 0.1, 5.0, 0.2, 5.1]})
    >>> totals = [{"day": "mon", "sleep": 2, "tv": 1}, {"day": "tue", "sleep": 1, "tv": 1}]
    >>> labeled = label_table(rows, bags="day", proportions=totals)
    >>> labeled.table.column_names
    ['row', 'day', 'label', 'mass_sleep', 'mass_tv', 'confidence', 'reason']
    >>> labeled.models[None].classes_.tolist()
    ['sleep', 'tv']
    """

    labels: LabeledRows
    rules: tuple[str, ...] = ()
    nonwear: str | None = None

    @property
    def models(self) -> dict[Any, BagClassifier]:
        """The fitted models, by participant; the key is None if there is one for all."""
        return self.labels.models

    def save(self, file: IO[bytes], *, labels_only: bool = False) -> str:
        """Save the model that was fitted to all rows, for `predict_table`.

        Parameters
        ----------
        file : binary file
            Where to save it.
        labels_only : bool, default=False
            Whether to save no features, but only the ids and the labels of the rows.

        Returns
        -------
        str
            What the file contains, in words.
        """
        check_savable(self.rows, self.ids, None in self.models, labels_only=labels_only)
        model = self.models[None]
        extra: dict[str, Any] = {
            "recipe": self.recipe.to_json(),
            "apportion": version("apportion"),
            "nonwear": self.nonwear,
        }
        if self.summary["confidence"] == PROBABILITY:
            extra["confidence"] = PROBABILITY
        if not labels_only:
            save_model(file, model, extra=extra)
            return f"{contains_rows(model)}: share it as carefully as the data"
        cells = self.rows.table.column(self.ids).take(self.labels.rows[None])
        ids = [plain_name(cell) for cell in cells.to_pylist()]
        save_model(file, model, extra={**extra, "id_column": self.ids}, labels_only=True, ids=ids)
        return "no training rows, only ids and labels"

    def episodes(self, *, typed: bool = True) -> Any:
        """Return the episodes: windows that follow each other and have one label, joined.

        Parameters
        ----------
        typed : bool, default=True
            Whether times are timestamps, or ISO 8601 text.

        Returns
        -------
        pyarrow.Table
            One row per episode, with start, end, label, minutes and mean confidence.
        """
        require_times(self.rows, self.row_times)
        return episodes_table(self.labels, self.row_times, typed=typed)


def label_table(
    rows: Any,
    *,
    bags: str | None = None,
    proportions: Any = None,
    diary: Any = None,
    given: Any = None,
    conflict: Conflict = "error",
    unit: Unit = "auto",
    graphs: Graphs = "auto",
    features: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    missing: Missing = "median",
    scale: bool = True,
    id: str | None = None,
    method: str | BagClassifier | None = None,
    estimator: BagClassifier | None = None,
    abstain_below: float | None = None,
    use_times: bool = True,
    fast: bool = False,
    all_columns: bool = False,
    encoding: str | None = None,
    **diary_options: Any,
) -> LabeledTable:
    """Label every row of a table from the totals of its bags, or from a diary.

    Needs pyarrow: install `apportion[pyarrow]`.

    Parameters
    ----------
    rows : path, or dataframe of pandas, polars or pyarrow
        The rows: a CSV (also `.csv.gz`), Parquet, `.xlsx` or ARFF file, or a dataframe.
    bags : str, optional
        The column of bag ids; an empty cell = in no bag.
    proportions : path, dataframe, mapping of columns, or list of mappings, optional
        The totals of the bags: one row per bag and one column per class, or columns bag, class and
        share. Goes with `bags`.
    diary : path, dataframe, mapping of columns, or list of mappings, optional
        A diary, instead of `bags` and `proportions`: participant, date (or start and end, or
        period), and durations or shares of activities.
    given : str, path, dataframe, or list of these, optional
        Labels that are known: columns of the rows (an empty cell = not known), or tables with a
        column `label` and the ids or starts of the rows.
    conflict : {"error", "given"}, default="error"
        Totals that given labels contradict are an error, or give way to the labels, as little as
        needed, with a note for each bag.
    unit : {"auto", "share", "percent", "count"}, default="auto"
        What the numbers in `proportions` are. The unit of a diary is one of its `rules`.
    graphs : {"auto", "one", "each"}, default="auto"
        With a diary, one graph for all participants, or one for each. `"auto"`: one for each if
        more than a twentieth of the time is unknown.
    features, exclude : sequence of str, optional
        Names, or patterns such as `acc_*`, of the columns that are features, and of those that are
        not. By default all columns but ids and times are features.
    categorical : sequence of str, optional
        Features that are categories even if they are numbers.
    missing : {"median", "drop", "error"}, default="median"
        What becomes of a missing cell: it is filled, its row is not labeled, or it is an error.
    scale : bool, default=True
        Whether features are scaled to mean 0 and variance 1.
    id : str, optional
        The column of row ids, which must differ.
    method : str or estimator, optional
        `"auto"`, which weighs several methods by held-out totals (see `AutoLLP`), the name of a
        single one, such as `"lpllp"`, `"gp"`, `"trees"`, `"mean-map"`, `"inv-cal"` or `"count"`, or
        an estimator of this library, of which a clone is fitted. By default `"auto"`. A method
        that is given by name decodes by quota; `"auto"` along time (`decode="sequence"`) if times
        are used.
    estimator : estimator, optional
        An estimator, as `method` takes it too.
    abstain_below : float, optional
        Rows whose confidence is below this number from 0 to 1 get no label. The confidence is a
        probability with `"auto"` and with `CalibratedLLP`, if there are bags enough to hold some
        out; else it is a mass, which ranks rows (`summary["confidence"]` says which).
    use_times : bool, default=True
        Whether `"auto"` uses when the rows were recorded, from a column `start` (or `time`,
        `timestamp`) and, if there is one, `participant`: rows that follow each other are likely to
        be of one class, if labels flicker without that.
    fast : bool, default=False
        Whether `"auto"` weighs only methods that take little time. See `AutoLLP`.
    all_columns : bool, default=False
        Whether the labeled table has all columns of the rows, and not only ids and times.
    encoding : str, optional
        The encoding of text files that are not UTF-8.
    **diary_options
        Parameters of `apportion.supervision.diary.diary_bags`: `rules`, `participant`, `start`,
        `end`, `nonwear`, `window`, `timezone`, `day_start`, `diary_columns`, `date_format`,
        `time_format`.

    Returns
    -------
    LabeledTable
        The labels, as a table and to be written to files, and the summary of the run.

    Raises
    ------
    InputError
        If rows, totals, diary or labels cannot be used as they are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> low, high = [k / 10 for k in range(12)], [5 + k / 10 for k in range(12)]
    >>> x = [*low[:8], *high[:4], *low[8:], *high[4:]]
    >>> rows = pa.table({"day": ["mon"] * 12 + ["tue"] * 12, "x": x})
    >>> totals = {"day": ["mon", "tue"], "sleep": [8, 4], "tv": [4, 8]}
    >>> labeled = label_table(rows, bags="day", proportions=totals)
    >>> labeled.table.column("label").to_pylist()[6:10]
    ['sleep', 'sleep', 'tv', 'tv']
    >>> labeled.summary["assigned"]
    {'sleep': 12, 'tv': 12}
    >>> label_table(rows, bags="day", proportions=totals, method="mean-map").summary["method"]
    'mean-map'
    """
    if method is not None and estimator is not None:
        raise ValueError("`method` and `estimator` say the same: pass one of them.")
    chosen = resolved_method(estimator if method is None else method, fast)
    name = name_of_method(estimator if method is None else method)
    task = supervised_table(
        rows,
        bags=bags,
        proportions=proportions,
        diary=diary,
        given=given,
        conflict=conflict,
        unit=unit,
        graphs=graphs,
        id=id,
        encoding=encoding,
        **diary_options,
    )
    table_features = learn_features(
        task,
        features=features,
        exclude=exclude,
        categorical=categorical,
        missing=missing,
        scale=scale,
    )
    return label_supervised(
        task,
        table_features,
        chosen,
        abstain_below=abstain_below,
        use_times=use_times,
        all_columns=all_columns,
        method=name,
        choose_decode=estimator is None and not isinstance(method, BagClassifier),
    )


def label_supervised(
    task: SupervisedTable,
    features: TableFeatures,
    estimator: BagClassifier | None = None,
    *,
    abstain_below: float | None = None,
    use_times: bool = True,
    all_columns: bool = False,
    command: str = "",
    method: str = "",
    choose_decode: bool = False,
) -> LabeledTable:
    """Label the rows of a table whose supervision and features were read.

    Parameters
    ----------
    task : SupervisedTable
        The rows and what is known of them.
    features : TableFeatures
        Their features.
    estimator : estimator, optional
        The estimator; a clone of it is fitted.
    abstain_below, use_times, all_columns
        See `label_table`.
    command : str, optional
        The command that is running, for the summary.
    method : str, optional
        The name of the method, for the summary; by default that of the estimator.
    choose_decode : bool, default=False
        Whether `AutoLLP` decodes along time if times are used.

    Returns
    -------
    LabeledTable
    """
    model = resolved_method(estimator)
    decode_notes: tuple[str, ...] = ()
    if choose_decode:
        in_time = task.row_times.in_order if use_times else None
        model, decode_notes = choose_decoding(model, replace(task.supervision, in_time=in_time))

    def label(X: FloatArray, known: Supervision, marks: Mapping[str, BoolArray]) -> LabeledRows:
        return label_rows(X, known, model, marks, abstain_below)

    return labeled_by(
        label,
        task,
        features,
        abstain_below=abstain_below,
        use_times=use_times,
        all_columns=all_columns,
        command=command,
        method=method,
        decode_notes=decode_notes,
    )


def labeled_by(
    label: Callable[[FloatArray, Supervision, Mapping[str, BoolArray]], LabeledRows],
    task: SupervisedTable,
    features: TableFeatures,
    *,
    abstain_below: float | None = None,
    use_times: bool = True,
    all_columns: bool = False,
    command: str = "",
    method: str = "",
    decode_notes: Sequence[str] = (),
) -> LabeledTable:
    """Return the table whose rows a function labels.

    Parameters
    ----------
    label : callable
        Takes the encoded rows, what is known of them, and marks for reason codes.
    task, features, abstain_below, use_times, all_columns, command, method
        See `label_supervised`.
    decode_notes : sequence of str
        Notes about the decoding.
    """
    recipe, encoded, supervision = features.recipe, features.encode(task.rows), task.supervision
    marked = encoded.poor
    if recipe.missing == "drop":
        marked = encoded.lacking
        left_out = {**supervision.left_out, "missing-features": marked}
        supervision = replace(supervision, left_out=left_out)
    if use_times:
        supervision = replace(supervision, in_time=task.row_times.in_order)
    try:
        labels = label(encoded.rows, supervision, {"missing-features": marked})
    except SupervisionError as error:
        raise _located(error, task) from None
    notes = (
        *task.notes,
        *features.notes,
        *missing_notes(recipe, encoded),
        *decode_notes,
        *labels.notes,
        *method_notes(labels),
        *uncertain_notes(labels, abstain_below, calibrated=labels.calibrated),
    )
    wanted = {*task.roles, *features.ids_and_times, task.ids}
    columns = task.rows.table.column_names
    episodes = episodes_in_table(labels, labels.report, task)
    return LabeledTable(
        labels,
        run_summary(labels, task.rules, notes, abstain_below, command, method, episodes),
        notes,
        task.rows,
        recipe,
        frozenset(name for name in columns if all_columns or name in wanted),
        task.ids,
        task.row_times,
        task.time_format,
        task.rules,
        next((name for name, role in task.roles.items() if role == NONWEAR), None),
    )


def _located(error: SupervisionError, task: SupervisedTable) -> InputError:
    """Return an error about a row with its place, and with a hint for those who have a table."""
    located = error.placed(task.rows.place)
    if not isinstance(error, GivenLabelError):
        return located
    if task.bag_word == "bag":
        return located.changed(
            hint=hint("correct the labels or the totals, or let these give way: {conflict:given}")
        )
    return located.changed(
        bag=None,
        place=f"{located.place} in entry {error.bag!r}",
        hint=hint(
            "correct the labels or the diary, allow for rounded durations with {tolerance}, or let "
            "the diary give way with {conflict:given}"
        ),
    )


def check_savable(
    rows: SourceTable, ids: str | None, one_model: bool, *, labels_only: bool
) -> None:
    """Raise if there are several models, or if labels only are saved of rows without ids."""
    if not one_model:
        facts = "One model can be saved, and every participant has a graph of their own here."
        raise ValueError(Advice(facts, "Pass {graphs:one}, or save no model."))
    if labels_only and ids is None:
        raise ValueError(hint("{labels_only} needs row ids: name their column with {id}."))
    if labels_only and ids is not None:
        rows.require_ids(ids)


def require_times(rows: SourceTable, row_times: RowTimes, needed_by: str = "{episodes}") -> None:
    """Raise if it is not known when rows were recorded, which a parameter needs."""
    if row_times.times is None:
        raise FileError(
            rows.name,
            row_times.problem or f"no column of times among {rows.listing}",
            hint(
                f"times of the rows, which {needed_by} needs: a column 'start' (or 'time', "
                "'timestamp')"
            ),
            hint(
                "add it or, with a diary, say which column it is with {start}; or leave out "
                f"{needed_by}"
            ),
        )
