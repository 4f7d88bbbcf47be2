"""The letters of a replay run by its manifest, and what became of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deadletter.replay.ticket import ReplayOutcome

from .adapter_errors import aws_errors
from .problem import Cause, Problem
from .replay_runs import RunSwitch
from .selection import closest

if TYPE_CHECKING:
    from deadletter.replay.names import Name

FAILED = frozenset({ReplayOutcome.PARKED, ReplayOutcome.QUARANTINED, ReplayOutcome.UNKNOWN})
"""Outcomes of letters that were tried and not processed, as far as anything is known."""


PROCESSED = frozenset({ReplayOutcome.RECOVERED, ReplayOutcome.DUPLICATE})

OUTCOMES: Mapping[str, Collection[ReplayOutcome]] = {
    "failed": FAILED,
    "processed": PROCESSED,
    **{outcome.name.lower(): (outcome,) for outcome in ReplayOutcome},
}
"""What `-f outcome=` takes, and the outcomes that it means."""


@dataclass(frozen=True, slots=True)
class ListedLetter:
    """A letter of a run: its name in the manifest, its outcome, and how often it came back."""

    name: Name
    outcome: ReplayOutcome
    returned: int = 0


def outcomes_of(names: Sequence[str]) -> set[ReplayOutcome]:
    """The outcomes that these words mean; Problem for an unknown one."""
    wanted: set[ReplayOutcome] = set()
    for name in names:
        if name.lower() not in OUTCOMES:
            near = closest(name, OUTCOMES)
            meant = "" if near is None else f" Did you mean {near}?"
            raise Problem(
                f"There is no outcome {name!r}.{meant} Allowed: {', '.join(OUTCOMES)}.", Cause.INPUT
            )
        wanted.update(OUTCOMES[name.lower()])
    return wanted


def of_outcome(names: Sequence[str]) -> Callable[[ListedLetter], bool]:
    """Whether a message of a run has one of these outcomes; Problem for an unknown one."""
    wanted = outcomes_of(names)
    return lambda letter: letter.outcome in wanted


def letters_of(switch: RunSwitch) -> Iterator[ListedLetter]:
    """Each letter of a run in order. Problem if it has no snapshot yet."""
    from deadletter.aws.run_letters import DynamoDBStatuses
    from deadletter.replay.manifest import Manifest, ShardProgress
    from deadletter.replay.names import PART

    session = switch.session
    manifest = Manifest(switch.objects)
    statuses = DynamoDBStatuses(
        session.aws.dynamodb,
        switch.app.letters_table,
        pipeline=switch.pipeline.name,
        run=switch.id,
        clock=session.clock,
    )
    with aws_errors():
        index = manifest.index()
    if index is None and not switch.before.is_live:
        raise Problem(f"What run {switch.id} took is not on record any more.", Cause.ABSENT)
    if index is None:
        raise Problem(
            f"Run {switch.id} has not taken its messages yet: it is {switch.before.state}. "
            f"This waits for it:\ndlq show {switch.id} --watch",
            Cause.FAILED,
        )
    for shard in range(len(index.shards)):
        with aws_errors():
            progress = ShardProgress.of(shard, statuses.read(shard))
        for part in range(index.parts(shard)):
            with aws_errors():
                names = manifest.part(shard, part)
            for offset, name in enumerate(names):
                position = part * PART + offset
                yield ListedLetter(name, progress.outcome(position), progress.returned(position))
