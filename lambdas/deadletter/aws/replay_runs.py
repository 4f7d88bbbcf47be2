"""The rows of replay runs in DynamoDB: state and pace, plan and counted letters, approval.

The limiter is in the row of the run: one conditional write each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from decimal import ROUND_CEILING, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import DynamoDBClient, DynamoDBTable, PipelineRows
from deadletter.aws.errors import AWS_ERRORS, Conflict, NoteRow, code, ignore, ours, refusal
from deadletter.aws.executions import NamedExecutions
from deadletter.aws.rows import Broken, decoded, part_of, whole
from deadletter.aws.table import (
    PARTITION,
    SORT,
    Key,
    above,
    absent,
    at_least,
    at_most,
    begins,
    differs,
    equals,
    every,
    one_of,
    parts,
    stored_number,
)
from deadletter.contract import ROWS_KEPT, Partition
from deadletter.replay.limiter import Bid, BidAnswer, granted
from deadletter.replay.plan import ApprovalAnswer, ReplayPlan, RunApproval, plan_from_text
from deadletter.replay.run import (
    SENDING,
    BadRun,
    ReplayRun,
    RunRefused,
    RunState,
    RunsUnavailable,
    bad_run_row,
)

if TYPE_CHECKING:
    from deadletter.replay.names import CountedOrigins

LARGEST_ITEM = 1_000
"""Bytes of a run's item at most: each grant writes it, and is billed by the KB."""

_MOST_BECAUSE = 140  # bytes
_MOST_BY = 80  # bytes

_STORED = tuple(field.name for field in fields(ReplayRun) if field.name not in ("id", "pipeline"))
"""Attributes of a run's item."""

_OF_A_STEP = ("allowance", "rate", "burst")
"""What a step brings: it is written although the change before named the same value, because
grants may have used it up meanwhile."""


