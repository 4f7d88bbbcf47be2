"""The same events under what people do with a dead-letter queue otherwise: models of it.

A deterministic simulation: the queues of `deadletter.testing.fakes`, a clock of its own, a consumer
that tries each message once, and endpoints that answer as the demo's do. `ASSUMPTIONS` says what is
assumed of each way, `sandbox.demo.person` what of a person. A task of native redrive moves 500
messages a second; all of the demo's fit into one, so its pace changes nothing here.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from deadletter.contract import Reason
from deadletter.message.letter import utf8
from deadletter.testing.clock import Clock
from deadletter.testing.fakes.sqs import MemorySqs
from sandbox.alarms import SHORT_MINUTE
from sandbox.demo.events import RECOVERING, REFUSING, Event, batches, digest, entry
from sandbox.demo.person import MORNING, Act, at_night, hours_of, minutes_of
from sandbox.demo.receiver import Visit
from sandbox.demo.reconcile import FoundLetters, Reconciliation, ends_of

MINUTE = 60.0

# Minutes after its send from which on a message is late.
LATE_AFTER = 15

# How many rounds the loop goes on after the outage: the letters that can be healed are then healed.
ROUNDS_AFTERWARDS = 3

# Bytes of one argument of a program, on Linux.
LONGEST_ARGUMENT = 128 * 1024

# Which letter the loop is interrupted at, between its send and its delete.
INTERRUPTED_AT = 30

MEASURED = "measured"
MODELLED = "modelled"

LOOP = "a shell loop"
NATIVE_BEST = "native redrive, best case"
NATIVE_MORNING = "native redrive, next morning"

# What is counted, by the names of Way: a heading, and what it means.
COUNTED: Mapping[str, tuple[str, str]] = {
    "acts": ("a person acts", "things done by hand"),
    "minutes": ("a person's minutes", "for all of them together"),
    "night_minutes": ("of them at night", "someone had to be awake"),
    "hours": ("at what hour", f"the outage began at {Act(0, '').hour}"),
    "late": (f"late over {LATE_AFTER} min", "messages delivered later, or never"),
    "sorted": ("hopeless sorted", "told apart, with the reason"),
    "broken": ("calls while down", "requests to the endpoint meanwhile"),
    "poison_rounds": ("hopeless tries", "retries of messages without hope"),
    "lost": ("lost", "events that are nowhere any more"),
    "duplicates": ("duplicates", "deliveries beyond the first"),
    "changed": ("changed", "without attributes, or not as sent"),
    "left": ("not healed", "could be delivered, lie in the DLQ"),
}

# What the models take for granted, for the reader to judge; where AWS says so is named.
ASSUMPTIONS: Mapping[str, str] = {
    LOOP: (
        "receive-message, send-message, delete-message if that went well, until the DLQ is empty;"
        " once a minute, from the first minute of the outage until it is over, with a person who"
        " starts it and stops it."
        " It copies bodies and no attributes, passes a body as an argument (Linux takes none of"
        " 128 KiB or more), and is interrupted once between send and delete, as by a closed laptop."
        " A more careful script does better; then it is a program to look after."
    ),
    NATIVE_BEST: (
        "StartMessageMoveTask, once, by a person who is awake, sees within a minute that the outage"
        " is over, and knows that nothing else in the DLQ does harm when it is tried again. All"
        " messages go, no filter, each as a new message with its attributes, at most 500 a second."
        " Source: AWS's documentation (docs.aws.amazon.com: API_StartMessageMoveTask,"
        " sqs-configure-dead-letter-queue-redrive)."
    ),
    NATIVE_MORNING: "the same task, by the same person, who has slept.",
}


@dataclass(frozen=True, slots=True)
class Way:
    """How one way of emptying the DLQ did; `COUNTED` says what each figure counts.

    how     measured, or modelled
    did     what a person did, each with its hour
    note    half a line: what it is good at, and what it is not
    """

    system: str
    how: str
    acts: int
    minutes: int
    night_minutes: int
    hours: str
    late: int
    sorted: int
    broken: int
    poison_rounds: int
    lost: int
    duplicates: int
    changed: int
    left: int
    did: tuple[str, ...]
    note: str

    @classmethod
    def of(cls, system: str, how: str, acts: Sequence[Act], note: str, **counted: int) -> Self:
        """One whose acts are added up."""
        return cls(
            system=system,
            how=how,
            acts=len(acts),
            minutes=minutes_of(acts),
            night_minutes=minutes_of(at_night(acts)),
            hours=hours_of(acts),
            did=tuple(f"{act.hour} {act.what}" for act in acts),
            note=note,
            **counted,
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measured(
    events: Sequence[Event],
    visits: Sequence[Visit],
    found: FoundLetters,
    outcome: Reconciliation,
    *,
    sent_at: Mapping[str, float],
    acts: Sequence[Act],
) -> Way:
    """What the demo's own run came to, by what its endpoints saw.

    *sent_at* says when each event was sent, by its digest, in the seconds that visits have.
    """
    tries = Counter(visit.digest for visit in visits if not visit.accepted)
    hopeless = [event.digest for event in events if event.parked_as]
    took: dict[str, float] = {}
    for visit in visits:
        if visit.accepted and visit.digest in sent_at:
            took.setdefault(visit.digest, (visit.at - sent_at[visit.digest]) / SHORT_MINUTE)
    ends = ends_of(found)
    return Way.of(
        "Deadletter",
        MEASURED,
        acts,
        late=late(events, took),
        sorted=sum(1 for key in hopeless if ends.get(key) in set(Reason)),
        broken=sum(1 for visit in visits if visit.tenant == RECOVERING and not visit.accepted),
        poison_rounds=sum(max(0, tries[key] - 1) for key in hopeless),
        lost=len(outcome.lost),
        duplicates=outcome.duplicates,
        changed=outcome.strangers + len(outcome.altered),
        left=outcome.waiting,
        note="messages wait while their endpoint is down; those without hope are parked",
    )


def shown(figure: int | str) -> str:
    """A figure of a Way, for people."""
    return figure if isinstance(figure, str) else f"{figure:,}"


def late(events: Iterable[Event], took: Mapping[str, float]) -> int:
    """How many events that could be delivered were late; *took* has minutes, by their digests."""
    return sum(
        1
        for event in events
        if not event.parked_as and not took.get(event.digest, LATE_AFTER + 1) <= LATE_AFTER
    )


def beside(events: Sequence[Event], *, outage_minutes: float) -> list[Way]:
    """Play the models on *events*, with an outage of so many minutes from the beginning on.

    There is at least one minute, for without an outage there is nothing to compare.
    """
    down = max(1, round(outage_minutes))
    over, stopped = down + 1, down + ROUNDS_AFTERWARDS
    morning = max(int(MORNING), over)
    starts = ("sees that the outage is over", "starts the redrive")
    return [
        _Model(events, down).play(
            LOOP,
            _Model.loop,
            "at hand everywhere, and most is healed; large bodies stay",
            moments=range(1, stopped + 1),
            acts=[Act(1, "starts the loop"), Act(stopped, "sees that it is over, stops the loop")],
        ),
        _Model(events, down).play(
            NATIVE_BEST,
            _Model.move,
            "loses nothing; someone is awake at the right moment",
            moments=[over],
            acts=[Act(over, what) for what in starts],
        ),
        _Model(events, down).play(
            NATIVE_MORNING,
            _Model.move,
            "no one is woken; all lies there until then",
            moments=[morning],
            acts=[Act(morning, what) for what in starts],
        ),
    ]


class _Model:
    """One world: its queues, endpoints and consumer, and what they saw."""

    def __init__(self, events: Sequence[Event], down: int) -> None:
        self._events = {event.digest: event for event in events}
        # It ends between two minutes.
        self._outage = (down + 0.5) * MINUTE
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
        self._took: dict[str, float] = {}
        self._changed: set[str] = set()
        self._copied = 0

    def play(
        self,
        system: str,
        way: Callable[[_Model], None],
        note: str,
        *,
        moments: Iterable[int],
        acts: Sequence[Act],
    ) -> Way:
        """Send the events, then go that way at each of the *moments*, in minutes.

        *acts* are a person's if there is anything to bring back.
        """
        for batch in batches(list(self._events.values())):
            self._sqs.send_message_batch(
                QueueUrl=self._main,
                Entries=[entry(place, event) for place, event in enumerate(batch)],
            )
        self._consume()
        hopeless = {key for key, event in self._events.items() if event.parked_as}
        by_hand = [*acts] if self._lie() - hopeless else []
        for moment in moments:
            self._clock.advance(moment * MINUTE - self._clock.now)
            way(self)
            self._consume()
        lie = self._lie()
        if lie & hopeless:
            by_hand.append(Act(MORNING, "looks through the hopeless messages"))
        return Way.of(
            system,
            MODELLED,
            by_hand,
            late=late(self._events.values(), self._took),
            sorted=len(hopeless & lie - self._lie("main", "dlq")),
            broken=self._broken,
            poison_rounds=sum(max(0, self._tries[key] - 1) for key in hopeless),
            lost=len(self._events.keys() - self._delivered.keys() - lie),
            duplicates=sum(number - 1 for number in self._delivered.values()),
            changed=len(self._changed),
            left=len(lie - hopeless),
            note=note,
        )

    def _lie(self, *queues: str) -> set[str]:
        """What lies in these queues, or in any."""
        return {
            digest(utf8(message.body))
            for message in self._sqs.snapshot()
            if not queues or message.queue in queues
        }

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
        if event.parked_as is Reason.MALFORMED:
            # It can't be read, so no endpoint hears of it.
            return False
        down = event.tenant == RECOVERING and self._clock.now < self._outage
        self._broken += down
        if down or event.tenant == REFUSING:
            return False
        self._delivered[key] += 1
        self._took.setdefault(key, self._clock.now / MINUTE)
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
