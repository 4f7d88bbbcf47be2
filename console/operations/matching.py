"""Whether a message is meant, by all that is known of it where it was found."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from operator import eq, gt, lt, ne
from typing import TYPE_CHECKING, Any

from deadletter.contract import LedgerKeeps
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp, initial_stamp

from .errors import Cause, Problem
from .selection import KEYS, Choice, Operator, Term, closest, compiled

if TYPE_CHECKING:
    from deadletter.failure.cause_index import CauseEntry
    from deadletter.failure.failure import Failure
    from deadletter.failure.ledger import LedgerRow
    from deadletter.rules.pattern import Alternative, Field, Pattern
    from deadletter.settings.pipeline import Pipeline

_COMPARED = {
    Operator.EQUAL: eq, Operator.DIFFERS: ne, Operator.LESS: lt, Operator.MORE: gt,
}  # fmt: skip


@dataclass(slots=True)
class FoundMessage:
    """A message at a place, as far as it is known there.

    `place` is as --in takes it, and `lane` that of the waiting room (empty elsewhere); `letter` is
    None if only figures of it were read. `entry` is its failure record. Texts that are unknown are
    empty; times are epoch seconds.
    """

    pipeline: str
    place: str
    origin: str
    lane: str = ""
    home: str = ""
    copy: str | None = None
    stamp: Stamp | None = None
    letter: Letter | None = None
    entry: CauseEntry | None = None
    due: float | None = None
    because: str = ""
    reason: str = ""
    rule: str = ""
    outcome: str = ""
    tenant: str = ""
    size: int | None = None
    is_forged: bool = False
    content: Callable[[], Letter | None] | None = None
    """Reads the letter, where that costs no receive."""

    @property
    def cause(self) -> str:
        """The fingerprint of its last failure; empty if that is not on record."""
        return "" if self.entry is None else self.entry.fingerprint

    @property
    def sent(self) -> float | None:
        """When its producer sent it; None if that is not known."""
        if self.stamp is not None and self.stamp.first_sent:
            return self.stamp.first_sent / 1000
        sent = None if self.letter is None else self.letter.sent_ms
        return sent / 1000 if sent else None

    @property
    def first_sent(self) -> float | None:
        """When its producer sent it; of one that only its record knows, when it failed first."""
        recorded = None if self.entry is None else self.entry.first_at
        return recorded if self.sent is None else self.sent


class Matcher:
    """A choice, compiled for one pipeline. Problem if it can't be compiled.

    `untold` counts the messages of which it can't be told, and `known` the values that were seen of
    each key of the choice: what is near to a value that none has can then be named. `outcomes` are
    those in a run that it asks for, or None.
    """

    def __init__(self, chosen: Choice, settings: Pipeline, now: datetime) -> None:
        from deadletter.rules.document import DocumentBuilder
        from deadletter.rules.paths import compiled as compiled_path
        from deadletter.rules.pattern import compile_pattern

        from .replay_runs import outcomes_of

        self._selection, self._beside = compiled(replace(chosen, ids=(), places=()), now)
        if any(term.key == "by" for term in self._beside):
            raise Problem(
                "Who has done something is asked of dlq audit: leave out by.", Cause.INPUT
            )
        self._chosen, self._settings, self._now = chosen, settings, now.timestamp()
        self._ids = set(chosen.ids)
        asked = [outcomes_of(each.values) for each in self._beside if each.key == "outcome"]
        self.outcomes = {each.name for each in set.intersection(*asked)} if asked else None
        pattern = self._selection.pattern
        self._pattern = compile_pattern(pattern) if pattern else None
        self._documents = DocumentBuilder(settings)
        key = settings.idempotency_key
        self._key = compiled_path("idempotency_key", key) if key else None
        self._plain = self._unhashed()
        self.untold = 0
        self.known: Counter[tuple[str, str]] = Counter()
        fields = () if self._pattern is None else self._pattern.fields
        self._reads_age = any(field.name == "redrive.age_seconds" for field in fields)
        self._answers: dict[Hashable, bool | None] = {}

    @property
    def reads_content(self) -> bool:
        """Whether records alone can't tell."""
        fields = () if self._pattern is None else self._pattern.fields
        tops = {field.name.partition(".")[0] for field in fields}
        if any(term.key == "text" for term in self._beside):
            return True
        hidden = {"context"} if self._settings.ledger is not LedgerKeeps.PLAIN else set()
        return bool(tops & {"body", "attributes", "system", *hidden})

    @property
    def reads_times(self) -> bool:
        """Whether it asks when a message was first sent."""
        return any(term.key in ("age", "since", "until") for term in self._chosen.terms)

    def matches(self, found: FoundMessage) -> bool:
        """Whether the message is meant; False, and counted as untold, if it can't be told.

        Where its record does not say, the message itself is read, if that costs no receive.
        """
        answer = self._answer(found)
        if answer is None and found.content is not None:
            found.letter, found.content = found.content(), None
            answer = self._answer(found)
        self._note(found)
        self.untold += answer is None
        return answer is True

    def _answer(self, found: FoundMessage) -> bool | None:
        if self._ids and not self._is_named(found):
            return False
        answers = [self._of_pattern(found), *self._of_times(found)]
        reasons = self._selection.reasons
        answers.append(not reasons or found.reason in reasons)
        answers += (self._of_beside(term, found) for term in self._beside)
        return False if False in answers else None if None in answers else True

    def tenant(self, found: FoundMessage) -> str:
        """Its tenant as the ledger keeps it: lists are copied into tickets and logs."""
        from deadletter.failure.cause_index import kept_values
        from deadletter.rules.document import TENANT

        if found.letter is None and not found.tenant:
            return "" if found.entry is None else found.entry.about.context.get(TENANT, "")
        plain: Any = found.tenant
        if found.letter is not None:
            plain = self.document(found)["context"].get(TENANT)
        if plain in (None, ""):
            return ""
        return kept_values({TENANT: plain}, self._settings.ledger, self._settings.name).get(
            TENANT, ""
        )

    def business_id(self, found: FoundMessage) -> str | None:
        """Your own number of the message, where its content was read; None if it is not known."""
        if self._key is None or found.letter is None:
            return None
        from deadletter.rules.business_key import find_key

        return find_key(self._key, self.document(found), found.letter.body).text

    def meant(self) -> Iterator[str]:
        """For each term whose values no message has, the nearest value that one has."""
        for term in self._chosen.terms:
            if term.key not in KEYS or term.operator is not Operator.EQUAL:
                continue
            seen = {value: number for (key, value), number in self.known.items() if key == term.key}
            if seen and not any(_same(term, value, each) for value in term.values for each in seen):
                near = closest(term.values[0], seen)
                if near is not None:
                    yield f"{term.key}={near} ({seen[near]:,})"

    def document(self, found: FoundMessage) -> Mapping[str, Any]:
        """A message as rules see it; one that was read whole, and not only its record."""
        letter, entry = found.letter, found.entry
        assert letter is not None
        stamp = found.stamp or initial_stamp(letter)
        built = self._documents.build(letter, stamp, None, self._now).value
        document = {**built, **({} if entry is None else {"failure": _failure(entry)})}
        if not self._settings.context and entry is not None:
            # A queue of no pipeline: where messages usually name their tenant.
            document["context"] = dict(entry.about.context)
        return document

    def _known(self, found: FoundMessage) -> Mapping[str, Any]:
        entry, first = found.entry, found.first_sent
        known: dict[str, Any] = {} if entry is None else dict(known_of(entry, self._settings))
        if found.stamp is not None:
            known["redrive.attempt"] = found.stamp.attempts_used
        if first is not None:
            known["redrive.age_seconds"] = int(self._now - first)
        if found.tenant:
            known["context.tenantId"] = found.tenant
        elif entry is not None and self._settings.ledger is LedgerKeeps.HASHED:
            known |= {
                f"context.{name}": self._plain.get(value, value)
                for name, value in entry.about.context.items()
                if self._plain
            }
        return known

    def _unhashed(self) -> Mapping[str, str]:
        """The values of the choice by their hashes, where equality is all that it asks."""
        from deadletter.failure.cause_index import hashed

        terms = [term for term in self._chosen.terms if term.key != "cause"]
        equality = (Operator.EQUAL, Operator.DIFFERS)
        if any(term.operator not in equality or term.key == "match" for term in terms):
            return {}
        values = (value for term in terms for value in term.values)
        return {hashed(value, self._settings.name): value for value in values}

    def _is_named(self, found: FoundMessage) -> bool:
        """Whether one of the ids is of this message, of its copy or of its business."""
        if self._ids & {found.origin, found.copy}:
            return True
        from deadletter.rules.business_key import digest_of

        if found.stamp is not None and found.stamp.key in set(map(digest_of, self._ids)):
            return True
        if found.letter is not None:
            return self.business_id(found) in self._ids
        # A record has the business id if the context keeps it.
        context = {} if found.entry is None else found.entry.about.context
        key = self._settings.idempotency_key
        return any(
            context.get(name) in self._ids
            for name, path in self._settings.context.items()
            if path == key
        )

    def _of_pattern(self, found: FoundMessage) -> bool | None:
        if self._pattern is None:
            return True
        if found.letter is not None:
            return self._pattern.matches(self.document(found))
        alike = self._alike(found)
        if alike is None or alike not in self._answers:
            self._answers[alike] = holds(self._pattern, self._known(found))
        return self._answers[alike]

    def _alike(self, found: FoundMessage) -> Hashable | None:
        """What the answer depends on where only a record is known; most of them are alike.

        None if it may depend on more.
        """
        entry = found.entry
        if entry is None or found.stamp is not None or found.tenant or self._reads_age:
            return None
        failure = (entry.category, entry.blame, entry.error_type, entry.fingerprint)
        return (*failure, entry.http_status, entry.attempt, *entry.about.context.items())

    def _of_times(self, found: FoundMessage) -> Iterator[bool | None]:
        first, selection = found.first_sent, self._selection
        if selection.since is not None:
            yield None if first is None else first >= selection.since
        if selection.until is not None:
            yield None if first is None else first < selection.until

    def _of_beside(self, term: Term, found: FoundMessage) -> bool | None:
        if term.key == "size":
            size = found.letter.size if found.letter else found.size
            number = KEYS["size"].number
            assert number is not None
            if size is None:
                return None
            answers = [_COMPARED[term.operator](size, number(value)) for value in term.values]
            return all(answers) if term.operator is Operator.DIFFERS else any(answers)
        if term.key == "outcome":
            return found.outcome in (self.outcomes or ())
        if term.key == "rule":
            return any(found.rule.lower() == value.lower() for value in term.values)
        words = "" if found.entry is None else f"{found.entry.error_type}: {found.entry.words}"
        texts = [words, *([] if found.letter is None else _texts(found.letter))]
        if any(value.casefold() in text.casefold() for value in term.values for text in texts):
            return True
        return None if found.letter is None else False

    def _note(self, found: FoundMessage) -> None:
        for term in self._chosen.terms:
            if term.operator is Operator.EQUAL and term.key in KEYS:
                value = self._value(term.key, found)
                if value not in (None, ""):
                    self.known[term.key, str(value)] += 1

    def _value(self, key: str, found: FoundMessage) -> Any:
        match key:
            case "tenant":
                return self.tenant(found)
            case "cause":
                return found.cause[:8]
            case "reason" | "rule" | "outcome":
                return getattr(found, key)
        path = KEYS[key].path
        if found.letter is None:
            return self._known(found).get(".".join(path))
        value: Any = self.document(found)
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value


