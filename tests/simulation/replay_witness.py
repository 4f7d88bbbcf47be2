"""Sees what a replay run does, call by call, and says at once when a promise is broken.

Beside the promises of every move: a run sends nothing two seconds after it was held or aborted,
and nothing once its dependency's health URL has been red for a while; no letter is sent that has
expired;
it sends a letter only while its predecessors are settled; nothing is sent faster than the plan
says; a letter belongs to one run; what a run leaves is never sent by the schedule; a letter is
tried as often as the plan says; and the outcomes add up to the snapshot.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deadletter.contract import (
    PARKED_LANE,
    Partition,
    originals_object,
    run_lane,
    run_object,
)
from deadletter.message import stamp as stamps
from deadletter.message.stamp import Stamp
from deadletter.redrive.journal import key_of
from deadletter.replay.objects import lines_in, original_in
from deadletter.replay.plan import AGAIN, KeyPolicy, ReplayPlan
from deadletter.replay.run import SENDING, RunState
from deadletter.replay.ticket import TERMINAL, ReplayOutcome, ticket_partition
from deadletter.routing.decision import DUE
from tests.simulation.scheduler import Process, Strike
from tests.simulation.witness import (
    Broken,
    Entry,
    Held,
    Witness,
    lane_of,
    uid_of,
    written,
)
from tests.tables import BUCKET, LETTERS

STOPS_WITHIN = 2.0
"""Seconds after a run is held or aborted in which what was granted before may still begin."""

EXPIRED_WITHIN = 30.0
"""Seconds after a letter's own expiry in which it may still be sent: it was judged before."""

RED_WITHIN = 20.0
"""Seconds after a health URL turns red in which a run may still send: it believes a good answer for
ten, looks every five, and a grant lasts two."""

USED_WITHIN = 2.0
"""Seconds within which a grant is used: sends may bunch together by so much."""

REPLAYER = "replay"
"""What the names of a run's processes begin with."""


@dataclass(eq=False, slots=True)
class Send:
    """One send or invocation of a run that was accepted."""

    at: float
    uid: str
    origin: str
    attempt: int


@dataclass(eq=False)
class WitnessedRun:
    """What is seen of one run; `plan` is what the person saw.

    `stopped` is when it was last held, aborted or ended: None while it may send. `counted` are
    the origins of the letters that the person saw. `began` is when the last send of each began.
    """

    id: str
    plan: ReplayPlan
    counted: frozenset[str]
    state: str = ""
    leave_to: str = "parked"
    stopped: float | None = 0.0
    aborted: bool = False
    manifest: str | None = None
    lines: tuple[str, ...] = ()
    allowed: int = 0
    allowance: int = 0
    canaries: int = 0
    resumes: int = 0
    sends: list[Send] = field(default_factory=list)
    sent: dict[str, Send] = field(default_factory=dict)
    began: dict[str, float] = field(default_factory=dict)
    attempts: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))


