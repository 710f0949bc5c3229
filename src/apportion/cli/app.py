"""The command `apportion` and what it can do."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import typer

import apportion
from apportion.cli.cluster import cluster
from apportion.cli.demo import demo
from apportion.cli.diagnose import diagnose
from apportion.cli.label import label
from apportion.cli.predict import predict
from apportion.cli.report import report
from apportion.cli.reproduce import reproduce
from apportion.cli.talk import print_out, with_exit_codes
from apportion.cli.windows import windows

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(
    epilog="Exit codes: 0 done, 1 an input cannot be used, 2 the command line is wrong, 3 an "
    "output cannot be written, 4 not enough memory, 70 a fault of this program, 130 interrupted, "
    "129 and 143 told to stop. Data go to stdout, talk to stderr."
)
def _several_commands() -> None:
    """Learning with label proportions: a label for every row when only totals are known."""


@app.command()
@with_exit_codes
def version() -> None:
    """Print the version."""
    print_out(apportion.__version__)


def _help(command: Callable[..., None]) -> str:
    """Return a command's docstring with one line a paragraph, for Typer to wrap."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


for command in (label, diagnose, predict, report, windows, cluster, demo, reproduce):
    app.command(help=_help(command))(command)
