"""Each mistake is made once, in what functions do, and the score counts what the tests notice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from lab.mutation.__main__ import passes
from lab.mutation.mutants import Mutant, mutants
from lab.mutation.session import Ending


def of(source: str) -> list[Mutant]:
    return list(mutants("module.py", source, "/somewhere/module.py"))


@pytest.mark.parametrize(
    ("line", "mistakes"),
    [
        ("a = b < c", {"a = b <= c", "a = b >= c"}),
        ("a = b + c", {"a = b - c"}),
        ("a = b and c", {"a = b or c"}),
        ("a = b not in c", {"a = b in c"}),
        ("a = b if c else d", {"a = b if not c else d"}),
        ("a = not b", {"a = b"}),
        ("a = 7", {"a = 8", "a = 6"}),
        ("a = True", {"a = False"}),
        ("a()", {"pass"}),
        ("a += b", {"pass"}),
        ("raise B", {"pass"}),
        ("return b", {"return None"}),
        ("return False", {"return True"}),
        ("for a in b: c", {"for a in []:"}),
        ("a: int | None = b", set()),
        ("a = zip(b, c, strict=True)", set()),
        ("'Says nothing at run time.'", set()),
    ],
)
def test_a_mistake_is_made_once(line: str, mistakes: set[str]) -> None:
    made = of(f"def f():\n    {line}\n")
    assert {mutant.becomes for mutant in made} == mistakes
    assert len(made) == len(mistakes)
    assert {(mutant.name, mutant.line) for mutant in made} <= {("f", 2)}


def test_what_runs_at_import_is_left_alone() -> None:
    source = "A = 7\nclass B:\n    c: int = 3\n    @d(1)\n    def e(self, f: int = 2): g\n"
    assert of(source) == []


def test_a_mutant_has_the_code_of_its_function_and_the_place_where_that_stands() -> None:
    source = "class A:\n    @property\n    def f(self):\n        return -self.__b\n"
    scope: dict[str, Any] = {}
    exec(source, scope)  # noqa: S102 - our own text
    thing = scope["A"]()
    thing._A__b = 3
    for mutant, answer in zip(of(source), (None, 3), strict=True):
        assert (mutant.name, mutant.first, mutant.line) == ("A.f", 2, 4)
        scope["A"].f.fget.__code__ = mutant.code
        assert thing.f == answer


def endings(*, noticed: int, survived: int) -> Counter[Ending]:
    ends = {Ending.KILLED: noticed - 1, Ending.TIMEOUT: 1, Ending.SURVIVED: survived}
    return Counter(ends)


@pytest.mark.parametrize(
    ("packages", "is_enough"),
    [
        ([endings(noticed=9, survived=1)], True),
        ([endings(noticed=9, survived=1), endings(noticed=8, survived=2)], False),
        ([endings(noticed=90, survived=0), endings(noticed=7, survived=3)], False),
    ],
)
def test_too_many_survivors_of_all_or_of_one_package_fail(
    packages: list[Counter[Ending]], is_enough: bool
) -> None:
    assert passes(packages) is is_enough
