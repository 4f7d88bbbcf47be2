"""Removing a pipeline: what is left of it, and how it is removed once nothing is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from deadletter.circuit.state import State
from deadletter.contract import (
    MAIN,
    MAIN_DLQ,
    PARKED_LANE,
    dedicated_lane,
    is_of_delays,
    parking_source,
    pipeline_prefix,
)
from deadletter.signals.troubles import TroubleKind

from .words import count, waits_for, way_out

if TYPE_CHECKING:
    from .app import App, DeployedPipeline
    from .pipeline_status import PipelineStatus
    from .queue import QueueDepth
    from .session import Session

# The kinds of what is left; UNREAD is what could not be read, so that nobody knows.
QUEUE, WAITING, RUN, CIRCUIT, UNREAD = "QUEUE", "WAITING", "RUN", "CIRCUIT", "UNREAD"


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something that has to go before the pipeline can."""

    kind: Annotated[str, "QUEUE, WAITING, RUN, CIRCUIT, or UNREAD: it could not be read"]
    name: Annotated[str, "the queue, what messages wait for, the run or the circuit"]
    messages: Annotated[int | None, "messages in it; null if it has none of its own"]
    says: Annotated[str, "a sentence for people"]
    command: Annotated[str | None, "what to type to empty or end it; null if nothing does"]


@dataclass(frozen=True, slots=True)
class RemovalStep:
    """A step of the removal."""

    says: Annotated[str, "what it does"]
    command: Annotated[str | None, "what to type; null if it is an edit of yours"]


@dataclass(frozen=True, slots=True)
class Remainder:
    """What outlives the pipeline."""

    name: Annotated[str, "what it is called"]
    says: Annotated[str, "why it stays"]
    command: Annotated[str | None, "what deletes it; null if it is yours, or goes by itself"]


@dataclass(frozen=True, slots=True)
class Removal:
    """What is left of a pipeline, and how it is removed."""

    pipeline: Annotated[str, "name of the pipeline"]
    ready: Annotated[bool, "whether nothing is left, so that it can be removed"]
    left: Annotated[Sequence[Leftover], "what is left, in the order in which to empty it"]
    steps: Annotated[Sequence[RemovalStep], "how to remove it; empty unless it is ready"]
    stays: Annotated[Sequence[Remainder], "what stays after that"]


def read(session: Session, pipeline: str | None) -> Removal:
    """What is left of a pipeline. Raises Problem if the app or its circuits can't be read."""
    # The other questions of `dlq doctor` do without.
    from . import status

    app = session.app()
    deployed = app.pipeline(pipeline)
    answer = status.read(session, [deployed.name])
    [known] = answer.pipelines
    unread = [item for item in answer.attention if item.kind == TroubleKind.UNREAD]
    left = [
        *_replays(known),
        *_circuits(session, deployed),
        *_queues(app, deployed, known),
        *_lanes(known),
        *(Leftover(UNREAD, item.pipeline, None, item.says, None) for item in unread),
        *(Leftover(UNREAD, known.name, None, row.says, row.type) for row in known.bad_rows),
    ]
    return Removal(
        pipeline=deployed.name,
        ready=not left,
        left=tuple(left),
        steps=() if left else tuple(_steps(deployed)),
        stays=tuple(_stays(app, deployed, known)),
    )


def _replays(known: PipelineStatus) -> Iterator[Leftover]:
    for run in known.runs or ():
        says = f"run {run.run} is {run.state} or has messages: wait for its end, or abort it"
        yield Leftover(RUN, run.run, run.messages, says, f"dlq run abort {quote(run.run)}")


def _circuits(session: Session, pipeline: DeployedPipeline) -> Iterator[Leftover]:
    """Circuits that would be left open, and consumers that nobody would start again."""
    from .circuits import list_circuits

    for row in list_circuits(session, [pipeline.name]).circuits:
        if row.state == State.CLOSED and row.forced is None and not row.consumer_paused:
            continue
        says = f"circuit {row.key} is {row.state}{' by hand' if row.forced else ''}"
        if row.consumer_paused:
            says += (
                ", and its consumer is paused: nothing starts it again once the pipeline is gone"
            )
        key = "" if row.key == pipeline.name else f" {quote(row.key)}"
        release = f'dlq circuit release{key} -p {quote(pipeline.name)} --reason "it is removed"'
        yield Leftover(CIRCUIT, row.key, None, says, release if row.forced else None)


