"""Letters of one shard of a replay run: by key in order, at its pace, each behind a ticket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from deadletter.contract import Reason, circuit_lane, with_config_keys
from deadletter.failure.ledger import LedgerUnavailable
from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.draining import BatchPart, SentBefore
from deadletter.redrive.journal import GRACE, OnRecord, Slot
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.lane_claim import ClaimedLetters
from deadletter.redrive.mover import Left
from deadletter.redrive.order import Order
from deadletter.redrive.router_client import RouterClient
from deadletter.redrive.sending import LAST_SEND
from deadletter.replay.limiter import (
    GRANT_SECONDS,
    LOOK_SECONDS,
    RunLimiter,
    SendingEnded,
    most_letters,
)
from deadletter.replay.lineup import MOST_TRIES, RunLetter, RunStage, ended, trails
from deadletter.replay.plan import DELIVER, DISCARD, MAIN_QUEUE, KeyPolicy, ReplayPlan
from deadletter.replay.run import RunState
from deadletter.replay.run_lane import CLAIM_SECONDS, RunShard, TicketedLane, copy_of
from deadletter.replay.standing import LONGEST_LOOK, ReplayWorkerSetup, Standings
from deadletter.replay.ticket import OUTSIDE, ReplayOutcome, Ticket, confirmation_by
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive
from deadletter.routing.router import Verdict

ASIDE_SECONDS = 3.0
"""Seconds for which a letter that could not be moved is left alone."""

MOST_MISSES = 5
"""Moves of a letter that came to nothing, after which the worker leaves it to the next one."""


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """The decision that is carried out, and its stamp; one that `waits` stays in front of its
    ordering key until a person resumes the run."""

    decision: Decision
    stamp: Stamp
    waits: bool = False


def within(
    decision: Decision,
    stamp: Stamp,
    plan: ReplayPlan,
    *,
    key_stops: bool,
    let_go: bool,
    forgiven: bool,
    too_old: bool,
    excused: int = 0,
) -> PlannedMove:
    """What is done with a letter that the router has judged for the run.

    key_stops  whether the letter has an ordering key that may stop behind it
    let_go     whether its ticket says that it leaves the run: it is not sent any more
    forgiven   whether a person has resumed the run since its last try
    too_old    whether the letter is older than the pipeline's message TTL
    excused    tries that failed by the dependency: the plan counts the others. The run holds itself
               for them all the same, and its deadline ends it
    """
    if not isinstance(decision, Redrive):
        return PlannedMove(decision, stamp)
    if let_go:
        return _parked(stamp, f"run {plan.run_id}: it had left the run")
    to_consumer = plan.destination in (MAIN_QUEUE, DELIVER)
    # What a person releases was parked in time: see `judgement.Case.is_expired`.
    if too_old and to_consumer and not plan.is_release:
        because = f"run {plan.run_id}: older than the message TTL"
        return _parked(stamp, because, Reason.EXPIRED)
    tries = stamp.attempts_used - 1
    if tries >= MOST_TRIES:
        return _parked(stamp, f"run {plan.run_id}: it failed in each of {tries} tries")
    tries -= max(0, excused)
    if tries >= plan.attempts and plan.destination != DISCARD:
        stops = plan.ordered and plan.on_failure is KeyPolicy.STOP and key_stops
        if not stops:
            return _parked(stamp, f"run {plan.run_id}: it failed in each of {tries} tries")
        return PlannedMove(decision, stamp, waits=not forgiven)
    if to_consumer or plan.discards:
        return PlannedMove(decision, stamp)
    because = f"run {plan.run_id}"
    left = replace(
        stamp,
        attempt=stamp.attempt - 1,
        run=None,
        ticket=None,
        decision="DIVERT",
        because=because,
    )
    return PlannedMove(Divert(plan.destination, because), left)


def _parked(stamp: Stamp, because: str, reason: Reason = Reason.RETRIES_EXHAUSTED) -> PlannedMove:
    """The decision to park a letter that the router would have sent."""
    parked = replace(
        stamp,
        attempt=stamp.attempt - 1,
        ticket=None,
        rule=None,
        decision="PARK",
        reason=str(reason),
        because=because,
    )
    return PlannedMove(Park(reason, because), parked)


def is_send(decision: Decision, plan: ReplayPlan) -> bool:
    """Whether a decision sends a letter to the run's destination, and so needs a grant."""
    if isinstance(decision, Divert):
        return decision.queue == plan.destination
    return isinstance(decision, Redrive)


