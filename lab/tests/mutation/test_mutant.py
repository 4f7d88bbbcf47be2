"""A mutant is named by what it changes, not by where that stands."""

from __future__ import annotations

from lab.mutation.mutant import Mutant, read_mutants

SOURCE = """LIMIT = 3

class Counter:
    def next(self, count):
        if count < LIMIT:
            return count + 1
        return 0
"""


def mutant(source: str, was: str, text: str) -> Mutant:
    edit = {"operator": "Any", "at": source.index(was), "length": len(was), "text": text}
    return read_mutants("circuit/counter.py", source, [edit])[0]


def test_a_mutant_knows_its_scope_and_the_line_before_and_after() -> None:
    changed = mutant(SOURCE, "<", "<=")
    assert changed.scope == "Counter.next"
    assert (changed.was, changed.becomes) == ("if count < LIMIT:", "if count <= LIMIT:")
    assert (changed.line, changed.last_line) == (5, 5)


def test_a_mutant_outside_of_functions_has_the_scope_of_the_module() -> None:
    assert mutant(SOURCE, "3", "4").scope == ""


def test_a_mutant_is_applied_to_the_source_it_was_made_for() -> None:
    assert mutant(SOURCE, "+", "-").apply(SOURCE) == SOURCE.replace("+", "-")


def test_a_mutant_has_the_same_name_after_its_line_has_moved() -> None:
    moved = "# one more line\n\n" + SOURCE
    before, after = mutant(SOURCE, "<", "<="), mutant(moved, "<", "<=")
    assert before.line != after.line
    assert (before.scope, before.was, before.becomes) == (after.scope, after.was, after.becomes)


def test_a_decorator_that_is_removed_belongs_to_its_function() -> None:
    source = "class Box:\n    @property\n    def size(self):\n        return 1\n"
    removed = mutant(source, "@property\n    ", "")
    assert removed.scope == "Box.size"
    assert removed.was == "@property"
