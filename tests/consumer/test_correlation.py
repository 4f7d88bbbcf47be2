"""One id of a letter in all its lives: in logs, in the ledger and in every copy."""

from __future__ import annotations

from typing import Any

from deadletter.consumer import Permanent, consumer, correlation_id
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp
from deadletter.replay.carriers import DirectFate
from deadletter.testing import Letterbox
from tests.consumer.test_replay_delivery import deliver, of_run
from tests.processing.doubles import Site, record, redriven
from tests.samples import letter

ROOT = "1-5759e988-bd862e3fe1be46a994272793"
HEADER = f"Root={ROOT};Parent=53995c3f42cd8ad8;Sampled=1"


def traced(name: str = "m1", body: str = "{}") -> Letter:
    return letter(body, name, AWSTraceHeader=HEADER)


def test_the_line_of_a_failure_names_first_life_and_trace() -> None:
    site = Site(raises={"m1": ValueError("x"), "m2": ValueError("x")})
    result = site.process(record(redriven(traced())), record(letter(message_id="m2")))
    first, second = result.log_lines()
    assert (first["message_id"], first["origin"], first["trace"]) == ("m1", "first", ROOT)
    assert second["origin"] == "m2"
    assert "trace" not in second


def test_the_ledger_keeps_the_trace_of_a_failed_letter() -> None:
    site = Site(raises={"m1": ValueError("x")})
    site.process(record(traced()))
    about = site.log.about["m1"]
    assert about is not None
    assert about.trace == ROOT


def test_a_letter_that_the_consumer_parks_keeps_its_trace() -> None:
    site = Site(raises={"m1": Permanent("x")})
    site.process(record(traced()))
    [envelope] = site.lot.sent
    assert envelope.trace_header == HEADER


def test_a_replay_run_hands_the_trace_to_the_function_that_it_calls(letterbox: Letterbox) -> None:
    seen: list[str] = []

    @consumer
    def handler(record: dict[str, Any]) -> None:
        seen.append(correlation_id(record))

    of_a_run = of_run("works", "m0")
    of_a_run = Letter("m0", "works", of_a_run.attributes, {"AWSTraceHeader": HEADER})
    fates = deliver(letterbox, of_a_run, handler=handler)
    assert fates == {"m0": DirectFate.RECOVERED}
    assert seen == [ROOT]


def test_a_correlation_id_is_the_trace_or_else_the_first_life() -> None:
    stamp = stamps.attribute(Stamp("first", 2, 1))
    stamped = letter("{}", "m1", {stamps.NAME: stamp})
    assert correlation_id(record(traced())) == ROOT
    assert correlation_id(record(stamped)) == "first"
    assert correlation_id(record(letter(message_id="m1"))) == "m1"


def test_a_record_that_is_no_message_has_what_it_names_or_nothing() -> None:
    assert correlation_id({"messageId": "m1"}) == "m1"
    assert correlation_id({}) == ""
