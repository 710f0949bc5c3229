"""Print requirements that pin every dependency, also those of the extras, to its lower bound.

`make test-lowest` installs what this prints, and runs the quick tests with it. Packages that only
the tests need, and those that the dependencies need in turn, are not pinned.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
_NAME = r"(?P<name>[\w.-]+)(\[[\w,\s.-]*\])?"
_BOUNDED = re.compile(rf"{_NAME}\s*>=\s*(?P<lowest>[\w.]+)\s*(;.*)?")


def requirements(project: dict) -> list[str]:
    """Return the requirements of the package and of all its extras, except for the package."""
    extras = project["optional-dependencies"].values()
    listed = [*project["dependencies"], *(item for extra in extras for item in extra)]
    return [item for item in listed if not item.startswith(f"{project['name']}[")]


def lowest(listed: Iterable[str]) -> list[str]:
    """Return one line `name==version` per package.

    Raises
    ------
    ValueError
        If a requirement has no lower bound, or two requirements have different ones. An extra that
        is needed on one system only, such as tzdata, may do without a bound.
    """
    bounds: dict[str, str] = {}
    for item in listed:
        found = _BOUNDED.fullmatch(item)
        if found is None:
            if ";" in item:
                continue
            raise ValueError(f"{item!r} has no lower bound of the form name>=version")
        name, version = found["name"], found["lowest"]
        if bounds.setdefault(name, version) != version:
            raise ValueError(f"{name} has two lower bounds: {bounds[name]} and {version}")
    return [f"{name}=={version}" for name, version in sorted(bounds.items())]


def main() -> None:
    """Print the lowest versions that this project allows."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    sys.stdout.write("\n".join(lowest(requirements(project))) + "\n")


if __name__ == "__main__":
    main()
