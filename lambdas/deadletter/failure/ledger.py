"""The ledger: for each letter, when and why it failed, and its outcome."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Protocol

from deadletter.contract import CAUSES, Blame, Reason
from deadletter.failure.failure import Failure, from_data
from deadletter.failure.fate import was_tried
from deadletter.message import stamp
from deadletter.message.stamp import Stamp

LIVES = 8
RECEIVES = 2
"""The number of lives, and of receives in each life, whose failures a row keeps.

DynamoDB charges a write by the KB of the whole row, and each failure is a write: sixteen
failures of at most 0.5 KB, mostly 0.3, stay around 6 KB with what the row keeps once. Eight
lives are one more than the default policy allows; of a life the first failure is kept, and the
last one that was unlike the one before it.
"""

_NUMBERS = (int, float, Decimal)

_SLOT = re.compile(r"f\d+_\d+")


def slot(failure: Failure, lives: int = LIVES) -> str:
    """The attribute of the row that holds the failure.

    The same failure has the same slot at every write. A later failure replaces the one that
    is `lives` lives older, or the one of its life that was no first receive: so the row is capped
    without reading it first.
    """
    return f"f{failure.attempt % lives}_{min(failure.receive, RECEIVES) % RECEIVES}"


def uses_attempt(failure: Failure) -> bool:
    """True if a life with this failure uses up one of the letter's attempts.

    False if the handler never had the message, or a person has to repair the configuration.
    """
    return was_tried(failure) and failure.blame is not Blame.CONFIGURATION


class Recovery(StrEnum):
    """How a letter that had been in the DLQ came to be processed."""

    PROCESSED = "processed"
    DUPLICATE = "duplicate"
    """It was processed before: the consumer skipped it."""
    SKIPPED = "skipped"
    """Its handler said that there was nothing to do."""
    SUPERSEDED = "superseded"
    """A later message of its ordering key was processed: the consumer skipped it."""
    FOUND = "found processed"
    """It was processed or skipped in this life, by a process that ended before it said which."""


_NOT_NOW = frozenset({Recovery.DUPLICATE, Recovery.SUPERSEDED})
"""Of these the handler was not asked in the letter's last life."""


@dataclass(frozen=True, slots=True)
class AboutLetter:
    """What a row keeps once of its letter, and not with each failure.

    `context` are the values of the pipeline's `context`, `endpoint` is the key of the letter's
    own circuit if the pipeline has a circuit for each key, `size` the bytes as SQS counts them.
    `trace` is the root of its X-Ray trace, which it keeps through all its lives.
    """

    context: Mapping[str, str] = field(default_factory=dict)
    endpoint: str = ""
    size: int | None = None
    trace: str = ""


NOTHING_KNOWN = AboutLetter()

PARKED = "parked"
"""How a life ended whose letter the consumer parked."""


