"""A rules table with the rule checker behind its stream, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deadletter.rules.checker import (
    RuleChecker,
    RuleEdit,
    RuleRefusal,
    RuleVerdict,
)
from deadletter.settings.pipeline import Pipeline

ORDERS = Pipeline("orders", context={"tenantId": ""})
BILLING = Pipeline("billing", context={"tenantId": ""})
PIPELINES = {"billing": BILLING, "orders": ORDERS}


@dataclass
class Account:
    """A rules table with its stream: each write, a verdict's too, is an edit to be checked."""

    table: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    edits: list[RuleEdit] = field(default_factory=list)
    writes: int = 0

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """The rules with the id `r`, by the key that they are stored under."""
        return {key: row for (key, rule_id), row in self.table.items() if rule_id == "r"}

    def put(self, new: dict[str, Any]) -> None:
        self._record(new["pipeline"], new["rule_id"], new)

    def remove(self, pipeline: str, rule_id: str = "r") -> None:
        self._record(pipeline, rule_id, None)

    def _record(self, key: str, rule_id: str, new: dict[str, Any] | None) -> None:
        number, place = str(len(self.edits)), (key, rule_id)
        old = self.table.get(place)
        self.edits.append(RuleEdit(number, number, 0.0, key, rule_id, old, new))
        if new is None:
            del self.table[place]
        else:
            self.table[place] = new

    def checker(self) -> RuleChecker:
        return RuleChecker(
            terms=self,
            verdicts=self,
            history=_Ignored(),
            announcer=_Ignored(),
            versions=_Ignored(),
            counts=_Ignored(),
            namesakes=self,
            clock=lambda: 0.0,
        )

    def check_all(self, order: Iterable[int] | None = None) -> None:
        checker = self.checker()
        edits, self.edits = self.edits, []
        while edits:
            for at in order or range(len(edits)):
                assert checker.check([edits[at]]).failed is None
            (edits, self.edits), order = (self.edits, []), None

    def pipelines(self, *, fresh: bool = False) -> Mapping[str, Pipeline]:
        return PIPELINES

    def of(self, rule_id: str, keys: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        places = [(key, rule_id) for key in keys]
        return {place[0]: dict(self.table[place]) for place in places if place in self.table}

    def under(self, key: str) -> Sequence[Mapping[str, Any]]:
        return [dict(row) for (stored, _), row in self.table.items() if stored == key]

    def write(self, verdict: RuleVerdict) -> bool:
        row = self.table.get((verdict.pipeline, verdict.rule_id))
        if row is None or any(row.get(name) != value for name, value in verdict.judged.items()):
            return False
        if any(name in row for name in verdict.absent):
            return False
        self.writes += 1
        outcome = {"status": str(verdict.status), "status_reason": verdict.reason}
        written = {**row, **outcome, "checked_at": verdict.at, "version": verdict.version}
        known = {name: value for name, value in written.items() if value is not None}
        self._record(verdict.pipeline, verdict.rule_id, known)
        return True

    def notes(self) -> dict[str, str | None]:
        return {key: row.get("status_reason") for key, row in sorted(self.rows.items())}


class _Ignored:
    def keep(self, change: RuleEdit) -> None: ...
    def announce(self, refusal: RuleRefusal) -> None: ...
    def write(self, pipeline: str, version: str) -> None: ...
    def forget(self, pipelines: Iterable[str], rule_id: str, keep: str | None) -> None: ...
