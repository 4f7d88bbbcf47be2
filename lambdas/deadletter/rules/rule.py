"""One routing rule, and the reading of its row."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from deadletter.contract import DAY, EVERY_PIPELINE, HOUR, MAIN_DLQ, MINUTE, rule_counts_key
from deadletter.message.strict_json import Unreadable, read_json
from deadletter.rules.accepted import PatternRefused
from deadletter.rules.pattern import compile_pattern
from deadletter.rules.reach import is_broad, reach_of
from deadletter.rules.typed import meant, nearest, notes_of_pattern, notes_of_value, several
from deadletter.settings.pipeline import Pipeline

DEFAULT_PRIORITY = 100
"""The priority of a rule without one. Rules are tried from the lowest number to the highest."""

_MAX_ID = 200  # bytes; the name of a lane is a partition key of 2,048, beside two others
_MAX_TEXT = 1024  # characters of a reason or a ticket: more is a pasted log, not a reason
_MAX_QUOTE = 80  # characters of what was typed that a refusal repeats
_MAX_PATTERN = 16 * 1024  # characters; EventBridge allows 4,096 and a tenant list may be longer
_MAX_RULE = 2 * _MAX_PATTERN  # characters of all columns together

_MAX_RATE = 1000  # letters per second: more than one pipeline sends

# Epoch seconds from 2001 to 5138. A number outside is a date such as 20261120, whose rule would
# have ended in 1970, or milliseconds, whose rule would never end.
_EARLIEST, _LATEST = 1e9, 1e11
_LAST = datetime.max.replace(microsecond=0, tzinfo=UTC).timestamp()


class Action(StrEnum):
    """The action of a rule on a letter that matches it."""

    QUARANTINE = "QUARANTINE"
    DELAYED_REDRIVE = "DELAYED_REDRIVE"
    DEDICATED_DLQ = "DEDICATED_DLQ"
    HOLD = "HOLD"
    THROTTLE = "THROTTLE"
    DEFAULT = "DEFAULT"


class RuleMode(StrEnum):
    """ENFORCE: the rule acts. SHADOW: it only counts the letters that it would have acted on."""

    ENFORCE = "enforce"
    SHADOW = "shadow"


STOPPING = frozenset({Action.QUARANTINE, Action.DEDICATED_DLQ, Action.HOLD})
"""Actions that keep a letter from the schedule. One that is too costly to judge holds it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One valid rule. `expires_at` is epoch seconds, `delay_seconds` is seconds.

    `rate` is letters per second. `version` changes with what the rule does and to which letters.
    """

    rule_id: str
    pipeline: str
    action: Action
    pattern: Mapping[str, Any]
    priority: int = DEFAULT_PRIORITY
    enabled: bool = True
    mode: RuleMode = RuleMode.ENFORCE
    delay_seconds: float | None = None
    queue: str | None = None
    policy: str | None = None
    expires_at: float | None = None
    max_matches: int | None = None
    rate: float | None = None
    version: str = field(init=False, default="")

    def __post_init__(self) -> None:
        decides = {name: getattr(self, name) for name in _DECIDES}
        object.__setattr__(self, "version", version_of(decides))

    @property
    def counts_key(self) -> str:
        """The key of what this version of the rule has matched."""
        return rule_counts_key(self.rule_id, self.version)

    @property
    def order(self) -> tuple[int, bool, str]:
        """Priority, then the pipeline's own rules before those of `*`, then the id."""
        return (self.priority, self.pipeline == EVERY_PIPELINE, self.rule_id)

    @property
    def claim(self) -> tuple[bool, tuple[int, bool, str]]:
        """The order in which rules with the same id claim it: a disabled rule ends no other."""
        return (not self.enabled, self.order)

    def idle(self, now: float) -> str | None:
        """Why the rule does nothing at `now` (epoch seconds), or None if it acts or counts."""
        if not self.enabled:
            return "disabled"
        if self.expires_at is not None and self.expires_at <= now:
            return "expired"
        return None


