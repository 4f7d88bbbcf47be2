"""What the watch remembers from minute to minute. All times are epoch seconds.

It is written each minute as JSON text, and read by the watch alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from deadletter.contract import END_OF_TIME
from deadletter.message.strict_json import Unreadable, read_json
from deadletter.signals.pages import Alarm
from deadletter.signals.troubles import Seen, TroubleKind, known_names


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedCause:
    """One cause that letters fail for.

    noticed_at  when the watch first saw it
    seen_at     when it last did
    messages    the most letters of it at one time
    is_told     whether its beginning was announced
    """

    noticed_at: float
    seen_at: float
    messages: int
    category: str = ""
    error_type: str = ""
    is_told: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedRow:
    """The parked letters of one queue that are announced, or have left.

    messages how many
    last     the letters at the last reading: a lower count is believed the second time
    told_at  when there was last news of it; 0 if never
    """

    messages: int
    last: int
    told_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewsRow:
    """What is remembered of news; empty while there is nothing to tell of. Times are epoch seconds.

    read_at          when the causes were last read whole
    causes           by fingerprint
    recovered_until  until when recovered letters are announced; 0 while no letter can recover
    parked           by id of the parking queue
    expiring         when it was announced that letters of a source expire soon, by the source
    """

    read_at: float = 0.0
    causes: Mapping[str, AnnouncedCause] = field(default_factory=dict)
    recovered_until: float = 0.0
    parked: Mapping[str, ParkedRow] = field(default_factory=dict)
    expiring: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """What is remembered of one queue.

    messages      messages at the last reading, in flight and delayed ones too
    read_at       when that was
    created       when the queue was made
    retention     seconds that it keeps a message
    zero_since    since when each reading was 0; None if the last was not
    empty_at      the last time at which the queue was surely empty
    filled_at     since when it has held letters; None if it holds none
    held_at       when the source last held letters, those of its lane too
    rescued_at    when a rescue was last started
    drained_at    when a run last received everything that the queue held
    left          letters that stayed when a run had received all: they are another pipeline's;
                  None until they are counted
    oldest_seen   when the oldest letter was sent that runs have seen and left there
    oldest_gone   the same, as it was when the queue was surely empty: that letter is gone
    """

    messages: int = 0
    read_at: float = 0.0
    created: float = 0.0
    retention: float = 0.0
    zero_since: float | None = None
    empty_at: float | None = None
    filled_at: float | None = None
    held_at: float | None = None
    rescued_at: float | None = None
    drained_at: float | None = None
    left: int | None = 0
    oldest_seen: float | None = None
    oldest_gone: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRow:
    """What is remembered of lanes of one kind.

    messages   letters at the last count
    more_at    when the last count ended before all were counted; None if it counted all
    first_due  the earliest due time of one of them
    filled_at  since when counts have found letters; None if there are none
    held_at    when there were last letters
    """

    messages: int = 0
    more_at: float | None = None
    first_due: float | None = None
    filled_at: float | None = None
    held_at: float | None = None

    @property
    def oldest(self) -> float | None:
        """When the oldest letter of a rescued lane was sent: they are due at the end of time,
        and by that later.
        """
        return self.first_due - END_OF_TIME if self.messages and self.first_due else None


@dataclass(frozen=True, slots=True)
class Level:
    """The last value of a figure, and when it was last more than 0."""

    value: float
    positive_at: float


@dataclass(frozen=True, slots=True)
class Failing:
    """A step of the watch that fails: since when, how often in a row, and why."""

    since: float
    times: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitOpenings:
    """The outages of one circuit: the number of the last one, its trips then, and when they began.

    `at` holds the last ones only.
    """

    outage: int
    trips: int
    at: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitsRow:
    """What is remembered of the circuits.

    not_closed  since when circuits of all messages are not closed, by key; a hold with an end
                does not count
    stuck       the trouble of such a circuit that needs a person at once, by key
    openings    the outages of circuits of all messages, by key
    many_since  since when too many circuits of single keys are not closed
    """

    not_closed: Mapping[str, float] = field(default_factory=dict)
    stuck: Mapping[str, str] = field(default_factory=dict)
    openings: Mapping[str, CircuitOpenings] = field(default_factory=dict)
    many_since: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttendedRow:
    """When letters for people were last looked after, in one queue and its lane.

    messages the most that there were at all readings of five minutes
    at       when fewer were seen, or when there were none
    times    when the last readings were
    counts   what they were
    """

    messages: int
    at: float
    times: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaysRow:
    """What is remembered of replay runs.

    broken    the ids of those that are BROKEN
    lost      when a run's execution was lost and started again, by the run's id; the last ones
    moved_at  when a run was last seen that moves letters
    """

    broken: tuple[str, ...] = ()
    lost: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    moved_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MainRow:
    """The oldest message of the main queue: when it was sent, and when CloudWatch was asked."""

    asked_at: float = 0.0
    oldest: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRow:
    """The last looks at the DLQ while letters were in it and runs could work.

    times   when they were
    depths  the letters that they saw
    deep    how many in a row saw too many letters, whether runs could work or not
    late    how many in a row have missed the target of drain time
    """

    times: tuple[float, ...] = ()
    depths: tuple[int, ...] = ()
    deep: int = 0
    late: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRow:
    """Everything that the watch remembers.

    first_at    when it first ran
    ran_at      when it last ran
    queues      by source id, and the main queue
    lanes       by kind of lane
    counted_at  when the lanes were last counted
    levels      by metric
    failing     by step
    held        since when a person holds a circuit without an end, by the circuit's key
    seen        the troubles that call a person
    attended    the queues of letters for people, by source id
    depths      the letters of the DLQ and the waiting room at the last ten looks
    direction   `rising`, `falling` or `flat`; empty before ten looks
    drain       the looks at the DLQ that say when it will be empty
    news        what was announced
    botocore    the version that it ran with: Lambda moves it
    """

    first_at: float
    ran_at: float
    botocore: str = ""
    queues: Mapping[str, QueueRow] = field(default_factory=dict)
    lanes: Mapping[str, LaneRow] = field(default_factory=dict)
    counted_at: float = 0.0
    levels: Mapping[str, Level] = field(default_factory=dict)
    failing: Mapping[str, Failing] = field(default_factory=dict)
    held: Mapping[str, float] = field(default_factory=dict)
    seen: tuple[Seen, ...] = ()
    circuits: CircuitsRow = field(default_factory=CircuitsRow)
    attended: Mapping[str, AttendedRow] = field(default_factory=dict)
    replays: ReplaysRow = field(default_factory=ReplaysRow)
    main: MainRow = field(default_factory=MainRow)
    depths: tuple[int, ...] = ()
    direction: str = ""
    drain: DrainRow = field(default_factory=DrainRow)
    news: NewsRow = field(default_factory=NewsRow)

    def of(self, page: Alarm) -> tuple[Seen, ...]:
        """The troubles that ring one alarm."""
        return tuple(each for each in self.seen if each.page is page)


def row_to_json(row: WatchRow) -> str:
    """The row as compact JSON; what is None or empty is left out."""
    return json.dumps(_plain(asdict(row)), separators=(",", ":"))


def row_from_json(text: str) -> WatchRow | None:
    """The row in `text`; None if it is malformed. The watch then begins anew.

    A field that is unknown is left out; one that is missing is as in the first minute.
    """
    try:
        data = _mapping(read_json(text))
        seen, news = tuple(_seen(data.get("seen", []))), news_from_plain(data.get("news"))
        row: WatchRow = _value(
            WatchRow, {name: data[name] for name in data if name not in ("seen", "news")}
        )
    except (Unreadable, KeyError, TypeError, ValueError):
        return None
    known = {key: kind for key, kind in row.circuits.stuck.items() if kind in set(TroubleKind)}
    return replace(row, seen=seen, news=news, circuits=replace(row.circuits, stuck=known))


def news_from_plain(data: object) -> NewsRow:
    """The row in JSON-ready data; what is malformed is forgotten, and then announced anew."""
    known = {}
    for name, value in data.items() if isinstance(data, dict) else ():
        if name in (hints := _hints(NewsRow)):
            with suppress(TypeError):
                known[name] = _value(hints[name], value, forgets=True)
    return NewsRow(**known)


def _seen(data: object) -> Iterator[Seen]:
    """What was seen; a trouble that this version does not know, or cannot word with its command, is
    left out."""
    for item in map(_mapping, _list(data)):
        if item["kind"] in set(TroubleKind):
            facts = {
                name: fact if isinstance(fact, str) else _number(fact)
                for name, fact in _mapping(item.get("facts", {})).items()
            }
            seen = Seen(TroubleKind(item["kind"]), facts, _number(item["since"]))
            # Its alarm rings by its level: one that lacks a fact must not keep the others unseen.
            with suppress(KeyError, TypeError, ValueError):
                seen.says()
                seen.repair(**known_names("", ""))
                yield seen


def _plain(value: Any) -> Any:
    """The value without what is None or empty: an idle row is one write unit of DynamoDB."""
    if isinstance(value, Mapping):
        plain = {name: _plain(item) for name, item in value.items()}
        return {name: item for name, item in plain.items() if item not in (None, "", [], {})}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() else round(value, 3)
    return value


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    """The types of a row's fields, by name."""
    return get_type_hints(kind)


