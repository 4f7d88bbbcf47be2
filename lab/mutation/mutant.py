"""One mutant of a module: what is changed where, and how it ended."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Ending(StrEnum):
    """How the tests took a mutant. A time-out is noticed too: the loop never ended."""

    KILLED = "killed"
    TIMEOUT = "timeout"
    SURVIVED = "survived"


@dataclass(frozen=True, slots=True)
class Mutant:
    """An edit of `module` (a path below lambdas/deadletter): `length` characters become `text`."""

    module: str
    operator: str
    at: int
    length: int
    text: str
    # The innermost function or class around the edit, "" at the module's own level.
    scope: str
    line: int
    last_line: int
    # The lines that differ, without their indentation: they name the mutant wherever it moves.
    was: str
    becomes: str

    def apply(self, source: str) -> str:
        """The source of the module with this edit."""
        return source[: self.at] + self.text + source[self.at + self.length :]

    def __str__(self) -> str:
        place = f"{self.module}:{self.line} {self.scope}".rstrip()
        return f"{place}: {self.was!r} -> {self.becomes!r}"


@dataclass(frozen=True, slots=True)
class Result:
    """How one mutant ended, and how many seconds that took."""

    mutant: Mutant
    ending: Ending
    seconds: float = 0.0


def read_mutants(module: str, source: str, edits: Sequence[dict[str, object]]) -> list[Mutant]:
    """The mutants of a module from the edits that `generate` writes, in the module's order."""
    scopes = _scopes(ast.parse(source))
    mutants = []
    for edit in edits:
        at, length, text = int(str(edit["at"])), int(str(edit["length"])), str(edit["text"])
        mutated = source[:at] + text + source[at + length :]
        line = source.count("\n", 0, at) + 1
        last_line = source.count("\n", 0, at + max(length - 1, 0)) + 1
        was, becomes = _difference(source, mutated)
        scope = next((name for first, last, name in scopes if first <= line <= last), "")
        operator = str(edit["operator"])
        mutants.append(
            Mutant(module, operator, at, length, text, scope, line, last_line, was, becomes)
        )
    return sorted(mutants, key=lambda mutant: (mutant.at, mutant.operator, mutant.text))


def _difference(source: str, mutated: str) -> tuple[str, str]:
    before, after = source.splitlines(), mutated.splitlines()
    most = min(len(before), len(after))
    top = next((i for i in range(most) if before[i] != after[i]), most)
    bottom = 0
    while bottom < most - top and before[-1 - bottom] == after[-1 - bottom]:
        bottom += 1
    was = before[top : len(before) - bottom]
    becomes = after[top : len(after) - bottom]
    return _joined(was), _joined(becomes)


def _joined(lines: Sequence[str]) -> str:
    return " ".join(" ".join(line.split()) for line in lines).strip()


def _scopes(tree: ast.Module) -> list[tuple[int, int, str]]:
    """Lines and dotted name of each function and class, innermost first."""
    scopes: list[tuple[int, int, str]] = []

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = name
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{name}.{child.name}".lstrip(".")
                first = min([child.lineno, *(mark.lineno for mark in child.decorator_list)])
                scopes.append((first, child.end_lineno or child.lineno, inner))
            visit(child, inner)

    visit(tree, "")
    return sorted(scopes, key=lambda scope: scope[1] - scope[0])
