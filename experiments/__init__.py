"""The paper's experiments: frozen trials, result rows, tables and figures."""

from experiments.methods import METHODS
from experiments.runner import current, remaining, run
from experiments.sections import DESIGNS, PROTOCOLS, SECTIONS, Section, three_bags
from experiments.store import ResultStore
from experiments.summary import Score, summarize
from experiments.tables import result_table, to_csv, to_latex, to_markdown, to_text
from experiments.trials import Method, Problem, Trial, run_trial

__all__ = [
    "DESIGNS",
    "METHODS",
    "PROTOCOLS",
    "SECTIONS",
    "Method",
    "Problem",
    "ResultStore",
    "Score",
    "Section",
    "Trial",
    "current",
    "remaining",
    "result_table",
    "run",
    "run_trial",
    "summarize",
    "three_bags",
    "to_csv",
    "to_latex",
    "to_markdown",
    "to_text",
]
