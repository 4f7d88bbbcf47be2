"""Troubles: the words of their numbers, since when they are, and which end by themselves."""

from __future__ import annotations

from deadletter.signals.troubles import TROUBLES, Seen, TroubleKind, since_before, worded

DAY = 86_400


def test_numbers_stand_with_their_nouns() -> None:
    facts = {
        "one": 1,
        "many": 1_204,
        "short": 90,
        "long": 1.5 * DAY,
        "whole": 2 * DAY,
        "open": 5_400,
    }
    words = (
        "{one:message}, {many:message}, {short:minute}, {long:days}, {whole:days}, {open:hours} h"
    )
    assert worded(words, facts) == "1 message, 1,204 messages, 1 minute, 1.5 days, 2 days, 1.5 h"


def test_a_trouble_is_since_the_look_that_saw_it_first() -> None:
    def seen(since: float = 0.0, **facts: str) -> Seen:
        return Seen(TroubleKind.CIRCUIT_OPEN, facts, since)

    before = [Seen(TroubleKind.ROUTER_DOWN, since=3.0), seen(5.0, key="orders")]
    now = [seen(key="orders", why="busy"), seen(), seen(key="bank")]
    assert [each.since for each in since_before(now, before, 9.0)] == [5.0, 5.0, 9.0]
    # Every look writes when each began: nothing has, before the first.
    assert Seen(TroubleKind.ROUTER_DOWN).since == 0


def test_what_ends_by_itself_needs_no_person() -> None:
    assert {kind.name for kind, card in TROUBLES.items() if card.by_itself} == {
        *("CIRCUIT_HELD", "CIRCUIT_WAITS", "CIRCUIT_TRIES"),
        *("LOOKED_AT", "OBSERVED", "OBSERVES"),
    }