def _queues(app: App, pipeline: DeployedPipeline, known: PipelineStatus) -> Iterator[Leftover]:
    name, parked, observes = pipeline.name, parking_source(""), pipeline.mode == "observe"
    again = f"dlq retry --auto -p {quote(name)}"
    for source in (MAIN, *pipeline.dedicated, MAIN_DLQ, *map(parking_source, pipeline.parking)):
        is_main, url = source == MAIN, pipeline.urls[source]
        messages = _messages(known.depths[source])
        # Your main queue goes on without us, and where we only observe, so does your DLQ.
        yours = not _is_ours(app, pipeline, url) and (is_main or observes)
        if yours or not messages:
            continue
        command: str | None
        if is_main:
            says, command = "stop its producers, and let the consumer empty it", None
        elif source.startswith(parked):
            says, command = "a parking queue", way_out(PARKED_LANE, name)
        elif source == MAIN_DLQ:
            says, command = "the DLQ", again
        else:
            says, command = "a dedicated DLQ", way_out(dedicated_lane(source), name)
        if observes and not is_main:
            says, command = f"{says}; mode observe moves nothing: set mode to enforce", None
        said = f"{count(messages, 'message')} in {_name(url)}: {says}"
        yield Leftover(QUEUE, _name(url), messages, said, command)


def _lanes(known: PipelineStatus) -> Iterator[Leftover]:
    for lane in known.waiting or ():
        if lane.messages == 0:
            continue
        place, letters = lane.waiting_for, lane.messages
        messages = "messages" if letters is None else count(letters, "message")
        messages = f"at least {messages}" if lane.is_at_least else messages
        typed = "time --all" if is_of_delays(place) else quote(place)
        command = way_out(place, known.name) or f"dlq retry --in {typed} -p {quote(known.name)}"
        yield Leftover(WAITING, place, letters, f"{messages} wait for {waits_for(place)}", command)
    if more := known.places_not_counted:
        says = f"messages wait for {count(more, 'more thing')}, not counted"
        command = f"dlq list --in waiting --pipeline {quote(known.name)}"
        yield Leftover(WAITING, "others", None, says, command)


def _messages(depth: QueueDepth | None) -> int:
    # What could not be read is named as unread.
    return 0 if depth is None else depth.total


def _steps(pipeline: DeployedPipeline) -> Iterator[RemovalStep]:
    yield RemovalStep(
        "A consumer of yours that uses the library: set DEADLETTER=off for it, and detach the "
        "pipeline's policy from its role. CloudFormation deletes no policy that is attached",
        None,
    )
    own, queues = pipeline.stacks["pipeline"], pipeline.stacks["queues"]
    unprotect = "update-termination-protection --no-enable-termination-protection"
    apart = (
        (
            "Functions, schedules and alarms go. While your settings name the pipeline: the CDK "
            "does not know its stacks after that",
            f"npx cdk destroy {own}",
        ),
        (
            "The stack of the queues is protected",
            f"aws cloudformation {unprotect} --stack-name {queues}",
        ),
        ("The stack goes, its queues stay", f"npx cdk destroy {queues}"),
        (f"Take {pipeline.name} out of `pipelines` in your settings", None),
        ("What all pipelines share forgets it", "npx cdk deploy --all"),
    )
    together = (
        ("Take the pipeline out of your code", None),
        ("Functions, schedules and alarms go, queues stay", f"npx cdk deploy {own}"),
    )
    for says, command in together if own == queues else apart:
        yield RemovalStep(says, command)


def _stays(app: App, pipeline: DeployedPipeline, known: PipelineStatus) -> Iterator[Remainder]:
    for source, url in pipeline.urls.items():
        if _is_ours(app, pipeline, url):
            says = (
                "a queue of ours, kept with what is in it unless the app is ephemeral; its name "
                "stays taken until it is deleted, or imported (docs/operate.md)"
            )
            yield Remainder(_name(url), says, f"aws sqs delete-queue --queue-url {url}")
            continue
        messages = _messages(known.dlq) if source == MAIN_DLQ else 0
        inside = f", with {count(messages, 'message')}" if messages else ""
        yield Remainder(_name(url), f"your queue{inside}: we don't touch it", None)
    records = "its failure records, until they expire; nothing reads them any more"
    yield Remainder(app.messages_table, records, None)
    yield Remainder(
        app.rules_table,
        f"its rules, which a new pipeline {pipeline.name} would obey",
        f"dlq rules list --pipeline {quote(pipeline.name)}",
    )


def _is_ours(app: App, pipeline: DeployedPipeline, url: str) -> bool:
    return _name(url).startswith(pipeline_prefix(app.name, pipeline.name))


def _name(url: str) -> str:
    return url.rpartition("/")[2]