# The columns that say what a rule does and to which letters.
_DECIDES = (
    "action",
    "pattern",
    "delay_seconds",
    "queue",
    "policy",
    "max_matches",
    "rate",
)

VERDICT = frozenset({"status", "status_reason", "checked_at", "version"})
"""The columns that the check of a rule writes onto its item."""

# Columns without effect: notes of people for people.
_NOTES = frozenset({"created_by", "reason", "ticket"})
_FIELDS = frozenset({"breadth", *(column.name for column in fields(Rule) if column.init)})
COLUMNS = _FIELDS | _NOTES
"""The columns of any rule that a person may set, beside its pipeline's context names."""

_NEEDS = {
    Action.DELAYED_REDRIVE: "delay_seconds",
    Action.DEDICATED_DLQ: "queue",
    Action.THROTTLE: "rate",
}


class RuleRefused(ValueError):
    """The reason why a rule is refused, in one sentence for its author.

    `gist` is the reason without any value of the rule, for notices to others.
    """

    def __init__(self, why: str, gist: str | None = None) -> None:
        super().__init__(cut(why, _MAX_TEXT))
        self.gist = str(self) if gist is None else gist


def is_disabled(item: Mapping[str, Any]) -> bool:
    """True if a person has switched the stored rule off, whether it is valid or not."""
    return item.get("enabled") in (False, "false")


def is_shadow(item: Mapping[str, Any]) -> bool:
    """True if the stored rule is in shadow mode, whether it is valid or not."""
    return str(item.get("mode")).strip().lower() == RuleMode.SHADOW


def read_rule(item: Mapping[str, Any], pipeline: Pipeline) -> Rule:
    """The rule in a stored item, read for this pipeline.

    A column with one of the pipeline's context names is shorthand for an exact match on
    it. Raises RuleRefused with the reason, and nothing else: one rule must not stop the others.
    """
    try:
        return _read(item, pipeline)
    except RuleRefused:
        raise
    except _UNFORESEEN:
        # Its own words may quote what was typed.
        raise RuleRefused("it can't be understood") from None