@dataclass(eq=False, repr=False)
class DynamoDBReplayRuns(PipelineRows):
    """The replay runs of one pipeline. `clock` gives epoch seconds."""

    clock: Callable[[], float]
    note_bad_row: NoteRow = ignore

    def read(self, run: str) -> ReplayRun | None:
        with ours(RunsUnavailable):
            # By BatchGetItem: the functions' roles may read single items in no other way.
            item = self._table.get_many([self._key(run)]).get(self._key(run))
        return None if item is None else self._run(item)

    def all(self) -> tuple[ReplayRun, ...]:
        with ours(RunsUnavailable):
            items = self._table.query(Partition.RUNS.of(self.pipeline))
        runs = [run_from_item(item, self.pipeline, self._table.name) for item in items]
        for run in runs:
            # It stands in the way of no other run.
            if isinstance(run, Broken):
                self.note_bad_row(run.name)
        return tuple(run for run in runs if isinstance(run, ReplayRun))

    @ours(RunsUnavailable)
    def create(self, run: ReplayRun) -> ReplayRun:
        """Store a new run, unless there is one with its id. Returns the one that is stored."""
        try:
            self._table.put(run_to_item(run, self.pipeline, self.clock()), absent(PARTITION))
        except Conflict as conflict:
            return self._run(conflict.item or {})
        return run

    @ours(RunsUnavailable)
    def change(self, before: ReplayRun, after: ReplayRun) -> None:
        #  generation 4 ──write 5 (finds 4)──► 5
        #                 ├─ the SDK repeats the write: it finds its own 5 ──► done
        #                 └─ another writer's 5 ──► refused, the caller reads again
        changed = self._changed(before, after)
        if not changed:
            return
        try:
            self._table.change(
                self._key(before.id),
                {**changed, "ttl": int(self.clock() + ROWS_KEPT)},
                when=equals("generation", before.generation),
            )
        except Conflict as conflict:
            stored_item = conflict.item
            if not stored_item:
                raise RunRefused(f"run {before.id} is unknown") from conflict
            if any(stored_item.get(name) != value for name, value in changed.items()):
                now = self._run(stored_item)
                raise RunRefused(
                    f"run {before.id} was changed meanwhile: it is {now.state} now,"
                    f" by {now.by or 'its execution'}"
                ) from conflict

    @ours(RunsUnavailable)
    def bid(self, run: ReplayRun, bid: Bid) -> BidAnswer | None:
        """Grant the letters of a bid if the run allows it; see `deadletter.replay.limiter`.

        #  paid 10.0 ──bid a (latest 10.2)──► 10.5, token a
        #              ├─ the SDK repeats bid a, because its answer was lost: it finds its own
        #              │  token ──► granted, once
        #              └─ bid b (latest 10.2) finds 10.5 ──► waits
        """
        try:
            before = self._grant(run, bid)
        except Conflict as conflict:
            item = conflict.item
            if not item:
                return None
            return BidAnswer(item.get("bid") == bid.token, self._run(item), _at(item))
        return BidAnswer(True, granted(self._run(before), bid), _at(before))

    def _grant(self, run: ReplayRun, bid: Bid) -> dict[str, Any]:
        """Write what a bid is granted; the item as it was before."""
        conditions = [
            equals("generation", bid.generation),
            one_of("state", [str(state) for state in sorted(SENDING)]),
            at_most("paid", _exact(bid.latest)),
            # The SDK repeats a write whose answer was lost.
            absent("bid") | differs("bid", bid.token),
        ]
        sets: dict[str, Any] = {"bid": bid.token, "at": _exact(bid.now)}
        adds: dict[str, Any] = {}
        if bid.is_idle:
            sets["paid"] = _exact_up(bid.full + bid.cost)
        else:
            # Less can't be: `paid` never decreases, and the bidder has seen it above.
            conditions.append(above("paid", _exact(bid.full)))
            adds["paid"] = _exact_up(bid.cost)
        if bid.allowance:
            conditions.append(at_least("allowance", bid.allowance))
            adds["allowance"] = -bid.allowance
        return self._table.change(
            self._key(run.id), sets, adds=adds, when=every(conditions), shown="ALL_OLD"
        )

    def _changed(self, before: ReplayRun, after: ReplayRun) -> dict[str, Any]:
        """The attributes that a change writes: a hold must not take back what grants used."""
        old, new = _attributes(before), _attributes(after)
        changed = {name: value for name, value in new.items() if old.get(name) != value}
        if (before.step, before.step_began) != (after.step, after.step_began):
            changed |= {name: new[name] for name in _OF_A_STEP}
        return changed

    def _run(self, item: Mapping[str, Any]) -> ReplayRun:
        return whole(run_from_item(item, self.pipeline, self._table.name), _bad_run)

    def _key(self, run: str) -> Key:
        return (Partition.RUNS.of(self.pipeline), run)


def run_to_item(run: ReplayRun, pipeline: str, now: float) -> dict[str, Any]:
    """The item of a run, as it is first stored at `now` (epoch seconds)."""
    return {
        PARTITION: Partition.RUNS.of(pipeline),
        SORT: run.id,
        **_attributes(run),
        "ttl": int(now + ROWS_KEPT),
    }


def run_from_item(item: Mapping[str, Any], pipeline: str, table: str) -> ReplayRun | Broken:
    """The run in an item given as plain data."""
    return decoded(partial(_run_in, pipeline=pipeline), item, table)


def _run_in(item: Mapping[str, Any], pipeline: str) -> ReplayRun:
    return part_of(
        ReplayRun,
        {name: item[name] for name in _STORED},
        id=str(item[SORT]),
        pipeline=pipeline,
        state=RunState(item["state"]),
        resume_to=RunState(item["resume_to"]),
        counts={str(name): int(number) for name, number in item["counts"].items()},
        left=bool(item["left"]),
    )


def _bad_run(row: str) -> BadRun:
    return BadRun(str(bad_run_row(row)))


