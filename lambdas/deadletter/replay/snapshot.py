"""The snapshot of a replay run: the chosen letters of its source move into its custody.

What became of a letter if anything here raises: it is in its source or in the room, and a
page names it before the run's lane holds it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from deadletter.contract import MAIN_DLQ, run_lane
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.fifo import held_instead
from deadletter.redrive.journal import GRACE, JournalUnavailable
from deadletter.redrive.redriver import SOURCE_EMPTY, Redriver
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.router_client import RescueVerdicts, RouterClient
from deadletter.redrive.run_limits import RunStopped
from deadletter.redrive.waiting_room import never
from deadletter.replay.names import CountedOrigins, Name, key_hash, to_lines
from deadletter.replay.objects import ObjectsUnavailable, RunObjects
from deadletter.replay.plan import ReplayPlan
from deadletter.routing.decision import DUE, Hold, Redrive
from deadletter.routing.router import (
    RouterUnavailable,
    Verdict,
    question_about,
    usable,
)
from deadletter.routing.selection import Pick
from deadletter.signals.figures import Count

PAGES = "pages/"
"""The folder of pages: each names the letters of one chunk."""

PAUSE = 15.0
"""Seconds before the next pass while a store or a queue gives no answer."""

_TRY_AGAIN = (Count.ROOM_UNAVAILABLE, Count.JOURNAL_UNAVAILABLE, Count.QUEUE_UNAVAILABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotReport:
    """One pass over the source of a replay run.

    done        whether no other pass is needed
    again_at    epoch seconds before which another pass finds nothing new; 0 if it may begin now
    stopped     why the pass ended
    """

    done: bool
    again_at: float = 0.0
    stopped: str = ""


class Snapshot:
    """Takes the snapshot of one run, pass after pass; says where each letter of its source goes.

    Into the run's lane, or where it would go without the run. A pass goes through `lane`, or else
    through the queue of `setup`: of the plan's source, or of the main DLQ for a lane. Of a lane,
    letters whose home is not `of_source` stay. `counted` are the letters that the person has seen
    counted (None: all that match). `token` is a text that no other pass has: it names the pages.
    """

    def __init__(
        self,
        setup: RedriverSetup,
        plan: ReplayPlan,
        *,
        objects: RunObjects,
        counted: CountedOrigins | None,
        token: str,
        lane: str | None = None,
        of_source: Callable[[str], bool] = lambda home: True,
    ) -> None:
        self._setup = setup
        self._plan = plan
        self._lane = lane or plan.lane
        self._of_source = of_source
        self._objects = objects
        self._counted = counted
        self._token = token
        self._stops = math.inf
        self._pages = itertools.count(1)

    def run(self, deadline: float, *, seconds: float = math.inf) -> SnapshotReport:
        """Make one pass of at most so many seconds, or until nothing is left.

        `deadline` (epoch seconds) is when the function ends that makes the pass, and no earlier
        time: what it has locked stays locked until it can write nothing any more.

        Repeat it until it is done: after a crash, a pass takes what the one before has left.
        """
        # What comes back says nothing of the dependency while letters are only put aside.
        setup = replace(self._setup, outcomes=None)
        self._stops = setup.clock() + seconds
        report = Redriver(setup).take_all(deadline, self, lane=self._lane)
        again_at = 0.0 if self._lane is not None else self._locked_until()
        if any(report.counts.get(trouble) for trouble in _TRY_AGAIN):
            # What could not be moved for no fault of its own belongs to the run all the same.
            again_at = max(again_at, setup.clock() + PAUSE)
        left = report.counts.get(Count.LEFT_IN_PLACE, 0)
        foreign = report.counts.get(Count.FOREIGN_MESSAGE, 0)
        # In a lane a letter may be listed behind a later one of its group, which it holds up.
        may_find_more = left > foreign or (self._lane is not None and setup.pipeline.fifo)
        found_all = report.stopped == SOURCE_EMPTY and not (may_find_more and report.moved)
        return SnapshotReport(
            done=found_all and not again_at,
            again_at=again_at,
            stopped=report.stopped,
        )

    def _locked_until(self) -> float:
        """When letters can be seen again that a pass has locked and not moved; 0 if there are none.

        An intent that stands names them: it is of a pass that failed, or has no answer yet.
        """
        home, now = self._setup.home, self._setup.clock()
        try:
            intents = self._setup.journal.read()
        except JournalUnavailable:
            return now + GRACE
        ends = [each.expires + GRACE for each in intents if each.home == home]
        return max((end for end in ends if end > now), default=0.0)

    def verdicts(self, letters: Sequence[ReceivedLetter], *, served: bool) -> dict[str, Verdict]:
        """As VerdictSource; the page with the names of those that join is stored before.

        Raises RunStopped if the time of the pass is over or the page cannot be stored.
        """
        if not letters:
            return {}
        if self._setup.clock() >= self._stops:
            raise RunStopped("the pass has lasted long enough")
        letters = [received for received in letters if self._may_join(received)]
        if not letters:
            return {}
        picks = self._picks(letters, served=served)
        joining: dict[str, Verdict] = {}
        names: list[Name] = []
        rest: list[ReceivedLetter] = []
        for received in letters:
            pick = picks.get(received.letter.message_id)
            if pick is None or _was_sent(pick.stamp, self._plan):
                # The router cannot read what it knows of this letter, or this pass was held up
                # until the run got the letter back: it stays.
                continue
            if self._joins(pick):
                name = self._name(received, pick)
                names.append(name)
                joining[pick.message_id] = self._joined(received, pick, name.shard)
            else:
                rest.append(received)
        self._store_page(names)
        self._setup.tally.count_decisions(verdict.decision for verdict in joining.values())
        return {**joining, **self._others(rest, served=served)}

    def _others(self, letters: Sequence[ReceivedLetter], *, served: bool) -> dict[str, Verdict]:
        """What becomes of letters that do not join: in a lane, they go on waiting.

        No letter of a queue that was received goes back. One of the DLQ goes where the router says,
        but nothing is re-driven: it waits for its delay. One of a parking queue or of a dedicated
        DLQ goes into its lane.
        """
        if self._lane is not None:
            return {}
        setup = self._setup
        if self._plan.source != MAIN_DLQ:
            rescue = RescueVerdicts(
                source=setup.home,
                trusted_senders=setup.trusted_senders,
                clock=setup.clock,
                tally=setup.tally,
            )
            return rescue.verdicts(letters, served=served)
        now, client = setup.clock(), RouterClient(router=setup.router, tally=setup.tally)
        verdicts = client.verdicts(letters, served=served)
        return {copy: _put_off(verdict, now) for copy, verdict in verdicts.items()}

    def _may_join(self, received: ReceivedLetter) -> bool:
        """False for a letter that stays where it is, whatever the router says of it.

        Lane `parked` keeps letters without end: a run of one letter need not ask about all.
        """
        if not self._of_source(received.home):
            return False
        if self._lane is None or self._counted is None or received.stamp is None:
            return True
        return received.stamp.origin in self._counted

    def _picks(self, letters: Sequence[ReceivedLetter], *, served: bool) -> Mapping[str, Pick]:
        # A letter that joins is not judged as one of a run yet: it is asked about as it lies there.
        questions = [
            replace(question_about(received, served=served), replay=False) for received in letters
        ]
        asked = [received.letter.message_id for received in letters]
        router, selection, release = self._setup.router, self._plan.selection, self._plan.is_release
        try:
            picks = router.select(questions, selection, release=release)
        except RouterUnavailable:
            self._setup.tally.count(Count.ROUTER_UNAVAILABLE)
            picks = router.select(questions, selection, release=release)
        return usable(picks, asked)

    def _joins(self, pick: Pick) -> bool:
        """Whether a letter joins the run."""
        is_counted = self._counted is None or pick.stamp.origin in self._counted
        return pick.chosen and not pick.left_out and is_counted

    def _name(self, received: ReceivedLetter, pick: Pick) -> Name:
        stamp = pick.stamp
        return Name(
            copy=received.letter.message_id,
            origin=stamp.origin,
            place=self._setup.room.key(received),
            key=key_hash(pick.key or stamp.origin),
            sequence=pick.sequence,
            tenant=pick.tenant,
            cause=pick.cause,
            category=pick.category,
            attempt=stamp.attempt,
            size=received.letter.size,
            first_sent=stamp.first_sent,
        )

    def _joined(self, received: ReceivedLetter, pick: Pick, shard: int) -> Verdict:
        run = self._plan.run_id
        because = f"run {run}"
        hold = Hold(run_lane(run), never(received.letter), because, shard=shard)
        stamp = joined(pick.stamp, self._plan, because, self._setup.clock())
        return Verdict(pick.message_id, hold, stamp, before=pick.stamp)

    def _store_page(self, names: Sequence[Name]) -> None:
        if not names:
            return
        name = f"{PAGES}{self._token}-{next(self._pages):06}.jsonl"
        try:
            self._objects.put(name, to_lines(names))
        except ObjectsUnavailable as error:
            self._setup.tally.fail(str(error))
            raise RunStopped(f"a page of the run cannot be stored: {error}") from error


def _was_sent(stamp: Stamp, plan: ReplayPlan) -> bool:
    """Whether the run has sent this letter already: it would count its attempts anew."""
    return stamp.run == plan.run_id and stamp.attempt > stamp.base


def joined(stamp: Stamp, plan: ReplayPlan, because: str, now: float) -> Stamp:
    """The stamp of a letter that joins a run: its attempts and its lives count anew.

    The reason that it was parked for stays, for the case that the run leaves it.
    """
    return replace(
        stamp,
        run=plan.run_id,
        ticket=None,
        base=stamp.attempt,
        spared=stamp.attempt + 1,
        accept=plan.accept,
        rule=None,
        canary=None,
        decision="HOLD",
        because=because,
        at=int(now),
    )


def _put_off(verdict: Verdict, now: float) -> Verdict:
    decision = verdict.decision
    if not isinstance(decision, Redrive):
        return verdict
    because = f"{decision.because}; a snapshot sends nothing"
    return held_instead(verdict, Hold(DUE, now + decision.delay, because))
