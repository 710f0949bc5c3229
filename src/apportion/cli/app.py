"""The command `apportion`, with its subcommands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

import apportion
from apportion._utils.signals import ending_at_once
from apportion.cli.console import print_out, with_exit_codes

LABEL, ABOUT = "Label rows", "Before and after"

COMMANDS = {
    "label": "Label every row of READINGS from its bags' totals or from a diary.",
    "predict": "Label the new rows of READINGS by the fitted rows of MODEL.",
    "cluster": "Label the rows of a FOLDER of Parquet files on a Dask cluster.",
    "studio": "Label rows on a page, correct labels there, and label again.",
    "windows": "Turn the EVENTS of sensors into windows, one row each.",
    "diagnose": "Show which classes the totals, or the diary, tell apart.",
    "report": "Write the report of labels that are in a file already.",
    "demo": "Make up a week of people in a smart home, and label it.",
}
"""The commands that are imported when they are run, and the first line of their help.

Command NAME is the function NAME of the module `apportion.cli.NAME`. The line is repeated here
because `apportion --help` shows it without importing numpy, scikit-learn or pyarrow.
"""

EXIT_CODES = (
    "Exit codes: 0 done, 1 an input cannot be used, 2 the command line is wrong, 3 an output "
    "cannot be written, 4 not enough memory, 5 the labels are written but not their report, 6 "
    "Ctrl-C cut the work short and the labels so far are written, 70 a "
    "fault of this program, 130 interrupted, 129 and 143 told to stop. Data go to stdout, messages "
    "to stderr."
)

_COMPLETION = {
    "install_completion": "Let this shell complete words by Tab.",
    "show_completion": "Print the script that does so.",
}
"""What Typer's options of completion are for, in a line each."""


class _LazyGroup(TyperGroup):
    """Import a command once its name has been read from the command line."""

    def get_params(self, ctx: Any) -> Any:
        params: list[Any] = list(super().get_params(ctx))
        for param in params:
            param.help = _COMPLETION.get(param.name, param.help)
        return params

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, _imported(name) if name in COMMANDS else command, rest


def _imported(name: str) -> Any:
    with ending_at_once():
        function = getattr(import_module(f"apportion.cli.{name}"), name)
    single = typer.Typer(add_completion=False)
    single.command(name, help=_help(function), epilog=EXIT_CODES)(function)
    return typer.main.get_command(single)


def _help(command: Callable[..., None]) -> str:
    """Return a command's docstring with one line per paragraph, for Typer to wrap."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


app = typer.Typer(
    cls=_LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _several_commands() -> None:
    """Label every row of a table when only the totals of groups of rows are known."""


def _only_listed() -> None:
    """Take the place of a command in the list of commands; `_LazyGroup` runs the real one."""


for name, first_line in COMMANDS.items():
    panel = LABEL if first_line.startswith("Label ") else ABOUT
    app.command(name, help=first_line, rich_help_panel=panel)(_only_listed)


@app.command(rich_help_panel=ABOUT)
@with_exit_codes
def version() -> None:
    """Print the version."""
    print_out(apportion.__version__)