def _attributes(run: ReplayRun) -> dict[str, Any]:
    """The fields of a run as DynamoDB stores them, all texts short enough for one KB."""
    attributes = {name: getattr(run, name) for name in _STORED}
    for name, value in attributes.items():
        if isinstance(value, float):
            attributes[name] = _exact(value)
    attributes["state"], attributes["resume_to"] = str(run.state), str(run.resume_to)
    attributes["counts"] = dict(run.counts)
    attributes["because"] = _cut(run.because, _MOST_BECAUSE)
    attributes["by"] = _cut(run.by, _MOST_BY)
    attributes["approved_by"] = _cut(run.approved_by, _MOST_BY)
    return attributes


def _at(item: Mapping[str, Any]) -> float:
    """The limiter's time in the item; long ago if no grant was written yet."""
    at = item.get("at", 0)
    return float(at) if isinstance(at, Decimal | int) else 0.0


def _exact(value: float) -> Decimal | int:
    """A number in millionths: at 1,000 letters a second a letter costs a thousandth."""
    return value if isinstance(value, int) else Decimal(str(round(value, 6)))


def _exact_up(value: float) -> Decimal:
    """A number in millionths that is not below `value`: a pace rounds against itself."""
    return Decimal(str(round(value, 9))).quantize(Decimal("0.000001"), ROUND_CEILING)


def _cut(text: str, most: int) -> str:
    """The text in at most so many bytes."""
    data = text.encode()
    return text if len(data) <= most else data[: most - 3].decode(errors="ignore") + "…"


PLAN_ROW, APPROVAL_ROW = "plan", "approval"
"""Sort keys of a run's plan, and of its approval."""

COUNTED = "counted#"
"""What the sort keys of the rows with counted letters begin with, beside the plan's."""

MOST_COUNTED = 20_000
"""Origins of one row: at 16 bytes each they stay below the 400 KB of an item."""


def plan_partition(pipeline: str, run: str, *, discards: bool) -> str:
    """The partition of a run's plan.

    That of a run that throws letters away or brings them back is another one: who may only replay
    letters can't write it, and no plan is believed that stands in the other's place.
    """
    return Partition.RUN.of(pipeline, run, "discard" if discards else "plan")


def approval_key(pipeline: str, run: str) -> Key:
    """The key of the row that a run's approval waits for: planners can't write it."""
    return Partition.RUN.of(pipeline, run, "approval"), APPROVAL_ROW


def packed(origins: Sequence[str]) -> Iterator[bytes]:
    """The keys of these origins, each once, sorted over all rows; at most MOST_COUNTED a row."""
    # The watch, which reads runs, does without.
    from deadletter.redrive.journal import key_of

    keys = sorted({key_of(origin) for origin in origins})
    for part in parts(keys, MOST_COUNTED):
        yield b"".join(part)


def unpacked(keys: bytes) -> frozenset[bytes]:
    """The keys in one row."""
    from deadletter.redrive.journal import KEY_BYTES

    return frozenset(keys[at : at + KEY_BYTES] for at in range(0, len(keys), KEY_BYTES))