class ReplayWitness(Witness):
    """Keeps book of replay runs, beside what every witness keeps book of.

    `place_of` gives the ordering key of a message and its place in it, by the message's name.
    """

    place_of: Callable[[str], tuple[str, int] | None]
    keeps_originals: bool = False
    skew: float = 0.0
    red: tuple[float, float] | None = None

    def __init__(self, *world: Any, **options: Any) -> None:
        super().__init__(*world, **options)
        self.runs: dict[str, WitnessedRun] = {}
        self.custody: dict[str, str] = {}
        self.expiries: dict[str, float] = {}
        self.timed_out: Counter[str] = Counter()
        # Lives, by message and attempt, in which the handler began.
        self.tried: set[tuple[str, int]] = set()
        self.to_schedule: set[tuple[str, str]] = set()
        self.bases_in_run: dict[tuple[str, str], int] = {}
        self.joined: set[tuple[str, str]] = set()
        self.last_handled: dict[tuple[str, str], int] = {}
        self._pages: dict[str, set[str]] = {}
        # The copy that each one was sent from, and copies that the schedule has beside a run.
        self._sent_from: dict[str, str] = {}
        self._duplicates: set[str] = set()
        # Messages that were processed before a person has sent them once more.
        self._was_done: set[str] = set()
        # A consumer or a run does not know whether it has parked these: they may be in two places.
        self._maybe_parked: set[str] = set()

    def begin(self, plan: ReplayPlan, counted: Iterable[str]) -> None:
        """A person has started the run of a plan."""
        run, counted = plan.run_id, list(counted)
        if plan.accept == AGAIN:
            # They are to be processed once more.
            for uid, message in self.messages.items():
                if message.done and not message.origins.isdisjoint(counted):
                    message.done = False
                    self._was_done.add(uid)
        self.runs.setdefault(run, WitnessedRun(run, plan, frozenset(counted)))

    # What a process intends

    def _before(
        self, process: Process, service: str, name: str, options: Mapping[str, Any]
    ) -> None:
        if not process.name.startswith("consumer") and name == "send_message_batch":
            for entry in options["Entries"]:
                mark = stamp_of_entry(entry)
                if mark is not None and options["QueueUrl"] == self._main:
                    self._beginning(process, entry, mark)
        super()._before(process, service, name, options)

    def _beginning(self, process: Process, entry: Entry, mark: Stamp) -> None:
        """A send to the consumer is about to begin."""
        uid = uid_of(entry["MessageBody"])
        if self._scheduler.now > self.expiries.get(uid, math.inf) + EXPIRED_WITHIN:
            raise Broken(f"{process.name} sends {uid}, which has expired")
        if not process.name.startswith(REPLAYER):
            self._check_schedule(process, uid, entry.continues, mark)
            return
        run = self.runs.get(mark.run or "")
        if run is None:
            raise Broken(f"{process.name} sends {uid} for no run")
        now = self._scheduler.now
        if self.is_red() and self.is_red(now - RED_WITHIN):
            raise Broken(f"{process.name} sends {uid} while the health URL says down")
        if run.stopped is not None and now > run.stopped + STOPS_WITHIN:
            late = now - run.stopped
            raise Broken(f"{process.name} sends {uid} {late:.1f} s after its run was {run.state}")
        if mark.attempts_used > self._tries(run, uid, mark):
            raise Broken(f"{process.name} sends {uid} for the {mark.attempts_used}th time")
        if run.counted and mark.origin not in run.counted:
            raise Broken(f"{process.name} sends {uid}, which the person did not see counted")
        if run.plan.ordered:
            self._check_start(process, run, uid)
        run.began[mark.origin] = now

    def is_red(self, at: float | None = None) -> bool:
        """Whether the dependency's health URL says that it is down."""
        first, last = self.red or (0.0, 0.0)
        return first <= (self._scheduler.now if at is None else at) < last

    def _tries(self, run: WitnessedRun, uid: str, mark: Stamp) -> int:
        """Sends of one letter: one that timed out is no try, nor is one that never reached the
        handler, and a person who resumes a run grants the one in front one more.

        A send within the clocks' difference after that may count as one before it.
        """
        before = run.attempts[mark.origin] - {mark.attempt}
        untried = sum((uid, attempt) not in self.tried for attempt in before)
        stops = run.plan.ordered and run.plan.on_failure is KeyPolicy.STOP
        granted = run.resumes * (2 if self.skew else 1)
        return run.plan.attempts + self.timed_out[uid] + untried + (granted if stops else 0)

    def _check_schedule(self, process: Process, uid: str, copy: str, mark: Stamp) -> None:
        """What a run had is sent by the schedule only if a person has said so."""
        for run in self.runs.values():
            of_run = mark.origin in self.custody and self.custody[mark.origin] == run.id
            if not of_run or (run.id, mark.origin) in self.to_schedule:
                continue
            if not self._is_duplicate(run, copy, self._scheduler.now + process.skew):
                raise Broken(f"{process.name} sends {uid}, which run {run.id} has or had")
            self._duplicates.add(copy)

    def _is_duplicate(self, run: WitnessedRun, copy: str, now: float) -> bool:
        """Whether there were two copies before the run took one, and this is the other.

        The schedule had sent it without learning that it did, and has the one that it sent
        from; or it has the one that came of that send, or one that came of either since.
        """
        if (run.id, copy) in self.joined:
            return False
        before = self._sent_from.get(copy)
        if copy in self._duplicates or before in self._duplicates:
            return True
        if before is not None and (run.id, before) in self.joined:
            return self._is_unsure(before, copy, now)
        return any(
            self._is_unsure(copy, delivery.message_id, now) for delivery in self.deliveries[copy]
        )

    def _is_unsure(self, copy: str, sent: str, now: float) -> bool:
        """Whether the schedule cannot know that it has sent this one from that copy."""
        return any(
            delivery.message_id == sent
            and not delivery.process.name.startswith(REPLAYER)
            and (copy in delivery.chunk.spent or delivery.chunk.cause(copy, now) is not None)
            for delivery in self.deliveries[copy]
        )

    def _check_start(self, process: Process, run: WitnessedRun, uid: str) -> None:
        """A letter may start only while all letters before it in its key are settled."""
        place = self.place_of(uid)
        if place is None:
            return
        key, number = place
        for other, origin in self._of_key(run, key):
            if other == uid or origin not in run.counted:
                continue
            other_place = self.place_of(other)
            if other_place is not None and other_place[1] < number:
                if not self._is_settled(run, other, origin):
                    raise Broken(f"{process.name} sends {uid} before {other} is settled")
            elif origin in run.sent and not self._is_settled(run, other, origin):
                raise Broken(f"{process.name} sends {uid} while {other} is under way")

    def _of_key(self, run: WitnessedRun, key: str) -> list[tuple[str, str]]:
        return [
            (uid, origin)
            for uid, message in self.messages.items()
            if (place := self.place_of(uid)) is not None and place[0] == key
            for origin in message.origins
        ]

    def _is_settled(self, run: WitnessedRun, uid: str, origin: str) -> bool:
        """Whether a letter is processed, out of the run, or given up by its time-out."""
        if self.messages[uid].done:
            return True
        if origin not in run.sent:
            # Left out of the run, or parked by it: only what lies in its lane is in the way.
            return not self._is_in_lane(run, origin)
        # A process may sleep in its send: its run counts from before, as it can know no more.
        if self._scheduler.now >= run.began[origin] + run.plan.outcome_timeout - 5:
            return True
        if self._is_in_lane(run, origin):
            return False
        # One that the run took may still lie in the DLQ, because its delete failed.
        return not self._is_under_way(origin, besides={copy for _, copy in self.joined})

    def _is_in_lane(self, run: WitnessedRun, origin: str) -> bool:
        lane = run_lane(run.id)
        return any(
            lane_of(item) == lane and stamp_of_item(item).origin == origin
            for item in self._dynamodb.items(LETTERS)
            if "copy" in item
        )

    def _is_under_way(self, origin: str, besides: Collection[str] = ()) -> bool:
        """Whether a copy of a letter is in the main queue or in the DLQ, `besides` these copies."""
        places = {self._main.rpartition("/")[2], self._dlq.rpartition("/")[2]}
        for message in self._sqs.snapshot():
            if message.queue in places and message.message_id not in besides:
                mark = _mark_of(message.attributes)
                if (mark.origin if mark else message.message_id) == origin:
                    return True
        return False

    # What took effect

    def _struck(
        self, process: Process, strike: Strike, name: str, options: Mapping[str, Any]
    ) -> None:
        super()._struck(process, strike, name, options)
        is_parking = name == "send_message_batch" and (
            process.name.startswith("consumer")
            or (process.name.startswith(REPLAYER) and options["QueueUrl"] == self._parking)
        )
        if is_parking and strike is Strike.NO_ANSWER:
            marks = map(stamp_of_entry, options["Entries"])
            self._maybe_parked.update(mark.origin for mark in marks if mark is not None)

    def _after(
        self,
        process: Process,
        service: str,
        name: str,
        options: Mapping[str, Any],
        answer: Mapping[str, Any],
    ) -> None:
        super()._after(process, service, name, options, answer)
        if service == "dynamodb" and name in WRITES:
            if any(partition == RUNS for partition, _ in written(name, options)):
                self.look_at_runs()
            self._look_at_lanes(process, name, options)
            if name == "update_item":
                self._look_at_ticket(options)

    def _look_at_ticket(self, options: Mapping[str, Any]) -> None:
        """A letter whose ticket says that it is discarded need not be anywhere."""
        fate = options.get("Sets", {}).get("fate")
        if ReplayOutcome.DISCARDED not in (fate, getattr(fate, "value", "")):
            return
        origin = options["Key"]["sk"]["S"].partition("#")[0]
        for message in self.messages.values():
            message.done |= origin in message.origins

    def look_at_runs(self) -> None:
        """See what has become of the runs' items."""
        now = self._scheduler.now
        for item in self._dynamodb.items(LETTERS):
            if item["pk"]["S"] != RUNS or (run := self.runs.get(item["sk"]["S"])) is None:
                continue
            if size_of(item) > 1_024:
                raise Broken(f"the item of run {run.id} has {size_of(item)} bytes")
            state = item["state"]["S"]
            if state != run.state:
                self._entered(run, state, now)
            run.leave_to = item["leave_to"]["S"]
            allowance = int(item.get("allowance", {}).get("N", "0"))
            if allowance > run.allowance:
                run.allowed += allowance - run.allowance
            run.allowance = allowance
            manifest = item.get("manifest", {}).get("S", "")
            if manifest and run.manifest not in (None, manifest):
                raise Broken(f"the manifest of run {run.id} has changed")
            if manifest and run.manifest is None:
                run.manifest = manifest
                run.lines = tuple(self.manifest_lines(run.id))
                letters = int(item["messages"]["N"])
                if letters != len(run.lines):
                    raise Broken(f"run {run.id} has {letters} letters, {len(run.lines)} lines")

    def _entered(self, run: WitnessedRun, state: str, now: float) -> None:
        if run.aborted and state not in (RunState.ABORTED, RunState.BROKEN):
            raise Broken(f"run {run.id} was aborted and becomes {state}")
        if state in SENDING:
            run.stopped = None
            run.resumes += run.state == RunState.HELD
        elif run.stopped is None or run.state in SENDING:
            run.stopped = now
        run.aborted |= state == RunState.ABORTED
        run.state = state

    def manifest_lines(self, run: str) -> list[str]:
        """The lines of a run's manifest, in order."""
        return [line for _, lines in self._parts(run) for line in lines]

    def _parts(self, run: str) -> list[tuple[str, list[str]]]:
        """The parts that the manifest's index names, each as `<shard>#<part>`, and their lines."""
        index = run_object("orders", run, "manifest", "index.json")
        if index not in self.objects(index):
            return []
        folder = json.loads(self._object(index))["folder"]
        prefix = run_object("orders", run, "manifest", *filter(None, [folder])) + "/"
        return [
            (
                key.removeprefix(prefix).removesuffix(".jsonl").replace("/", "#"),
                self._object(key).decode().splitlines(),
            )
            for key in sorted(self.objects(prefix))
            if key.endswith(".jsonl")
        ]

    def objects(self, prefix: str) -> list[str]:
        answer = self._s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix)
        return [entry["Key"] for entry in answer.get("Contents", ())]

    def _object(self, key: str) -> bytes:
        data: bytes = self._s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return data

    def _look_at_lanes(self, process: Process, name: str, options: Mapping[str, Any]) -> None:
        """What a write put into a run's lane, or took out of it."""
        for item in _written_letters(self._dynamodb, name, options):
            lane, mark = lane_of(item), stamp_of_item(item)
            copy = item["copy"]["S"]
            if lane.startswith("run:"):
                self._joins(process, lane.removeprefix("run:"), item, mark, copy)
                continue
            if mark.origin in self.custody and process.name.startswith(REPLAYER):
                self._leaves(process, self.custody[mark.origin], lane, mark, copy)

    def _joins(
        self, process: Process, run_id: str, item: Mapping[str, Any], mark: Stamp, copy: str
    ) -> None:
        run = self.runs.get(run_id)
        uid = uid_of(self._letter_of(item))
        if run is None:
            raise Broken(f"{process.name} puts {uid} into the lane of no run")
        before = self.custody.get(mark.origin)
        if before not in (None, run_id) and (
            mark.origin not in self._maybe_parked
            and self._is_in_custody(self.runs[before], mark.origin)
        ):
            raise Broken(f"{process.name} gives {uid} of run {before} to run {run_id}")
        if run.counted and mark.origin not in run.counted:
            raise Broken(f"{process.name} takes {uid}, which the person did not see counted")
        self.custody[mark.origin] = run_id
        base = self.bases_in_run.setdefault((run_id, mark.origin), mark.base)
        if base != mark.base:
            raise Broken(f"{process.name} counts the attempts of {uid} anew within its run")
        if (run_id, copy) in self.joined:
            return
        self.joined.add((run_id, copy))
        if mark.ticket is None or mark.origin not in run.sent:
            if copy not in self._names_on_pages(run_id):
                raise Broken(f"{process.name} stores {uid} before its page")
        elif self._returned(run_id, mark) != copy:
            raise Broken(f"{process.name} returns {uid} without its ticket")

    def _is_in_custody(self, run: WitnessedRun, origin: str) -> bool:
        """Whether a letter that a run took is still its own: in its lane, or under way."""
        return run.state in LIVE_STATES and (
            self._is_in_lane(run, origin) or self._is_under_way(origin)
        )

    def _leaves(self, process: Process, run_id: str, lane: str, mark: Stamp, copy: str) -> None:
        """A letter of a run goes to another lane."""
        deliveries = self.deliveries.get(copy, ())
        if any(key_of(copy) in delivery.chunk.marked for delivery in deliveries):
            raise Broken(f"{process.name} leaves {copy} behind, which its run has sent")
        # One that still names its run waits with its group, and is parked after that.
        if lane == PARKED_LANE or mark.run == run_id:
            return
        run = self.runs[run_id]
        if lane == DUE and run.leave_to != "schedule":
            raise Broken(f"{process.name} leaves {copy} to the schedule, and no person said so")
        self.to_schedule.add((run_id, mark.origin))

    def _names_on_pages(self, run: str) -> set[str]:
        names: set[str] = set()
        for key in self.objects(run_object("orders", run, "pages") + "/"):
            if key not in self._pages:
                lines = self._object(key).decode().splitlines()
                self._pages[key] = {json.loads(line)["c"] for line in lines}
            names |= self._pages[key]
        return names

    def _returned(self, run: str, mark: Stamp) -> str | None:
        partition = Partition.RUN.of("orders", run, str(ticket_partition(mark.origin)))
        key = {"pk": {"S": partition}, "sk": {"S": f"{mark.origin}#{mark.ticket}"}}
        item = self._dynamodb.get_item(TableName=LETTERS, Key=key, ConsistentRead=True)
        returned: str | None = item.get("Item", {}).get("returned", {}).get("S")
        return returned

    def _sent(
        self, process: Process, options: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> None:
        super()._sent(process, options, answer)
        entries = {entry["Id"]: entry for entry in options["Entries"]}
        for success in answer.get("Successful", ()):
            self._sent_from[success["MessageId"]] = entries[success["Id"]].continues
        if options["QueueUrl"] != self._main or not process.name.startswith(REPLAYER):
            return
        for success in answer.get("Successful", ()):
            entry = entries[success["Id"]]
            mark = stamp_of_entry(entry)
            if mark is not None and mark.run in self.runs:
                self._accepted(self.runs[mark.run], uid_of(entry["MessageBody"]), mark)

    def _accepted(self, run: WitnessedRun, uid: str, mark: Stamp) -> None:
        send = Send(self._scheduler.now, uid, mark.origin, mark.attempts_used)
        run.sends.append(send)
        run.sent[mark.origin] = send
        run.attempts[mark.origin].add(mark.attempt)
        if len(run.attempts[mark.origin]) > self._tries(run, uid, mark):
            raise Broken(f"{uid} is sent in {len(run.attempts[mark.origin])} lives of its run")
        if run.state == RunState.CANARY:
            run.canaries += 1
            if run.canaries > run.allowed:
                raise Broken(f"run {run.id} sends {run.canaries} canaries of {run.allowed}")
        self.counts["letters replayed"] += 1

    def _check_lanes(self, process: Process, held: Held, lane: str) -> None:
        """A run takes letters out of the parking lot, and leaves others there."""
        if not process.name.startswith(REPLAYER):
            super()._check_lanes(process, held, lane)

    def _check_attempts(self, process: Process, uid: str, mark: Stamp) -> None:
        """A run counts anew: what it sends is checked when the send begins."""
        if not process.name.startswith(REPLAYER) and mark.origin not in self.custody:
            super()._check_attempts(process, uid, mark)

    def _is_stamp_kept(self, item: Mapping[str, Any], carried: Stamp | None) -> bool:
        return stamp_of_item(item).origin in self.custody or super()._is_stamp_kept(item, carried)

    def _in_order(self, process: Process, held: Held, group: str) -> None:
        """A letter that comes back to its run has a new place in its queue."""
        if not process.name.startswith(REPLAYER):
            super()._in_order(process, held, group)

    # What consumers did

    def handled(self, uid: str) -> None:
        """A handler has had its first effect for a message: in the order of its key."""
        place = self.place_of(uid)
        if place is None:
            return
        key, number = place
        # A run that repeats another one is in order by itself.
        runs = sorted(self.runs.values(), key=lambda run: run.plan.repeated_run is None)
        of_run = next(
            (
                run
                for run in runs
                if run.plan.ordered and any(origin in run.sent for origin in self.origins(uid))
            ),
            None,
        )
        if of_run is None:
            return
        last = self.last_handled.get((of_run.id, key), -1)
        if number < last:
            raise Broken(f"{uid} has its effect after number {last} of its key {key}")
        self.last_handled[of_run.id, key] = number

    def origins(self, uid: str) -> set[str]:
        return self.messages[uid].origins

    # The end

    def check_rate(self) -> None:
        """In no window there are more sends than rate and burst allow."""
        for run in self.runs.values():
            check_window(
                [send.at for send in run.sends],
                rate=run.plan.rate,
                burst=run.plan.burst,
                slack=2 * self.skew + USED_WITHIN,
            )

    def check_runs(self) -> None:
        """Nothing is left in a run's lane, and its report accounts for all that it took."""
        for run in self.runs.values():
            if self._letters_in(run_lane(run.id)):
                raise Broken(f"stranded in the lane of run {run.id}, which is {run.state}")
            if run.state == RunState.BROKEN:
                raise Broken(f"run {run.id} is BROKEN")
            if run.manifest is None:
                continue
            if tuple(self.manifest_lines(run.id)) != run.lines:
                raise Broken(f"the manifest of run {run.id} has changed")
            self._check_report(run)
            if self.keeps_originals and run.plan.keeps_originals:
                self._check_originals(run)
            origins = [json.loads(line)["o"] for line in run.lines]
            if run.plan.repeated_run and len(set(origins)) < len(origins):
                raise Broken(f"run {run.id} has made a letter twice")

    def _check_originals(self, run: WitnessedRun) -> None:
        """Each letter of the snapshot is kept as it was, whatever became of it."""
        found = self.originals(run.id)
        for line in run.lines:
            name = json.loads(line)
            uid = next(uid for uid in self.messages if name["o"] in self.messages[uid].origins)
            if found.get(name["c"]) != self.messages[uid].body:
                raise Broken(f"run {run.id} has not kept {uid} as it was")

    def originals(self, run: str) -> dict[str, str]:
        """The bodies that a run has kept, by the copy."""
        return {
            original.name.copy: original.letter.body
            for key in self.objects(originals_object("orders", run, ""))
            for original in map(original_in, lines_in(self._object(key)))
        }

    def check_conservation(self) -> None:
        """What a person has sent once more may lie where its original is kept."""
        done = [self.messages[uid] for uid in self._in_originals()]
        with_original = [message for message in done if not message.done]
        for message in with_original:
            message.done = True
        try:
            super().check_conservation()
        finally:
            for message in with_original:
                message.done = False

    def _in_originals(self) -> set[str]:
        of = {run.plan.repeated_run for run in self.runs.values()} - {None}
        bodies = (body for run in of if run for body in self.originals(run).values())
        return {uid_of(body) for body in bodies}

    def _letters_in(self, lane: str) -> list[str]:
        return [
            uid_of(self._letter_of(item))
            for item in self._dynamodb.items(LETTERS)
            if "copy" in item and lane_of(item) == lane
        ]

    def _check_report(self, run: WitnessedRun) -> None:
        """The report adds up to the snapshot, and each outcome in the status rows is true."""
        counts = self.report_counts(run.id)
        if counts is None:
            raise Broken(f"run {run.id} has ended without a report")
        if sum(counts.values()) != len(run.lines):
            raise Broken(f"the report of run {run.id} counts {sum(counts.values())} letters")
        unsettled = [name for name in counts if ReplayOutcome[name] not in TERMINAL]
        if unsettled:
            raise Broken(f"the report of run {run.id} has letters that are {unsettled}")
        outcomes = self.outcomes(run.id)
        for number, line in enumerate(run.lines):
            outcome = outcomes.get(number, ReplayOutcome.OPEN)
            if outcome not in TERMINAL:
                raise Broken(f"a status row of run {run.id} has a letter that is {outcome.name}")
            self._check_outcome(run, json.loads(line)["o"], outcome)
            self.counts[f"outcome {outcome.name}"] += 1

    def _check_outcome(self, run: WitnessedRun, origin: str, outcome: ReplayOutcome) -> None:
        uid = next(uid for uid, message in self.messages.items() if origin in message.origins)
        repeats = run.plan.repeated_run is not None
        done = self.messages[uid].done or (uid in self._was_done and not repeats)
        if outcome in (ReplayOutcome.RECOVERED, ReplayOutcome.DUPLICATE) and not done:
            raise Broken(f"run {run.id} says that {uid} is recovered, and it is not")

    def outcomes(self, run: str) -> dict[int, ReplayOutcome]:
        """The outcome of each line of a manifest, as its status rows say."""
        partition = Partition.RUN.of("orders", run, "status")
        rows = {
            item["sk"]["S"]: item["outcomes"]
            for item in self._dynamodb.items(LETTERS)
            if item["pk"]["S"] == partition and "outcomes" in item
        }
        outcomes: dict[int, ReplayOutcome] = {}
        number = 0
        for part, lines in self._parts(run):
            row = rows.get(part, {"S": ""})
            text = row["S"] if "S" in row else bytes(row["B"]).decode()
            for at, _ in enumerate(lines):
                if at < len(text):
                    outcomes[number] = ReplayOutcome(text[at])
                number += 1
        return outcomes

    def report_counts(self, run: str) -> Mapping[str, int] | None:
        """The counts of a run's report; None before it has a report."""
        keys = self.objects(run_object("orders", run, "report.json"))
        if not keys:
            return None
        counts: Mapping[str, int] = json.loads(self._object(keys[0])).get("counts", {})
        return counts


LIVE_STATES = frozenset({"PLANNED", "MOVING", "WAITING_APPROVAL", "CANARY", "RUNNING", "HELD"})

RUNS = Partition.RUNS.of("orders")

WRITES = (
    *("put_item", "update_item", "delete_item"),
    *("batch_write_item", "transact_write_items"),
)


def check_window(times: Sequence[float], *, rate: float, burst: float, slack: float) -> None:
    """Raises Broken if any window has more than rate x window + burst + rate x slack + 1."""
    ordered = sorted(times)
    for first, begin in enumerate(ordered):
        for last in range(first, len(ordered)):
            window = ordered[last] - begin
            allowed = rate * window + burst + rate * slack + 1
            if last - first + 1 > allowed:
                raise Broken(f"{last - first + 1} sends in {window:.1f} s, {allowed:.1f} allowed")


def stamp_of_entry(entry: Mapping[str, Any]) -> Stamp | None:
    return _mark_of(entry.get("MessageAttributes", {}))


def stamp_of_item(item: Mapping[str, Any]) -> Stamp:
    mark = stamps.parse(item["stamp"]["S"])
    assert mark is not None
    return mark


def size_of(item: Mapping[str, Any]) -> int:
    """About the bytes that DynamoDB counts of an item."""
    return sum(len(name) + _size(value) for name, value in item.items())


def _size(value: Mapping[str, Any]) -> int:
    [(kind, content)] = value.items()
    if kind == "N":
        return len(content) // 2 + 1
    if kind == "M":
        return 3 + size_of(content)
    if kind == "L":
        return 3 + sum(map(_size, content))
    return len(content) if kind in ("S", "B") else 1


def _mark_of(attributes: Mapping[str, Any]) -> Stamp | None:
    if stamps.NAME not in attributes:
        return None
    return stamps.parse(attributes[stamps.NAME]["StringValue"])


def _written_letters(
    dynamodb: Any, name: str, options: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """The letters' items that a call has put or changed, as they are now."""
    keys = [
        {"pk": {"S": partition}, "sk": {"S": sort}}
        for partition, sort in written(name, options)
        if "#message#" in partition or "#group#" in partition
    ]
    items = [
        dynamodb.get_item(TableName=LETTERS, Key=key, ConsistentRead=True).get("Item", {})
        for key in keys
    ]
    for item in items:
        if item and "copy" not in item:
            raise Broken(f"among the waiting letters is {item['sk']['S']}, which is no letter")
    return [item for item in items if item]