_UNFORESEEN = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a value may raise beside a refusal."""


def _read(item: Mapping[str, Any], pipeline: Pipeline) -> Rule:
    rule_id = _rule_id(item.get("rule_id"))
    shorthand = {
        key: value for key, value in item.items() if key not in COLUMNS and key not in VERDICT
    }
    for key in sorted(shorthand):
        if key not in pipeline.context:
            allowed = sorted(COLUMNS | VERDICT | set(pipeline.context))
            typed = cut(repr(key), _MAX_QUOTE)
            choices = f"allowed are {', '.join(allowed)}"
            near = nearest(key, allowed)
            hint = f"did you mean {near}? " if near else ""
            why = f"unknown field {typed}; {hint}{choices}"
            raise RuleRefused(why, f"unknown field; {choices}")
    for key in sorted(COLUMNS & item.keys()):
        if item[key] is None:
            # It would mean the default, which may be a rule that does far more.
            raise RuleRefused(f"{key} is null: it needs a value, or no such field")
    for key in sorted(_NOTES & item.keys()):
        if isinstance(item[key], str) and len(item[key]) > _MAX_TEXT:
            raise RuleRefused(f"{key} is longer than {_MAX_TEXT} characters")
    _check_length(item)
    action = _action(item.get("action"))
    rule = Rule(
        rule_id=rule_id,
        pipeline=str(item.get("pipeline", EVERY_PIPELINE)),
        action=action,
        pattern=_pattern(item.get("pattern"), shorthand),
        priority=_whole_number("priority", item.get("priority"), DEFAULT_PRIORITY, low=None),
        enabled=_boolean("enabled", item.get("enabled", True)),
        mode=RuleMode(_word("mode", item.get("mode", RuleMode.ENFORCE), RuleMode)),
        delay_seconds=_delay(item.get("delay_seconds"), pipeline),
        queue=_queue(item.get("queue"), pipeline.dedicated),
        policy=_choice("policy", item.get("policy"), tuple(pipeline.policies)),
        expires_at=_epoch_seconds("expires_at", item.get("expires_at")),
        max_matches=_whole_number("max_matches", item.get("max_matches"), None, low=1),
        rate=_rate(item.get("rate")),
    )
    needed = _NEEDS.get(action)
    if needed and getattr(rule, needed) is None:
        raise RuleRefused(f"{action} needs {needed}")
    for owner, key in _NEEDS.items():
        if action is not owner and getattr(rule, key) is not None:
            raise RuleRefused(f"{key} goes with {owner} only")
    _check_reach(rule, item, pipeline)
    return rule


def notes_of(rule: Rule, item: Mapping[str, Any], pipeline: Pipeline, now: float) -> list[str]:
    """What the author of a valid rule should know of it at `now`, one sentence each."""
    compiled = compile_pattern(rule.pattern)
    reach = reach_of(compiled, pipeline)
    notes = [*_notes_of_times(rule, item, now)]
    notes += [f"a branch matches nothing: {why}" for why in reach.misses]
    notes += [f"a condition always holds: {why}" for why in reach.empty]
    for name in sorted(item.keys() & pipeline.context.keys()):
        if isinstance(item[name], str):
            notes += notes_of_value(name, item[name])
    if item.get("pattern") is not None:
        notes += notes_of_pattern(_pattern_object(item["pattern"]))
    limit = item.get("max_matches")
    if isinstance(limit, str) and not limit.strip().isdecimal():
        notes.append(f"max_matches means {rule.max_matches}")
    if rule.delay_seconds is not None and rule.delay_seconds < MINUTE:
        notes.append(f"delay_seconds counts seconds: {_seconds(rule.delay_seconds)} s")
    if rule.action in STOPPING and item.get("breadth") is None and is_broad(compiled, pipeline):
        notes.append("it matches every message, or nearly: say so with breadth = all")
    return notes


def _notes_of_times(rule: Rule, item: Mapping[str, Any], now: float) -> Iterator[str]:
    """That a rule has ended, and what an end without a zone means."""
    end = rule.expires_at
    if end is None:
        return
    if end <= now:
        yield f"it ended {_utc(end)}, and matches nothing"
    if _is_without_zone(item["expires_at"]):
        yield f"expires_at has no zone: it means {_utc(end)}"


def _utc(at: float) -> str:
    # A zone may lead out of the calendar.
    within = min(max(at, datetime.min.replace(tzinfo=UTC).timestamp()), _LAST)
    moment = datetime.fromtimestamp(within, UTC).replace(tzinfo=None)
    return f"{moment.isoformat(' ', 'minutes')} UTC"


def _check_reach(rule: Rule, item: Mapping[str, Any], pipeline: Pipeline) -> None:
    """Refuse a rule that can match nothing, and one that stops every letter by accident."""
    compiled = compile_pattern(rule.pattern)
    reach = reach_of(compiled, pipeline)
    if reach.never:
        why = "it matches nothing that this pipeline can produce"
        raise RuleRefused(f"{why}: {'; '.join(reach.misses)}", why)
    breadth = item.get("breadth")
    if breadth is not None and (not isinstance(breadth, str) or breadth.strip().lower() != "all"):
        raise _unknown("breadth", breadth, ("all",))
    was_valid = item.get("status") == "VALID" and item.get("version") in (None, rule.version)
    acts = rule.action in STOPPING and rule.mode is RuleMode.ENFORCE
    if acts and breadth is None and not was_valid and is_broad(compiled, pipeline):
        raise RuleRefused(
            f"{rule.action} of every message, or nearly, needs the column breadth = all"
            " (dlq rules add --all)"
        )


def _rule_id(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise RuleRefused("rule_id must be text")
    # It is a part of the names of lanes and of keys, which have an end and are split at these.
    if len(value.encode(errors="replace")) > _MAX_ID or "|" in value or not value.isprintable():
        raise RuleRefused(
            f"rule_id must be at most {_MAX_ID} bytes of printable characters without |"
        )
    return value


def cut(text: str, most: int) -> str:
    """The text, or its beginning in so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _check_length(item: Mapping[str, Any]) -> None:
    try:
        length = sum(
            len(key) + len(str(value)) for key, value in item.items() if key not in VERDICT
        )
    except RecursionError:
        raise RuleRefused("the rule is nested too deep") from None
    if length > _MAX_RULE:
        raise RuleRefused(f"the rule is longer than {_MAX_RULE} characters")


