"""The estimator that the options of a command ask for."""

from __future__ import annotations

import math
from dataclasses import replace

from apportion.cli.console import CommandLineError, in_options
from apportion.cli.options import MethodOptions
from apportion.estimators import LPLLP, InvCal, MeanMap
from apportion.graphs import KNNGraph
from apportion.report import Run
from apportion.report._report_data import run_of

_PRIORS = {"meanmap": MeanMap, "invcal": InvCal}


def check_method(method: MethodOptions) -> None:
    """Raise for values that are not allowed, and for options that do not go together."""
    if not 0 < method.alpha < 1:
        raise CommandLineError(f"--alpha must be above 0 and below 1. Got {method.alpha:g}.")
    for name, value in (("--tol", method.tol), ("--prior-weight", method.prior_weight)):
        if value is not None and not math.isfinite(value):
            raise CommandLineError(f"{name} must be a finite number. Got {value:g}.")
    if method.prior_weight is not None and method.prior is None:
        raise CommandLineError("--prior-weight is for --prior: name a method with --prior.")
    if method.neighbors is not None and method.graph not in ("auto", "knn"):
        raise CommandLineError(
            f"--neighbors is for --graph knn, and --graph is {method.graph}. Leave out one of them."
        )


def estimator_of(method: MethodOptions) -> LPLLP:
    """Return the estimator, not fitted."""
    return LPLLP(
        method.graph if method.neighbors is None else KNNGraph(method.neighbors),
        method.alpha,
        decode=method.decode,
        prior=None if method.prior is None else _PRIORS[method.prior](),
        prior_weight=method.prior_weight,
        n_probes=method.probes,
        tol=method.tol,
        max_iter=method.max_iter,
        random_state=method.seed,
    )


def run_in_options(model: LPLLP) -> Run:
    """Return how a model was fitted, with the hint of its status in words of the command line."""
    run = run_of(model)
    return replace(run, status=in_options(run.status))
