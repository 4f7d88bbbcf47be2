"""Letters in groups that are alike in one respect, and what those without a record tell."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING

from deadletter.contract import DAY, HOUR, MINUTE
from deadletter.message.letter import Letter, utf8
from deadletter.message.stamp import Stamp, initial_stamp

from .errors import read_json

if TYPE_CHECKING:
    from deadletter.failure.cause_index import CauseEntry
    from deadletter.failure.failure import Failure
    from deadletter.settings.pipeline import Pipeline

TREND_WINDOW = 10 * MINUTE
"""The letters of so many seconds are compared with those of as many before."""

FLAT = 0.2
"""A change by this share is no trend."""

UNKNOWN = "unknown"
"""The name of the group of letters that say nothing of what they are grouped by."""

_KIB = 1024
_SIZES = ((1, "< 1 KiB"), (4, "1 to 4 KiB"), (16, "4 to 16 KiB"), (64, "16 to 64 KiB"),
          (256, "64 to 256 KiB"), (inf, "> 256 KiB"))  # fmt: skip
_AGES = ((HOUR, "< 1 h"), (6 * HOUR, "1 to 6 h"), (DAY, "6 to 24 h"), (3 * DAY, "1 to 3 d"),
         (7 * DAY, "3 to 7 d"), (inf, "> 7 d"))  # fmt: skip


class By(StrEnum):
    """What letters are grouped by."""

    CAUSE = "cause"
    CATEGORY = "category"
    TENANT = "tenant"
    TYPE = "type"
    ENDPOINT = "endpoint"
    STATUS = "status"
    SIZE = "size"
    AGE = "age"
    ATTEMPTS = "attempts"


class Trend(StrEnum):
    """Whether new letters of a group arrive faster than before."""

    RISING = "rising"
    FALLING = "falling"
    FLAT = "flat"


CONTEXT_NAMES: Mapping[By, str] = {By.TENANT: "tenantId", By.TYPE: "messageType"}
"""The names in the pipeline's `context` that letters are grouped by."""

_TENANT = CONTEXT_NAMES[By.TENANT]

_IN_ORDER = {
    By.SIZE: [name for _, name in _SIZES],
    By.AGE: [name for _, name in _AGES],
}


@dataclass(frozen=True, slots=True)
class Letters:
    """The letters of one group: `oldest` failed first, and `newest` last. `recent` are the letters
    whose first failure is within the last TREND_WINDOW, and `before` those of the one before;
    `tenants` has how many are of each, as far as they say it.

    `is_at_least` says that the group may have more letters than were read, `is_newest_read` that
    `newest` has all that is known of its failure.
    """

    name: str
    messages: int
    recent: int
    before: int
    oldest: CauseEntry
    newest: CauseEntry
    tenants: Mapping[str, int] = field(default_factory=dict)
    is_at_least: bool = False
    is_newest_read: bool = True

    @property
    def own_failures(self) -> Sequence[Failure]:
        """The failures of this cause in what was read of its oldest and its newest letter."""
        of = (failure for each in (self.oldest, self.newest) for failure in each.failures)
        return sorted(
            (each for each in of if cause_of(each) == self.name), key=lambda each: each.at
        )

    @property
    def trend(self) -> Trend:
        if self.recent > self.before * (1 + FLAT):
            return Trend.RISING
        return Trend.FALLING if self.recent < self.before * (1 - FLAT) else Trend.FLAT


def grouped(
    entries: Iterable[CauseEntry], by: By, now: float, unread: Collection[str] = ()
) -> list[Letters]:
    """The groups of these letters: the largest first, sizes and ages in their order.

    Not all letters were read of the causes in `unread`; of any other dimension that may
    concern each group.
    """
    name_of = _namer(by, now)
    members: defaultdict[str, list[CauseEntry]] = defaultdict(list)
    for entry in entries:
        members[name_of(entry)].append(entry)
    groups = [
        _group(name, letters, now, name in unread if by is By.CAUSE else bool(unread))
        for name, letters in members.items()
    ]
    order = _IN_ORDER.get(by, sorted(members, key=int) if by is By.ATTEMPTS else [])
    rank = {name: position for position, name in enumerate(order)}
    return sorted(groups, key=lambda group: (rank.get(group.name, 0), -group.messages, group.name))


def _group(name: str, letters: Sequence[CauseEntry], now: float, is_at_least: bool) -> Letters:
    ages = [now - entry.first_at for entry in letters]
    return Letters(
        name=name,
        messages=len(letters),
        recent=sum(age < TREND_WINDOW for age in ages),
        before=sum(TREND_WINDOW <= age < 2 * TREND_WINDOW for age in ages),
        oldest=min(letters, key=lambda entry: entry.first_at),
        newest=max(letters, key=lambda entry: entry.seen),
        tenants=tenants_of(letters),
        is_at_least=is_at_least,
    )


def tenants_of(letters: Iterable[CauseEntry]) -> Counter[str]:
    """How many of the letters are of each tenant; those that do not say it are left out."""
    return Counter(filter(None, (entry.about.context.get(_TENANT) for entry in letters)))


def _namer(by: By, now: float) -> Callable[[CauseEntry], str]:
    def in_context(entry: CauseEntry) -> str | None:
        return entry.about.context.get(CONTEXT_NAMES[by])

    names: Mapping[By, Callable[[CauseEntry], object]] = {
        By.CAUSE: cause_of,
        By.CATEGORY: lambda entry: entry.category,
        By.TENANT: in_context,
        By.TYPE: in_context,
        By.ENDPOINT: lambda entry: entry.about.endpoint,
        By.STATUS: lambda entry: entry.http_status,
        By.SIZE: lambda entry: size_class(entry.about.size),
        By.AGE: lambda entry: _class_of(now - entry.first_at, _AGES),
        By.ATTEMPTS: attempts_of,
    }
    return lambda entry: str(names[by](entry) or UNKNOWN)