def _action(value: object) -> Action:
    if value is None:
        raise RuleRefused(f"action is missing; allowed are {', '.join(Action)}")
    return Action(_word("action", value, Action))


def _word(name: str, value: object, allowed: type[StrEnum]) -> str:
    """One of the words of a column, in any case."""
    text = value.strip().lower() if isinstance(value, str) else ""
    for word in allowed:
        if word.lower() == text:
            return word
    raise _unknown(name, value, allowed)


def _pattern(value: object, shorthand: Mapping[str, Any]) -> Mapping[str, Any]:
    if value is None:
        pattern: dict[str, Any] = {}
    else:
        pattern = dict(_pattern_object(value))
    if shorthand:
        context = pattern.get("context", {})
        if not isinstance(context, Mapping) or set(context) & set(shorthand):
            raise RuleRefused("a column and the pattern name the same context")
        pattern["context"] = {
            **context,
            **{name: _exact_values(name, shorthand[name]) for name in sorted(shorthand)},
        }
    if not pattern:
        # An empty pattern would match every letter.
        raise RuleRefused("a rule needs a pattern or a context column, such as tenantId")
    try:
        compile_pattern(pattern)
    except PatternRefused as error:
        raise RuleRefused(f"pattern refused: {error}", "pattern refused") from error
    return pattern


