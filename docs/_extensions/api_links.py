"""Link the names of the library, where pages write them as code, to their pages of the API."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

_NAME = re.compile(r"(?P<name>[A-Za-z_][\w.]*)(?P<call>\(.*\))?", re.DOTALL)


def setup(app: Any) -> dict[str, bool]:
    """Add the transform."""
    app.add_post_transform(ApiLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class ApiLinks(SphinxPostTransform):
    """Turn the first `LPLLP()`, `label_table` … of every section into a link."""

    default_priority = 400

    def run(self, **_: Any) -> None:
        """Look at all code within paragraphs, lists and tables."""
        pages = self._pages()
        linked: set[tuple[int, str]] = set()
        for literal in list(self.document.findall(nodes.literal)):
            full_name = _public_name(literal.astext(), pages)
            section = _enclosing(literal, nodes.section)
            if full_name is None or _enclosing(literal, nodes.reference, nodes.title) is not None:
                continue
            docname, anchor = pages[full_name]
            if docname == self.env.docname or (id(section), full_name) in linked:
                continue
            linked.add((id(section), full_name))
            link = make_refnode(
                self.app.builder, self.env.docname, docname, anchor, literal.deepcopy(), full_name
            )
            literal.replace_self(link)

    def _pages(self) -> dict[str, tuple[str, str]]:
        """Return the page and anchor of every public class and function, by its full name."""
        objects = self.env.get_domain("py").objects
        return {
            name: (entry.docname, entry.node_id)
            for name, entry in objects.items()
            if entry.docname.startswith("api/")
            and entry.objtype in ("class", "exception", "function")
        }


def _public_name(code: str, pages: dict[str, Any]) -> str | None:
    """Return the full name of what a piece of code names, or None.

    A bare lower-case word such as `diagnose` may also be a command or an option.
    """
    match = _NAME.fullmatch(code)
    if match is None:
        return None
    name = match["name"]
    if not ("." in name or "_" in name or match["call"] or name != name.lower()):
        return None
    ends = [full for full in pages if full == name or full.endswith(f".{name}")]
    return min(ends, key=len, default=None)


def _enclosing(node: nodes.Node, *kinds: type) -> nodes.Node | None:
    while node is not None and not isinstance(node, kinds):
        node = node.parent
    return node