def _same(term: Term, typed: str, there: str) -> bool:
    return there.startswith(typed.lower()[:8]) if term.key == "cause" else typed == there


def _failure(entry: CauseEntry) -> Mapping[str, Any]:
    data: dict[str, Any] = {"error_type": entry.error_type, "fingerprint": entry.fingerprint}
    if entry.category:
        data |= {"category": entry.category, "blame": str(entry.blame)}
    if entry.http_status is not None:
        data["http_status"] = entry.http_status
    return data


def _texts(letter: Letter) -> Iterator[str]:
    yield letter.body
    yield from (each.value for each in letter.attributes.values() if isinstance(each.value, str))


def known_of(entry: CauseEntry, settings: Pipeline) -> Mapping[str, Any]:
    """The fields of a message's document, by dotted name, as far as its record tells them.

    `context` is in it if the ledger keeps its values as they are. A field of body or attributes
    is in it if the context keeps it under a name: by a plain path.
    """
    return _known(settings, entry.attempt, entry, entry.about.context)


def known_by_row(row: LedgerRow, attempts_used: int, settings: Pipeline) -> Mapping[str, Any]:
    """The same fields by a letter's whole row."""
    # A row without a size knows nothing of its letter.
    context = None if row.about.size is None else row.about.context
    return _known(settings, attempts_used, row.last, context)


