"""Says of each letter whether a replay run may take it, and what the run needs to know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deadletter.contract import Reason
from deadletter.failure.failure import Failure
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp
from deadletter.routing.judgement import Case, park_of
from deadletter.routing.ordering import Ordering
from deadletter.routing.selection import Pick, Selection
from deadletter.rules.accepted import PatternRefused
from deadletter.rules.document import TENANT, Document
from deadletter.rules.paths import compiled, value_at
from deadletter.rules.pattern import compile_pattern
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from deadletter.rules.json_schema import JsonSchema


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


NOT_BY_SCHEMA = "SCHEMA"
"""Why a letter is left out whose body does not conform to the pipeline's JSON Schema."""


class Picker:
    """The picks of one pipeline's letters by one selection; BadSettings if that is invalid."""

    def __init__(
        self, pipeline: Pipeline, selection: Selection, schema: JsonSchema | None = None
    ) -> None:
        self._included = frozenset(selection.include)
        self._selector = Selector(selection)
        self._ordering = Ordering(pipeline)
        # Where every reason is included, nothing keeps a letter out: it is thrown away.
        self._takes_all = self._included >= frozenset(Reason)
        self._schema = None if self._takes_all else schema

    def pick(self, letter: Letter, case: Case, *, release: bool) -> Pick:
        """The pick of one letter; with `release` nothing leaves it out but schema and expiry."""
        last, document = case.row.last, case.document
        ignored = frozenset(Reason) if release else self._included
        is_out = case.is_expired(release=release) and not self._takes_all
        park = None if is_out else park_of(case, ignored)
        kept_out = self._misfit(document) if park is None else park.reason
        return Pick(
            message_id=letter.message_id,
            chosen=case.run_shard is None
            and self._selector.matches(letter, case.stamp, last, document),
            stamp=case.stamp,
            left_out=Reason.EXPIRED if is_out else kept_out,
            rule=None if park is None else park.rule,
            key=self._ordering.key(letter, document),
            sequence=self._ordering.sequence(letter, case.stamp, document),
            cause=last.fingerprint if last else "",
            category=str(last.category) if last else "",
            tenant=tenant_of(document),
            applied=case.row.was_processed,
        )

    def _misfit(self, document: Document) -> str:
        if self._schema is None:
            return ""
        fits = document.unreadable is None and self._schema.admits(document.value["body"])
        return "" if fits else NOT_BY_SCHEMA
