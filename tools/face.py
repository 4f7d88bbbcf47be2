"""How much there is to learn and to keep of what a person meets: `python -m tools.face`.

`make face` prints each figure beside its ceiling; a test fails where one is passed, and a step that
lowers a figure lowers its ceiling.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import typer

from console.cli import main as command_line
from console.cli.command import OF_PIPELINES
from deadletter.signals.figures import Figure
from infra.reference import APP, PIPELINE

ROOT = Path(__file__).parents[1]

SHARED = {"profile", "region", "app", "json", "jsonl", "query", "debug", OF_PIPELINES}
"""Parameters that every command has: a person learns them once.

-p is one of each command that is about pipelines, in the same words; the others refuse it. Only
`rules` and `cause` have a --pipeline of their own, which is counted.
"""


@dataclass(frozen=True)
class Budget:
    """One figure: what it counts, how much there is now, and its ceiling."""

    says: str
    count: Callable[[], int]
    most: int


PRODUCT = ("lambdas", "infra", "console", "sandbox", "tools")


def budgets() -> list[Budget]:
    """All figures, of the working tree; each is counted when it is asked for.

    Raised last, by 300 lines of the product and 520 of tests: no answer of the command line hides
    what was not read or claims what was not done, each printed command is quoted and works as it
    stands, and messages of a key that have one business key do not pass for each other.
    """
    return [
        Budget("commands", lambda: len(commands()), 34),
        Budget("option slots", slots, 121),
        # With what the page shares, and the client that reads tables for less CPU.
        Budget("console, code lines", lambda: code_lines_of(console()), 17_715),
        Budget("console, modules", lambda: len(console()), 95),
        Budget(
            "console, code lines of tests",
            lambda: code_lines_of_tests("console") - code_lines_of_tests("console/web"),
            10_130,
        ),
        # The report of a run and the demo's page are drawn by it, too.
        Budget("page, code lines", lambda: code_lines_of(WEB.rglob("*.py")), 626),
        *(
            Budget(f"page, lines of {kind}", partial(lines_of_web, kind), most)
            for kind, most in (("html", 684), ("css", 211), ("js", 37))
        ),
        *(
            Budget(f"code lines of {name}", partial(code_lines_of_package, name), most)
            for name, most in (
                ("aws", 6_703),
                ("aws/wiring", 1_456),
                ("testing", 2_820),
                ("redrive", 4_266),
                ("replay", 4_751),
                ("pace", 876),
                ("outage", 1_297),
                ("watch", 1_920),
            )
        ),
        Budget("code lines of the product", partial(code_lines_in, *PRODUCT), 73_482),
        Budget("code lines of the lab", partial(code_lines_in, "lab"), 2_122),
        Budget("code lines of tests", partial(code_lines_in, "tests"), 116_916),
        Budget("modules without tests", lambda: len(modules(*PRODUCT, "lab")), 543),
        Budget("settings", lambda: len((*APP, *PIPELINE)), 61),
        Budget("figures", lambda: len(Figure), 36),
        Budget("words of docs, apart from decisions", words_of_docs, 55_000),
    ]


WEB = ROOT / "console" / "web"


def commands() -> list[Any]:
    """The commands of `dlq`."""
    return list(leaves(typer.main.get_command(command_line.app)))


def slots() -> int:
    """The options that a person may give, one for each command that has it."""
    return sum(
        param.name not in SHARED and param.param_type_name == "option"
        for command in commands()
        for param in command.params
    )


def modules(*folders: str) -> list[Path]:
    """The Python files of these folders, apart from the lab's own tests."""
    tests = ROOT / "lab" / "tests"
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return [path for path in found if tests not in path.parents]


def code_lines_in(*folders: str) -> int:
    """Code lines of these folders."""
    return code_lines_of(modules(*folders))


def console() -> list[Path]:
    """The modules of the command line."""
    return [path for path in modules("console") if WEB not in path.parents]


def code_lines_of_package(package: str) -> int:
    """Code lines of a package of the library; of `aws` without its wiring."""
    folder = ROOT / "lambdas" / "deadletter" / package
    wiring = folder / "wiring"
    return code_lines_of(path for path in folder.rglob("*.py") if wiring not in path.parents)


def leaves(command: Any) -> Iterator[Any]:
    """The commands that do something; a group only holds others."""
    if not hasattr(command, "list_commands"):
        yield command
        return
    context = command.make_context("dlq", [], resilient_parsing=True)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        if not below.hidden:
            yield from leaves(below)


def code_lines_of_tests(folder: str) -> int:
    """Code lines of a folder of tests."""
    return code_lines_of((ROOT / "tests" / folder).rglob("*.py"))


def lines_of_web(kind: str) -> int:
    """Lines of the page's files of one kind that are not blank."""
    lines = (line for path in WEB.rglob(f"*.{kind}") for line in path.read_text().splitlines())
    return sum(bool(line.strip()) for line in lines)


def code_lines_of(paths: Iterable[Path]) -> int:
    """Code lines of these files."""
    return sum(map(_code_lines_in, paths))


@cache
def _code_lines_in(path: Path) -> int:
    text = path.read_text()
    return code_lines(ast.parse(text), text)


def code_lines(tree: ast.Module, text: str) -> int:
    """Lines with code on them: no blank ones, no comments, no docstrings."""
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    counted = {number for number, line in lines if line and not line.startswith("#")}
    for docstring in _docstrings(tree):
        counted.difference_update(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return len(counted)


def _docstrings(node: ast.AST) -> Iterator[ast.stmt]:
    """Those of a module and of all that it defines, wherever a statement defines it."""
    documented = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
        yield node.body[0]
    for below in ast.iter_child_nodes(node):
        # An expression defines nothing that has a docstring, and most nodes are in one.
        if not isinstance(below, ast.expr):
            yield from _docstrings(below)


def words_of_docs() -> int:
    """Words of the pages, blocks of code included."""
    pages = (path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "adr")
    return sum(len(path.read_text().split()) for path in pages)


def main() -> int:
    """Print the figures; the exit status is 1 if one is over its ceiling."""
    over = 0
    for row in budgets():
        now = row.count()
        over += now > row.most
        verdict = "  OVER ITS CEILING" if now > row.most else ""
        print(f"{row.says:<38} {now:>7,}  at most {row.most:>7,}{verdict}")
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
