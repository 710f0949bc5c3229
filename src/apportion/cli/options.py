"""The options of the commands, in groups that commands share.

A shell reads them at every press of the Tab key. Nothing that is slow to import may be imported
here, nor at the top of a command's module.
"""

# ruff: noqa: RUF009  (`option` and `argument` return fields)

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from apportion._utils.options import (
    OUTPUT,
    REQUIRED,
    AnswerOptions,
    FeatureOptions,
    KnownOptions,
    MethodOptions,
    Option,
    argument,
    option,
    options_of,
)
from apportion._utils.signals import ending_at_once
from apportion.cli.console import in_options

__all__ = [
    "OUTPUT",
    "REQUIRED",
    "FeatureOptions",
    "KnownOptions",
    "MethodOptions",
    "OutputOptions",
    "SettingsOptions",
    "WriteOptions",
    "argument",
    "option",
    "with_groups",
]

Command = TypeVar("Command", bound=Callable[..., Any])

_CONTEXT = "typer_context"


def with_groups(command: Command) -> Command:
    """Return a command that has an option for each field of the groups that it takes.

    If one of them is `SettingsOptions`, values that are not given on the command line come from the
    settings file, and what must be given may be given there.
    """
    hints = get_type_hints(command)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    takes_settings = SettingsOptions in groups.values()
    items = [item for group in groups.values() for item in options_of(group)]
    parameters = [_parameter(item, optional=takes_settings) for item in items]
    context = inspect.Parameter(_CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

    @wraps(command)
    def flat(**values: Any) -> Any:
        with ending_at_once():
            calls = import_module("apportion.cli.calls")  # and with it all that is slow to import
        given = _given_names(values.pop(_CONTEXT))
        if takes_settings:
            values = calls.with_settings(values, given)
        return command(
            **{
                name: group(**{item.name: values[item.name] for item in options_of(group)})
                for name, group in groups.items()
            }
        )

    parameters = [context, *parameters]
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {item.name: item.annotation for item in parameters}
    return flat  # type: ignore[return-value]


def _given_names(context: typer.Context) -> set[str]:
    """Return the options and arguments that were given on the command line."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source and source.name != "DEFAULT"}


def _parameter(item: Option, *, optional: bool) -> inspect.Parameter:
    """Return a parameter that Typer makes an option or an argument of."""
    required = item.default is REQUIRED
    default, kind = item.default, item.type
    if required and optional:
        default, kind = None, item.type | None
    return inspect.Parameter(
        item.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is REQUIRED else default,
        annotation=Annotated[kind, _typer_info(item, shown=not required)],
    )


def _typer_info(item: Option, *, shown: bool) -> Any:
    facts, help = item.facts, in_options(item.facts.help)
    if facts.positional:
        return typer.Argument(help=help, metavar=facts.metavar, show_default=shown, readable=False)

    def complete(incomplete: str) -> list[str]:
        return [choice for choice in facts.choices if choice.startswith(incomplete)]

    return typer.Option(
        *(facts.names or _flag_names(item)),
        help=help,
        rich_help_panel=facts.panel,
        metavar=facts.metavar,
        min=facts.low,
        max=facts.high,
        autocompletion=complete if facts.choices else None,
        readable=False,
    )


def _flag_names(item: Option) -> tuple[str, ...]:
    """Return the names of a flag: one that is off can be put on, and one that is on off."""
    name = item.name.replace("_", "-")
    if item.kind != "flag":
        return ()
    return (f"--{name}/--no-{name}" if item.default else f"--{name}",)


@dataclass(kw_only=True)
class SettingsOptions:
    """Where options come from that are not on the command line."""

    settings: Path | None = option(
        None,
        "A settings file: options as JSON, such as the studio writes. Its paths are relative to "
        "its folder; options on the command line win; READINGS may be in it.",
        metavar="FILE",
    )


@dataclass(kw_only=True)
class WriteOptions:
    """Where a table goes."""

    output: Path | None = OUTPUT(
        None,
        "File to write, .csv or .parquet. CSV on stdout if not given.",
        "--output",
        "-o",
        metavar="FILE",
    )
    force: bool = OUTPUT(False, "Replace files that are there.")
    quiet: bool = OUTPUT(False, "Say only what went wrong.", "--quiet", "-q")


@dataclass(kw_only=True)
class OutputOptions(AnswerOptions, WriteOptions):
    """Where the labeled table goes, and what it holds."""

    json: bool = OUTPUT(False, "Print a summary as JSON on stdout; needs --output.")
