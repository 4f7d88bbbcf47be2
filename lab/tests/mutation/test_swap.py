"""The code of a mutant replaces that of an imported function, or is refused."""

from __future__ import annotations

from types import ModuleType

import pytest

from lab.mutation.swap import Functions, swap_for

SOURCE = """
from functools import cache

LIMIT = 3

def below(count, least=0):
    return least <= count < LIMIT

class Counter:
    step = 1
    @property
    def size(self):
        return [place + 1 for place in range(LIMIT)]
    @classmethod
    def made(cls):
        return cls.step

@cache
def double(number):
    return number * 2

def adder(number):
    def add(other):
        return number + other
    return add

add_one = adder(1)
"""
FILE = "/somewhere/counter.py"


@pytest.fixture
def counter() -> ModuleType:
    module = ModuleType("counter")
    exec(compile(SOURCE, FILE, "exec"), module.__dict__)  # noqa: S102 - our own text
    return module


def swapped(module: ModuleType, was: str, becomes: str) -> bool:
    assert SOURCE.count(was) == 1
    mutated = SOURCE.replace(was, becomes)
    swap = swap_for(compile(SOURCE, FILE, "exec"), compile(mutated, FILE, "exec"))
    return swap is not None and Functions("/somewhere", {FILE}).swap(FILE, swap)


def test_a_function_runs_the_mutants_code_wherever_it_was_imported_to(counter: ModuleType) -> None:
    below = counter.below
    assert not below(3)
    assert swapped(counter, "count < LIMIT", "count <= LIMIT")
    assert below(3)


def test_a_property_and_a_classmethod_run_the_mutants_code(counter: ModuleType) -> None:
    assert swapped(counter, "place + 1", "place - 1")
    assert counter.Counter().size == [-1, 0, 1]
    assert swapped(counter, "return cls.step", "return -cls.step")
    assert counter.Counter.made() == -1


def test_what_a_cache_remembers_of_the_original_is_forgotten(counter: ModuleType) -> None:
    assert counter.double(3) == 6
    assert swapped(counter, "number * 2", "number * 3")
    assert counter.double(3) == 9


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("least=0", "least=1"),
        ("step = 1", "step = 2"),
        ("    @property\n", ""),
        ("@cache\n", ""),
    ],
)
def test_what_runs_at_import_is_refused(counter: ModuleType, was: str, becomes: str) -> None:
    assert not swapped(counter, was, becomes)


def test_a_function_whose_closures_live_already_is_refused(counter: ModuleType) -> None:
    assert not swapped(counter, "number + other", "number - other")
    assert counter.add_one(1) == 2


def test_a_mutant_that_changes_nothing_is_refused(counter: ModuleType) -> None:
    assert not swapped(counter, "return number * 2", "return (number * 2)")
