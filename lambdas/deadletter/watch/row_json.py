"""The watch's row as JSON text: it is written each minute, and read by the watch alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any, TypeVar

from deadletter.message.strict_json import Unreadable, read_json
from deadletter.watch.row import Failing, LaneRow, Level, QueueRow, Stalled, WatchRow

T = TypeVar("T")


def row_to_json(row: WatchRow) -> str:
    """The row as compact JSON; what is None is left out."""
    return json.dumps(_plain(asdict(row)), separators=(",", ":"))


def row_from_json(text: str) -> WatchRow | None:
    """The row in `text`; None if it is malformed. The watch then begins anew.

    A field that this version does not know is left out.
    """
    try:
        data = _mapping(read_json(text))
        stalled = data.get("stalled")
        return WatchRow(
            first_at=_number(data["first_at"]),
            ran_at=_number(data["ran_at"]),
            queues=_rows(QueueRow, data.get("queues", {})),
            lanes=_rows(LaneRow, data.get("lanes", {})),
            counted_at=_number(data.get("counted_at", 0)),
            levels=_rows(Level, data.get("levels", {})),
            failing=_rows(Failing, data.get("failing", {})),
            stalled=None if stalled is None else _row(Stalled, stalled),
            held={key: _number(since) for key, since in _mapping(data.get("held", {})).items()},
        )
    except (Unreadable, KeyError, TypeError, ValueError):
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items() if item is not None}
    return round(value, 3) if isinstance(value, float) else value


def _rows(kind: type[T], data: object) -> dict[str, T]:
    return {name: _row(kind, item) for name, item in _mapping(data).items()}


def _row(kind: type[T], data: object) -> T:
    """A row of that kind; each field but `why` is a number. Raises TypeError."""
    assert is_dataclass(kind)
    known = {item.name for item in fields(kind)}
    values = {
        name: value if name == "why" else _number(value)
        for name, value in _mapping(data).items()
        if name in known
    }
    return kind(**values)


def _mapping(data: object) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise TypeError("not a JSON object")
    return data


def _number(data: object) -> Any:
    if isinstance(data, bool) or not isinstance(data, int | float):
        raise TypeError("not a number")
    return data
