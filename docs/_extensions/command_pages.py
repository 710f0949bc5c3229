"""One page per command of `apportion`, written from the options themselves."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from itertools import groupby
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from apportion.cli.app import COMMANDS, _imported

FOLDER = "commands"


def setup(app: Any) -> dict[str, bool]:
    """Write the pages before Sphinx looks for sources."""
    app.connect("config-inited", _write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write_pages(app: Any, config: Any) -> None:
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(exist_ok=True)
    for name in COMMANDS:
        text = page_of(name)
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def page_of(name: str) -> str:
    """Return the page of a command: how it is called, its arguments, its options by panel."""
    command = _imported(name)
    function = getattr(import_module(f"apportion.cli.{name}"), name)
    kinds = {
        item.name: get_args(item.annotation)[0]
        for item in inspect.signature(function).parameters.values()
        if get_args(item.annotation)  # all but the context of the command
    }
    shown = [item for item in command.params if item.name != "help" and not item.hidden]
    arguments = [item for item in shown if not item.opts[0].startswith("-")]
    options = [item for item in shown if item.opts[0].startswith("-")]
    usage = " ".join(["apportion", name, *map(_argument, arguments), "[OPTIONS]"])
    parts = [f"# apportion {name}", _prose(command.help), f"```text\n{usage}\n```"]
    parts += _section("Arguments", arguments, kinds)
    for panel, items in groupby(sorted(options, key=_panel_order(options)), key=_panel):
        parts += _section(panel, list(items), kinds)
    return "\n\n".join(parts) + "\n"


def _section(title: str, items: list[Any], kinds: dict[str, Any]) -> list[str]:
    entries = [f"{_term(item, kinds[item.name])}\n: {_explained(item)}" for item in items]
    return [f"## {title}", *entries] if items else []


def _argument(item: Any) -> str:
    name = item.metavar or item.name.upper()
    return name if item.required else f"[{name}]"


def _panel(option: Any) -> str:
    return option.rich_help_panel or "Options"


def _panel_order(options: list[Any]) -> Any:
    """Return a key that keeps panels together, in the order of their first options."""
    order = list(dict.fromkeys(map(_panel, options)))
    return lambda option: order.index(_panel(option))


def _term(item: Any, kind: Any) -> str:
    """Return the names of an option and what it takes, such as `--output`, `-o` FILE."""
    if not item.opts[0].startswith("-"):
        return f"`{item.metavar or item.name.upper()}`"
    names = sorted([*item.opts, *item.secondary_opts], key=len, reverse=True)
    taken = item.metavar or _taken(kind)
    return ", ".join(f"`{name}`" for name in names) + (f" *{taken}*" if taken else "")


def _taken(kind: Any) -> str:
    """Return the choices of an option, or the kind of its value; nothing for a flag."""
    kind = (
        next((one for one in get_args(kind) if one is not NoneType), kind)
        if (NoneType in get_args(kind))
        else kind
    )
    if get_origin(kind) is Literal:
        return " | ".join(map(str, get_args(kind)))
    return {int: "NUMBER", float: "NUMBER", bool: ""}.get(kind, "TEXT")


def _explained(item: Any) -> str:
    default = item.default
    told = item.required or default is None or isinstance(default, bool)
    text = _prose(item.help)
    return text if told else f"{text} Default: `{default}`."


def _prose(text: str) -> str:
    """Return text of a help page as Markdown: options and codes as code, signs as they are."""
    text = re.sub(r"([*_<>|\[\]\\])", r"\\\1", text or "")
    return re.sub(r"(?<![\w-])(--?[a-z][a-z-]*)", r"`\1`", text)
