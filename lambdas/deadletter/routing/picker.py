"""Says of each letter whether a replay run may take it, and what the run needs to know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deadletter.contract import Reason
from deadletter.message.letter import Letter
from deadletter.routing.judgement import Case, park_of
from deadletter.routing.ordering import Ordering
from deadletter.routing.selection import Pick, Selection
from deadletter.routing.selector import Selector, tenant_of
from deadletter.rules.document import Document
from deadletter.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from deadletter.rules.json_schema import JsonSchema


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
