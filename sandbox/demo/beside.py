"""The same events under what people do with a dead-letter queue otherwise: models of it.

A deterministic simulation: the queues of `deadletter.testing.fakes`, a clock of its own, a consumer
that tries each message once, and endpoints that answer as the demo's do. `ASSUMPTIONS` says what is
assumed of each way. A task of native redrive moves 500 messages a second; all of the demo's fit
into one, so its pace changes nothing here.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from deadletter.contract import Reason
from deadletter.message.letter import utf8
from deadletter.testing.clock import Clock
from deadletter.testing.fakes.sqs import MemorySqs
from sandbox.demo.events import RECOVERING, REFUSING, Event, batches, digest, entry
from sandbox.demo.receiver import Visit
from sandbox.demo.reconcile import Reconciliation

MINUTE = 60.0

# How many rounds somebody goes on after the outage: the letters that can be healed are then healed.
ROUNDS_AFTERWARDS = 3

# Bytes of one argument of a program, on Linux.
LONGEST_ARGUMENT = 128 * 1024

# Which letter the loop is interrupted at, between its send and its delete.
INTERRUPTED_AT = 30

MEASURED = "measured in this run"
MODELLED = "modelled"

LOOP = "a shell loop"
NATIVE = "native redrive"
NATIVE_ONCE = "native redrive, once"

# What is counted, by the names of Way: a heading, and what it means.
COUNTED: Mapping[str, tuple[str, str]] = {
    "broken": ("calls while down", "requests to the endpoint that was down, while it was down"),
    "duplicates": ("duplicates", "deliveries beyond the first of an event"),
    "poison_rounds": ("hopeless tries", "times that a letter without hope was tried again"),
    "lost": ("lost", "events that are nowhere any more"),
    "changed": ("changed", "events that arrived without their attributes, or not as sent"),
    "left": ("not healed", "letters that could be delivered, and still lie in the DLQ"),
    "unsorted": ("unsorted", "letters without hope that still lie in the DLQ, with no word of why"),
}

# What the models take for granted, for the reader to judge; where AWS says so is named.
ASSUMPTIONS: Mapping[str, str] = {
    LOOP: (
        "receive-message, send-message, delete-message if that went well, until the DLQ is empty."
        " It copies bodies and no attributes, passes a body as an argument (Linux takes none of"
        " 128 KiB or more), and is interrupted once between send and delete, as by a closed laptop."
        " A more careful script does better; then it is a program to look after."
    ),
    NATIVE: (
        "StartMessageMoveTask, again and again: all messages, no filter, each as a new message"
        " with its attributes, at most 500 a second. Source: AWS's documentation"
        " (docs.aws.amazon.com: API_StartMessageMoveTask, sqs-configure-dead-letter-queue-redrive)."
    ),
    NATIVE_ONCE: (
        "one task, started by a person who knows that the outage is over, and that nothing else"
        " in the DLQ does harm when it is tried again."
    ),
}


@dataclass(frozen=True, slots=True)
class Way:
    """How one way of emptying the DLQ did; `COUNTED` says what each figure counts.

    how     measured, or modelled
    note    half a line: what it is good at, and what it is not
    rounds  modelled ones: the outage has so many, and who goes again and again goes in each
    """

    system: str
    how: str
    broken: int
    duplicates: int
    poison_rounds: int
    lost: int
    changed: int
    left: int
    unsorted: int
    note: str
    rounds: int = 0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measured(events: Sequence[Event], visits: Sequence[Visit], outcome: Reconciliation) -> Way:
    """What the demo's own run came to, by what its endpoints saw."""
    by_digest = {event.digest: event for event in events}
    tries = Counter(visit.digest for visit in visits if not visit.accepted)
    hopeless = [tries[key] for key, event in by_digest.items() if event.parked_as]
    return Way(
        "Deadletter",
        MEASURED,
        broken=sum(1 for visit in visits if visit.tenant == RECOVERING and not visit.accepted),
        duplicates=outcome.duplicates,
        poison_rounds=sum(max(0, number - 1) for number in hopeless),
        lost=len(outcome.lost),
        changed=outcome.strangers + len(outcome.altered),
        left=outcome.waiting,
        unsorted=max(0, len(hopeless) - sum(outcome.parked_by_reason.values())),
        note="letters wait while their endpoint is down; those without hope are parked",
    )


def beside(events: Sequence[Event], *, outage_minutes: float) -> list[Way]:
    """Play the models on *events*, with an outage of so many minutes from the beginning on.

    A minute is a round. There is at least one, for without an outage there is nothing to compare.
    """
    rounds = max(1, round(outage_minutes))
    return [
        _Model(events, rounds).play(
            LOOP, _Model.loop, "at hand everywhere, and most is healed; large bodies stay"
        ),
        _Model(events, rounds).play(
            NATIVE, _Model.move, "nothing to install, quick, loses nothing; it cannot choose"
        ),
        _Model(events, rounds).play(
            NATIVE_ONCE, _Model.move_once, "the best case: somebody knows when it is over"
        ),
    ]


