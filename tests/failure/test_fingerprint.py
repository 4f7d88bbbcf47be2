"""Failures of one cause have one fingerprint, and those of two causes have two."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable

import pytest

from deadletter.failure.classify import diagnose
from tests.failure.causes_cases import CAUSES, data_of
from tests.failure.exceptions import caught
from tests.failure.pair_cases import ONE, TWO, Fail, Pair
from tests.samples import NOW, letter

LETTERS = 60


def groups_of(names: Iterable[str], letters: int = LETTERS) -> dict[str, Counter[str]]:
    """For each fingerprint, how many failures of which cause have it."""
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    number = random.Random(7)
    for name in names:
        for _ in range(letters):
            data = data_of(number)
            error = caught(lambda data=data, name=name: CAUSES[name](data))
            found = diagnose(error, letter(json.dumps(data)), now=NOW)
            groups[found.fingerprint][name] += 1
    return groups


def test_each_cause_has_one_fingerprint_of_its_own() -> None:
    groups = groups_of(CAUSES)
    split = Counter(name for counts in groups.values() for name in counts)
    assert {name: count for name, count in split.items() if count > 1} == {}
    assert [sorted(counts) for counts in groups.values() if len(counts) > 1] == []


def print_of(fail: Fail, body: str = '{"count": "many", "sku": "a-1"}') -> str:
    return diagnose(caught(fail), letter(body), now=NOW).fingerprint


@pytest.mark.parametrize("pair", TWO, ids=lambda pair: pair.name)
def test_two_causes_at_one_place_have_two_fingerprints(pair: Pair) -> None:
    assert print_of(pair.first) == print_of(pair.first)
    assert print_of(pair.first) != print_of(pair.second)


@pytest.mark.parametrize("pair", ONE, ids=lambda pair: pair.name)
def test_one_cause_in_two_forms_has_one_fingerprint(pair: Pair) -> None:
    assert print_of(pair.first) == print_of(pair.second)


def test_the_same_failure_of_two_named_dependencies_has_two_fingerprints() -> None:
    error = caught(lambda: exec("raise TimeoutError()"))  # noqa: S102 - at one place
    prints = {
        diagnose(error, letter(), now=NOW, dependency=name).fingerprint for name in ("", "a", "b")
    }
    assert len(prints) == 3