def _pattern_object(value: object) -> Mapping[str, Any]:
    if isinstance(value, str):
        if len(value) > _MAX_PATTERN:
            raise RuleRefused(f"pattern is longer than {_MAX_PATTERN} characters")
        try:
            value = read_json(value)
        except Unreadable as error:
            raise RuleRefused(f"pattern is not readable: {error}") from error
    if not isinstance(value, Mapping):
        raise RuleRefused("pattern must be an event pattern, a JSON object")
    try:
        plain = _plain(value)
        length = len(json.dumps(plain))
    except RecursionError:
        raise RuleRefused("pattern is nested too deep") from None
    if length > _MAX_PATTERN:
        raise RuleRefused(f"pattern is longer than {_MAX_PATTERN} characters")
    return plain  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    """Stored data as JSON data: DynamoDB returns numbers as Decimal."""
    if isinstance(value, Mapping):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise RuleRefused("a pattern holds finite numbers only")
        return int(value) if value == value.to_integral_value() else float(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise RuleRefused("a pattern holds text, numbers, true, false, null, lists and maps only")


def _exact_values(name: str, value: Any) -> list[Any]:
    """The values that a shorthand column means: 42 and "42" are typed alike, and mean both."""
    plain = _plain(value)
    if not isinstance(plain, str | int | float | bool):
        raise RuleRefused(f"{name} must be one text, number or boolean")
    if isinstance(plain, bool):
        return [plain]
    if isinstance(plain, int | float):
        return [plain, str(plain)]
    values = several(plain)
    if values:
        typed, one = (
            json.dumps({"context": {name: each}}, ensure_ascii=False)
            for each in (values, [meant(plain)])
        )
        raise RuleRefused(
            f"{name} holds several values: write pattern = {typed}; or, if it is one value, {one}",
            f"{name} holds several values: they go into a pattern",
        )
    text = meant(plain)
    with suppress(Unreadable):
        number = read_json(text)
        if isinstance(number, int | float) and not isinstance(number, bool):
            return [text, number]
    return [text]


def _number(name: str, value: object) -> float:
    if isinstance(value, str):
        with suppress(ValueError):
            value = float(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise RuleRefused(f"{name} must be a number")
    try:
        number = float(value)
    except OverflowError:
        raise RuleRefused(f"{name} must be a finite number") from None
    if not math.isfinite(number):
        raise RuleRefused(f"{name} must be a finite number")
    return number


def _whole_number(name: str, value: object, default: Any, *, low: int | None) -> Any:
    if value is None:
        return default
    number = _number(name, value)
    if number != int(number):
        raise RuleRefused(f"{name} must be a whole number")
    if low is not None and number < low:
        raise RuleRefused(f"{name} must be at least {low}")
    return int(number)


def _boolean(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = value.strip().lower() if isinstance(value, str) else ""
    if text in ("true", "false"):
        return text == "true"
    raise RuleRefused(f"{name} must be true or false")


def _delay(value: object, pipeline: Pipeline) -> float | None:
    if value is None:
        return None
    delay = _number("delay_seconds", value)
    # With a longer one the letter is parked as EXPIRED.
    longest = pipeline.message_ttl
    if not 0 <= delay <= longest:
        bounds = f"is out of range; allowed are 0 to {_seconds(longest)}"
        raise RuleRefused(f"delay_seconds {_seconds(delay)} {bounds}", f"delay_seconds {bounds}")
    return delay


def _seconds(number: float) -> str:
    """Seconds without an exponent, and what they are in days or hours."""
    for unit, name in ((DAY, "d"), (HOUR, "h")):
        if number >= unit:
            return f"{number:.15g} ({number / unit:.3g} {name})"
    return f"{number:.15g}"


def _choice(name: str, value: object, allowed: tuple[str, ...]) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and value in allowed:
        return value
    raise _unknown(name, value, sorted(allowed))


def _queue(value: object, allowed: tuple[str, ...]) -> str | None:
    if value == MAIN_DLQ:
        raise RuleRefused(f"queue {MAIN_DLQ!r} is where the message is already")
    return _choice("queue", value, allowed)


def _unknown(name: str, value: object, allowed: Iterable[str]) -> RuleRefused:
    choices = f"is unknown; allowed are {', '.join(allowed) or 'none in this pipeline'}"
    return RuleRefused(f"{name} {cut(repr(value), _MAX_QUOTE)} {choices}", f"{name} {choices}")


def _rate(value: object) -> float | None:
    if value is None:
        return None
    rate = _number("rate", value)
    if not 0 < rate <= _MAX_RATE:
        raise RuleRefused(f"rate must be messages per second, more than 0 and at most {_MAX_RATE}")
    return rate


def _epoch_seconds(name: str, value: object) -> float | None:
    """The epoch seconds in a number or in ISO 8601 text, which is UTC without a zone."""
    if value is None:
        return None
    if isinstance(value, str) and not _is_number(value):
        try:
            moment = datetime.fromisoformat(value.strip())
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            raise RuleRefused(f"{name} must be epoch seconds or an ISO 8601 time") from None
    seconds = _number(name, value)
    if not _EARLIEST <= seconds < _LATEST:
        raise RuleRefused(f"{name} must be epoch seconds or an ISO 8601 time")
    return seconds


def _is_number(text: str) -> bool:
    return text.strip().replace(".", "", 1).isdigit()


def _is_without_zone(value: object) -> bool:
    """Whether a valid time was typed as ISO 8601 without a zone."""
    is_text = isinstance(value, str) and not _is_number(value)
    return is_text and datetime.fromisoformat(str(value).strip()).tzinfo is None


# Hexadecimal digits: two versions of one rule are the same by chance in one of 10^14 edits.
_DIGITS = 12


def version_of(what: Mapping[str, Any]) -> str:
    """The digest of what a rule does and to which letters.

    `what` are the columns that decide this, and no others: a rule that is disabled, extended or
    given another reason is the same rule. Columns without a value count as missing.
    """
    given = {name: value for name, value in what.items() if value is not None}
    text = json.dumps(given, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
