"""Sample letters: as many causes as were asked for, told apart by the real diagnosis."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from deadletter.failure.classify import diagnose
from sandbox.letters import CAUSES, samples


@pytest.mark.parametrize("causes", range(1, len(CAUSES) + 1))
def test_each_cause_has_a_fingerprint_of_its_own(causes: int) -> None:
    made = samples(300, causes, Random(1))
    seen = Counter(diagnose(each.error, None, now=0).fingerprint for each in made)
    assert len(seen) == causes
    assert sum(seen.values()) == 300


def test_few_letters_still_have_all_causes() -> None:
    assert len({type(each.error) for each in samples(3, 3, Random(1))}) == 3


def test_the_same_seed_makes_the_same_letters() -> None:
    first, again = ([each.body for each in samples(50, 3, Random(7))] for _ in range(2))
    assert first == again


@pytest.mark.parametrize("causes", [0, len(CAUSES) + 1])
def test_a_number_of_causes_that_there_is_not_is_refused(causes: int) -> None:
    with pytest.raises(ValueError, match=f"{causes} causes; allowed: 1 to {len(CAUSES)}"):
        samples(10, causes, Random(1))
