"""What the watch remembers of its news, so that nothing is announced twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedCause:
    """One cause that letters fail for.

    noticed_at  when the watch first saw it
    seen_at     when it last did
    letters     the most letters of it at one time
    is_told     whether its beginning was announced
    """

    noticed_at: float
    seen_at: float
    letters: int
    category: str = ""
    error_type: str = ""
    is_told: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedRow:
    """The parked letters of one queue that are announced, or have left.

    letters  how many
    last     the letters at the last reading: a lower count is believed the second time
    told_at  when there was last news of it; 0 if never
    """

    letters: int
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


def news_from_plain(data: object) -> NewsRow:
    """The row in JSON-ready data; what is malformed is forgotten, and then announced anew."""
    if not isinstance(data, Mapping):
        return NewsRow()
    expiring = _mapping(data.get("expiring"))
    return NewsRow(
        read_at=_number(data.get("read_at")),
        causes=dict(_rows(AnnouncedCause, data.get("causes"))),
        recovered_until=_number(data.get("recovered_until")),
        parked=dict(_rows(ParkedRow, data.get("parked"))),
        expiring={source: _number(at) for source, at in expiring.items()},
    )


def _rows(kind: type, data: object) -> Any:
    names = {each.name for each in fields(kind)}
    for key, item in _mapping(data).items():
        try:
            yield key, kind(**{name: v for name, v in _mapping(item).items() if name in names})
        except TypeError:
            continue


def _mapping(data: object) -> Mapping[str, Any]:
    return data if isinstance(data, Mapping) else {}


def _number(data: object) -> float:
    is_number = isinstance(data, int | float) and not isinstance(data, bool)
    return float(data) if is_number else 0.0  # type: ignore[arg-type]
