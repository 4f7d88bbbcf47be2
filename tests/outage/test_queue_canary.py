"""A canary that goes through the main queue: one probe sends it, the next ones check it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from deadletter.circuit.state import Circuit, CircuitPolicy, CircuitsUnavailable, Override, State
from deadletter.circuit.transitions import (
    CLOCK_SKEW,
    CanarySent,
    CanaryVerdict,
    OverrideBegun,
    PermitTaken,
    Refusal,
    Tripped,
)
from deadletter.contract import Blame, Category
from deadletter.failure.failure import Failure
from deadletter.failure.fate import GIVEN_BACK
from deadletter.failure.ledger import AboutLetter, LedgerRow, LedgerUnavailable, Recovery
from deadletter.message.queue import QueueUnavailable
from deadletter.outage.prober import Prober
from deadletter.outage.queue_canary import verdict_from_row
from deadletter.outage.steps import (
    SECONDS_TO_FIRST_CHECK,
    CircuitAnnouncer,
    Execution,
    ExecutionStep,
    Next,
)
from deadletter.redrive.journal import JournalUnavailable
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.routing.router import RouterUnavailable
from tests.each_row import each_row
from tests.outage.breakers import KEY, Announcements, Circuits
from tests.samples import blame_for

ANSWER = 20.0
LEASE = 60.0


@dataclass
class Letter:
    """One locked letter; `fate` is what became of it."""

    origin: str = "first"
    attempt: int = 3
    sends: Callable[[], bool] = lambda: True
    fate: list[str] = field(default_factory=list)

    def send(self) -> bool:
        gone = self.sends()
        self.fate.append("sent" if gone else "back")
        return gone

    def give_back(self) -> None:
        self.fate.append("back")


@dataclass
class Letters:
    """A sender with one letter, and the ledger's verdict on it."""

    letter: Letter | None = field(default_factory=Letter)
    raises: Exception | None = None
    meanwhile: Callable[[], object] = lambda: None
    answer: CanaryVerdict | None = None
    locks: list[float] = field(default_factory=list)
    asked: list[tuple[str, int]] = field(default_factory=list)

    def take(self, key: str, owner: str, lock_seconds: float) -> Letter | None:
        self.locks.append(lock_seconds)
        self.meanwhile()
        if self.raises is not None:
            raise self.raises
        return self.letter

    def verdict(self, origin: str, attempt: int, key: str) -> CanaryVerdict | None:
        self.asked.append((origin, attempt))
        return self.answer


@dataclass
class Scene:
    """An open circuit whose cooldown is over, and its prober with a sender."""

    circuits: Circuits
    sender: Letters | None = field(default_factory=Letters)
    execution: Execution = field(default_factory=lambda: Execution(KEY, 1, 0, said="OPEN"))

    def probe(self) -> ExecutionStep:
        ids = iter(f"id{len(self.circuits.events)}.{number}" for number in range(9))
        no_consumer: Any = None
        sender: Any = self.sender
        prober = Prober(
            pipeline=KEY,
            breaker=self.circuits,
            circuits=self.circuits,
            sources=[],
            consumer=no_consumer,
            answer_seconds=ANSWER,
            health=None,
            announcer=CircuitAnnouncer(
                pipeline=KEY, announcer=Announcements(), count_metric=self.circuits.count_metric
            ),
            clock=self.circuits.clock,
            new_id=lambda: next(ids),
            count_metric=self.circuits.count_metric,
            sender=sender,
        )
        step = prober.probe(self.execution)
        self.execution = replace(
            self.execution, probes=step.probes, empty=step.empty, said=step.said
        )
        return step

    @property
    def letters(self) -> Letters:
        assert self.sender is not None
        return self.sender

    @property
    def fate(self) -> list[str]:
        assert self.letters.letter is not None
        return self.letters.letter.fate

    @property
    def circuit(self) -> Circuit:
        return self.circuits.held[KEY]


@pytest.fixture
def scene() -> Scene:
    circuits = Circuits(CircuitPolicy(lease=LEASE, successes=1))
    circuits.apply(KEY, Tripped())
    circuits.now = circuits.held[KEY].open_until
    return Scene(circuits)


def test_the_letter_is_recorded_in_the_permit_before_it_is_sent(scene: Scene) -> None:
    recorded: list[str | None] = []
    assert scene.letters.letter is not None
    scene.letters.letter.sends = lambda: (
        recorded.append(scene.circuit.permit and scene.circuit.permit.origin) or True
    )
    scene.probe()
    assert recorded == ["first"]


