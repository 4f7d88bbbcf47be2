"""The claims in DynamoDB: one row per message, taken and ended by conditional writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from deadletter.aws.dynamodb import DynamoDBClient, DynamoDBTable, PipelineRows
from deadletter.aws.errors import Conflict, Failed, NoteRow, ignore, ours, row_name
from deadletter.aws.table import (
    PARTITION,
    Condition,
    absent,
    at_most,
    below,
    between,
    differs,
    equals,
    is_number,
    stored_number,
    unchanged,
)
from deadletter.contract import CLAIM_FIGURES, DAY, END_OF_TIME, HOUR, LOCKS_END, Partition
from deadletter.processing.idempotency import BusinessKey, Claim, ClaimsUnavailable, Standing

_ROW = "claim"

_CLAIMED, _RELEASED, _DONE = "CLAIMED", "RELEASED", "DONE"

# Tries to claim one message while its row changes. A change needs another colliding message,
# or the end of the row, between two calls.
_MOST_TRIES = 3

# No message is tried so often. Beyond it the count is an error in the row.
_MOST_COUNTED = 2**40

# Seconds: DynamoDB deletes no item whose time to live ended longer ago.
NEVER_EXPIRED = 5.0 * 365 * DAY


@dataclass(eq=False, repr=False)
class DynamoDBClaims(PipelineRows):
    """The claims of one pipeline.

    `keep_seconds` is how long a row stays after its last claim. It must be longer than the
    time in which the message can come back: the retention of main queue, DLQ and parking lot
    together. `note_bad_row` is told the name of a row that could not be read.
    """

    #  no row ──claim──► CLAIMED ──done──► DONE ─────────────── keep ──► no row
    #                     │    ▲
    #            withdraw │    │ claim, by a new owner, with this payload or another
    #    (effect failed)  ▼    │
    #                   RELEASED
    #
    #  owner 1 ─claim─────────────────┤until             done ✗ withdraw ✗ (row is owner 2's)
    #  owner 2        claim: BUSY     │  claim: takes over ──effect──done─► DONE
    #  owner 3                        │                                      claim: DUPLICATE
    #  another payload: BUSY          │                                      claim: apart
    #
    # The good path takes two round trips: claim and done. A message whose key belongs to
    # another message that is done has a row of its own, and needs two more.

    clock: Callable[[], float]
    keep_seconds: float
    note_bad_row: NoteRow = ignore

    def claim(self, key: BusinessKey, owner: str, until: float) -> Claim:
        first = Claim(key.digest, owner, until, Standing.MINE, collision=False, taken_over=False)
        for _ in range(_MOST_TRIES):
            now = self.clock()
            claim, row = self._put(first, key, now)
            # Only what is done can be compared: nothing has happened to any other message yet.
            if row is None or key.apart or row["own"] == owner or row["status"] != _DONE:
                return self._with_standing(claim, row, key)
            differences = key.differences(row["payload"], row.get("content"))
            if differences == ():
                return self._with_standing(claim, row, key)
            if self._keep_longer(first, row, now):
                apart = key.beside(differences)
                second = replace(first, key=apart.digest, collision=True, differences=differences)
                return self._with_standing(*self._put(second, apart, now), apart)
        raise ClaimsUnavailable("the row of another message with this key changes too often")

    def done(self, claim: Claim) -> bool:
        # A newer claim has written another token. The SDK's repeat of a write whose answer was
        # lost finds our own token, and succeeds too.
        still_ours = equals("own", claim.owner)
        return self._change(claim, {"status": _DONE}, still_ours)

    def withdraw(self, claim: Claim, *, tried: bool = True) -> bool:
        still_ours = equals("own", claim.owner)
        # A delayed withdrawal must not undo a `done` of the same owner.
        not_done = differs("status", _DONE)
        uncounted = {} if tried else {"tries": claim.tries - 1}
        end: dict[str, Any] = {"status": _RELEASED}
        if claim.taken_over and not tried:
            # What became of the try before is as unknown as it was.
            end = {"until": stored_number(self.clock())}
        return self._change(claim, {**end, **uncounted}, still_ours & not_done)

    @ours(ClaimsUnavailable)
    def _put(
        self, claim: Claim, key: BusinessKey, now: float
    ) -> tuple[Claim, Mapping[str, Any] | None]:
        """Write the row of a claim. Returns the claim, and the conflicting row if there is one."""
        present, claimed = stored_number(now), equals("status", _CLAIMED)
        never_claimed = absent(PARTITION)
        # DynamoDB deletes an expired row hours or days later; what ended years ago is no time.
        expired = between("ttl", stored_number(now - NEVER_EXPIRED), present)
        withdrawn = equals("status", _RELEASED)
        abandoned = claimed & at_most("until", present)
        # An execution that was suspended goes on, and needs its claim for longer.
        resumed = equals("own", claim.owner) & claimed
        free = never_claimed | expired | withdrawn | abandoned | resumed
        # DynamoDB cannot add to anything but a number.
        number = is_number("tries") & between("tries", 0, _MOST_COUNTED)
        sets: dict[str, Any] = {
            "own": claim.owner,
            "payload": key.payload,
            "status": _CLAIMED,
            "until": stored_number(claim.until),
            "ttl": self._ttl(now),
        }
        if key.content is not None:
            sets["content"] = key.content.stored()
        if key.origin:
            sets |= {"origin": key.origin, "attempt": key.attempt}
        try:
            before = self._table.change(
                (self._partition(claim), _ROW),
                sets,
                # Counted before the effect: a process that dies in it has tried.
                adds={"tries": 1},
                removes=() if key.content is not None else ["content"],
                when=free & (absent("tries") | number),
                shown="ALL_OLD",
            )
        except Conflict as conflict:
            return claim, self._whole(claim, conflict.item or {}, now)
        abandoned_before = before.get("status") == _CLAIMED and before.get("own") != claim.owner
        tries = int(before.get("tries", 0)) + 1
        return replace(claim, taken_over=abandoned_before, tries=tries), None

    def _whole(self, claim: Claim, row: Mapping[str, Any], now: float) -> Mapping[str, Any]:
        """The row, mended and noted if it is malformed: then a claim ends within the hour.

        A message that is done stays done, as far as its row can be compared.
        """
        known = {name: row[name] for name in _ATTRIBUTES if name in row}
        whole = _mended(known, now, self._ttl(now))
        if whole == known:
            return known
        self.note_bad_row(row_name(self._table.name, self._partition(claim), _ROW))
        try:
            self._table.change(
                (self._partition(claim), _ROW),
                whole,
                removes=[name for name in known if name not in whole],
                when=unchanged(known, _ATTRIBUTES),
            )
        except (Failed, Conflict) as error:
            # Another process may have mended it: the next try sees.
            raise ClaimsUnavailable("a row of the claims is malformed") from error
        return whole

    def _with_standing(
        self, claim: Claim, row: Mapping[str, Any] | None, key: BusinessKey
    ) -> Claim:
        """The claim with its standing, which the conflicting row decides; no row, no conflict."""
        # Our own row is that of a first try whose answer was lost, or of a durable execution
        # that runs its handler again: what it had done is in its checkpoints.
        ours = row is None or row["own"] == claim.owner
        if ours and self.clock() < claim.until:
            return claim if row is None else replace(claim, tries=int(row.get("tries", 1)))
        if row is not None and row["status"] == _DONE:
            life = (row.get("origin"), row.get("attempt"))
            is_same = row["payload"] == key.payload and life == (key.origin, key.attempt)
            same_life = bool(key.origin) and is_same
            return replace(claim, standing=Standing.DUPLICATE, same_life=same_life)
        # A call that outlasts our own lease is BUSY: another owner may have the message by now.
        until = claim.until if row is None else float(row["until"])
        return replace(claim, standing=Standing.BUSY, until=until)

    def _keep_longer(self, claim: Claim, row: Mapping[str, Any], now: float) -> bool:
        """Extend the first message's row to live as long as a second message's row from now.

        If the first row expired earlier, the second message would find its key free when it
        comes back, and be processed again although its own row says DONE. Returns False if
        the first row has changed.
        """
        ttl = self._ttl(now)
        if row["ttl"] >= ttl:
            return True
        same_message = equals("payload", row["payload"])
        never_shorter = below("ttl", ttl)
        return self._change(claim, {"ttl": ttl}, same_message & never_shorter)

    @ours(ClaimsUnavailable)
    def _change(self, claim: Claim, sets: Mapping[str, Any], when: Condition) -> bool:
        """Change the row of a claim. Returns False if the row does not meet the condition."""
        return self._table.changed((self._partition(claim), _ROW), sets, when=when)

    def _partition(self, claim: Claim) -> str:
        return Partition.CLAIM.of(self.pipeline, claim.key)

    def _ttl(self, now: float) -> int:
        return int(now + self.keep_seconds)


@dataclass(frozen=True, slots=True)
class KeptClaim:
    """What is on record of a message under its key.

    `is_done` says that it was processed, `is_claimed` that a process works on it, and
    `is_abandoned` that one did and has told of no end; with none of them it was tried, and failed.
    `origin` is the id of its first life; empty if not on record.
    """

    is_done: bool
    is_claimed: bool
    origin: str
    is_abandoned: bool = False


def kept_claims(
    client: DynamoDBClient,
    table: str,
    keys: Sequence[tuple[str, str]],
    now: float,
    *,
    lagging: bool = False,
) -> Mapping[tuple[str, str], KeptClaim]:
    """The claims under these keys: each the name of a pipeline, and a digest.

    Those that may be `lagging` cost half. Raises ClaimsUnavailable.
    """
    rows = {(Partition.CLAIM.of(*key), _ROW): key for key in keys}
    with ours(ClaimsUnavailable):
        items = DynamoDBTable(client, table).get_many(
            list(rows), only=CLAIM_FIGURES, lagging=lagging
        )
    # DynamoDB deletes an expired row hours or days later.
    return {
        rows[place]: _kept(item, now)
        for place, item in items.items()
        if not (_is_time(item.get("ttl"), END_OF_TIME) and item["ttl"] <= now)
    }


def _kept(row: Mapping[str, Any], now: float) -> KeptClaim:
    status, origin = row.get("status"), row.get("origin")
    works = _is_time(row.get("until"), END_OF_TIME) and row["until"] > now
    return KeptClaim(
        status == _DONE,
        status == _CLAIMED and works,
        origin if isinstance(origin, str) else "",
        status == _CLAIMED and not works,
    )


_ATTRIBUTES = ("own", "payload", "status", "until", "ttl", "content", "tries", "origin", "attempt")


def _mended(row: Mapping[str, Any], now: float, ttl: int) -> Mapping[str, Any]:
    """The row with what can be read of it, and for the rest what does no harm.

    The row itself if it is a claim's.
    """
    # No payload is empty: another one is compared by its content, or apart.
    harmless = {"own": "", "payload": "", "status": _CLAIMED, "ttl": ttl}
    harmless["until"] = stored_number(now + HOUR)
    return harmless | {name: row[name] for name in row if _is_right(name, row[name], now)}


def _is_right(name: str, value: Any, now: float) -> bool:
    match name:
        case "own" | "payload" | "origin":
            return isinstance(value, str)
        case "status":
            return value in (_RELEASED, _DONE)
        case "until" | "ttl":
            return _is_time(value, END_OF_TIME if name == "ttl" else now + LOCKS_END)
        case "content":
            return isinstance(value, bytes)
    return _is_count(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, Decimal | int) and 0 <= value <= _MOST_COUNTED and value == int(value)


def _is_time(value: Any, latest: float) -> bool:
    return isinstance(value, Decimal | int) and 0 <= value <= latest