def attempts_of(entry: CauseEntry) -> int:
    """The attempts that a letter has used: its first life is one."""
    return entry.attempt + 1


def cause_of(entry: CauseEntry | Failure) -> str:
    """The cause of a letter or a failure: its fingerprint, or the error's name if it has none."""
    return entry.fingerprint or entry.error_type or UNKNOWN


def stored_fingerprint(entry: CauseEntry) -> str:
    """The entry's fingerprint as the index has it, which holds no empty key."""
    from deadletter.failure.cause_index import NO_FINGERPRINT

    return entry.fingerprint or NO_FINGERPRINT


def size_class(size: int | None) -> str:
    """The class of sizes of a body of so many bytes."""
    return UNKNOWN if size is None else _class_of(size / _KIB, _SIZES)


def _class_of(value: float, classes: Sequence[tuple[float, str]]) -> str:
    return next((name for below, name in classes if value < below), classes[-1][1])


def without_stale(
    entries: Iterable[CauseEntry], gone_before: float, waiting: Collection[str]
) -> tuple[list[CauseEntry], int]:
    """The letters that can still exist, and the number of the others.

    A queue has dropped what failed last before `gone_before` (epoch seconds), unless it is
    `waiting` outside of queues: these are origin ids.
    """
    kept, stale = [], 0
    for entry in entries:
        if entry.seen >= gone_before or entry.origin in waiting:
            kept.append(entry)
        else:
            stale += 1
    return kept, stale


# Letters as far as they tell by themselves what failed: nothing of ours is needed.

# Attributes by which AWS itself says why a message is in a DLQ: of asynchronous invocations of
# Lambda and of SNS, and of EventBridge's rules and schedules.
_ERROR_CODES = ("ErrorCode", "ERROR_CODE")
_ERROR_MESSAGES = ("ErrorMessage", "ERROR_MESSAGE")

# Where messages mostly name their tenant and their type, in the body or in an attribute.
_USUAL_NAMES: Mapping[str, Sequence[str]] = {
    "tenantId": ("tenantId", "tenant_id", "tenant"),
    "messageType": ("messageType", "message_type", "type", "eventType", "event_type",
                    "detail-type"),
}  # fmt: skip

_MOST_KEYS = 8
"""Keys of a body that the name of its shape holds."""


class PipelineContext:
    """The context of letters by a pipeline's settings, as its ledger would keep it."""

    def __init__(self, settings: Pipeline) -> None:
        from deadletter.rules.document import DocumentBuilder

        self._settings = settings
        self._documents = DocumentBuilder(settings)

    def of(self, letter: Letter, stamp: Stamp, now: float) -> dict[str, str]:
        """The values: plain, hashed, or none of them."""
        from deadletter.failure.cause_index import kept_values

        settings = self._settings
        document = self._documents.build(letter, stamp, None, now).value
        return kept_values(document["context"], settings.ledger, settings.name)


def entry_of(
    letter: Letter, stamp: Stamp | None, pipeline: PipelineContext | None, now: float
) -> CauseEntry:
    """What is known of a letter without a record: by AWS's attributes, or by its shape alone.

    One without a stamp is its own origin. `pipeline` finds its context; without a pipeline usual
    names are tried.
    """
    from deadletter.failure.cause_index import CauseEntry
    from deadletter.failure.ledger import AboutLetter

    stamp, sent = stamp or initial_stamp(letter), (letter.sent_ms or now * 1000) / 1000
    size = len(utf8(letter.body))
    context = pipeline.of(letter, stamp, now) if pipeline is not None else _context(letter)
    code, words = said_by_aws(letter)
    return CauseEntry(
        origin=stamp.origin,
        fingerprint="",
        seen=sent,
        first_at=sent,
        error_type=code or f"body: {shape(letter.body)}",
        words=words,
        attempt=stamp.attempt,
        about=AboutLetter(context, "", size),
    )


def shape(body: str) -> str:
    """What kind of text a body is, without any of its values."""
    value = read_json(body)
    match value:
        case dict():
            names = sorted(map(str, value))
            more = ", …" if len(names) > _MOST_KEYS else ""
            return f"object with {', '.join(names[:_MOST_KEYS])}{more}" if names else "object {}"
        case list():
            return "JSON list"
        case None if body.strip() != "null":
            return "text" if body.strip() else "empty"
    return "JSON value"


def said_by_aws(letter: Letter) -> tuple[str, str]:
    """The error's code, and its text without data, if the DLQ's owner is an AWS service."""
    from deadletter.failure.redaction import redact

    code, text = _first(letter, _ERROR_CODES), _first(letter, _ERROR_MESSAGES)
    return (code or ("error" if text else "")), redact(text, None) if text else ""


def _first(letter: Letter, names: Sequence[str]) -> str:
    found = (letter.attributes.get(name) for name in names)
    return next((str(attribute.value) for attribute in found if attribute is not None), "")


def _context(letter: Letter) -> dict[str, str]:
    body = read_json(letter.body)
    values = body if isinstance(body, dict) else {}
    found: dict[str, str] = {}
    for name in CONTEXT_NAMES.values():
        for usual in _USUAL_NAMES[name]:
            value = values.get(usual) or _first(letter, [usual])
            if value and isinstance(value, str | int):
                found[name] = str(value)
                break
    return found
