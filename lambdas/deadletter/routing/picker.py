"""Says of each letter whether a replay run may take it, and what the run needs to know of it."""

from __future__ import annotations

from deadletter.contract import Reason
from deadletter.message.letter import Letter
from deadletter.routing.judgement import Case, reason_to_park
from deadletter.routing.ordering import Ordering
from deadletter.routing.selection import Pick, Selection
from deadletter.routing.selector import Selector, tenant_of
from deadletter.settings.pipeline import Pipeline


class Picker:
    """The picks of one pipeline's letters by one selection; BadSettings if that is invalid."""

    def __init__(self, pipeline: Pipeline, selection: Selection) -> None:
        self._included = frozenset(selection.include)
        self._selector = Selector(selection)
        self._ordering = Ordering(pipeline)

    def pick(self, letter: Letter, case: Case, *, release: bool) -> Pick:
        """The pick of one letter; with `release` no reason to park it leaves it out."""
        last, document = case.row.last, case.document
        ignored = frozenset(Reason) if release else self._included
        return Pick(
            message_id=letter.message_id,
            chosen=case.run_shard is None
            and self._selector.matches(letter, case.stamp, last, document),
            stamp=case.stamp,
            left_out=reason_to_park(case, ignored) or "",
            key=self._ordering.key(letter, document),
            sequence=self._ordering.sequence(letter, case.stamp, document),
            cause=last.fingerprint if last else "",
            category=str(last.category) if last else "",
            tenant=tenant_of(document),
            applied=case.row.recovered_at is not None,
        )