def _value(kind: Any, data: object, *, forgets: bool = False) -> Any:
    """The value of this type in JSON-ready data. Raises TypeError.

    With `forgets`, what is malformed in a mapping is left out of it.
    """
    if hasattr(kind, "__dataclass_fields__"):
        types, known = _hints(kind), _mapping(data).items()
        return kind(**{name: _value(types[name], value) for name, value in known if name in types})
    if get_origin(kind) is tuple:
        return tuple(_value(get_args(kind)[0], item) for item in _list(data))
    if get_origin(kind) is Mapping:
        values = {}
        for name, item in _mapping(data).items():
            try:
                values[name] = _value(get_args(kind)[1], item)
            except TypeError:
                if not forgets:
                    raise
        return values
    if kind in (str, bool):
        if not isinstance(data, kind):
            raise TypeError(f"not a {kind.__name__}")
        return data
    if (number := _number(data)) < 0:
        # A queue that has held messages since before all time would be saved at once.
        raise TypeError("before all time, or less than none")
    return number


def _mapping(data: object) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise TypeError("not a JSON object")
    return data


def _list(data: object) -> list[Any]:
    if not isinstance(data, list):
        raise TypeError("not a JSON list")
    return data


_TOO_MUCH = 10**18
"""No time, count or number of seconds is so large; a larger integer is no float, and a sum of such
ones would end the watch each minute."""


def _number(data: object) -> Any:
    if isinstance(data, int | float) and not isinstance(data, bool) and abs(data) < _TOO_MUCH:
        return data
    raise TypeError("not a number, or more than can be counted")
