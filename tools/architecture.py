"""The structure of the code, measured: the table of modules in docs/architecture.md, and figures.

`python -m tools.architecture` writes the table anew from the first lines of the docstrings;
`python -m tools.architecture --figures CHECKOUT` counts rooms, floors and arrows of a checkout.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- modules: begin -->", "<!-- modules: end -->"

LIBRARY = "lambdas/deadletter"

# The packages in the order of the page; a longer path is a package of its own.
PACKAGES = (
    "lambdas/deadletter/message",
    "lambdas/deadletter/circuit",
    "lambdas/deadletter/settings",
    "lambdas/deadletter/failure",
    "lambdas/deadletter/rules",
    "lambdas/deadletter/routing",
    "lambdas/deadletter/redrive",
    "lambdas/deadletter/processing",
    "lambdas/deadletter/webhook",
    "lambdas/deadletter/outage",
    "lambdas/deadletter/watch",
    "lambdas/deadletter/aws",
    "lambdas/deadletter/aws/wiring",
    "lambdas/deadletter/consumer",
    "lambdas/deadletter/testing",
    "lambdas/deadletter/testing/fakes",
    "lambdas/deadletter",
    "lambdas/handlers",
    "console/operations",
    "console/cli",
    "console",
    "infra",
    "sandbox",
    "sandbox/demo",
    "tools",
    "tools/scan",
)


@dataclass(frozen=True, slots=True)
class Figures:
    """How a library hangs together.

    rooms   what lies side by side in its folder: packages, and modules in no package
    floors  the longest chain of rooms that import one another
    arrows  pairs of rooms of which one imports the other
    """

    modules: int
    rooms: int
    floors: int
    arrows: int


def first_line(path: Path) -> str:
    """The first sentence of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return docstring.partition("\n\n")[0].replace("\n", " ")


def modules_of(package: str) -> list[Path]:
    """The modules directly in a package; `__init__` is the package itself, and left out."""
    return sorted(path for path in (ROOT / package).glob("*.py") if path.name != "__init__.py")


def packages() -> list[str]:
    """Every package with modules, in the order of the page; new ones come last."""
    folders = {
        str(path.parent.relative_to(ROOT))
        for top in ("lambdas", "console", "infra", "sandbox", "tools")
        for path in (ROOT / top).rglob("*.py")
        if path.name != "__init__.py" and not path.is_symlink()
    }
    folders = {folder for folder in folders if not folder.startswith("tools/editable")}
    return [*(name for name in PACKAGES if name in folders), *sorted(folders - set(PACKAGES))]


def table() -> str:
    """The modules of every package with what they are for, in Markdown."""
    lines: list[str] = []
    for package in packages():
        introduction = ROOT / package / "__init__.py"
        sentence = first_line(introduction) if introduction.exists() else ""
        lines += [f"### `{package}/`", "", *([sentence, ""] if sentence else [])]
        lines += ["| module | what it holds |", "|---|---|"]
        lines += [f"| `{path.stem}` | {first_line(path)} |" for path in modules_of(package)]
        lines.append("")
    return "\n".join(lines)


def page() -> str:
    """docs/architecture.md with the table of modules as it is now."""
    before, _begin, rest = PAGE.read_text().partition(BEGIN)
    _old, _end, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n{END}{after}"


def figures(checkout: Path) -> Figures:
    """The figures of the library in a checkout."""
    library = checkout / LIBRARY
    paths = sorted(library.rglob("*.py"))
    names = {_name(path, library): path for path in paths}
    imports: dict[str, set[str]] = {}
    for name, path in names.items():
        room = _room(name)
        for imported in _imported(path, names):
            if _room(imported) != room:
                imports.setdefault(room, set()).add(_room(imported))
    rooms = {_room(name) for name in names} - {"deadletter"}
    arrows = sum(len(targets - {"deadletter"}) for targets in imports.values())
    return Figures(
        modules=sum(path.name != "__init__.py" for path in paths),
        rooms=len(rooms),
        floors=max(_height(room, imports, ()) for room in rooms),
        arrows=arrows,
    )


def _name(path: Path, library: Path) -> str:
    parts = path.relative_to(library.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _room(name: str) -> str:
    return ".".join(name.split(".")[:2])


def _imported(path: Path, names: Mapping[str, Path]) -> Iterable[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (
                name for alias in node.names if (name := f"{node.module}.{alias.name}") in names
            )
            if node.module in names and node.module != "deadletter":
                yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)


def _height(room: str, imports: Mapping[str, set[str]], above: tuple[str, ...]) -> int:
    below = imports.get(room, set()) - {*above, room, "deadletter"}
    return 1 + max((_height(target, imports, (*above, room)) for target in below), default=0)


def main() -> None:
    """Write the table, or print the figures of a checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", type=Path, metavar="CHECKOUT")
    chosen = parser.parse_args()
    if chosen.figures is None:
        PAGE.write_text(page())
    else:
        print(figures(chosen.figures))


if __name__ == "__main__":
    main()
