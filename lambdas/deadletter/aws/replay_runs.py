"""The items of replay runs in DynamoDB, and the limiter in them: one conditional write each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.errors import MALFORMED, Conflict, NoteRow, ignore, ours, row_name
from deadletter.aws.table import (
    PARTITION,
    SORT,
    Key,
    above,
    absent,
    at_least,
    at_most,
    differs,
    equals,
    every,
    one_of,
)
from deadletter.contract import ROWS_KEPT, Partition
from deadletter.replay.limiter import Bid, BidAnswer, granted
from deadletter.replay.run import SENDING, BadRun, ReplayRun, RunRefused, RunState, RunsUnavailable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

LARGEST_ITEM = 1_000
"""Bytes of a run's item at most: each grant writes it, and is billed by the KB."""

_LARGEST = 2.0**53
"""More than any time, count or pace of a run."""

_MOST_BECAUSE = 158  # bytes
_MOST_BY = 80  # bytes

_TIMES = frozenset(
    {"paid", "rate", "created", "started", "changed", "step_began", "resumed_at", "expires"}
)
_WHOLE = frozenset(
    {
        "generation",
        "step",
        "allowance",
        "burst",
        "restart",
        "known_before",
        "failed_before",
        "resumed_in",
    }
)
_TEXTS = frozenset({"manifest", "leave_to", "because", "by", "approved_by", "told"})
_OF_A_STEP = ("allowance", "rate", "burst")
"""What a step brings: it is written although the change before named the same value, because
grants may have used it up meanwhile."""


class DynamoDBReplayRuns:
    """The replay runs of one pipeline. `clock` gives epoch seconds."""

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        pipeline: str,
        clock: Callable[[], float],
        note_bad_row: NoteRow = ignore,
    ) -> None:
        self._table = DynamoDBTable(client, table)
        self._pipeline = pipeline
        self._clock = clock
        self._note_bad_row = note_bad_row

    def read(self, run: str) -> ReplayRun | None:
        with ours(RunsUnavailable):
            # By BatchGetItem: the functions' roles may read single items in no other way.
            item = self._table.get_many([self._key(run)]).get(self._key(run))
        return None if item is None else self._run(item)

    def all(self) -> tuple[ReplayRun, ...]:
        with ours(RunsUnavailable):
            items = self._table.query(Partition.RUNS.of(self._pipeline))
        return tuple(run for item in items if (run := self._readable(item)) is not None)

    def _readable(self, item: Mapping[str, Any]) -> ReplayRun | None:
        """The run in an item; None, and noted, if it can't be read: it stands in no other's way."""
        try:
            return self._run(item)
        except BadRun:
            self._note_bad_row(row_name(self._table.name, item[PARTITION], item[SORT]))
            return None

    @ours(RunsUnavailable)
    def create(self, run: ReplayRun) -> ReplayRun:
        """Store a new run, unless there is one with its id. Returns the one that is stored."""
        try:
            self._table.put(run_to_item(run, self._pipeline, self._clock()), absent(PARTITION))
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
                {**changed, "ttl": int(self._clock() + ROWS_KEPT)},
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
        return run_from_item(item, self._pipeline)

    def _key(self, run: str) -> Key:
        return (Partition.RUNS.of(self._pipeline), run)


def run_to_item(run: ReplayRun, pipeline: str, now: float) -> dict[str, Any]:
    """The item of a run, as it is first stored at `now` (epoch seconds)."""
    return {
        PARTITION: Partition.RUNS.of(pipeline),
        SORT: run.id,
        **_attributes(run),
        "ttl": int(now + ROWS_KEPT),
    }


def run_from_item(item: Mapping[str, Any], pipeline: str) -> ReplayRun:
    """The run in an item given as plain data. Raises BadRun if it is malformed."""
    try:
        counts, letters, counted = item.get("counts", {}), item.get("letters"), item.get("counted")
        plain_fields: dict[str, Any] = {
            **{name: float(item[name]) for name in _TIMES},
            **{name: int(item[name]) for name in _WHOLE},
            **{name: str(item[name]) for name in _TEXTS},
        }
        is_whole = all(plain_fields[name] == item[name] for name in _WHOLE)
        if not is_whole or not all(0 <= plain_fields[n] < _LARGEST for n in _TIMES | _WHOLE):
            raise ValueError("a time or a count that no run has")
        return ReplayRun(
            id=str(item[SORT]),
            pipeline=pipeline,
            state=RunState(item["state"]),
            resume_to=RunState(item["resume_to"]),
            counted=None if counted is None else int(counted),
            letters=None if letters is None else int(letters),
            counts={str(name): int(number) for name, number in counts.items()},
            left=bool(item["left"]),
            **plain_fields,
        )
    except MALFORMED as error:
        key = f"{Partition.RUNS.of(pipeline)} {item.get(SORT)}"
        raise BadRun(f"a row cannot be read: {key}") from error


def _attributes(run: ReplayRun) -> dict[str, Any]:
    """The fields of a run as DynamoDB stores them, all texts short enough for one KB."""
    attributes: dict[str, Any] = {}
    for field in fields(run):
        if field.name in ("id", "pipeline"):
            continue
        value = getattr(run, field.name)
        attributes[field.name] = _exact(value) if field.name in _TIMES else value
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
