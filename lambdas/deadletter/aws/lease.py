"""The lease on a source in DynamoDB: one item, acquired and given back by conditional writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from deadletter.aws.dynamodb import DynamoDBClient, DynamoDBTable, PipelineRows, number_in, text_in
from deadletter.aws.errors import Conflict, NoteRow, ignore, ours, row_name
from deadletter.aws.rows import part_of, readable
from deadletter.aws.table import SORT, Key, above, absent, at_most, equals, is_number, stored_number
from deadletter.contract import HOUR, Partition
from deadletter.pace.auto_rate import AutoRate, Direction
from deadletter.pace.run import RunPaid, rate_of
from deadletter.redrive.lease import LeaseUnavailable
from deadletter.redrive.report import Report
from deadletter.redrive.round_robin import NO_TURN, LastTurn
from deadletter.redrive.source_memory import NO_DRAIN, PAST, UNKNOWN, Drain, SourceMemory


def read_last_run(
    client: DynamoDBClient, table: str, pipeline: str, home: str
) -> Mapping[str, Any] | None:
    """The report of a source's last run that had work, with its end `at` in epoch seconds.

    None if no run is recorded. Numbers are Decimal. Raises LeaseUnavailable.
    """
    with ours(LeaseUnavailable):
        item = DynamoDBTable(client, table).get(_key(pipeline, home)) or {}
    report = item.get("last_run")
    return report if isinstance(report, dict) else None


LONGEST_LEASE = 1.0 * HOUR
"""Seconds from now after which no lease ends: a function runs for 15 minutes at most."""

_OF_SHARD = "~"
"""Between a source's id and the number of a shard, in the key of that shard's lease."""


def memories_by_source(items: Iterable[Mapping[str, Any]]) -> dict[str, SourceMemory]:
    """The memories in the items of leases, by source; a shard's troubles are its source's."""
    memories: dict[str, SourceMemory] = {}
    of_shards: list[tuple[str, SourceMemory]] = []
    for item in items:
        source, is_shard, _ = item[SORT].partition(_OF_SHARD)
        if is_shard:
            of_shards.append((source, memory_of(item)))
        else:
            memories[source] = memory_of(item)
    for source, of_shard in of_shards:
        memory = memories.get(source, UNKNOWN)
        troubles = dict(memory.troubles)
        for name, time in of_shard.troubles.items():
            troubles[name] = max(time, troubles.get(name, time))
        bad_rows = {**memory.bad_rows, **of_shard.bad_rows}
        memories[source] = replace(memory, troubles=troubles, bad_rows=bad_rows)
    return memories


def is_bad_lease(item: Mapping[str, Any]) -> bool:
    """Whether a lease's item has an attribute that is not as runs write it.

    What can't be read counts as never written, so that the next run writes it anew.
    """
    memory = memory_of(item)
    kept = {field.name for field in fields(SourceMemory)} & item.keys()
    numbers, texts = {"until", "limit", "paid"} & item.keys(), {"own"} & item.keys()
    return (
        any(_stored(getattr(memory, name)) != item[name] for name in kept)
        or any(number_in(item, name) is None for name in numbers)
        or any(not isinstance(item[name], str) for name in texts)
        or not isinstance(item.get("last_run", {}), dict)
    )


@dataclass(eq=False, repr=False)
class DynamoDBLease(PipelineRows):
    """The lease of one source of a pipeline, and what its last run left of the rate.

    A first run has the `first_rate`, in letters per second.
    """

    home: str
    first_rate: float
    note_bad_row: NoteRow = ignore

    def __post_init__(self) -> None:
        super().__post_init__()
        self._key = _key(self.pipeline, self.home)

    def of_shard(self, number: int) -> DynamoDBLease:
        return replace(self, home=f"{self.home}{_OF_SHARD}{number}")

    def read(self) -> SourceMemory:
        with ours(LeaseUnavailable):
            # By BatchGetItem: the redriver's role may read single items in no other way.
            items = self._table.get_many([self._key])
        item = items.get(self._key, {})
        if is_bad_lease(item):
            self.note_bad_row(row_name(self._table.name, *self._key))
        return memory_of(item)

    @ours(LeaseUnavailable)
    def acquire(self, owner: str, now: float, until: float) -> RunPaid | None:
        try:
            before = self._table.change(
                self._key,
                {"own": owner, "until": stored_number(until)},
                # What is no time, or later than any run may hold a lease, is no end.
                when=absent("until")
                | at_most("until", stored_number(now))
                | above("until", stored_number(now + LONGEST_LEASE))
                | ~is_number("until"),
                shown="ALL_OLD",
            )
        except Conflict as conflict:
            item = conflict.item or {}
            # The holder may be ourselves, by a first try whose answer was lost.
            return self._paid(item) if item.get("own") == owner else None
        return self._paid(before)

    @ours(LeaseUnavailable)
    def give_back(self, owner: str, paid: RunPaid, report: Report, now: float) -> None:
        left = {
            "until": 0,
            "limit": stored_number(paid.rate.limit),
            "paid": stored_number(paid.paid),
            "last_run": {**report.to_json(), "at": int(now)},
        }
        self._table.changed(self._key, left, when=equals("own", owner))

    def record(self, memory: SourceMemory, before: SourceMemory = UNKNOWN) -> None:
        changed = {
            field.name: _stored(getattr(memory, field.name))
            for field in fields(SourceMemory)
            if getattr(memory, field.name) != getattr(before, field.name)
        }
        if not changed:
            return
        with ours(LeaseUnavailable):
            self._table.change(self._key, changed)

    def record_drain(self, drain: Drain) -> None:
        self.record(SourceMemory(drain=drain))

    def _paid(self, item: Mapping[str, Any]) -> RunPaid:
        """What the last run left; of a first one, and of a malformed row, a whole burst."""
        limit, paid = number_in(item, "limit") or 0.0, number_in(item, "paid") or 0.0
        return RunPaid(rate_of(limit if limit > 0 else self.first_rate), paid)


def _key(pipeline: str, home: str) -> Key:
    return (Partition.LEASE.of(pipeline), home)


def _stored(value: object) -> object:
    """A field of the memory as DynamoDB takes it; None is stored as such."""
    if isinstance(value, LastTurn | AutoRate | Drain):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {name: _stored(part) for name, part in value.items()}
    if isinstance(value, Direction):
        return str(value)
    return stored_number(value) if isinstance(value, int | float) else value


def memory_of(item: Mapping[str, Any]) -> SourceMemory:
    """The memory in a lease's item; a malformed field counts as never written."""
    return SourceMemory(
        emptied_at=number_in(item, "emptied_at"),
        oldest=number_in(item, "oldest"),
        looks=int(number_in(item, "looks") or 0),
        looked_at=number_in(item, "looked_at"),
        ended_at=number_in(item, "ended_at"),
        ended_well_at=number_in(item, "ended_well_at"),
        stopped=text_in(item, "stopped"),
        held_until=number_in(item, "until") or 0.0,
        trouble=text_in(item, "trouble"),
        fruitless=int(number_in(item, "fruitless") or 0),
        fruitless_at=number_in(item, "fruitless_at"),
        troubles=_times(item.get("troubles")),
        bad_rows=_times(item.get("bad_rows")),
        last_turn=readable(_last_turn, item, NO_TURN),
        auto_rate=readable(_auto_rate, item, None),
        drain=readable(_drain, item, NO_DRAIN),
        wanted_until=number_in(item, "wanted_until") or 0.0,
        first_step=_step(number_in(item, "first_step")),
    )


def _drain(item: Mapping[str, Any]) -> Drain:
    drain = part_of(Drain, item["drain"])
    return drain if drain.of and drain.rate and drain.burst else NO_DRAIN


def _last_turn(item: Mapping[str, Any]) -> LastTurn:
    return part_of(LastTurn, item["last_turn"])


def _auto_rate(item: Mapping[str, Any]) -> AutoRate | None:
    """The rate in a lease's item; None without one, so that it starts again."""
    data = item["auto_rate"]
    rate = part_of(AutoRate, data, direction=Direction(data["direction"]))
    return rate if rate.rate else None


def _step(value: float | None) -> int | None:
    """The next of the first runs; one that is malformed is begun with again."""
    return int(value) if value is not None and 0 <= value <= PAST else None


def _times(value: object) -> Mapping[str, float]:
    """Epoch seconds by name; a malformed one is left out."""
    named = value if isinstance(value, dict) else {}
    return {name: time for name in named if (time := number_in(named, name)) is not None}