class _Model:
    """One world: its queues, endpoints and consumer, and what they saw."""

    def __init__(self, events: Sequence[Event], rounds: int) -> None:
        self._events = {event.digest: event for event in events}
        self._rounds = rounds
        # It ends between two rounds.
        self._outage = (rounds + 0.5) * MINUTE
        self._clock = Clock(0.0)
        ids = (f"m-{number}" for number in itertools.count())
        self._sqs = MemorySqs(self._clock, ids.__next__)
        self._dlq = self._sqs.create_queue(QueueName="dlq")["QueueUrl"]
        arn = self._sqs.get_queue_attributes(QueueUrl=self._dlq, AttributeNames=["QueueArn"])
        policy = (
            f'{{"deadLetterTargetArn": "{arn["Attributes"]["QueueArn"]}", "maxReceiveCount": 1}}'
        )
        self._main = self._sqs.create_queue(QueueName="main", Attributes={"RedrivePolicy": policy})[
            "QueueUrl"
        ]
        self._broken = 0
        self._tries: Counter[str] = Counter()
        self._delivered: Counter[str] = Counter()
        self._changed: set[str] = set()
        self._copied = 0
        self._moved = False

    def play(self, system: str, way: Callable[[_Model], None], note: str) -> Way:
        for batch in batches(list(self._events.values())):
            self._sqs.send_message_batch(
                QueueUrl=self._main,
                Entries=[entry(place, event) for place, event in enumerate(batch)],
            )
        self._consume()
        for _ in range(self._rounds + ROUNDS_AFTERWARDS):
            self._clock.advance(MINUTE)
            way(self)
            self._consume()
        left = {digest(utf8(message.body)) for message in self._sqs.snapshot()}
        hopeless = {key for key, event in self._events.items() if event.parked_as}
        return Way(
            system,
            MODELLED,
            broken=self._broken,
            duplicates=sum(number - 1 for number in self._delivered.values()),
            poison_rounds=sum(max(0, self._tries[key] - 1) for key in hopeless),
            lost=len(self._events.keys() - self._delivered.keys() - left),
            changed=len(self._changed),
            left=len(left - hopeless),
            unsorted=len(left & hopeless),
            note=note,
            rounds=self._rounds,
        )

    def loop(self) -> None:
        """Copy body by body; what was not sent is not deleted."""
        while letters := self._received(self._dlq):
            for letter in letters:
                if len(utf8(letter["Body"])) >= LONGEST_ARGUMENT:
                    continue
                self._sqs.send_message(QueueUrl=self._main, MessageBody=letter["Body"])
                self._copied += 1
                if self._copied == INTERRUPTED_AT:
                    return
                self._sqs.delete_message(QueueUrl=self._dlq, ReceiptHandle=letter["ReceiptHandle"])

    def move(self) -> None:
        """Move everything that lies there now, with its attributes, as new messages."""
        while letters := self._received(self._dlq):
            for letter in letters:
                self._sqs.send_message(
                    QueueUrl=self._main,
                    MessageBody=letter["Body"],
                    MessageAttributes=letter.get("MessageAttributes", {}),
                )
                self._sqs.delete_message(QueueUrl=self._dlq, ReceiptHandle=letter["ReceiptHandle"])

    def move_once(self) -> None:
        """Move it as soon as the outage is over, and never again."""
        if not self._moved and self._clock.now >= self._outage:
            self._moved = True
            self.move()

    def _consume(self) -> None:
        """Try each message once; one that fails is in the DLQ afterwards."""
        while letters := self._received(self._main):
            for letter in letters:
                handle = {"QueueUrl": self._main, "ReceiptHandle": letter["ReceiptHandle"]}
                if self._taken(letter):
                    self._sqs.delete_message(**handle)
                else:
                    self._sqs.change_message_visibility(**handle, VisibilityTimeout=0)

    def _taken(self, letter: Mapping[str, Any]) -> bool:
        key = digest(utf8(letter["Body"]))
        event = self._events[key]
        self._tries[key] += 1
        if event.parked_as is Reason.PERMANENT:
            # It can't be read, so no endpoint hears of it.
            return False
        down = event.tenant == RECOVERING and self._clock.now < self._outage
        self._broken += down
        if down or event.tenant == REFUSING:
            return False
        self._delivered[key] += 1
        if len(letter.get("MessageAttributes", {})) < len(event.attributes):
            self._changed.add(key)
        return True

    def _received(self, url: str) -> list[dict[str, Any]]:
        answer = self._sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            VisibilityTimeout=30,
            MessageAttributeNames=["All"],
        )
        letters: list[dict[str, Any]] = answer.get("Messages", [])
        return letters
