"""What is counted beside a message never decides its end, even where counting itself is broken."""

from __future__ import annotations

from typing import Any

import pytest

from deadletter.failure.fate import Fate
from deadletter.processing.circuit_gate import CircuitGate
from deadletter.processing.sudden_causes import SuddenCauses
from tests.processing.doubles import Site, record
from tests.samples import letter

COUNTING: list[tuple[type, str]] = [
    (SuddenCauses, "processed"),
    (SuddenCauses, "failed"),
    (SuddenCauses, "report"),
    (CircuitGate, "count"),
    (CircuitGate, "shown"),
    (CircuitGate, "report"),
]


class NoCauses:
    """A store in which no cause was ever counted."""

    def read(self) -> Any:
        raise AssertionError("nothing is read while counting is broken")

    count = read


def _broken(*_: object, **__: object) -> Any:
    raise ZeroDivisionError("ours")


@pytest.fixture(params=COUNTING, ids=lambda place: f"{place[0].__name__}.{place[1]}")
def site(request: Any, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A consumer of which one step of counting is broken."""
    owner, name = request.param
    for step in ("processed", "failed", "report"):
        monkeypatch.setattr(SuddenCauses, step, lambda *_: None)
    monkeypatch.setattr(owner, name, _broken)
    site = Site()
    site.causes = SuddenCauses(NoCauses(), site.clock, lambda *_: None)
    return site


def test_a_processed_message_stays_acknowledged_and_done(site: Site) -> None:
    result = site.process(record(letter()))
    assert [message.fate for message in result.results] == [Fate.PROCESSED]
    assert site.claims.states() == {"origin:m1": "done"}


def test_what_was_not_counted_is_noticed(site: Site) -> None:
    site.raises["m2"] = TimeoutError("no answer")
    result = site.process(record(letter(message_id="m1")), record(letter(message_id="m2")))
    assert result.counts["ConsumerLibraryError"] >= 1


@pytest.mark.parametrize("unguarded", [False, True])
def test_no_effect_is_repeated(site: Site, unguarded: bool) -> None:
    site.unguarded = unguarded
    result = site.process(record(letter(message_id="m1")), record(letter(message_id="m2")))
    assert result.to_response() == {"batchItemFailures": []}


def test_a_failed_message_comes_back_with_its_failure_on_record(site: Site) -> None:
    site.raises["m1"] = TimeoutError("no answer")
    result = site.process(record(letter()))
    assert [message.fate for message in result.results] == [Fate.FAILED]
    assert [failure.error_type for failure in failures(site)] == ["Timeout"]


def failures(site: Site) -> list[Any]:
    return [failure for _, failure in site.log.failures]
