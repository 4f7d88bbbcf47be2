"""Deletes bodies of letters that wait nowhere any more, once nothing can name them again.

A large letter goes into the bucket first and its item into the table after that, and comes out in
the other order. A run that ends in between leaves an object that no item names: an orphan. No
lifecycle rule of the bucket can tell it from a letter that waits for long.

An object is named by its copy's MessageId. A young one may be of a letter whose item is about to
be written, also again: the same copy goes back to its queue and comes in a second time. After
ROWS_KEPT no queue can hold that copy any more, so a missing item stays missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from deadletter.contract import ROWS_KEPT

MOST_AT_ONCE = 100
"""Objects whose items are read together: what one request takes."""


class OrphansUnavailable(Exception):
    """The bucket or the table gave no answer; the message says what refused."""


@dataclass(frozen=True, slots=True)
class StoredBody:
    """An object with a body: its name, the copy that it belongs to, and when it was stored."""

    name: str
    copy: str
    stored_at: float


class StoredBodies(Protocol):
    """The bodies of one pipeline's waiting letters. Raises OrphansUnavailable."""

    def all(self) -> Iterable[StoredBody]:
        """Every body, page by page."""

    def named(self, bodies: Sequence[StoredBody]) -> Collection[str]:
        """The names among these that the items of their copies have, read consistently."""

    def delete(self, name: str) -> None:
        """Delete one body; a missing one is no error."""


def delete_orphans(bodies: StoredBodies, clock: Callable[[], float], deadline: float) -> int:
    """Delete orphans until `deadline` (epoch seconds); returns how many. The next day goes on."""
    deleted = 0
    part: list[StoredBody] = []
    for body in bodies.all():
        if clock() >= deadline:
            return deleted
        if clock() - body.stored_at > ROWS_KEPT:
            part.append(body)
        if len(part) == MOST_AT_ONCE:
            deleted += _delete(bodies, part)
            part = []
    return deleted + _delete(bodies, part)


def _delete(bodies: StoredBodies, part: Sequence[StoredBody]) -> int:
    if not part:
        return 0
    named = bodies.named(part)
    orphans = [body for body in part if body.name not in named]
    for body in orphans:
        bodies.delete(body.name)
    return len(orphans)
