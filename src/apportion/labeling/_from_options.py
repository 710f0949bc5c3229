"""Options turned into calls of the library: what to read, which features, which method."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from apportion._utils.method_names import AUTO, LP_LLP, METHODS
from apportion._utils.options import FeatureOptions, KnownOptions, MethodOptions
from apportion.estimators import LPLLP, InvCal, MeanMap
from apportion.estimators._base import BagClassifier
from apportion.exceptions import Advice, SettingsError, hint
from apportion.graphs import KNNGraph
from apportion.labeling._features import TableFeatures, learn_features
from apportion.labeling._methods import method_named, name_of_method
from apportion.labeling._supervised import SupervisedTable
from apportion.labeling._supervision import check_sources, supervised_table
from apportion.supervision.diary import DiaryRules
from apportion.supervision.diary.column_roles import DIARY_ROLES

_WITHOUT_DIARY = ("readings", "bags", "proportions", "given", "conflict", "unit", "encoding")
_RULES = ("unit", "uncovered", "blank", "excess", "part", "covers")
_DIARY = (
    *("participant", "start", "end", "nonwear", "window", "timezone"),
    *("day_start", "date_format", "time_format"),
)
_PRIORS: dict[str, type[BagClassifier]] = {"meanmap": MeanMap, "invcal": InvCal}


def check_known(known: KnownOptions) -> None:
    """Raise, before anything is read, for options of bags and totals that do not go together."""
    try:
        check_sources(known.bags, known.proportions, known.diary)
    except ValueError as error:
        raise SettingsError.about("diary", error.args[0]) from None
    if known.diary is not None:
        _diary_rules(known)
        _diary_columns(known)
        return
    if known.unit in ("hours", "minutes", "seconds"):
        message = hint(f"{{unit:{known.unit}}} is for a diary, not for {{proportions}}.")
        raise SettingsError.about("unit", message)
    for item in fields(known):
        if item.name not in _WITHOUT_DIARY and getattr(known, item.name) != item.default:
            message = hint(f"{{{item.name}}} is for a diary ({{diary}}).")
            raise SettingsError.about(item.name, message)


def read_supervised(known: KnownOptions, id: str | None = None) -> SupervisedTable:
    """Read rows and what is known of them, as options say."""
    check_known(known)
    options: dict[str, Any] = {"unit": known.unit}
    if known.diary is not None:
        options = {name: getattr(known, name) for name in _DIARY}
        options |= {"rules": _diary_rules(known), "diary_columns": _diary_columns(known)}
        options["graphs"] = known.graphs
    return supervised_table(
        known.readings,
        bags=known.bags,
        proportions=known.proportions,
        diary=known.diary,
        given=known.given,
        conflict=known.conflict,
        id=id,
        encoding=known.encoding,
        **options,
    )


def _diary_rules(known: KnownOptions) -> DiaryRules:
    if known.unit == "count":
        message = hint("{unit:count} is for {proportions}, not for a diary.")
        raise SettingsError.about("unit", message)
    rules: dict[str, Any] = {name: getattr(known, name) for name in _RULES}
    try:
        tolerance = known.tolerance
        return DiaryRules(**rules, tolerance="auto" if tolerance == "auto" else float(tolerance))
    except ValueError:
        message = hint(
            "{tolerance} must be 'auto' or minutes of 0 and more. Got {found}.",
            found=repr(known.tolerance),
        )
        raise SettingsError.about("tolerance", message) from None


def _diary_columns(known: KnownOptions) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {}
    for pair in known.diary_column or ():
        role, sign, name = (text.strip() for text in pair.partition("="))
        if not sign:
            message = hint("{diary_column} must be ROLE=COLUMN. Got {found}.", found=repr(pair))
            raise SettingsError.about("diary_column", message)
        if role not in DIARY_ROLES:
            allowed = ", ".join(DIARY_ROLES)
            message = hint(
                f"{{diary_column}} has no role {{found}}. Allowed: {allowed}.", found=repr(role)
            )
            raise SettingsError.about("diary_column", message)
        columns.setdefault(role, []).append(name)
    return columns


def read_features(task: SupervisedTable, options: FeatureOptions) -> TableFeatures:
    """Choose the features of the rows, as options say."""
    return learn_features(
        task, **{name: value for name, value in vars(options).items() if name != "id"}
    )


def chosen_method(method: MethodOptions) -> str:
    """Return the name of the method: as given, or that of the options that were given."""
    # Where to work does not say what to do.
    options = method.of_lp_llp.keys() - {"device"}
    return name_of_method(LP_LLP if method.method is None and options else method.method)


def check_method(method: MethodOptions) -> None:
    """Raise for values that are not allowed, and for options that do not go together."""
    name = chosen_method(method)
    if name not in METHODS:
        raise _error(
            "method", f"{{method}} must be one of {', '.join(METHODS)}. Got {{found}}.", name
        )
    if method.of_lp_llp and name != LP_LLP:
        _refuse_of_lp_llp(method, name)
    if method.fast and name != AUTO:
        raise _for_method("fast", AUTO, name)
    if not 0 < method.alpha < 1:
        raise _error("alpha", f"{{alpha}} must be above 0 and below 1. Got {method.alpha:g}.")
    for number in ("tol", "prior_weight", "time_weight"):
        value = getattr(method, number)
        if value is not None and not math.isfinite(value):
            raise _error(number, f"{{{number}}} must be a finite number. Got {value:g}.")
    if method.decode == "sequence" and (method.no_time or name not in (AUTO, LP_LLP)):
        needs = f"{{decode:sequence}} needs times, and {{method:{AUTO}}} or {LP_LLP}."
        raise _error("decode", f"{needs} Use {{decode:quota}}.")
    if method.time_weight is not None and method.no_time:
        raise _error("time_weight", "{time_weight} and {no_time} contradict each other: give one.")
    if method.prior_weight is not None and method.prior is None:
        raise _error("prior_weight", "{prior_weight} is for {prior}: name a method with {prior}.")
    if method.neighbors is not None and method.graph not in ("auto", "knn"):
        said = f"{{neighbors}} is for {{graph:knn}}, and {{graph}} is {method.graph}."
        raise _error("neighbors", f"{said} Leave out one of them.")


def _error(parameter: str, message: str, found: str = "") -> SettingsError:
    return SettingsError.about(parameter, Advice("", message, found=repr(found)))


def _for_method(parameter: str, needed: str, name: str) -> SettingsError:
    said = f"{{{parameter}}} is for {{method:{needed}}}, and {{method}} is {name}."
    return _error(parameter, said)


def _refuse_of_lp_llp(method: MethodOptions, name: str) -> None:
    names = list(method.of_lp_llp)
    listed = ", ".join(f"{{{one}}}" for one in names)
    said = f"{listed}: for {{method:{LP_LLP}}}, and {{method}} is {name}. Leave "
    raise _error(names[0], f"{said}{'it' if len(names) == 1 else 'them'} out.")


def estimator_of(method: MethodOptions) -> BagClassifier:
    """Return the estimator that options ask for, not fitted.

    With `decode="auto"` it decodes by quota, until it is known what the diary says.
    """
    decode = "quota" if method.decode == "auto" else method.decode
    name = chosen_method(method)
    if name != LP_LLP:
        return method_named(
            name,
            decode=decode,
            fast=method.fast,
            random_state=method.seed,
        )
    return LPLLP(
        method.graph if method.neighbors is None else KNNGraph(method.neighbors),
        method.alpha,
        decode=decode,
        prior=None if method.prior is None else _PRIORS[method.prior](),
        prior_weight=method.prior_weight,
        time_weight="auto" if method.time_weight is None else method.time_weight,
        n_probes=method.probes,
        tol=method.tol,
        max_iter=method.max_iter,
        random_state=method.seed,
        device=method.device,
    )