def is_own_circuit(decision: Decision, pipeline: str) -> bool:
    """Whether the letter would wait for the pipeline's own circuit: the whole run waits for it."""
    lanes = set(map(circuit_lane, with_config_keys([pipeline])))
    return isinstance(decision, Hold) and decision.lane in lanes


class Fates:
    """What the tickets of a run say: where an outcome is looked up, and where nothing is known."""

    def __init__(self, plan: ReplayPlan, consumer_library: bool) -> None:
        self._plan = plan
        self.sent = ReplayOutcome.DELIVERED
        if plan.destination == DISCARD:
            self.sent = ReplayOutcome.DISCARDED
        elif plan.destination == MAIN_QUEUE and consumer_library:
            self.sent = ReplayOutcome.SENT
        # Of a delivery whose worker ended before its ticket, the consumer's ledger knows the end.
        is_direct = plan.destination == DELIVER and consumer_library
        self.found_sent = ReplayOutcome.SENT if is_direct else self.sent

    def of(self, decision: Decision) -> ReplayOutcome:
        """The fate of a letter with this decision."""
        if is_send(decision, self._plan):
            return self.sent
        if isinstance(decision, Park):
            expired = decision.reason is Reason.EXPIRED
            return ReplayOutcome.EXPIRED if expired else ReplayOutcome.QUARANTINED
        return ReplayOutcome.STOPPED


