"""What can be asked for: all packages, one of them, or one module."""

from __future__ import annotations

import pytest

from lab.mutation.targets import LIBRARY, ROOT, TARGETS, UnknownTarget, chosen, suites_of

# These act on AWS, are a face for other people's code, or are made for tests.
NOT_PURE = {"aws", "consumer", "testing"}


def test_every_package_that_decides_is_mutated() -> None:
    packages = {path.parent.name for path in LIBRARY.glob("*/__init__.py")}
    assert set(TARGETS) == packages - NOT_PURE


def test_each_package_has_modules_and_tests() -> None:
    assert list(chosen([])) == list(TARGETS)
    for package, modules in chosen([]).items():
        assert modules
        assert all((ROOT / tests).exists() for tests in suites_of(package))


def test_a_module_can_be_asked_for_with_and_without_its_ending() -> None:
    turns = {"redrive": ["redrive/turns.py"]}
    assert chosen(["redrive/turns"]) == chosen(["redrive/turns.py"]) == turns


@pytest.mark.parametrize("name", ["aws", "redrive/nothing", "lambdas"])
def test_an_unknown_name_is_refused_with_those_that_are_allowed(name: str) -> None:
    with pytest.raises(UnknownTarget, match="allowed: redrive, circuit"):
        chosen([name])
