"""What a pipeline in mode observe would have done, in DynamoDB: one item for each source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deadletter.aws.dynamodb import PipelineRows
from deadletter.aws.errors import NoteRow, ignore, ours
from deadletter.aws.rows import Broken, decoded
from deadletter.aws.table import SORT, Key, stored_number
from deadletter.contract import END_OF_TIME, ROWS_KEPT, Partition
from deadletter.redrive.observed import Observed, ObservedUnavailable, from_text, to_text
from deadletter.routing.decision import Decision


@dataclass(eq=False, repr=False)
class DynamoDBObserved(PipelineRows):
    """What was observed in the sources of one pipeline. `clock` gives epoch seconds.

    Who notes holds the lease of the source: no two write one item at the same time.
    """

    clock: Callable[[], float]
    note_bad_row: NoteRow = ignore

    def note(self, source: str, judged: Iterable[tuple[str, Decision]], now: float) -> None:
        key = self._key(source)
        with ours(ObservedUnavailable):
            # By BatchGetItem: the redriver's role may read single items in no other way.
            before = self._observed(self._table.get_many([key]).get(key), now)
            after = before.with_judged(judged, now)
            if after == before:
                return
            self._table.change(key, {
                "since": stored_number(after.since),
                "messages": to_text(after),
                "ttl": int(self.clock() + ROWS_KEPT),
            })  # fmt: skip

    def read(self) -> Mapping[str, Observed]:
        """What was observed, by source."""
        with ours(ObservedUnavailable):
            items = self._table.query(Partition.OBSERVED.of(self.pipeline), lagging=True)
        return {item[SORT]: self._observed(item, self.clock()) for item in items}

    def _observed(self, item: Mapping[str, Any] | None, now: float) -> Observed:
        """What an item says; a malformed one says nothing, and is written anew."""
        observed = None if item is None else decoded(_observed, item, self._table.name)
        if isinstance(observed, Broken):
            self.note_bad_row(observed.name)
        return observed if isinstance(observed, Observed) else from_text("", now)

    def _key(self, source: str) -> Key:
        return (Partition.OBSERVED.of(self.pipeline), source)


def _observed(item: Mapping[str, Any]) -> Observed:
    observed = from_text(str(item["messages"]), float(item["since"]))
    if to_text(observed) != item["messages"] or not 0 <= observed.since < END_OF_TIME:
        raise ValueError("not as a run writes it")
    return observed