class LedgerUnavailable(Exception):
    """The ledger could not be read. It is not treated as empty: the letters stay."""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """The ledger's row of one origin id.

    `failures` are oldest first, at most as many as the row has slots; `attempt` is the
    highest that was recorded. `stamp` is set for a letter that could not carry its own; its row
    has the id that the letter was sent with.
    `recovered_at` (epoch seconds) is when the letter was processed, in the life
    `recovered_attempt`, and `recovered_as` says how. `tried` is the last life with a failure that
    uses an attempt: of a life with many receives, the row keeps only the last. `ended_as` says how
    the life `ended_attempt` of a replayed letter ended in the consumer without being processed:
    PARKED, and `ended_reason` why.

    The rest is for people, and no decision is built on it, but which letter is a canary of the
    pipeline's circuit: `about` is what the row keeps once of its letter, `first_at` (epoch seconds)
    the letter's first failure. `parked_at`, `parked_as` and `parked_rule` say when the letter was
    last parked, why, and by which rule, `discarded_at` when a person has last thrown it away, or
    was about to. `has_left_index` is True if the row was in the index of
    causes and is not: the letter has failed, and was processed, parked or thrown away since.
    """

    failures: tuple[Failure, ...] = ()
    attempt: int = 0
    stamp: Stamp | None = None
    unreadable: bool = False
    recovered_at: float | None = None
    recovered_attempt: int | None = None
    tried: int | None = None
    recovered_as: Recovery = Recovery.PROCESSED
    ended_attempt: int | None = None
    ended_as: str = ""
    ended_reason: str = ""
    about: AboutLetter = NOTHING_KNOWN
    first_at: float | None = None
    parked_at: float | None = None
    parked_as: Reason | None = None
    parked_rule: str = ""
    discarded_at: float | None = None
    has_left_index: bool = False

    @property
    def ended_at(self) -> float:
        """When a person's turn began, or the letter was thrown away; before all time if never."""
        return max(self.parked_at or -1.0, self.discarded_at or -1.0)

    @property
    def going_on(self) -> Sequence[Failure]:
        """The failures that show that the letter goes on.

        Given back untried after a person's turn began, in a life from before, is a late word: of a
        process that slept, or of SQS's second delivery. What a person sends again has a new life.
        """
        ended, failures = self.ended_at, self.failures
        if ended < 0:
            return failures
        before = max((failure.attempt for failure in failures if failure.at <= ended), default=0)
        after = (failure for failure in failures if failure.at > ended)
        return [each for each in after if each.attempt > before or was_tried(each)]

    @property
    def is_parked(self) -> bool:
        """Whether the redriver has parked it, and it does not go on since."""
        return self.parked_at is not None and not self.going_on

    @property
    def was_processed(self) -> bool:
        """Whether the consumer says that it has processed the letter, or a copy of it."""
        return self.recovered_at is not None and self.recovered_as is not Recovery.SUPERSEDED

    @property
    def recovered_unasked(self) -> bool:
        """Whether the dependency took no part in the recovery, as far as is known.

        The letter was a duplicate or needed no work, or its consumer did not say.
        """
        return self.recovered_as is not Recovery.PROCESSED

    def outcome_in(self, attempt: int) -> str | None:
        """What the consumer says of one life: "recovered", "duplicate", "superseded", "parked" or
        None.

        None if it has said nothing final: the life goes on, or ended in the DLQ.
        """
        if self.recovered_at is not None and self.recovered_attempt == attempt:
            return str(self.recovered_as) if self.recovered_as in _NOT_NOW else "recovered"
        return self.ended_as if self.ended_as and self.ended_attempt == attempt else None

    @property
    def last(self) -> Failure | None:
        return self.failures[-1] if self.failures else None

    def used_attempt(self, life: int) -> bool:
        """Whether a life used up an attempt; a life without a recorded failure did."""
        failures = [failure for failure in self.failures if failure.attempt == life]
        if not failures or self.tried == life:
            return True
        return any(map(uses_attempt, failures))

    def own_failures(self, first: int, last: int) -> int:
        """How many of these lives failed by their letter, as far back as the row goes.

        A life counts if no failure is on record, or one that the dependency does not explain.
        """
        lives: dict[int, bool] = dict.fromkeys(range(max(first, last - LIVES + 1), last + 1), True)
        for failure in self.failures:
            if failure.attempt in lives:
                lives[failure.attempt] = False
        for failure in self.failures:
            is_own = was_tried(failure) and not failure.explained_by_dependency
            if failure.attempt in lives and is_own:
                lives[failure.attempt] = True
        return sum(lives.values())

    def lives_by_fingerprint(
        self, counts: Callable[[Failure], bool] = lambda _: True
    ) -> Mapping[str, int]:
        """For each fingerprint, the number of lives with a failure that is not the dependency's.

        `counts` says whether a failure counts at all.
        """
        lives: defaultdict[str, set[int]] = defaultdict(set)
        for failure in self.failures:
            explained = failure.explained_by_dependency or not counts(failure)
            if failure.fingerprint and not explained:
                lives[failure.fingerprint].add(failure.attempt)
        return {fingerprint: len(attempts) for fingerprint, attempts in lives.items()}


NO_ROW = LedgerRow()
UNREADABLE = LedgerRow(unreadable=True)
"""A row that cannot be read. Its letter is not judged: without its history it could be
re-driven more often than its policy allows."""


def is_free(stamp: Stamp, row: LedgerRow) -> bool:
    """Whether the letter's next re-drive uses no attempt, for the life that has just ended.

    That life was not tried, failed by its configuration, or failed for a cause that suddenly
    dominated.
    """
    return stamp.spared > stamp.attempt or not row.used_attempt(stamp.attempt)


NO_COUNTS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """How many letters one version of a rule has acted on, and would have acted on as a shadow.

    The times of the last ones are epoch seconds; None before the first one.
    """

    matched: int = 0
    last_matched: float | None = None
    shadow_matched: int = 0
    last_shadow: float | None = None


class Ledger(Protocol):
    """The store of rows, for reading; raises LedgerUnavailable."""

    def rows(self, origins: Sequence[str], *, lagging: bool = False) -> Mapping[str, LedgerRow]:
        """The rows of these ids; an id without a row is absent.

        Those that may be `lagging` cost half, and may lack what was written a moment ago.
        """

    def matches(self, keys: Sequence[str]) -> Mapping[str, int]:
        """How many letters these versions of rules have acted on, by `rule_counts_key`."""


