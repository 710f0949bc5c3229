"""Hints of the library name Python parameters, and each of them is an option of a command."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path
from string import Formatter

import pytest

pytest.importorskip("typer")

import apportion
from apportion.cli.app import COMMANDS
from apportion.cli.console import OPTIONS

PACKAGE = Path(apportion.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*\b")
PYTHON_ONLY = {"X", "classes", "id_column"}
"""Parameters of calls that no command makes: a table of totals from an array or a dataframe."""


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def options_of_commands():
    functions = [getattr(import_module(f"apportion.cli.{name}"), name) for name in COMMANDS]
    return {
        f"--{name.replace('_', '-')}"
        for function in functions
        for name in inspect.signature(function).parameters
    }


def template_of(node):
    """Return the text of a constant or an f-string, with `x` for what is filled in; else None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else "x" for part in node.values
        )
    return None


def templates():
    """Yield the templates of all hints and advice: module, line, text, and the values filled in."""
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            position = {"hint": 0, "Advice": 1}.get(node.func.id)
            if position is None or len(node.args) <= position:
                continue
            template = template_of(node.args[position])
            if template is not None:
                values = {keyword.arg for keyword in node.keywords}
                yield path.relative_to(PACKAGE), node.lineno, template, values


def parameters_in(template):
    """Return the parameters that a template names, and the values that are filled into them."""
    names, values = set(), set()
    for _, name, value, _ in Formatter().parse(template):
        if name is not None:
            names.add(name)
            values |= {inner for _, inner, _, _ in Formatter().parse(value or "") if inner}
    return names, values


def test_every_parameter_in_a_hint_is_an_option_of_a_command():
    options, unknown, count = options_of_commands(), [], 0
    for module, line, template, filled_in in templates():
        names, values = parameters_in(template)
        parameters = names - filled_in
        count += len(parameters)
        unknown += [
            f"{module}:{line} {{{name}}}"
            for name in parameters
            if name not in OPTIONS
            and OPTIONS[name] not in options
            and name not in {*PYTHON_ONLY, "x"}
        ]
        if None not in filled_in:
            assert values <= filled_in, (module, line, template)
    assert count > 10
    assert unknown == []


def test_the_names_of_options_are_those_of_commands():
    named = {name for text in OPTIONS.values() for name in OPTION.findall(text)}
    assert named <= options_of_commands()


def texts_in(path):
    """Yield the texts of a module, without docstrings and comments."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bare = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and not any(node is docstring for docstring in bare):
            yield node.value


def test_no_message_of_the_library_names_an_option_of_the_command_line():
    naming = {
        path.relative_to(PACKAGE).as_posix()
        for path in modules()
        if path.parent.name not in ("cli", "studio")
        and any(OPTION.search(text) or "apportion label" in text for text in texts_in(path))
    }
    assert naming == set()
