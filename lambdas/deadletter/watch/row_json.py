"""The watch's row as JSON text: it is written each minute, and read by the watch alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass
from typing import Any, TypeVar

from deadletter.message.strict_json import Unreadable, read_json
from deadletter.signals.troubles import Seen, TroubleKind, known_names
from deadletter.watch.news_row import news_from_plain
from deadletter.watch.row import (
    AttendedRow,
    CircuitOpenings,
    CircuitsRow,
    DrainRow,
    Failing,
    LaneRow,
    Level,
    MainRow,
    QueueRow,
    ReplaysRow,
    WatchRow,
)

T = TypeVar("T")

_TOO_MUCH = 10**18
"""No time, count or number of seconds is so large; a larger integer is no float, and a sum of such
ones would end the watch each minute."""


def row_to_json(row: WatchRow) -> str:
    """The row as compact JSON; what is None or empty is left out."""
    return json.dumps(_plain(asdict(row)), separators=(",", ":"))


def row_from_json(text: str) -> WatchRow | None:
    """The row in `text`; None if it is malformed. The watch then begins anew.

    A field that is unknown is left out; one that is missing is as in the first minute.
    """
    try:
        data = _mapping(read_json(text))
        return WatchRow(
            first_at=_number(data["first_at"]),
            ran_at=_number(data["ran_at"]),
            queues=_rows(QueueRow, data.get("queues", {})),
            lanes=_rows(LaneRow, data.get("lanes", {})),
            counted_at=_number(data.get("counted_at", 0)),
            levels=_rows(Level, data.get("levels", {})),
            failing=_rows(Failing, data.get("failing", {})),
            held=_by_name(_number, data.get("held", {})),
            seen=tuple(_seen(data.get("seen", []))),
            circuits=_circuits(_mapping(data.get("circuits", {}))),
            attended=_by_name(_attended, data.get("attended", {})),
            replays=_replays(_mapping(data.get("replays", {}))),
            main=_row(MainRow, data.get("main", {})),
            depths=_numbers(data.get("depths", [])),
            direction=_text(data.get("direction", "")),
            drain=_drain(_mapping(data.get("drain", {}))),
            news=news_from_plain(data.get("news")),
        )
    except (Unreadable, KeyError, TypeError, ValueError):
        return None


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


def _circuits(data: Mapping[str, Any]) -> CircuitsRow:
    since = data.get("many_since")
    return CircuitsRow(
        not_closed=_by_name(_number, data.get("not_closed", {})),
        stuck={
            key: kind
            for key, kind in _by_name(_text, data.get("stuck", {})).items()
            if kind in set(TroubleKind)
        },
        openings=_by_name(_openings, data.get("openings", {})),
        many_since=None if since is None else _number(since),
    )


def _openings(data: object) -> CircuitOpenings:
    item = _mapping(data)
    return CircuitOpenings(
        outage=_number(item["outage"]),
        trips=_number(item["trips"]),
        at=_numbers(item.get("at", [])),
    )


def _attended(data: object) -> AttendedRow:
    item = _mapping(data)
    return AttendedRow(
        letters=_number(item["letters"]),
        at=_number(item["at"]),
        times=_numbers(item.get("times", [])),
        counts=_numbers(item.get("counts", [])),
    )


def _replays(data: Mapping[str, Any]) -> ReplaysRow:
    return ReplaysRow(
        broken=tuple(map(_text, _list(data.get("broken", [])))),
        lost=_by_name(_numbers, data.get("lost", {})),
        moved_at=_number(data.get("moved_at", 0)),
    )


def _drain(data: Mapping[str, Any]) -> DrainRow:
    return DrainRow(
        times=_numbers(data.get("times", [])),
        depths=_numbers(data.get("depths", [])),
        deep=_number(data.get("deep", 0)),
        late=_number(data.get("late", 0)),
    )


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


def _rows(kind: type[T], data: object) -> dict[str, T]:
    return {name: _row(kind, item) for name, item in _mapping(data).items()}


def _row(kind: type[T], data: object) -> T:
    """A row of that kind; each field but `why` is a number. Raises TypeError."""
    assert is_dataclass(kind)
    known = {item.name for item in fields(kind)}
    values = {
        name: _text(value) if name == "why" else _number(value)
        for name, value in _mapping(data).items()
        if name in known
    }
    return kind(**values)


def _by_name(read: Any, data: object) -> dict[str, Any]:
    return {name: read(item) for name, item in _mapping(data).items()}


def _mapping(data: object) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise TypeError("not a JSON object")
    return data


def _list(data: object) -> list[Any]:
    if not isinstance(data, list):
        raise TypeError("not a JSON list")
    return data


def _numbers(data: object) -> tuple[Any, ...]:
    return tuple(map(_number, _list(data)))


def _text(data: object) -> str:
    if not isinstance(data, str):
        raise TypeError("not a text")
    return data


def _number(data: object) -> Any:
    if isinstance(data, bool) or not isinstance(data, int | float):
        raise TypeError("not a number")
    if abs(data) >= _TOO_MUCH:
        raise TypeError("more than can be counted")
    return data