_OF_FAILURE = ("category", "blame", "error_type", "fingerprint")


def _known(
    settings: Pipeline,
    attempt: int,
    last: CauseEntry | Failure | None,
    context: Mapping[str, str] | None,
) -> Mapping[str, Any]:
    known: dict[str, Any] = {"pipeline": settings.name, "redrive.attempt": attempt}
    if last is not None:
        known |= {f"failure.{name}": str(getattr(last, name)) for name in _OF_FAILURE}
        if last.http_status is not None:
            known["failure.http_status"] = last.http_status
    if context is not None and settings.ledger is LedgerKeeps.PLAIN:
        known["context"] = context
        for name, value in context.items():
            known[f"context.{name}"] = value
            if _PLAIN_PATH.fullmatch(path := settings.context.get(name, "")):
                known[path] = value
    return known


def unkept(pattern: Pattern, settings: Pipeline) -> set[str]:
    """What a pattern reads that the ledger does not keep, in words."""
    words = set()
    for field in pattern.fields:
        match field.name.partition(".")[0]:
            case "body" | "attributes":
                words.add("bodies and attributes are not kept")
            case "context" if settings.ledger is not LedgerKeeps.PLAIN:
                words.add("contexts are hashed or left out")
            case top if top == "system" or field.name == "redrive.age_seconds":
                words.add(f"{field.name} is not kept")
    return words


