"""Failures of one cause have one fingerprint, and those of two causes have two."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable

from deadletter.failure.classify import diagnose
from tests.failure.causes_cases import CAUSES, data_of
from tests.failure.exceptions import caught
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