@pytest.mark.parametrize(
    ("verdict", "state"),
    [
        (CanaryVerdict.SUCCESS, "CLOSED"),
        (CanaryVerdict.FAILURE, "OPEN"),
        (CanaryVerdict.NEUTRAL, "HALF_OPEN"),
    ],
)
def test_the_ledgers_verdict_is_the_canarys_answer(
    scene: Scene, verdict: CanaryVerdict, state: str
) -> None:
    sent = scene.probe()
    assert (sent.next, sent.state, sent.wait_seconds) == (
        Next.PROBE,
        "HALF_OPEN",
        SECONDS_TO_FIRST_CHECK,
    )
    scene.letters.answer = verdict
    assert scene.probe().state == state
    assert scene.letters.asked == [("first", 3)]
    assert scene.circuit.permit is None
    assert scene.fate == ["sent"]


def test_the_next_probe_checks_the_same_letter(scene: Scene) -> None:
    scene.probe()
    # The execution was lost, and another has been started.
    restarted = replace(scene.circuit, restart=1)
    scene.circuits.held[KEY] = restarted
    scene.execution = Execution(KEY, 1, 1, said="OPEN")
    scene.letters.answer = CanaryVerdict.SUCCESS
    assert scene.probe().state == "CLOSED"
    assert scene.fate == ["sent"]


def test_checks_become_rarer_until_the_lease_has_ended(scene: Scene) -> None:
    step, waits = scene.probe(), []
    while step.state == "HALF_OPEN":
        waits.append(step.wait_seconds)
        scene.circuits.now += step.wait_seconds
        step = scene.probe()
    assert (step.state, scene.circuit.permit) == ("OPEN", None)
    assert waits == [20, 20, 31]
    assert sum(waits) <= LEASE + CLOCK_SKEW + 1
    assert scene.fate == ["sent"]


def test_the_letters_lock_ends_while_an_answer_can_still_come(scene: Scene) -> None:
    scene.probe()
    # A send is refused in the last 70 seconds of a lock.
    assert scene.letters.locks == [70 + LEASE - ANSWER]


def test_without_a_sender_the_permit_ends_with_its_lease(scene: Scene) -> None:
    scene.probe()
    scene.sender = None
    step = scene.probe()
    assert step.state == "HALF_OPEN"
    scene.circuits.now += LEASE + CLOCK_SKEW + 1
    assert scene.probe().state == "OPEN"


def test_without_a_letter_the_permit_is_given_back(scene: Scene) -> None:
    scene.letters.letter = None
    step = scene.probe()
    assert (step.empty, step.state, scene.circuit.permit) == (1, "HALF_OPEN", None)


# What happens to the letter and the permit after an error.


@pytest.mark.parametrize(
    "error",
    [
        QueueUnavailable("throttled"),
        RoomUnavailable(),
        JournalUnavailable(),
        RouterUnavailable(),
        LedgerUnavailable(),
    ],
)
def test_an_error_while_finding_a_letter_gives_the_permit_back(
    scene: Scene, error: Exception
) -> None:
    scene.letters.raises = error
    with pytest.raises(type(error)):
        scene.probe()
    assert (scene.circuit.state, scene.circuit.permit) == (State.HALF_OPEN, None)


def test_a_permit_that_ends_too_soon_sends_nothing(scene: Scene) -> None:
    def held_up() -> None:
        scene.circuits.now += LEASE - ANSWER + 1

    scene.letters.meanwhile = held_up
    assert scene.probe().state == "HALF_OPEN"
    assert (scene.fate, scene.circuit.permit) == (["back"], None)


def test_a_letter_that_could_not_be_recorded_is_not_sent(scene: Scene) -> None:
    scene.letters.meanwhile = lambda: setattr(scene.circuits, "down", 1)
    with pytest.raises(CircuitsUnavailable):
        scene.probe()
    assert scene.fate == ["back"]
    # Whether the letter was recorded is unknown, so the permit ends with its lease.
    scene.circuits.now += LEASE + CLOCK_SKEW + 1
    assert scene.probe().state == "OPEN"
    assert scene.fate == ["back"]


