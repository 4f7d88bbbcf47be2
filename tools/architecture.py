"""How a library hangs together, measured: `python -m tools.architecture [CHECKOUT]`."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIBRARY = "lambdas/deadletter"


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of the imports of a library.

    rooms   what lies side by side in its folder: packages, and modules in no package
    floors  the longest chain of rooms that import one another
    arrows  pairs of rooms of which one imports the other
    """

    modules: int
    rooms: int
    floors: int
    arrows: int


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
    """Print the figures of a checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, nargs="?", default=ROOT)
    print(figures(parser.parse_args().checkout))


if __name__ == "__main__":
    main()
