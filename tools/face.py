"""How much there is to learn and to keep of what a person meets: `python -m tools.face`.

`make face` prints each figure beside its ceiling; a test fails where a ceiling is passed.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from console.cli import main as command_line
from console.cli.command import OF_PIPELINES

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
    now: int
    most: int


def budgets() -> list[Budget]:
    """All figures, of the working tree."""
    commands = list(leaves(typer.main.get_command(command_line.app)))
    slots = sum(
        param.name not in SHARED and param.param_type_name == "option"
        for command in commands
        for param in command.params
    )
    web = ROOT / "console" / "web"
    console = [path for path in (ROOT / "console").rglob("*.py") if web not in path.parents]
    tests = tests_of("console") - tests_of("console/web")
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "adr"]
    return [
        Budget("commands", len(commands), 34),
        Budget("option slots", slots, 121),
        # With what the page shares, and the client that reads tables for less CPU.
        Budget("console, code lines", code_lines_of(console), 18_401),
        Budget("console, modules", len(console), 101),
        Budget("console, code lines of tests", tests, 10_542),
        # The report of a run and the demo's page are drawn by it, too.
        Budget("page, code lines", code_lines_of(web.rglob("*.py")), 640),
        *(
            Budget(f"page, lines of {kind}", lines_of(web.rglob(f"*.{kind}")), most)
            for kind, most in (("html", 690), ("css", 212), ("js", 37))
        ),
        *(
            Budget(f"code lines of {name}", code_lines_of(files_of(name)), most)
            for name, most in (
                ("aws", 7_163),
                ("aws/wiring", 1_490),
                ("testing", 3_440),
                ("redrive", 4_414),
                ("replay", 4_956),
                ("pace", 878),
                ("outage", 1_306),
                ("watch", 1_962),
            )
        ),
        Budget("lab, code lines", code_lines_of((ROOT / "lab").rglob("*.py")), 2_500),
        Budget("words of docs, apart from decisions", words_of(pages), 55_000),
    ]


def files_of(package: str) -> list[Path]:
    """The modules of a package of the library; of `aws` without its wiring."""
    folder = ROOT / "lambdas" / "deadletter" / package
    wiring = folder / "wiring"
    return [path for path in folder.rglob("*.py") if wiring not in path.parents]


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


def tests_of(folder: str) -> int:
    """Code lines of a folder of tests."""
    return code_lines_of((ROOT / "tests" / folder).rglob("*.py"))


def lines_of(paths: Iterable[Path]) -> int:
    """Lines of these files that are not blank."""
    return sum(bool(line.strip()) for path in paths for line in path.read_text().splitlines())


def code_lines_of(paths: Iterable[Path]) -> int:
    """Code lines of these files."""
    texts = [path.read_text() for path in paths]
    return sum(code_lines(ast.parse(text), text) for text in texts)


def code_lines(tree: ast.Module, text: str) -> int:
    """Lines with code on them: no blank ones, no comments, no docstrings."""
    nothing = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in nothing and token.type != tokenize.ENDMARKER:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and ast.get_docstring(node) is not None:
                lines.difference_update(range(first.lineno, (first.end_lineno or 0) + 1))
    return len(lines)


def words_of(pages: Iterable[Path]) -> int:
    """Words of pages, blocks of code included."""
    return sum(len(path.read_text().split()) for path in pages)


def main() -> int:
    """Print the figures; the exit status is 1 if one is over its ceiling."""
    rows = budgets()
    for row in rows:
        verdict = "" if row.now <= row.most else "  OVER ITS CEILING"
        print(f"{row.says:<38} {row.now:>7,}  at most {row.most:>7,}{verdict}")
    return int(any(row.now > row.most for row in rows))


if __name__ == "__main__":
    sys.exit(main())