def test_an_override_before_the_send_stops_the_canary(scene: Scene) -> None:
    override = Override(State.OPEN, "ada", "looks odd", scene.circuits.now + 600)
    scene.letters.meanwhile = lambda: scene.circuits.apply(KEY, OverrideBegun(override))
    assert scene.probe().next is Next.HAND_OVER
    assert (scene.fate, scene.circuit.is_forced(scene.circuits.now)) == (["back"], True)


def test_a_letter_that_was_certainly_not_sent_gives_the_permit_back(scene: Scene) -> None:
    assert scene.letters.letter is not None
    scene.letters.letter.sends = lambda: False
    with pytest.raises(QueueUnavailable):
        scene.probe()
    assert (scene.circuit.state, scene.circuit.permit) == (State.HALF_OPEN, None)


def test_an_answer_that_the_store_did_not_confirm_is_written_again(scene: Scene) -> None:
    scene.probe()
    scene.letters.answer = CanaryVerdict.SUCCESS
    original = scene.letters.verdict

    def then_down(origin: str, attempt: int, key: str) -> CanaryVerdict | None:
        scene.circuits.down = 1
        return original(origin, attempt, key)

    scene.letters.verdict = then_down  # type: ignore[method-assign]
    assert scene.probe().state == "CLOSED"


def test_only_the_permits_owner_records_a_letter(scene: Scene) -> None:
    half_open = scene.circuits.apply(KEY, PermitTaken("me")).circuit
    mine = CanarySent(half_open.generation, "me", "first", 1)
    stale = replace(mine, generation=half_open.generation - 1)
    assert scene.circuits.apply(KEY, stale).refused is Refusal.STALE
    other = replace(mine, owner="another")
    assert scene.circuits.apply(KEY, other).refused is Refusal.NOT_OWNER
    recorded = scene.circuits.apply(KEY, mine).circuit
    assert recorded.permit is not None
    assert (recorded.generation, recorded.permit.until) == (
        half_open.generation,
        scene.circuits.now + LEASE,
    )
    assert (recorded.permit.origin, recorded.permit.attempt) == ("first", 1)


# The verdict of a ledger row.


def failed(**fields: object) -> Failure:
    facts = {"at": 5.0, "attempt": 3, "category": Category.TRANSIENT, **fields}
    return Failure(**{"blame": blame_for(facts), **facts})  # type: ignore[arg-type]


@each_row(
    ("row", "verdict"),
    [
        (LedgerRow(), None),
        (LedgerRow(recovered_at=9.0), CanaryVerdict.SUCCESS),
        (LedgerRow(recovered_at=9.0, recovered_as=Recovery.FOUND), CanaryVerdict.NEUTRAL),
        (LedgerRow((failed(),)), CanaryVerdict.NEUTRAL),
        (LedgerRow((failed(error_type="Timeout"),)), CanaryVerdict.FAILURE),
        (LedgerRow((failed(blame=Blame.DEPENDENCY),)), CanaryVerdict.FAILURE),
        (LedgerRow((failed(blame=Blame.NEITHER, http_status=503),)), CanaryVerdict.NEUTRAL),
        (LedgerRow((failed(),), recovered_at=9.0), CanaryVerdict.SUCCESS),
        (LedgerRow((failed(attempt=2),)), None),
        (LedgerRow((failed(category=Category.BUSINESS),)), CanaryVerdict.NEUTRAL),
        (LedgerRow((failed(category=Category.SCHEMA),)), CanaryVerdict.NEUTRAL),
        (
            LedgerRow((failed(category=Category.INTEGRATION, http_status=404),)),
            CanaryVerdict.NEUTRAL,
        ),
        (
            # It speaks of the circuit for configuration alone.
            LedgerRow((failed(category=Category.INTEGRATION, http_status=401),)),
            CanaryVerdict.ELSEWHERE,
        ),
        (
            # It speaks of the circuit of its endpoint alone.
            LedgerRow((failed(http_status=503),), about=AboutLetter(endpoint="hook")),
            CanaryVerdict.ELSEWHERE,
        ),
        (
            LedgerRow((failed(http_status=503),), about=AboutLetter(endpoint=KEY)),
            CanaryVerdict.FAILURE,
        ),
        (
            LedgerRow((failed(category=Category.SCHEMA),), about=AboutLetter(endpoint="hook")),
            CanaryVerdict.NEUTRAL,
        ),
        (LedgerRow((failed(http_status=503),)), CanaryVerdict.FAILURE),
        # It works, and wants fewer requests.
        (LedgerRow((failed(http_status=429),)), CanaryVerdict.SUCCESS),
        (LedgerRow((failed(error_type="BusyElsewhere", message=GIVEN_BACK),)), None),
        (LedgerRow((failed(error_type="RefusedWhileOpen", message=GIVEN_BACK),)), None),
        (LedgerRow(unreadable=True), None),
    ],
)
def test_a_row_gives_a_verdict_on_this_life_only_if_it_was_tried(
    row: LedgerRow, verdict: CanaryVerdict | None
) -> None:
    assert verdict_from_row(row, 3, KEY, KEY) is verdict


