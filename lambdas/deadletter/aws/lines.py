"""The lines of ordering keys in DynamoDB: one row for who is handled, one for each that waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from deadletter.aws.claims import NEVER_EXPIRED, KeptClaim, kept_claims
from deadletter.aws.dynamodb import PipelineRows, number_in, text_in
from deadletter.aws.errors import Conflict, Failed, NoteRow, ignore, ours, row_name
from deadletter.aws.table import PARTITION, SORT, Key, absent, between, equals, stored_number
from deadletter.circuit.transitions import CLOCK_SKEW
from deadletter.contract import Partition
from deadletter.failure.ledger import LedgerRow, LedgerUnavailable
from deadletter.processing.idempotency import ClaimsUnavailable
from deadletter.routing.line import (
    NOBODY,
    Handling,
    KeyLine,
    LinesUnavailable,
    Patience,
    PlaceState,
    state_of,
)
from deadletter.routing.ordering import KINDS, KeyPlace, version_in

_HEAD, _LISTED = "head", "open "

_PAGE = 10
"""Rows of one read: most lines have the head alone."""

Rows = Callable[..., Mapping[str, LedgerRow]]
"""Reads failure records, as `Ledger.rows` does."""


@dataclass(eq=False, repr=False)
class DynamoDBLines(PipelineRows):
    """The lines of one pipeline. `rows` reads its failure records.

    `patience` is how long others wait for a message of which no more is heard. `keep_seconds` is
    how long a row stays after its last write.
    """

    #  partition <pipeline>#line#<hash of the key>
    #    head                     who is handled: place, claim, token; the highest place done
    #    open <place> <origin>    one row for each message that waits, in order
    #
    #  The head is written before the handler, and not after it: whether its message was processed
    #  is what its claim says. So a message costs one write, and a crash at any moment leaves a
    #  message that is open.

    clock: Callable[[], float]
    keep_seconds: float
    rows: Rows
    patience: Patience
    note_bad_row: NoteRow = ignore

    def read(
        self, places: Sequence[KeyPlace], *, most: int = 1, lagging: bool = False
    ) -> Mapping[str, KeyLine]:
        highest: dict[str, str] = {}
        for place in places:
            highest[place.line] = max(highest.get(place.line, ""), place.upto)
        with ours(LinesUnavailable):
            try:
                return {
                    line: self._line(line, upto, most, lagging=lagging)
                    for line, upto in highest.items()
                }
            except (ClaimsUnavailable, LedgerUnavailable) as error:
                raise LinesUnavailable(str(error)) from error

    def take(self, place: KeyPlace, token: str, line: KeyLine) -> bool:
        if line.holder is not None and line.is_held and not line.holder.is_of(place):
            self.add(line.holder)
        head = {
            "own": token,
            **self._facts(place),
            **{f"done{kind}": version for kind, version in line.done.items()},
        }
        as_read = equals("own", *line.token) if line.token else absent("own")
        with ours(LinesUnavailable):
            try:
                self._table.change(self._key(place.line, _HEAD), head, when=as_read)
            except Conflict as conflict:
                # The SDK's repeat of a write whose answer was lost finds our own token.
                if (conflict.item or {}).get("own") != token:
                    return False
        self._strike_out([*line.finished, *(each for each in line.listed if each.is_of(place))])
        return True

    @ours(LinesUnavailable)
    def add(self, place: KeyPlace) -> None:
        self._table.change(self._listed(place), self._facts(place))

    def _strike_out(self, places: Sequence[KeyPlace]) -> None:
        """Delete rows that say nothing any more; one that stays is found to say nothing again."""
        with suppress(Failed, Conflict):
            for place in places:
                self._table.delete(self._listed(place))

    def _line(self, line: str, highest: str, most: int, *, lagging: bool) -> KeyLine:
        """The line up to a place: read on until so many listed messages are open."""
        now, found, after = self.clock(), NOBODY, None
        upto = between(SORT, _HEAD, f"{_LISTED}{highest}")
        while True:
            rows, after = self._table.page(
                self._partition(line), upto, limit=_PAGE, lagging=lagging, after=after
            )
            found = self._with_rows(found, line, rows, now, lagging=lagging)
            # Those that wait are read in their order, so these are before all others.
            if after is None or len(found.listed) - len(found.finished) >= most:
                return replace(found, is_whole=after is None)

    def _with_rows(
        self,
        line: KeyLine,
        name: str,
        rows: Sequence[Mapping[str, Any]],
        now: float,
        *,
        lagging: bool,
    ) -> KeyLine:
        """The line with what these rows say, the head first."""
        if rows and rows[0][SORT] == _HEAD:
            [head, *_] = rows
            line = replace(line, token=(head["own"],) if "own" in head else ())
            if not text_in(head, "own"):
                self.note_bad_row(row_name(self._table.name, head[PARTITION], _HEAD))
        kept = [row for row in rows if not _is_expired(row, now)]
        placed = {place: row for row in kept if (place := self._place(name, row)) is not None}
        handlings = self._handlings(list(placed), now, lagging=lagging)
        unknown = [each.origin for each in placed if handlings[each] is not Handling.DONE]
        records = self.rows(unknown, lagging=lagging) if unknown else {}
        for place, row in placed.items():
            is_holder, handling = row[SORT] == _HEAD, handlings[place]
            since = number_in(row, "at")
            written = {kind: text for kind in KINDS if (text := text_in(row, f"done{kind}"))}
            done = {kind: text for kind, text in written.items() if version_in(text)[:1] == kind}
            if since is None or since > now + CLOCK_SKEW or done != written:
                self.note_bad_row(row_name(self._table.name, row[PARTITION], row[SORT]))
                # Only its claim says how long it is handled.
                since = now if handling is Handling.LIVE else 0.0
            state = state_of(
                handling,
                records.get(place.origin),
                min(now, since),
                now,
                self.patience,
                is_holder=is_holder,
            )
            if is_holder:
                line = replace(line, holder=place, done=done)
            if state is PlaceState.DONE and place.is_version:
                highest = max(line.done.get(place.kind, ""), place.number)
                line = replace(line, done={**line.done, place.kind: highest})
            elif line.is_past(place):
                # It is skipped when it comes.
                state = PlaceState.FINISHED
            line = _with_state(line, place, state, is_holder=is_holder)
        return line

    def _handlings(
        self, places: Sequence[KeyPlace], now: float, *, lagging: bool
    ) -> Mapping[KeyPlace, Handling]:
        keys = {place: (self.pipeline, place.claim) for place in places if place.claim}
        table, wanted = (self.client, self.table), list(keys.values())
        found = kept_claims(*table, wanted, now, lagging=lagging) if keys else {}
        return {place: _handling(place, found.get(keys.get(place, ("", "")))) for place in places}

    def _place(self, line: str, row: Mapping[str, Any]) -> KeyPlace | None:
        """The place in a row; None if it cannot be read: then nothing waits for it."""
        number, origin = text_in(row, "place"), text_in(row, "origin")
        more = (text_in(row, name) for name in ("claim", "by", "same"))
        place = KeyPlace(line, number, origin, *more)
        is_listed_here = row[SORT] in (_HEAD, f"{_LISTED}{place.sort}")
        if not number or not origin or not is_listed_here:
            self.note_bad_row(row_name(self._table.name, row[PARTITION], row[SORT]))
            return None
        return place

    def _facts(self, place: KeyPlace) -> dict[str, Any]:
        now = self.clock()
        return {
            "place": place.number,
            "origin": place.origin,
            "claim": place.claim,
            "by": place.by,
            "same": place.same,
            "at": stored_number(now),
            "ttl": int(now + self.keep_seconds),
        }

    def _listed(self, place: KeyPlace) -> Key:
        return self._key(place.line, f"{_LISTED}{place.sort}")

    def _key(self, line: str, sort: str) -> Key:
        return (self._partition(line), sort)

    def _partition(self, line: str) -> str:
        return Partition.LINE.of(self.pipeline, line)


def _with_state(line: KeyLine, place: KeyPlace, state: PlaceState, *, is_holder: bool) -> KeyLine:
    """The line with what one message is to the others."""
    is_open = state is PlaceState.OPEN
    if is_open:
        line = replace(line, open=tuple(sorted((*line.open, place), key=_by_number)))
    if is_holder:
        return replace(line, is_busy=state is PlaceState.BUSY, is_held=is_open)
    finished = line.finished if is_open else (*line.finished, place)
    return replace(line, listed=(*line.listed, place), finished=finished)


def _handling(place: KeyPlace, claim: KeptClaim | None) -> Handling:
    # Another message may have claimed the key since.
    if claim is None or claim.origin != place.by:
        return Handling.NONE
    if claim.is_done:
        return Handling.DONE
    if claim.is_claimed:
        return Handling.LIVE
    return Handling.ABANDONED if claim.is_abandoned else Handling.NONE


def _is_expired(row: Mapping[str, Any], now: float) -> bool:
    """Whether a row has ended, which DynamoDB deletes hours or days later. Years ago is no time."""
    return 0 <= now - (number_in(row, "ttl") or now + 1) <= NEVER_EXPIRED


def _by_number(place: KeyPlace) -> str:
    return place.number
