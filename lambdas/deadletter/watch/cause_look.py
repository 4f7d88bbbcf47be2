"""Reads which causes letters fail for, without reading each letter.

The index of causes is sorted by fingerprint in each of its shards. A page of a shard takes all
causes that have few letters; behind one that has many, reading goes on with the next fingerprint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from deadletter.contract import CAUSE_SHARDS
from deadletter.failure.cause_index import CauseEntry
from deadletter.failure.ledger import LedgerUnavailable
from deadletter.watch.news import MOST_CAUSES, CausesLook, SeenCause

PAGE = 25
"""Rows of a page, 6 read units at most; and the letters of one cause that are counted in a
shard, before the answer says "at least"."""

MOST_PAGES = 2 * MOST_CAUSES
"""Pages of one shard in one look."""

NAMES = ("category", "error_type", "http_status")
"""The attributes that are read beside keys and times."""


class CausePages(Protocol):
    """The index of one pipeline's causes. Raises LedgerUnavailable."""

    def page(
        self,
        shard: int,
        most: int,
        names: Sequence[str],
        *,
        after: Mapping[str, Any] | None = None,
        beyond: str = "",
    ) -> IndexPage: ...


class IndexPage(Protocol):
    """A page of a shard; `last` is None at its end, and has the fingerprint `last_fingerprint`."""

    @property
    def entries(self) -> Sequence[CauseEntry]: ...

    @property
    def last(self) -> Mapping[str, Any] | None: ...

    @property
    def last_fingerprint(self) -> str: ...


@dataclass(slots=True)
class _Shard:
    """What was read of one shard; `cut` has the causes with more letters than were read."""

    entries: list[CauseEntry] = field(default_factory=list)
    cut: set[str] = field(default_factory=set)
    is_whole: bool = False
    failed: LedgerUnavailable | None = None


def look_at_causes(
    index: CausePages, in_parallel: Callable[[Sequence[Callable[[], None]]], object]
) -> CausesLook:
    """The causes, with counts that are bounded. Raises LedgerUnavailable if a shard was not read.

    Letters whose failure has no fingerprint are left out: that is no cause.
    """
    shards = [_Shard() for _ in range(CAUSE_SHARDS)]
    in_parallel([partial(_read, index, n, shard) for n, shard in enumerate(shards)])
    for shard in shards:
        if shard.failed is not None:
            raise shard.failed
    members: dict[str, list[CauseEntry]] = {}
    for shard in shards:
        for entry in shard.entries:
            if entry.fingerprint:
                members.setdefault(entry.fingerprint, []).append(entry)
    cut = {fingerprint for shard in shards for fingerprint in shard.cut}
    return CausesLook(
        {name: _cause(entries, name in cut) for name, entries in members.items()},
        all(shard.is_whole for shard in shards),
    )


def _read(index: CausePages, number: int, shard: _Shard) -> None:
    after: Mapping[str, Any] | None = None
    beyond = ""
    for _ in range(MOST_PAGES):
        try:
            page = index.page(number, PAGE, NAMES, after=after, beyond=beyond)
        except LedgerUnavailable as error:
            shard.failed = error
            return
        shard.entries += page.entries
        if page.last is None:
            shard.is_whole = True
            return
        last = page.last_fingerprint
        if sum(entry.fingerprint == last for entry in shard.entries) >= PAGE:
            shard.cut.add(last)
            after, beyond = None, last
        else:
            after = page.last


def _cause(entries: Sequence[CauseEntry], is_at_least: bool) -> SeenCause:
    newest = max(entries, key=lambda entry: entry.seen)
    return SeenCause(
        letters=len(entries),
        since=min(entry.first_at for entry in entries),
        last_at=newest.seen,
        sample=newest.origin,
        category=newest.category,
        error_type=newest.error_type,
        http_status=newest.http_status,
        is_at_least=is_at_least,
    )