class RunSource(RunShard):
    """One shard while a worker has it; it judges its letters too, by the router and the run's plan.

    `sent` counts what it sent, delivered or discarded. So many `further` letters of other shards
    are ready: grants are taken for them as well. Another worker has the shard at least until
    `busy_until` (epoch seconds). Raises SendingEnded, and the errors of the stores.
    """

    def __init__(
        self,
        setup: ReplayWorkerSetup,
        standings: Standings,
        known: KnownIntents,
        room: TicketedLane,
        limiter: RunLimiter,
    ) -> None:
        seconds = CLAIM_SECONDS + (setup.carrier.seconds if setup.carrier else 0.0)
        super().__init__(setup, standings.progress.shard, known, room, seconds)
        self.sent = self.further = 0
        self.busy_until = 0.0
        self.standings = standings
        self._setup = setup
        self._limiter = limiter
        self._plan = setup.plan
        self._clock = setup.clock
        self._fates = Fates(setup.plan, setup.pipeline.consumer_library)
        self._router = RouterClient(router=setup.router, tally=setup.tally)
        # Of the present batch.
        self._letters: dict[str, RunLetter] = {}
        self._sent: Sequence[SentBefore] = ()
        self._going: Sequence[RunLetter] = ()
        self._until = 0.0
        self._is_carrying = False

    @property
    def is_done(self) -> bool:
        return self.standings.lineup.is_exhausted

    def ready(self, most: int, now: float) -> list[RunLetter]:
        """Letters that are to be moved now, in the order of the manifest."""
        ready: list[RunLetter] = []
        if self.busy_until > now:
            return ready
        for letter in self.standings.lineup.letters.values():
            if letter.stage is RunStage.READY and letter.look_at <= now:
                ready.append(letter)
                if len(ready) == most:
                    break
        return sorted(ready, key=lambda letter: letter.position)

    def _next(self) -> list[RunLetter]:
        """The letters of one grant."""
        run = self._limiter.run
        most = most_letters(run)
        if run.state is RunState.CANARY:
            most = min(most, max(1, run.allowance))
        return self.ready(most, self._clock())

    def pause(self) -> float:
        """Seconds until the pace allows the next letters; 0 if it does now."""
        return self._limiter.seconds_until(len(self._next()))

    @contextmanager
    def take(self, most: int) -> Iterator[int]:
        letters = self._next()[:most]
        self._letters = {letter.copy: letter for letter in letters}
        self._claimed, self._is_carrying = None, False
        try:
            yield len(letters)
        except BaseException:
            # An intent under which letters may have been sent stands: its marks are needed.
            if not self._is_carrying:
                self._hold()
            raise
        self._hold()

    def parts(self) -> Iterator[BatchPart]:
        """One part: the letters whose items are in the lane, and that no other worker may send."""
        letters = list(self._letters.values())
        if not letters:
            return
        known_at = max(letter.known_at for letter in letters)
        claimed = self._claimed = self._claim.take(list(self._letters), known_at)
        if claimed is None:
            self.busy_until = self._clock() + ASIDE_SECONDS
            return
        free: list[RunLetter] = []
        for letter in letters:
            if claimed.is_free(letter.copy):
                free.append(letter)
            else:
                letter.look_at = self._clock() + ASIDE_SECONDS
        here = self._read_items(free, claimed.expires)
        self._letters = {letter.copy: letter for letter in free if letter.copy in here}
        yield self._part(here, claimed)

    def _part(self, here: Mapping[str, ReceivedLetter], claimed: ClaimedLetters) -> BatchPart:
        records = claimed.records
        proofs = {c: proof for c in here if (proof := self._proof(records[c], c)) is not None}
        part = BatchPart.under(claimed.slot, list(here.values()), records, proofs)
        self._sent = part.sent
        if part.sent:
            self.store.expect({each.copy: self._ticket(each) for each in part.sent})
        unanswered = [copy for copy, letter in self._letters.items() if letter.maybe_sent]
        return replace(part, maybe_sent={**part.maybe_sent, **dict.fromkeys(unanswered, False)})

    def _read_items(
        self, letters: Sequence[RunLetter], expires: float
    ) -> dict[str, ReceivedLetter]:
        """The items of these letters that are still in the run's lane, in their order."""
        entries = [self.entry(each.copy, each.place) for each in letters]
        contents = self._setup.room.read(entries, expires + LAST_SEND)
        by_copy = {copy_of(received): received for received in contents.letters}
        asked = [letter.copy for letter in letters]
        absent = [letter for letter in letters if letter.copy not in by_copy]
        if absent:
            self._explain_absence(absent, is_broken=contents.broken > 0)
        return {copy: by_copy[copy] for copy in asked if copy in by_copy}

    def _explain_absence(self, letters: Sequence[RunLetter], *, is_broken: bool) -> None:
        """Find out where letters are whose items are gone: another worker may have moved them."""
        found = trails(letters, self._setup.tickets)
        for letter, trail in zip(letters, found, strict=True):
            is_same = trail.copy == letter.copy
            letter.follow(trail)
            letter.known_at = self._clock()
            ticket = letter.ticket
            if not trail.is_open and ticket is not None:
                if is_same and ticket.fate in OUTSIDE:
                    self.standings.end(letter, ticket.fate)
                else:
                    letter.bound = None
                    self.standings.stand(letter, is_open=False)
            elif not is_same:
                self.standings.make_ready(letter)
            elif is_broken:
                self._miss(letter)
            else:
                # Neither in the lane nor on a ticket. The index does not lie here: both were
                # read consistently, the item first.
                self._setup.tally.note_trouble(
                    "a message of the run is neither in its lane nor sent"
                )
                self.standings.end(letter, ReplayOutcome.MISSING)

    def _miss(self, letter: RunLetter) -> None:
        """Leave a letter alone that could not be moved; after several times, for this worker."""
        letter.misses += 1
        pause = ASIDE_SECONDS * letter.misses
        letter.look_at = float("inf") if letter.misses >= MOST_MISSES else self._clock() + pause

    def _proof(self, record: OnRecord, copy: str) -> Confirmation | None:
        """The confirmation that a copy has left, by this worker or by one before it."""
        owed = self.store.owed(copy)
        if owed is not None:
            return confirmation_by(owed)
        return record.mark or self._setup.mover.confirmation_of(copy)

    def _ticket(self, sent: SentBefore) -> Ticket:
        """The ticket of a letter that was sent; its stamp is the one before the send."""
        letter, stamp = self._letters[sent.copy], sent.received.stamp
        if letter.bound is not None and letter.ticket is not None:
            return letter.ticket
        owed = self.store.owed(letter.copy)
        if owed is not None:
            return owed
        attempt = (stamp.attempt if stamp is not None else letter.name.attempt) + 1
        return self._new_ticket(letter, attempt, self._fates.found_sent)

    def _new_ticket(self, letter: RunLetter, attempt: int, fate: ReplayOutcome) -> Ticket:
        return Ticket(
            run=self._setup.run.id,
            origin=letter.origin,
            copy=letter.copy,
            shard=self.shard,
            position=letter.position,
            attempt=attempt,
            at=self._clock(),
            fate=fate,
            generation=self._limiter.run.generation,
        )

    def requests(self, letters: Sequence[ReceivedLetter]) -> Iterator[Sequence[ReceivedLetter]]:
        """The letters that are still to be moved, once those that were sent before are settled."""
        self._note_settled()
        unmoved = self._without_processed(letters)
        if unmoved:
            yield unmoved

    def _note_settled(self) -> None:
        """Give letters their places that an earlier worker has sent."""
        copies = [each.copy for each in self._sent]
        if copies and self._claimed is not None:
            self._claimed.slot.keep([copy for copy in copies if copy not in self.store.gone])
        for copy in copies:
            self._after_move(self._letters[copy])

    def _without_processed(self, letters: Sequence[ReceivedLetter]) -> list[ReceivedLetter]:
        """End letters that came back and whose last try has ended all the same.

        Two copies of it were under way: one died, the other is at its end, and another worker has
        let its key go on. Returns the letters that are still to be moved.
        """
        here = [self._letters[copy_of(received)] for received in letters]
        returned = [letter for letter in here if letter.bound is None and letter.ticket is not None]
        out: set[str] = set()
        try:
            outcomes = ended(returned, self._setup.ledger)
        except LedgerUnavailable as error:
            self._setup.tally.note_trouble(str(error))
            for letter in returned:
                letter.look_at = self._clock() + ASIDE_SECONDS
            out = {letter.copy for letter in returned}
        else:
            for letter, outcome in outcomes.items():
                self.standings.end(letter, outcome)
            out = {letter.copy for letter in outcomes}
        return [received for received in letters if copy_of(received) not in out]

    def verdicts(self, letters: Sequence[ReceivedLetter], *, served: bool) -> dict[str, Verdict]:
        """What is done with each letter; one that stays for now is left out."""
        verdicts = self._router_verdicts(letters, served=served)
        now = self._clock()
        planned: dict[str, Verdict] = {}
        for received in letters:
            letter = self._letters[copy_of(received)]
            verdict = verdicts.get(letter.copy)
            if verdict is None:
                self._miss(letter)
                continue
            answer = within(
                verdict.decision,
                verdict.stamp,
                self._plan,
                key_stops=letter.name.is_ordered,
                let_go=letter.bound is not None,
                forgiven=self.standings.is_forgiven(letter),
                excused=verdict.excused,
                too_old=now >= verdict.stamp.too_old_at(self._setup.pipeline.message_ttl, now),
            )
            if is_own_circuit(answer.decision, self._setup.pipeline.name):
                raise SendingEnded(answer.decision.because)
            if answer.waits:
                self.standings.lineup.stop(letter)
            elif not self._may_be_under_way(letter, answer.decision):
                # Rules in shadow count the letters of the schedule.
                planned[letter.copy] = replace(
                    verdict, decision=answer.decision, stamp=answer.stamp, shadow_matched=()
                )
        return planned

    def _router_verdicts(
        self, letters: Sequence[ReceivedLetter], *, served: bool
    ) -> Mapping[str, Verdict]:
        """What the router says; of letters that a person throws away it is not asked."""
        if self._plan.destination != DISCARD:
            return self._router.verdicts(letters, served=served)
        decision = Redrive(0, f"run {self._setup.run.id}: discarded")
        return {
            (copy := copy_of(received)): Verdict(copy, decision, received.stamp or Stamp(copy))
            for received in letters
        }

    def _may_be_under_way(self, letter: RunLetter, decision: Decision) -> bool:
        """Whether a letter that is to leave the run has to stay, since a copy may be under way.

        Its ordering key would go on, past a copy that the consumer may still receive. It stays
        as long as an outcome is awaited.
        """
        assert self._claimed is not None, "letters are judged under a claim"
        sent_until = self._claimed.records[letter.copy].sent_until
        ends_key = self._fates.sent is ReplayOutcome.SENT and not is_send(decision, self._plan)
        if not ends_key or letter.bound is not None or sent_until is None:
            return False
        letter.look_at = self._clock() + LONGEST_LOOK
        return self._clock() < sent_until + self._plan.outcome_timeout

    def going(self, letters: Sequence[ReceivedLetter], judged: Sequence[Order]) -> Sequence[Order]:
        """What the grant covers, and what leaves the run in another way: tickets say so first."""
        assert self._claimed is not None, "letters move under a claim"
        sends = [order for order in judged if is_send(order.decision, self._plan)]
        others = [order for order in judged if order not in sends]
        granted, self._until = self._granted(len(sends), self._claimed.expires)
        going = [*sends[:granted], *others]
        self._going = [self._letters[order.copy] for order in going]
        if not going or self._clock() >= self._until:
            for letter in self._going:
                letter.look_at = self._clock() + ASIDE_SECONDS
            self._going = ()
            return ()
        tickets = {order.copy: self._ticket_of(order) for order in going}
        self.store.expect(tickets)
        if others:
            self.store.put_ahead([tickets[order.copy] for order in others])
            for letter in self._going[granted:]:
                letter.ticket = tickets[letter.copy]
                letter.bound = letter.ticket.fate
        return [_locked_until(order, self._until + LAST_SEND) for order in going]

    def _granted(self, sends: int, expires: float) -> tuple[int, float]:
        """How many letters may be sent now, and until when a letter may leave the run."""
        if not sends and self._clock() - self._limiter.seen_at >= LOOK_SECONDS:
            self._limiter.look(self._setup.runs)
        until = min(expires, self._limiter.seen_at + GRANT_SECONDS)
        grant = self._limiter.take(sends, expires, further=self.further) if sends else None
        return (0, until) if grant is None else (grant.letters, grant.until)

    def _ticket_of(self, order: Order) -> Ticket:
        letter = self._letters[order.copy]
        if letter.bound is not None and letter.ticket is not None:
            return letter.ticket
        return self._new_ticket(letter, order.stamp.attempt, self._fates.of(order.decision))

    def move(self, orders: Sequence[Order], slot: Slot) -> Left:
        """By queues, but for letters that go to the consumer itself or are thrown away."""
        if not orders:
            return Left()
        carrier, mover = self._setup.carrier, self._setup.mover
        direct: list[Order] = []
        if carrier is not None and self._plan.destination in (DELIVER, DISCARD):
            direct = [order for order in orders if isinstance(order.decision, Redrive)]
        others = [order for order in orders if order not in direct]
        self._is_carrying = True
        left = mover.move(others, slot, lane=self.store) if others else Left()
        if carrier is not None and direct:
            carried = carrier.carry(direct, slot, self.store, self._until)
            left = replace(
                carried,
                stayed=[*left.stayed, *carried.stayed],
                unknown=[*left.unknown, *carried.unknown],
            )
        self._is_carrying = False
        return left

    def moved(self, letters: Sequence[ReceivedLetter], gone: Sequence[Order], left: Left) -> None:
        unknown, stayed, tried = (
            set(map(copy_of, part)) for part in (left.unknown, left.stayed, left.tried)
        )
        for letter in self._going:
            if letter.copy in self.store.gone:
                self._after_move(letter)
            elif letter.copy in unknown:
                assert self._claimed is not None, "letters move under a claim"
                # It may have been sent. No worker touches it until its intent has ended.
                letter.maybe_sent = True
                letter.look_at = self._claimed.expires + GRACE + 1.0
            elif letter.copy in tried:
                self._try_again(letter, left.retry_after)
            elif letter.copy in stayed and left.retry_after:
                letter.look_at = self._clock() + left.retry_after
            else:
                # It stays, or it has left without its item: the next try finds the confirmation.
                self._miss(letter)

    def _try_again(self, letter: RunLetter, pause: float) -> None:
        """A direct delivery failed: the letter is where it was, one try the poorer."""
        letter.returns += 1
        letter.maybe_sent = False
        letter.look_at = self._clock() + max(
            ASIDE_SECONDS, pause, self.standings.retry_pause(letter)
        )
        self.standings.progress.set(letter.position, ReplayOutcome.OPEN, letter.returns)

    def _after_move(self, letter: RunLetter) -> None:
        """Note where a letter stands that has left, or is about to."""
        if letter.copy not in self.store.gone:
            self._miss(letter)
            return
        ticket = self.store.expected(letter.copy)
        letter.bound = None
        letter.ticket = ticket
        self.sent += ticket.fate not in OUTSIDE
        if ticket.fate is ReplayOutcome.SENT:
            self.standings.await_outcome(letter, ticket)
        else:
            self.standings.end(letter, ticket.fate)


def _locked_until(order: Order, end: float) -> Order:
    """The order with a lock that ends then: the mover begins no send after it, less its margin."""
    return replace(order, received=replace(order.received, locked_until=end))
