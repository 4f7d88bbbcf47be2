"""Dependencies that a handler names: each has a circuit of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any

import pytest

from deadletter.circuit.state import Circuit, Permit, State
from deadletter.contract import Blame
from deadletter.failure.blame import teams_word
from deadletter.failure.signals import DependencyOpen, Permanent, Skip, Transient
from deadletter.message import stamp as stamps
from deadletter.message.stamp import Stamp
from deadletter.processing.delivery import Delivery
from deadletter.processing.named_dependencies import dependency
from deadletter.processing.result import BatchResult
from deadletter.processing.unguarded import process_unguarded
from tests.each_row import each_row
from tests.processing.doubles import Site, record, redriven
from tests.samples import NOW, letter

BANK, MAIL = "dependency/bank", "dependency/mail"

Handle = Callable[[Delivery], object]


def site_for(**circuits: State) -> Site:
    site = Site()
    for name, state in circuits.items():
        key = f"dependency/{name}"
        site.circuits.circuits[key] = Circuit(key, state, open_until=NOW + 40)
    return site


def run(handle: Handle, site: Site | None = None, permit: str | None = None) -> tuple[Site, Any]:
    site = site or site_for()
    return site, site.process(record(letter()), handle=handle, permit=permit)


def reported(site: Site) -> dict[str, tuple[int, int]]:
    return {key: (good, bad) for key, good, bad in site.outcomes.reported}


def fate(result: BatchResult) -> str:
    return result.results[0].fate.name


def calling(*steps: tuple[str, BaseException | None]) -> Handle:
    """A handler that calls these dependencies in turn, each of which may raise an exception."""

    def handle(_: Delivery) -> None:
        for name, error in steps:
            with dependency(name):
                if error is not None:
                    raise error

    return handle


def test_a_call_that_returns_is_a_success_of_its_own_dependency() -> None:
    site, result = run(calling(("bank", None), ("mail", None), ("bank", None)))
    assert fate(result) == "PROCESSED"
    assert reported(site) == {"orders": (1, 0), BANK: (2, 0), MAIL: (1, 0)}


@pytest.mark.parametrize(
    ("error", "expected", "circuit"),
    [
        (TimeoutError(), {BANK: (1, 0), MAIL: (0, 1)}, MAIL),
        (Transient(status=401), {BANK: (1, 0), f"{MAIL}#config": (0, 1)}, MAIL),
        # They speak of no dependency.
        (KeyError("x"), {BANK: (1, 0)}, ""),
        (Transient(status=404), {BANK: (1, 0)}, ""),
    ],
)
def test_a_failed_call_counts_against_its_dependency_alone(
    error: Exception, expected: Mapping[str, tuple[int, int]], circuit: str
) -> None:
    site, result = run(calling(("bank", None), ("mail", error)))
    assert fate(result) == "FAILED"
    assert reported(site) == expected
    [(_, failure)] = site.log.failures
    assert failure.circuit == circuit
    assert result.log_lines()[0].get("circuit", "") == circuit


def test_a_failure_outside_of_the_blocks_counts_against_the_pipelines_circuit() -> None:
    def handle(_: Delivery) -> None:
        with dependency("bank"):
            pass
        raise TimeoutError

    site, _ = run(handle)
    assert reported(site) == {BANK: (1, 0), "orders": (0, 1)}
    assert site.log.failures[0][1].circuit == ""


def test_a_failure_that_the_handler_overcomes_counts_against_the_dependency_all_the_same() -> None:
    def handle(_: Delivery) -> None:
        with suppress(TimeoutError), dependency("mail"):
            raise TimeoutError

    site, result = run(handle)
    assert fate(result) == "PROCESSED"
    assert reported(site) == {MAIL: (0, 1), "orders": (1, 0)}


def wrapping(outer: Callable[[], BaseException], *, meant: bool) -> Handle:
    def handle(_: Delivery) -> None:
        try:
            with dependency("bank"):
                raise TimeoutError
        except TimeoutError as error:
            if meant:
                raise outer() from error
            raise outer()  # noqa: B904 - what Python links by itself

    return handle


class OrderFailed(Exception):
    pass


@pytest.mark.parametrize("meant", [True, False])
def test_a_failure_wrapped_outside_of_the_block_is_still_the_dependencys(meant: bool) -> None:
    site, _ = run(wrapping(OrderFailed, meant=meant))
    assert reported(site) == {BANK: (0, 1)}
    assert site.log.failures[0][1].circuit == BANK


def test_a_fallback_that_fails_too_speaks_for_itself() -> None:
    site, _ = run(wrapping(ConnectionRefusedError, meant=False))
    assert reported(site) == {BANK: (0, 1), "orders": (0, 1)}
    assert site.log.failures[0][1].circuit == ""


def test_what_failed_before_the_block_is_not_held_against_its_dependency() -> None:
    def handle(_: Delivery) -> None:
        try:
            raise TimeoutError
        except TimeoutError:
            with dependency("bank"):
                raise KeyError("x")  # noqa: B904 - what Python links by itself

    site, _ = run(handle)
    assert reported(site) == {"orders": (0, 1)}


def test_of_nested_calls_the_inner_one_has_failed() -> None:
    def handle(_: Delivery) -> None:
        with dependency("bank"), dependency("mail"):
            raise TimeoutError

    site, _ = run(handle)
    assert reported(site) == {MAIL: (0, 1)}


def test_the_teams_word_counts_within_a_block() -> None:
    site = site_for()
    site.team = teams_word(dependency_errors=KeyError, ignored_errors=TimeoutError)
    site.process(record(letter()), handle=calling(("bank", KeyError("x"))))
    site.process(record(letter(message_id="m2")), handle=calling(("bank", TimeoutError())))
    assert reported(site) == {BANK: (0, 1)}
    assert [failure.blame for _, failure in site.log.failures] == ["dependency", "neither"]


def test_skipping_or_parking_within_a_block_says_nothing_of_the_dependency() -> None:
    for error, expected in ((Skip(), "SKIPPED"), (Permanent(), "PARKED")):
        site, result = run(calling(("bank", error)))
        assert (fate(result), reported(site)) == (expected, {})


# The circuit of a dependency is open.


def test_an_open_circuit_refuses_the_call_and_the_message_waits_untried() -> None:
    site, result = run(calling(("bank", None), ("mail", None)), site_for(mail=State.OPEN))
    assert fate(result) == "REFUSED"
    assert site.claims.states() == {"origin:m1": "withdraw"}
    assert site.queue.calls[0][0][0] == "handle of m1"
    [(_, failure)] = site.log.failures
    assert (failure.error_type, failure.circuit) == ("RefusedWhileOpen", MAIL)
    # The call before it has happened.
    assert reported(site) == {BANK: (1, 0)}
    assert result.counts == {"RefusedWhileOpen": 1}


def test_an_open_circuit_for_configuration_refuses_the_call() -> None:
    site = site_for()
    site.circuits.open(f"{BANK}#config", until=NOW + 30)
    _, result = run(calling(("bank", None)), site)
    assert fate(result) == "REFUSED"


def test_a_refusal_may_be_wrapped() -> None:
    def handle(_: Delivery) -> None:
        try:
            with dependency("bank"):
                pass
        except DependencyOpen as error:
            raise OrderFailed from error

    _, result = run(handle, site_for(bank=State.OPEN))
    assert fate(result) == "REFUSED"


def test_a_refusal_counts_as_one_whatever_the_team_says_of_errors() -> None:
    for team in (
        teams_word(ignored_errors=Exception),
        teams_word(dependency_errors=DependencyOpen),
    ):
        site = site_for(bank=State.OPEN)
        site.team = team
        _, result = run(calling(("bank", None)), site)
        assert (fate(result), reported(site)) == ("REFUSED", {})


def test_a_handler_may_do_without_the_dependency() -> None:
    def handle(_: Delivery) -> None:
        with suppress(DependencyOpen), dependency("bank"):
            raise AssertionError("the block is not entered")

    site, result = run(handle, site_for(bank=State.OPEN))
    assert (fate(result), reported(site)) == ("PROCESSED", {"orders": (1, 0)})


def test_a_fallback_that_fails_is_a_failure_and_no_refusal() -> None:
    def handle(_: Delivery) -> None:
        try:
            with dependency("bank"):
                pass
        except DependencyOpen:
            raise TimeoutError  # noqa: B904 - what Python links by itself

    site, result = run(handle, site_for(bank=State.OPEN))
    assert (fate(result), reported(site)) == ("FAILED", {"orders": (0, 1)})


def test_a_canary_is_never_refused_and_answers_for_each_circuit() -> None:
    handle = calling(("bank", None), ("mail", TimeoutError()))
    site, result = run(handle, site_for(bank=State.OPEN, mail=State.OPEN), permit="p")
    assert result.to_response()["deadletter"]["circuits"] == {
        BANK: "success",
        f"{BANK}#config": "success",
        MAIL: "failure",
    }
    assert site.outcomes.reported == []


def test_the_canary_of_a_dependency_that_came_through_the_main_queue_is_not_refused() -> None:
    site = site_for()
    permit = Permit("p", NOW + 9)
    site.circuits.circuits[BANK] = Circuit(BANK, State.HALF_OPEN, permit=permit)
    for owner, expected in (("p", "PROCESSED"), ("q", "REFUSED")):
        stamp = stamps.attribute(Stamp(f"first {owner}", 1, 1, canary=owner))
        canary = redriven(letter(message_id=owner))
        canary.attributes[stamps.NAME] = stamp  # type: ignore[index]  # a dict in tests
        result = site.process(record(canary), handle=calling(("bank", None)))
        assert fate(result) == expected


def test_the_circuits_of_known_dependencies_are_read_with_those_of_the_batch() -> None:
    site = site_for()
    consumer = site.consumer(calling(("bank", None)))
    consumer.process([record(letter())], deadline=NOW + 30)
    before = len(site.circuits.reads)
    consumer.process([record(letter(message_id="m2"))], deadline=NOW + 30)
    assert len(site.circuits.reads) == before + 1
    # Those for configuration were calm just now.
    assert site.circuits.reads[-1] == [BANK, "orders"]


# Where a call is made.


def test_a_block_outside_of_a_message_does_nothing() -> None:
    with dependency("bank"):
        pass
    with pytest.raises(TimeoutError), dependency("bank"):
        raise TimeoutError


def test_with_the_library_off_a_block_does_nothing() -> None:
    def handle(_: Any) -> None:
        with dependency("bank"):
            raise TimeoutError

    result = process_unguarded([record(letter())], handle, NOW)
    assert fate(result) == "FAILED"


def test_a_call_is_counted_in_asyncio_and_in_a_thread_with_the_handlers_context() -> None:
    def call() -> None:
        with dependency("bank"):
            pass

    async def calls() -> None:
        await asyncio.gather(asyncio.to_thread(call), asyncio.to_thread(call))

    def handle(_: Delivery) -> None:
        asyncio.run(calls())
        with ThreadPoolExecutor(1) as pool:
            pool.submit(copy_context().run, call).result()
            # This one has another context.
            pool.submit(call).result()

    site, _ = run(handle)
    assert reported(site) == {BANK: (3, 0), "orders": (1, 0)}


@each_row("name", ["", " bank", "bank#config", "a/b", "x" * 65, "-bank"])
def test_a_name_that_no_circuit_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="allowed: 1 to 64 characters"), dependency(name):
        pass


def test_a_calls_time_is_its_own_and_not_the_handlers() -> None:
    site = site_for()

    def handle(_: Delivery) -> None:
        site.clock.now += 3
        with dependency("bank"):
            site.clock.now += 5
            with dependency("mail"):
                site.clock.now += 7

    _, result = run(handle, site)
    seconds = {outcome.key: outcome.seconds for outcome in result.results[0].outcomes}
    assert {key: value for key, value in seconds.items() if not key.endswith("#config")} == {
        "orders": 3,
        BANK: 12,
        MAIL: 7,
    }


def test_a_refused_message_keeps_the_blame_away_from_itself() -> None:
    site, _ = run(calling(("mail", None)), site_for(mail=State.OPEN))
    [(_, failure)] = site.log.failures
    assert failure.dependency_down
    assert failure.blame is Blame.NEITHER
