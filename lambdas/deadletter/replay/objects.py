"""The port of the objects of one replay run: pages, manifest, report and exports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class ObjectsUnavailable(Exception):
    """An object could not be read or written; the message says what refused."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """The name of an object within its run, and its bytes."""

    name: str
    size: int


class RunObjects(Protocol):
    """The objects of one run, by their names within it. Raises ObjectsUnavailable."""

    def put(self, name: str, data: bytes) -> None:
        """Store an object; the same name again replaces it."""

    def put_first(self, name: str, data: bytes) -> bool:
        """Store an object unless there is one with this name; returns whether it was stored.

        False also if our own first try stored it, whose answer was lost.
        """

    def get(self, name: str) -> bytes | None:
        """A whole object; None if it is missing."""

    def get_part(self, name: str, start: int, length: int) -> bytes:
        """Up to `length` bytes from `start`, which lies within the object."""

    def listed(self, folder: str) -> Sequence[StoredObject]:
        """The objects whose names begin with `folder`, in the order of their names."""

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects; one that is missing is no error."""