@dataclass(eq=False, repr=False)
class DynamoDBReplayPlans(PipelineRows):
    """The plans of one pipeline's runs, and what was answered to them. Raises RunsUnavailable."""

    clock: Callable[[], float]

    def store(self, plan: ReplayPlan, origins: Sequence[str] | None) -> None:
        """Store a plan and the origins that a person saw counted (None: any that match).

        Storing a plan twice has the effect of once: its text and its letters never change.
        """
        partition = plan_partition(self.pipeline, plan.run_id, discards=plan.is_for_discarders)
        ttl = int(self.clock() + ROWS_KEPT)
        rows: list[dict[str, Any]] = [{SORT: PLAN_ROW, "plan": plan.to_text()}]
        if origins is not None:
            rows += [
                {SORT: f"{COUNTED}{number:06}", "keys": keys}
                for number, keys in enumerate(packed(origins))
            ]
        with ours(RunsUnavailable):
            for row in rows:
                self._table.write_many(puts=[{PARTITION: partition, "ttl": ttl, **row}])

    def plan(self, run: str) -> ReplayPlan | None:
        # IAM tells who may throw letters away by the partition: there, and only there, a plan may
        # say so.
        keys = {
            discards: (plan_partition(self.pipeline, run, discards=discards), PLAN_ROW)
            for discards in (False, True)
        }
        rows = self._rows(*keys.values())
        for discards, key in keys.items():
            if key not in rows:
                continue
            plan = self._plan(rows[key])
            if plan.is_for_discarders is discards:
                return plan
        return None

    def _plan(self, row: Mapping[str, Any]) -> ReplayPlan:
        plan = decoded(lambda row: plan_from_text(row["plan"]), row, self._table.name)
        return whole(plan, bad_run_row)

    def approval(self, run: str) -> RunApproval:
        row = self._approval(run)
        approved, by, because = (row.get(name) for name in ("approved", "by", "because"))
        answer = (
            ApprovalAnswer(approved, str(by or ""), str(because or ""))
            if isinstance(approved, bool)
            else None
        )
        asked = row.get("asked")
        return RunApproval(asked if isinstance(asked, bool) else None, answer)

    def approval_token(self, run: str) -> str | None:
        """The token with which the run waits for an approval; None if it does not wait."""
        token = self._approval(run).get("token")
        return str(token) if token else None

    def _approval(self, run: str) -> Mapping[str, Any]:
        key = approval_key(self.pipeline, run)
        return self._rows(key).get(key, {})

    def _rows(self, *keys: Key) -> Mapping[Key, Mapping[str, Any]]:
        with ours(RunsUnavailable):
            return self._table.get_many(keys)

    def keep_asked(self, run: str, *, asked: bool) -> None:
        # Of an earlier snapshot of the same plan an answer may be left, which is none to this one.
        self._keep(run, {"asked": asked, "approved": None})

    def keep_token(self, run: str, token: str) -> None:
        self._keep(run, {"token": token})

    def keep_answer(self, run: str, answer: ApprovalAnswer) -> None:
        self._keep(run, {**asdict(answer), "at": stored_number(self.clock())})

    def _keep(self, run: str, values: Mapping[str, Any]) -> None:
        ttl = int(self.clock() + ROWS_KEPT)
        with ours(RunsUnavailable):
            self._table.change(approval_key(self.pipeline, run), {**values, "ttl": ttl})


def read_counted(
    client: DynamoDBClient, table: str, pipeline: str, plan: ReplayPlan
) -> CountedOrigins:
    """The letters that the person of a plan has seen counted.

    Raises RunsUnavailable, also if some of the rows are missing: a list that is cut off would
    leave letters out of the run that the person has seen.
    """
    from deadletter.replay.names import CountedOrigins

    partition = plan_partition(pipeline, plan.run_id, discards=plan.is_for_discarders)
    with ours(RunsUnavailable):
        rows = DynamoDBTable(client, table).query(partition, begins(SORT, COUNTED))
    keys = [whole(decoded(_keys_in, row, table), bad_run_row) for row in rows]
    counted = CountedOrigins(keys)
    if len(counted) != plan.counted:
        raise RunsUnavailable(f"{len(counted)} of {plan.counted} counted messages are on record")
    return counted


def _keys_in(row: Mapping[str, Any]) -> bytes:
    """The keys in a row of counted letters, which is not cut off."""
    from deadletter.redrive.journal import KEY_BYTES

    keys = bytes(row["keys"])
    if len(keys) % KEY_BYTES:
        raise ValueError("a row of counted messages is cut off")
    return keys


NOT_WAITING = ("TaskDoesNotExist", "TaskTimedOut", "InvalidToken")
"""Errors of an answer to a task that waits no more."""


class StepFunctionsReplays(NamedExecutions):
    """The executions of one pipeline's replay runs."""

    UNAVAILABLE = RunsUnavailable

    def start(self, run: ReplayRun) -> None:
        """Start the execution of a run, unless it was started before."""
        self._start(run.execution, {"run": run.id})

    def answer(self, token: str) -> None:
        try:
            self.client().send_task_success(taskToken=token, output="{}")
        except AWS_ERRORS as error:
            if code(error) not in NOT_WAITING:
                raise RunsUnavailable(refusal(error, "states", self.name)) from error
