"""A rule in shadow mode that looks at a share of the letters."""

from __future__ import annotations

import pytest

from deadletter.rules.rule import RuleRefused, read_rule
from deadletter.rules.sampling import is_sampled
from tests.rules.rule_items import PIPELINE, book, document, item
from tests.samples import NOW

LETTERS = [f"letter-{number}" for number in range(10_000)]


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_a_sample_has_its_share_of_the_letters(share: float) -> None:
    sampled = sum(is_sampled(letter, "r", share) for letter in LETTERS)
    assert sampled == pytest.approx(len(LETTERS) * share, abs=len(LETTERS) * 0.02)


def test_a_sample_of_one_has_all_letters() -> None:
    assert all(is_sampled(letter, "r", 1) for letter in LETTERS)


def test_a_larger_sample_has_the_letters_of_a_smaller_one() -> None:
    small = {letter for letter in LETTERS if is_sampled(letter, "r", 0.1)}
    assert small < {letter for letter in LETTERS if is_sampled(letter, "r", 0.3)}


def test_two_rules_have_samples_of_their_own() -> None:
    both = [letter for letter in LETTERS if all(is_sampled(letter, r, 0.1) for r in "ab")]
    assert 50 < len(both) < 150


def test_a_shadow_rule_counts_the_letters_of_its_sample_in_each_of_their_lives() -> None:
    rules = book(item(mode="shadow", sample="0.25"), item("all", mode="shadow", priority=200))
    counted = {
        letter: rules.first(document(), now, {}, origin=letter).shadows
        for now in (NOW, NOW + 60)
        for letter in LETTERS[:400]
    }
    assert all("all" in shadows for shadows in counted.values())
    sampled = {letter for letter, shadows in counted.items() if "r" in shadows}
    assert sampled == {letter for letter in LETTERS[:400] if is_sampled(letter, "r", 0.25)}
    assert 60 < len(sampled) < 140


def test_an_explanation_says_that_a_letter_is_not_in_the_sample() -> None:
    rules = book(item(mode="shadow", sample=0.25))
    outcomes = {
        letter: rules.explain(document(), NOW, {}, diverted=False, origin=letter)[0].outcome
        for letter in LETTERS[:50]
    }
    for letter, outcome in outcomes.items():
        is_in = is_sampled(letter, "r", 0.25)
        assert outcome == (
            "would match, and only counts (shadow)" if is_in else "is not in its sample (shadow)"
        )


@pytest.mark.parametrize("typed", [0, -0.1, 1.01, "50"])
def test_a_share_outside_its_range_is_refused(typed: object) -> None:
    with pytest.raises(RuleRefused, match="sample must be more than 0, and at most 1"):
        read_rule(item(mode="shadow", sample=typed), PIPELINE)


def test_a_rule_that_acts_has_no_sample() -> None:
    with pytest.raises(RuleRefused, match="sample goes with mode shadow only"):
        read_rule(item(sample=0.5), PIPELINE)
