"""Bugs of the pause of a consumer: it stays off, or a person's own disabling is undone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deadletter.aws.event_source import LambdaMappings
from deadletter.outage import mapping
from deadletter.outage.mapping import ConsumerMapping, ConsumerPause, Limits, PauseTag
from deadletter.outage.reconciler import Reconciler
from tests.simulation.planting import Bugs, replaced

BUGS = Bugs()


@BUGS.plant("the tag is not written")
def _untagged() -> Iterator[None]:
    with replaced(LambdaMappings, "tag", lambda _: lambda *_: None):
        yield


@BUGS.plant("the mapping is disabled before its tag is written")
def _disabled_first() -> Iterator[None]:
    waiting: list[tuple[ConsumerMapping, PauseTag]] = []

    def later(_: Any) -> Any:
        return lambda _mappings, mapping, tag: waiting.append((mapping, tag))

    tag = LambdaMappings.tag

    def make(change: Any) -> Any:
        def changed(mappings: LambdaMappings, mapping: ConsumerMapping, **options: Any) -> Any:
            answer = change(mappings, mapping, **options)
            while waiting:
                tag(mappings, *waiting.pop())
            return answer

        return changed

    with replaced(LambdaMappings, "tag", later), replaced(LambdaMappings, "change", make):
        yield


@BUGS.plant("the tag is removed before the mapping is enabled")
def _untagged_first() -> Iterator[None]:
    def make(change: Any) -> Any:
        def changed(mappings: LambdaMappings, mapping: ConsumerMapping, **options: Any) -> Any:
            if options["enabled"]:
                mappings.untag(mapping)
            return change(mappings, mapping, **options)

        return changed

    with replaced(LambdaMappings, "change", make):
        yield


@BUGS.plant("the tag alone is believed, though the row says that the pause goes on")
def _row_unread() -> Iterator[None]:
    def make(recover: Any) -> Any:
        def recovered(pause: ConsumerPause, key: str) -> None:
            real, pause.circuits = pause.circuits, _NoRows()
            try:
                recover(pause, key)
            finally:
                pause.circuits = real

        return recovered

    def always(reconcile: Any) -> Any:
        def reconciled(reconciler: Reconciler, *looks: Any, **more: Any) -> Any:
            reconciler._recover_mapping()
            return reconcile(reconciler, *looks, **more)

        return reconciled

    with (
        replaced(ConsumerPause, "recover", make),
        replaced(Reconciler, "reconcile", always),
    ):
        yield


class _NoRows:
    """A store in which every row is lost."""

    def read(self, keys: Any) -> Any:
        return {key: mapping.Circuit(key) for key in keys}


@BUGS.plant("the time of the tag is not compared")
def _timeless() -> Iterator[None]:
    with replaced(mapping, "SETTLING_SECONDS", lambda _: 1e12):
        yield


@BUGS.plant("the sweep looks at no tag")
def _no_sweep() -> Iterator[None]:
    with replaced(ConsumerPause, "recover", lambda _: lambda *_: None):
        yield


@BUGS.plant("a lost ramp leaves its limit")
def _low_limit() -> Iterator[None]:
    with replaced(mapping, "_limits_of_ramp", lambda _: lambda _own: []):
        yield


@BUGS.plant("the tag does not say the limits")
def _no_limits() -> Iterator[None]:
    def make(pause_tag: Any) -> Any:
        def without(mappings: LambdaMappings, mapping: ConsumerMapping) -> Any:
            tag = pause_tag(mappings, mapping)
            return tag and PauseTag(tag.generation, Limits(), tag.at)

        return without

    with replaced(LambdaMappings, "pause_tag", make):
        yield