def holds(pattern: Pattern, known: Mapping[str, Any]) -> bool | None:
    """Whether a pattern matches a letter of which only some fields are known; None: can't be told.

    One field that does not match is enough to say no, whatever the others are.
    """
    answers = [_all_hold(fields, known) for fields in pattern.alternatives]
    return True if True in answers else None if None in answers else False


def _all_hold(fields: Alternative, known: Mapping[str, Any]) -> bool | None:
    answers = [field_holds(field, known) for field in fields]
    return False if False in answers else None if None in answers else True


def untold(pattern: Pattern, known: Mapping[str, Any]) -> Sequence[str]:
    """The fields that a pattern reads of which it can't be told whether they match."""
    return sorted({field.name for field in pattern.fields if field_holds(field, known) is None})


_NEVER_KEPT = ("body", "attributes", "system")

_PLAIN_PATH = re.compile(rf"(?:{'|'.join(_NEVER_KEPT)})(?:\.[A-Za-z_][A-Za-z0-9_]*)+")
"""A path of the context that names one field, as a pattern does."""


def field_holds(field: Field, known: Mapping[str, Any]) -> bool | None:
    """The same of one field of a pattern."""
    # Loaded with a pattern: most commands have none.
    from deadletter.rules.accepted import ABSENT

    name, top = field.name, field.name.partition(".")[0]
    lacks = name not in known
    if lacks and (top in _NEVER_KEPT or name == "redrive.age_seconds"):
        return None
    if lacks and top == "context" and "context" not in known:
        return None
    value = known.get(name, ABSENT)
    if value is ABSENT or top not in ("context", *_NEVER_KEPT):
        return field.comparison.test(value)
    return _text_holds(field, value)


def _text_holds(field: Field, value: str) -> bool | None:
    """The ledger keeps values as text, and texts that are too long not whole."""
    from deadletter.failure.cause_index import CUT
    from deadletter.rules.fields import plain_number

    if value.endswith(CUT):
        return None
    values: list[Any] = [value]
    with suppress(ValueError):
        values.append(plain_number(float(value)))
    if value in ("true", "false"):
        values.append(value == "true")
    answers = set(map(field.comparison.test, values))
    return answers.pop() if len(answers) == 1 else None
