"""Moves letters of a replay run out of its lane, up to ten of a shard at a time.

Intent, read the items consistently, judge, grant, send, mark, tickets, delete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from deadletter.failure.ledger import LedgerUnavailable
from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.journal import GRACE, OnRecord, Slot
from deadletter.redrive.lane_claim import ClaimedLetters
from deadletter.redrive.mover import Left
from deadletter.redrive.order import Order
from deadletter.redrive.router_client import RouterClient
from deadletter.redrive.sending import LAST_SEND
from deadletter.redrive.settling import SentBefore, Settling
from deadletter.replay.limiter import (
    GRANT_SECONDS,
    LOOK_SECONDS,
    SHORTEST_WAIT,
    RunLimiter,
    SendingEnded,
    most_letters,
)
from deadletter.replay.lineup import RunLetter
from deadletter.replay.outcomes import ended, trails
from deadletter.replay.plan import DELIVER, DISCARD
from deadletter.replay.plan_limits import Fates, is_own_circuit, is_send, within
from deadletter.replay.run import RunState
from deadletter.replay.run_room import RunRoom, copy_of
from deadletter.replay.shard_work import ShardWork
from deadletter.replay.standing import LONGEST_LOOK, Standings
from deadletter.replay.ticket import OUTSIDE, ReplayOutcome, Ticket, confirmation_by
from deadletter.replay.worker_setup import ReplayWorkerSetup
from deadletter.routing.decision import Decision, Redrive
from deadletter.routing.router import Verdict

ASIDE_SECONDS = 3.0
"""Seconds for which a letter that could not be moved is left alone."""

MOST_MISSES = 5
"""Moves of a letter that came to nothing, after which the worker leaves it to the next one."""


class RunMoves:
    """Moves the letters of one worker; `sent` counts what it sent, delivered or discarded.

    Raises SendingEnded, and the errors of the stores.
    """

    def __init__(
        self,
        setup: ReplayWorkerSetup,
        room: RunRoom,
        limiter: RunLimiter,
        standings: Standings,
    ) -> None:
        self.sent = 0
        self._setup = setup
        self._room = room
        self._limiter = limiter
        self._standings = standings
        self._plan = setup.plan
        self._clock = setup.clock
        self._tally = setup.tally
        self._fates = Fates(setup.plan, setup.pipeline.consumer_library)
        self._mover = setup.mover
        self._router = RouterClient(router=setup.router, tally=setup.tally)
        self._settling = Settling(setup.router, self._mover, setup.tally)
        self._further = 0
        self._is_carrying = False

    def move_some(self, work: ShardWork, deadline: float, further: int = 0) -> bool:
        """Move some letters of a shard; returns False if the pace does not allow it yet.

        So many `further` letters of other shards are ready: grants are taken for them as well.
        """
        run = self._limiter.run
        most = most_letters(run)
        if run.state is RunState.CANARY:
            most = min(most, max(1, run.allowance))
        letters = work.ready(most, self._clock())
        pause = self._limiter.seconds_until(len(letters))
        if pause:
            left = max(0.0, deadline - self._clock())
            self._setup.wait(min(max(pause, SHORTEST_WAIT), LOOK_SECONDS, left))
            return False
        known_at = max(letter.known_at for letter in letters)
        claimed = work.claim.take([letter.copy for letter in letters], known_at)
        if claimed is None:
            work.busy_until = self._clock() + ASIDE_SECONDS
            return True
        self._further, self._is_carrying = further, False
        try:
            self._move_claimed(work, letters, claimed)
        except BaseException:
            # An intent under which letters may have been sent stands: its marks are needed.
            if not self._is_carrying:
                work.claim.hold(claimed)
            raise
        work.claim.hold(claimed)
        return True

    def _move_claimed(
        self, work: ShardWork, letters: Sequence[RunLetter], claimed: ClaimedLetters
    ) -> None:
        free: list[RunLetter] = []
        for letter in letters:
            if claimed.is_free(letter.copy):
                free.append(letter)
            else:
                letter.look_at = self._clock() + ASIDE_SECONDS
        here = self._read_items(work, free, claimed.expires)
        unmoved = self._end_processed(work, self._settle_sent(work, here, claimed))
        if unmoved:
            self._move(work, unmoved, claimed)

    def _read_items(
        self, work: ShardWork, letters: Sequence[RunLetter], expires: float
    ) -> dict[RunLetter, ReceivedLetter]:
        """The items of these letters that are still in the run's lane."""
        entries = [
            self._standings.entry(each.copy, each.place, work.progress.shard) for each in letters
        ]
        contents = self._setup.room.read(entries, expires + LAST_SEND)
        by_copy = {copy_of(received): received for received in contents.letters}
        absent = [letter for letter in letters if letter.copy not in by_copy]
        if absent:
            self._explain_absence(work, absent, is_broken=contents.broken > 0)
        return {each: by_copy[each.copy] for each in letters if each.copy in by_copy}

    def _explain_absence(
        self, work: ShardWork, letters: Sequence[RunLetter], *, is_broken: bool
    ) -> None:
        """Find out where letters are whose items are gone: another worker may have moved them."""
        found = trails(letters, self._setup.tickets)
        for letter, trail in zip(letters, found, strict=True):
            is_same = trail.copy == letter.copy
            letter.copy, letter.place, letter.ticket = trail.copy, trail.place, trail.last
            letter.returns = max(letter.returns, trail.returns)
            letter.known_at = self._clock()
            ticket = letter.ticket
            if not trail.is_open and ticket is not None:
                if is_same and ticket.fate in OUTSIDE:
                    self._standings.end(work, letter, ticket.fate)
                else:
                    letter.bound = None
                    self._standings.stand(work, letter, is_open=False)
            elif not is_same:
                self._standings.make_ready(work, letter)
            elif is_broken:
                self._miss(letter)
            else:
                # Neither in the lane nor on a ticket. The index does not lie here: both were
                # read consistently, the item first.
                self._tally.note_trouble("a message of the run is neither in its lane nor sent")
                self._standings.end(work, letter, ReplayOutcome.MISSING)

    def _miss(self, letter: RunLetter) -> None:
        """Leave a letter alone that could not be moved; after several times, for this worker."""
        letter.misses += 1
        pause = ASIDE_SECONDS * letter.misses
        letter.look_at = float("inf") if letter.misses >= MOST_MISSES else self._clock() + pause

    def _settle_sent(
        self,
        work: ShardWork,
        here: Mapping[RunLetter, ReceivedLetter],
        claimed: ClaimedLetters,
    ) -> dict[RunLetter, ReceivedLetter]:
        """Give letters their tickets that an earlier worker has sent; returns the others."""
        records = claimed.records
        sent = {
            letter: SentBefore(received, confirmation, records[letter.copy])
            for letter, received in here.items()
            if (confirmation := self._confirmation(records[letter.copy], letter.copy)) is not None
        }
        if sent:
            tickets = {
                letter.copy: self._ticket(work, letter, here[letter].stamp) for letter in sent
            }
            self._room.expect(tickets)
            self._settling.settle(list(sent.values()), self._room)
            claimed.slot.keep(
                [letter.copy for letter in sent if letter.copy not in self._room.gone]
            )
            for letter in sent:
                self._after_move(work, letter, tickets[letter.copy])
        return {letter: received for letter, received in here.items() if letter not in sent}

    def _end_processed(
        self, work: ShardWork, here: Mapping[RunLetter, ReceivedLetter]
    ) -> dict[RunLetter, ReceivedLetter]:
        """End letters that came back and whose last try has ended all the same.

        Two copies of it were under way: one died, the other is at its end, and another worker has
        let its key go on. Returns the letters that are still to be moved.
        """
        returned = [letter for letter in here if letter.bound is None and letter.ticket is not None]
        try:
            outcomes = ended(returned, self._setup.ledger)
        except LedgerUnavailable as error:
            self._tally.note_trouble(str(error))
            for letter in returned:
                letter.look_at = self._clock() + ASIDE_SECONDS
            return {each: received for each, received in here.items() if each not in returned}
        for letter, outcome in outcomes.items():
            self._standings.end(work, letter, outcome)
        return {each: received for each, received in here.items() if each not in outcomes}

    def _confirmation(self, record: OnRecord, copy: str) -> Confirmation | None:
        """The confirmation that a copy has left, by this worker or by one before it."""
        owed = self._room.owed(copy)
        if owed is not None:
            return confirmation_by(owed)
        return record.mark or self._mover.confirmation_of(copy)

    def _ticket(self, work: ShardWork, letter: RunLetter, stamp: Stamp | None) -> Ticket:
        """The ticket of a letter that is sent; its stamp is the one before the send."""
        if letter.bound is not None and letter.ticket is not None:
            return letter.ticket
        owed = self._room.owed(letter.copy)
        if owed is not None:
            return owed
        attempt = (stamp.attempt if stamp is not None else letter.name.attempt) + 1
        return self._new_ticket(work, letter, attempt, self._fates.found_sent)

    def _new_ticket(
        self, work: ShardWork, letter: RunLetter, attempt: int, fate: ReplayOutcome
    ) -> Ticket:
        return Ticket(
            run=self._setup.run.id,
            origin=letter.origin,
            copy=letter.copy,
            shard=work.progress.shard,
            position=letter.position,
            attempt=attempt,
            at=self._clock(),
            fate=fate,
            generation=self._limiter.run.generation,
        )

    def _move(
        self,
        work: ShardWork,
        here: Mapping[RunLetter, ReceivedLetter],
        claimed: ClaimedLetters,
    ) -> None:
        """Judge letters, and move those that the grant covers."""
        expires = claimed.expires
        orders = self._judged(work, here, claimed.records)
        sends = {
            letter: order for letter, order in orders.items() if is_send(order.decision, self._plan)
        }
        others = {letter: order for letter, order in orders.items() if letter not in sends}
        until = min(expires, self._limiter.seen_at + GRANT_SECONDS)
        if sends:
            grant = self._limiter.take(len(sends), expires, further=self._further)
            if grant is None:
                sends = {}
            else:
                sends = dict(list(sends.items())[: grant.letters])
                until = grant.until
        elif self._clock() - self._limiter.seen_at >= LOOK_SECONDS:
            self._limiter.look(self._setup.runs)
            until = min(expires, self._limiter.seen_at + GRANT_SECONDS)
        going = {**sends, **others}
        if not going or self._clock() >= until:
            for letter in going:
                letter.look_at = self._clock() + ASIDE_SECONDS
            return
        tickets = {letter: self._ticket_of(work, letter, order) for letter, order in going.items()}
        self._room.expect({letter.copy: ticket for letter, ticket in tickets.items()})
        if others:
            self._room.put_ahead([tickets[letter] for letter in others])
            for letter in others:
                letter.ticket = tickets[letter]
                letter.bound = letter.ticket.fate
        self._is_carrying = True
        carried = self._carry(
            [_locked_until(order, until + LAST_SEND) for order in going.values()],
            claimed.slot,
            until,
        )
        self._is_carrying = False
        unknown = set(map(copy_of, carried.unknown))
        stayed = set(map(copy_of, carried.stayed))
        tried = set(map(copy_of, carried.tried))
        for letter in going:
            if letter.copy in self._room.gone:
                self._after_move(work, letter, self._room.expected(letter.copy))
            elif letter.copy in unknown:
                # It may have been sent. No worker touches it until its intent has ended.
                letter.maybe_sent = True
                letter.look_at = expires + GRACE + 1.0
            elif letter.copy in tried:
                self._try_again(work, letter, carried.retry_after)
            elif letter.copy in stayed and carried.retry_after:
                letter.look_at = self._clock() + carried.retry_after
            elif letter.copy in stayed:
                self._miss(letter)
            else:
                self._after_move(work, letter, tickets[letter])

    def _try_again(self, work: ShardWork, letter: RunLetter, pause: float) -> None:
        """A direct delivery failed: the letter is where it was, one try the poorer."""
        letter.returns += 1
        letter.maybe_sent = False
        letter.look_at = self._clock() + max(
            ASIDE_SECONDS, pause, self._standings.retry_pause(letter)
        )
        work.progress.set(letter.position, ReplayOutcome.OPEN, letter.returns)

    def _carry(self, orders: Sequence[Order], slot: Slot, until: float) -> Left:
        carrier = self._setup.carrier
        direct = [order for order in orders if isinstance(order.decision, Redrive)]
        if carrier is None or self._plan.destination not in (DELIVER, DISCARD) or not direct:
            return self._mover.move(orders, slot, lane=self._room)
        others = [order for order in orders if not isinstance(order.decision, Redrive)]
        moved = self._mover.move(others, slot, lane=self._room) if others else Left()
        carried = carrier.carry(direct, slot, self._room, until)
        return replace(
            carried,
            stayed=[*moved.stayed, *carried.stayed],
            unknown=[*moved.unknown, *carried.unknown],
        )

    def _after_move(self, work: ShardWork, letter: RunLetter, ticket: Ticket) -> None:
        """Note where a letter stands that has left, or is about to."""
        if letter.copy not in self._room.gone:
            # It has left, and its item has not: the next try finds the confirmation.
            self._miss(letter)
            return
        letter.bound = None
        letter.ticket = ticket
        self.sent += ticket.fate not in OUTSIDE
        if ticket.fate is ReplayOutcome.SENT:
            self._standings.await_outcome(work, letter, ticket)
        else:
            self._standings.end(work, letter, ticket.fate)

    def _verdicts(self, letters: Sequence[ReceivedLetter]) -> Mapping[str, Verdict]:
        """What the router says; of letters that a person throws away it is not asked."""
        if self._plan.destination != DISCARD:
            return self._router.verdicts(letters, served=True)
        decision = Redrive(0, f"run {self._setup.run.id}: discarded")
        return {
            (copy := copy_of(received)): Verdict(copy, decision, received.stamp or Stamp(copy))
            for received in letters
        }

    def _judged(
        self,
        work: ShardWork,
        here: Mapping[RunLetter, ReceivedLetter],
        records: Mapping[str, OnRecord],
    ) -> dict[RunLetter, Order]:
        """What is done with each letter; one that stays for now is left out."""
        verdicts = self._verdicts(list(here.values()))
        now = self._clock()
        orders: dict[RunLetter, Order] = {}
        for letter, received in here.items():
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
                forgiven=self._standings.is_forgiven(letter),
                excused=verdict.excused,
                too_old=now >= verdict.stamp.too_old_at(self._setup.pipeline.message_ttl, now),
            )
            if is_own_circuit(answer.decision, self._setup.pipeline.name):
                raise SendingEnded(answer.decision.because)
            if answer.waits:
                work.lineup.stop(letter)
                continue
            record = records[letter.copy]
            is_unanswered = letter.maybe_sent or record.had_no_answer
            maybe_sent = letter.maybe_sent or record.maybe_sent
            if self._may_be_under_way(letter, answer.decision, record):
                continue
            orders[letter] = Order(
                received,
                answer.decision,
                answer.stamp,
                maybe_sent,
                maybe_sent and not is_unanswered,
                matched=verdict.matched,
                limit=verdict.limit,
            )
        return orders

    def _may_be_under_way(self, letter: RunLetter, decision: Decision, record: OnRecord) -> bool:
        """Whether a letter that is to leave the run has to stay, since a copy may be under way.

        Its ordering key would go on, past a copy that the consumer may still receive. It stays
        as long as an outcome is awaited.
        """
        ends_key = self._fates.sent is ReplayOutcome.SENT and not is_send(decision, self._plan)
        if not ends_key or letter.bound is not None or record.sent_until is None:
            return False
        letter.look_at = self._clock() + LONGEST_LOOK
        return self._clock() < record.sent_until + self._plan.outcome_timeout

    def _ticket_of(self, work: ShardWork, letter: RunLetter, order: Order) -> Ticket:
        if letter.bound is not None and letter.ticket is not None:
            return letter.ticket
        return self._new_ticket(work, letter, order.stamp.attempt, self._fates.of(order.decision))


def _locked_until(order: Order, end: float) -> Order:
    """The order with a lock that ends then: the mover begins no send after it, less its margin."""
    return replace(order, received=replace(order.received, locked_until=end))
