"""Tells which letters a selection matches."""

from __future__ import annotations

from deadletter.failure.failure import Failure
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp
from deadletter.routing.selection import Selection
from deadletter.rules.accepted import PatternRefused
from deadletter.rules.document import TENANT, Document
from deadletter.rules.paths import compiled, value_at
from deadletter.rules.pattern import compile_pattern
from deadletter.settings.json_fields import BadSettings


class Selector:
    """A selection whose pattern and expression are compiled once.

    Raises BadSettings, which names the field, if one of them is invalid.
    """

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._where = compiled("where", selection.where) if selection.where else None
        try:
            self._pattern = compile_pattern(selection.pattern) if selection.pattern else None
        except PatternRefused as error:
            raise BadSettings(f"pattern: {error}") from error

    def matches(
        self, letter: Letter, stamp: Stamp, last: Failure | None, document: Document
    ) -> bool:
        """Whether the letter belongs to the selection.

        Of groups the selection takes all letters: a filter within a group would break its order.
        """
        selection = self._selection
        if selection.groups is not None:
            return letter.group in selection.groups
        first_sent = stamp.first_sent / 1000
        return (
            _among({letter.message_id, stamp.origin}, selection.ids)
            and _among({stamp.reason}, selection.reasons)
            and _among({last.fingerprint if last else None}, selection.fingerprints)
            and _among({tenant_of(document)}, selection.tenants)
            and (selection.since is None or first_sent >= selection.since)
            and (selection.until is None or first_sent < selection.until)
            and (self._pattern is None or self._pattern.matches(document.value))
            # Anything but true is no answer: a path to a text would choose nearly all letters.
            and (self._where is None or value_at(self._where, document.value.get("body")) is True)
        )


def tenant_of(document: Document) -> str:
    """The letter's tenant by the pipeline's `context`; empty without one."""
    tenant = document.value.get("context", {}).get(TENANT)
    return "" if tenant is None else str(tenant)


def _among(values: set[str | None], allowed: tuple[str, ...]) -> bool:
    """Whether one of the values is allowed; no list allows all."""
    return not allowed or not values.isdisjoint(allowed)