@each_row(
    ("first", "last", "verdict"),
    [
        (failed(http_status=503), failed(at=6.0, http_status=404), CanaryVerdict.NEUTRAL),
        (failed(http_status=404), failed(at=6.0, http_status=503), CanaryVerdict.FAILURE),
        (failed(), failed(at=6.0, category=Category.SCHEMA), CanaryVerdict.NEUTRAL),
        (failed(), failed(at=6.0, blame=Blame.DEPENDENCY), CanaryVerdict.FAILURE),
        (
            failed(http_status=404),
            failed(at=6.0, attempt=4, http_status=503),
            CanaryVerdict.NEUTRAL,
        ),
        (
            failed(http_status=404),
            failed(at=6.0, error_type="BusyElsewhere", message=GIVEN_BACK),
            CanaryVerdict.NEUTRAL,
        ),
    ],
)
def test_of_several_receives_in_one_life_the_last_that_was_tried_gives_the_verdict(
    first: Failure, last: Failure, verdict: CanaryVerdict
) -> None:
    """The main queue gives a canary to the consumer up to maxReceiveCount times."""
    assert verdict_from_row(LedgerRow((first, last)), 3, KEY, KEY) is verdict


def test_a_letter_of_an_endpoint_tests_the_endpoints_own_circuit() -> None:
    row = LedgerRow((failed(http_status=503),), about=AboutLetter(endpoint="hook"))
    assert verdict_from_row(row, 3, "hook", KEY) is CanaryVerdict.FAILURE


# How long a letter is locked, and when its verdict is asked for.


@pytest.mark.parametrize(
    ("lease", "lock"),
    [
        (60.0, 70 + 40),
        # Two minutes to find and send it are enough, however long the lease is.
        (140.0, 70 + 120),
        (600.0, 70 + 120),
        (20.0, 70),
        # Too short for any answer: the letter is given back.
        (10.0, 70),
    ],
)
def test_a_lock_leaves_at_most_two_minutes_to_send(scene: Scene, lease: float, lock: float) -> None:
    scene.circuits.policy = replace(scene.circuits.policy, lease=lease)
    scene.probe()
    assert scene.letters.locks == [lock]


def test_a_canary_by_post_ends_the_count_of_empty_probes(scene: Scene) -> None:
    letter, scene.letters.letter = scene.letters.letter, None
    assert [scene.probe().empty, scene.probe().empty] == [1, 2]
    scene.letters.letter = letter
    assert scene.probe().empty == 0


def test_a_permit_that_names_no_letter_is_not_looked_up(scene: Scene) -> None:
    scene.circuits.apply(KEY, PermitTaken("another"))
    assert scene.probe().state == "HALF_OPEN"
    assert (scene.letters.asked, scene.letters.locks) == ([], [])


@pytest.mark.parametrize(("origin", "attempt"), [("first", None), (None, 3)])
def test_a_permit_that_names_half_a_letter_ends_with_its_lease(
    scene: Scene, origin: str | None, attempt: int | None
) -> None:
    """The row of the circuit may have been written by a person."""
    circuit = scene.circuits.apply(KEY, PermitTaken("another")).circuit
    assert circuit.permit is not None
    half = replace(circuit.permit, origin=origin, attempt=attempt)
    scene.circuits.held[KEY] = replace(circuit, permit=half)
    scene.circuits.now += LEASE + CLOCK_SKEW + 1
    assert scene.probe().state == "OPEN"
    assert scene.letters.asked == []


def test_a_failure_of_which_nothing_is_known_to_have_been_tried_is_no_verdict() -> None:
    row = LedgerRow((failed(error_type="RefusedWhileOpen", message=GIVEN_BACK), failed(attempt=4)))
    assert verdict_from_row(row, 3, KEY, KEY) is None
