"""The mail goes out, the story is played, and every end is looked at."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from deadletter.failure.failure import Failure
from sandbox.demo.chronicle import Chronicle
from sandbox.demo.events import SENT_LATER, Event
from sandbox.demo.look import Look, look
from sandbox.demo.pipeline import DemoPipeline
from sandbox.demo.receiver import Receiver, Visit
from sandbox.demo.reconcile import DeliveredEvent, FoundLetters
from sandbox.demo.script import ScriptStep, register, steps, type_rule
from sandbox.progress import STANDSTILL_SECONDS, Progress

LOOK_EVERY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Played:
    """What there was at the end.

    found     what lay at every end
    last      the last look
    origins   the events by the MessageIds they were given
    failures  those that the ledger keeps, by the same
    sent_at   when each event was sent, by the digest of its body, in seconds of the demo
    """

    found: FoundLetters
    last: Look
    origins: Mapping[str, Event]
    failures: Mapping[str, Sequence[Failure]]
    sent_at: Mapping[str, float]


class Play:
    """One performance; *clock* gives seconds since the demo began, *pace* how patient to be."""

    def __init__(
        self,
        pipeline: DemoPipeline,
        receiver: Receiver,
        chronicle: Chronicle,
        clock: Callable[[], float],
        pace: int,
    ) -> None:
        self._pipeline = pipeline
        self._receiver = receiver
        self._chronicle = chronicle
        self._clock = clock
        self._pace = pace
        self._origins: dict[str, Event] = {}
        self._sent_at: dict[str, float] = {}

    def all_of(self, events: Sequence[Event]) -> Played:
        """Send the events, watch until they have settled, then look at every end."""
        pipeline, tell = self._pipeline, self._chronicle.tell
        tell(register(pipeline, self._receiver))
        self._chronicle.person_did(type_rule(pipeline))
        first, later = events[:-SENT_LATER], events[-SENT_LATER:]
        self._chronicle.outage_began()
        self._send(first)
        tell(f"{len(first)} events sent")
        script = steps(
            later=frozenset(event.digest for event in later),
            send_later=lambda: self._send(later),
            mend=self._mend,
        )
        held: set[str] = set()
        for seen in watch(
            self._look,
            script,
            start_run=pipeline.start_run,
            tell=tell,
            standstill=STANDSTILL_SECONDS * self._pace,
        ):
            self._chronicle.saw(seen)
            held |= {letter.origin for letter in seen.seated}
            time.sleep(LOOK_EVERY_SECONDS)
        found = self._found(held)
        last = self._look()
        self._chronicle.saw(last)
        failures = pipeline.failures(self._origins)
        return Played(found, last, self._origins, failures, self._sent_at)

    def _look(self) -> Look:
        return look(self._pipeline, self._receiver.visits, self._clock())

    def _send(self, events: Sequence[Event]) -> None:
        self._sent_at |= dict.fromkeys((event.digest for event in events), self._clock())
        self._origins |= self._pipeline.send(events)

    def _mend(self) -> None:
        self._receiver.mend()
        self._chronicle.outage_ended()

    def _found(self, held: set[str]) -> FoundLetters:
        pipeline, origins = self._pipeline, self._origins
        recovered = set(pipeline.recovered())
        return FoundLetters(
            delivered=deliveries(self._receiver.visits, origins, recovered),
            parked=pipeline.parked(),
            waiting=[
                *pipeline.on_its_way(),
                *(_digest(letter.origin, origins) for letter in pipeline.seated()),
            ],
            held=[_digest(message, origins) for message in held],
            recovered=[_digest(origin, origins) for origin in recovered],
        )


def deliveries(
    visits: Sequence[Visit], origins: Mapping[str, Event], recovered: Collection[str]
) -> list[DeliveredEvent]:
    """List what endpoints accepted; *origins* are the events by the MessageIds they were given.

    A life of the demo has one receive, so a second post is one of a later life. A letter that an
    open circuit refused has its first post there; the ledger's word, *recovered*, stands for it.
    One that has no room for the Redrive attribute comes back under another webhook-id.
    """
    return [
        DeliveredEvent(
            visit.digest,
            redriven=visit.attempt > 1
            or visit.webhook_id not in origins
            or visit.webhook_id in recovered,
        )
        for visit in visits
        if visit.accepted
    ]


def _digest(origin: str, origins: Mapping[str, Event]) -> str:
    return origins[origin].digest if origin in origins else origin


# The schedule starts a run a minute; an impatient engineer starts the next one soon
# after the last has ended, or should have (its timeout is 55 seconds).
RUN_EVERY_SECONDS = 3.0
RUN_LASTS_SECONDS = 60.0

# Two looks in a row: what moves between two places during a look may not be seen in it.
EMPTY_LOOKS = 2


def watch(
    look: Callable[[], Look],
    script: Sequence[ScriptStep],
    *,
    start_run: Callable[[], None],
    tell: Callable[[str], None],
    standstill: float = STANDSTILL_SECONDS,
) -> Iterator[Look]:
    """Yield look after look; do each step when its moment comes, start a run now and then.

    The steps are done in their order, whatever is seen sooner. It ends when nothing is on its way.
    It also ends when nothing has moved for *standstill* seconds; what is on its way then is
    reported as waiting. It never pauses: the caller does, between looks.
    """
    progress = Progress()
    waiting = list(script)
    started_at: float | None = None
    reports_when_ended = 0
    empty = 0
    while empty < EMPTY_LOOKS:
        seen = look()
        if started_at is None:
            started_at = seen.at
        yield seen
        progress.read(seen.marks, seen.at)
        if progress.is_over(standstill):
            return
        while waiting and waiting[0].when(seen):
            step = waiting.pop(0)
            step.act()
            tell(step.says)
        run_has_ended = len(seen.reports) >= reports_when_ended
        nothing_left = run_has_ended and not seen.on_its_way
        empty = empty + 1 if nothing_left else 0
        soonest = started_at + (RUN_EVERY_SECONDS if run_has_ended else RUN_LASTS_SECONDS)
        if seen.at >= soonest and not nothing_left:
            start_run()
            started_at = seen.at
            reports_when_ended = len(seen.reports) + 1