def row_from_item(item: Mapping[str, Any]) -> LedgerRow:
    """The row in a stored item, given as plain Python data; UNREADABLE if it is malformed."""
    try:
        failures = [
            from_data(data)
            for name, data in item.items()
            if name[:1] == "f" and _SLOT.fullmatch(name)
        ]
        attempts = [failure.attempt for failure in failures]
        recovered_at, recovered_attempt = item.get("recovered_at"), item.get("recovered_attempt")
        ended_attempt = item.get("ended_attempt")
        return LedgerRow(
            failures=tuple(
                sorted(failures, key=lambda failure: (failure.at, failure.attempt, failure.receive))
            ),
            attempt=max(int(item.get("attempt", 0)), *attempts, 0),
            stamp=_stamp(item.get("stamp")),
            recovered_at=None if recovered_at is None else float(recovered_at),
            recovered_attempt=None if recovered_attempt is None else int(recovered_attempt),
            tried=None if item.get("tried") is None else int(item["tried"]),
            recovered_as=Recovery(item.get("recovered_as", Recovery.PROCESSED)),
            ended_attempt=None if ended_attempt is None else int(ended_attempt),
            ended_as=str(item.get("ended_as", "")),
            ended_reason=str(item.get("ended_reason", "")),
            about=about_from_item(item),
            first_at=_number(item.get("first_at")),
            parked_at=_number(item.get("parked_at")),
            parked_as=_reason(item.get("parked_as")),
            parked_rule=str(item.get("parked_rule", "")),
            discarded_at=_number(item.get("discarded_at")),
            has_left_index="seen" in item and CAUSES.partition not in item,
        )
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
        return UNREADABLE


# For people only: what is malformed counts as missing, and keeps no letter from its decision.


def about_from_item(item: Mapping[str, Any]) -> AboutLetter:
    """What an item says once of its letter, as plain data."""
    context, size = item.get("context"), _number(item.get("size"))
    return AboutLetter(
        context={str(name): str(value) for name, value in context.items()}
        if isinstance(context, dict)
        else {},
        endpoint=str(item.get("endpoint", "")),
        size=None if size is None else int(size),
        trace=str(item.get("trace", "")),
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, _NUMBERS) else None


def _reason(value: Any) -> Reason | None:
    return Reason(value) if isinstance(value, str) and value in set(Reason) else None


def _stamp(data: Any) -> Stamp | None:
    if data is None:
        return None
    parsed = stamp.parse(data) if isinstance(data, str) else None
    if parsed is None:
        raise ValueError("the stamp in the row is malformed")
    return parsed


class RecordsUnavailable(Exception):
    """A fact about a letter could not be written to the ledger."""


class RecordsConflict(RecordsUnavailable):
    """One fact of several could not be written, and so none is: each by itself may be."""


class Records(Protocol):
    """The ledger as the redriver writes it; raises RecordsUnavailable."""

    def store_stamps(self, stamps: Mapping[str, Stamp]) -> None:
        """Store the stamps of letters that could not carry them, by their new message ids.

        At most a hundred, all of them or none; raises RecordsConflict as well.
        """

    def count_matches(
        self, matched: Mapping[str, int], shadow_matched: Mapping[str, int] = NO_COUNTS
    ) -> None:
        """Add to the letters that versions of rules have acted on, or would have acted on.

        By `rule_counts_key`.
        """

    def claim_matches(self, key: str, letters: int, limit: int) -> bool:
        """Add letters that a version of a rule is about to act on, in one step.

        False, and nothing is added, if it has acted on `limit` letters or more.
        """

    def note_parked(self, origin: str, at: float, reason: str, rule: str) -> None:
        """Record for people that the letter was parked at `at` (epoch seconds), and why."""

    def note_discarded(self, origin: str, at: float) -> None:
        """Record that a person is about to throw the letter away, at `at` (epoch seconds)."""

    def leave_index(self, origin: str) -> None:
        """Take the letter out of the index of causes; creates no row."""


class FailureLog(Protocol):
    """The ledger as the consumer writes it, at the moment of each failure."""

    def failed(
        self, origin: str, failure: Failure, about: AboutLetter | None = None, *, anew: bool = False
    ) -> None:
        """Store the failure, and `about` its letter; storing it twice changes nothing.

        One like that of an earlier receive is stored only if it is to be told `anew`.
        Raises RecordsUnavailable.
        """

    def recovered(
        self, origin: str, attempt: int, at: float, how: Recovery = Recovery.PROCESSED
    ) -> bool:
        """Record that the letter was processed in its life `attempt`, at `at` epoch seconds.

        The first word on a life stands, and a later life replaces an earlier one. Returns False
        if the letter was on record as processed before. Raises RecordsUnavailable.
        """

    def parked(self, origin: str, attempt: int, at: float, reason: str) -> None:
        """Record that the consumer parked the letter of a replay run in its life `attempt`.

        Raises RecordsUnavailable.
        """

    def note_parked(self, origin: str, at: float, reason: str, rule: str) -> None:
        """Record for people that a letter of no replay run was parked, and why.

        Raises RecordsUnavailable.
        """

    def leave_index(self, origin: str) -> None:
        """Take the letter out of the index of causes: it was processed, and was never dead.

        Creates no row. Raises RecordsUnavailable.
        """

    def stored_stamp(self, message_id: str) -> Stamp | None:
        """The stamp of a letter that could not carry it. Raises LedgerUnavailable."""
