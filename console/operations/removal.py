"""Removing a pipeline: what is left of it, and how it is removed once nothing is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from deadletter.circuit.state import State
from deadletter.contract import MAIN_DLQ, PARKED_LANE, is_of_delays, pipeline_prefix
from deadletter.signals.troubles import TroubleKind

from . import circuits, status
from .waiting import waits_for, way_out
from .words import count

if TYPE_CHECKING:
    from .app import App, DeployedPipeline
    from .queue import QueueDepth
    from .session import Session
    from .status import PipelineStatus

# The kinds of what is left; UNREAD is what could not be read, so that nobody knows.
QUEUE, WAITING, RUN, CIRCUIT, UNREAD = "QUEUE", "WAITING", "RUN", "CIRCUIT", "UNREAD"


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something that has to go before the pipeline can."""

    kind: Annotated[str, "QUEUE, WAITING, RUN, CIRCUIT, or UNREAD: AWS did not say"]
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
    ]
    return Removal(
        pipeline=deployed.name,
        ready=not left,
        left=tuple(left),
        steps=() if left else tuple(_steps(deployed)),
        stays=tuple(_stays(app, deployed, known)),
    )


def _replays(known: PipelineStatus) -> Iterator[Leftover]:
    for run in known.runs:
        yield Leftover(
            RUN,
            run.run,
            run.messages,
            f"run {run.run} is {run.state} or has messages: wait for its end, or abort it",
            f"dlq run abort {run.run}",
        )


def _circuits(session: Session, pipeline: DeployedPipeline) -> Iterator[Leftover]:
    """Circuits that would be left open, and consumers that nobody would start again."""
    for row in circuits.list_circuits(session, [pipeline.name]).circuits:
        if row.state == State.CLOSED and row.forced is None and not row.consumer_paused:
            continue
        paused = ", and its consumer is paused: nothing starts it again once the pipeline is gone"
        key = "" if row.key == pipeline.name else f" {row.key}"
        yield Leftover(
            CIRCUIT,
            row.key,
            None,
            f"circuit {row.key} is {row.state}{' by hand' if row.forced else ''}"
            f"{paused if row.consumer_paused else ''}",
            f'dlq circuit release{key} -p {pipeline.name} --reason "it is removed"'
            if row.forced
            else None,
        )


def _queues(app: App, pipeline: DeployedPipeline, known: PipelineStatus) -> Iterator[Leftover]:
    name = pipeline.name
    for url, depth, says, command in (
        (
            pipeline.main_url,
            known.main,
            "stop its producers, and let the consumer empty it",
            None,
        ),
        *(
            (url, known.dedicated.get(id_), "a dedicated DLQ", _redrive(name, id_))
            for id_, url in pipeline.dedicated.items()
        ),
        (pipeline.dlq_url, known.dlq, "the DLQ", _redrive(name, MAIN_DLQ)),
        *(
            (url, known.parking.get(id_), "a parking queue", way_out(PARKED_LANE, name))
            for id_, url in pipeline.parking.items()
        ),
    ):
        yours = not _is_ours(app, pipeline, url)
        # Your main queue goes on without us, and where we only observe, so does your DLQ.
        if yours and (url == pipeline.main_url or pipeline.mode == "observe"):
            continue
        if messages := _messages(depth):
            if pipeline.mode == "observe" and url != pipeline.main_url:
                says, command = f"{says}; mode observe moves nothing: set mode to enforce", None
            yield Leftover(
                QUEUE,
                _name(url),
                messages,
                f"{count(messages, 'message')} in {_name(url)}: {says}",
                command,
            )


def _redrive(pipeline: str, source: str) -> str:
    chosen = "" if source == MAIN_DLQ else f" --in dedicated:{source}"
    return f"dlq retry --auto{chosen} -p {pipeline}"


def _place(lane: str) -> str:
    """The place of a lane's messages, as it is typed."""
    return "time --all" if is_of_delays(lane) else lane


def _lanes(known: PipelineStatus) -> Iterator[Leftover]:
    for lane in known.waiting:
        if lane.messages == 0:
            continue
        messages = "messages" if lane.messages is None else count(lane.messages, "message")
        command = way_out(lane.waiting_for, known.name)
        recall = f"dlq retry --in {_place(lane.waiting_for)} -p {known.name}"
        yield Leftover(
            WAITING,
            lane.waiting_for,
            lane.messages,
            f"{messages} wait for {waits_for(lane.waiting_for)}",
            command or recall,
        )
    if more := known.places_not_counted:
        yield Leftover(
            WAITING,
            "others",
            None,
            f"messages wait for {count(more, 'more thing')}, not counted",
            f"dlq list --in waiting --pipeline {known.name}",
        )


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
    if own == queues:
        yield RemovalStep("Take the pipeline out of your code", None)
        yield RemovalStep(
            "Functions, schedules and alarms go, queues stay", f"npx cdk deploy {own}"
        )
        return
    yield RemovalStep(
        "Functions, schedules and alarms go. While your settings name the pipeline: the CDK "
        "does not know its stacks after that",
        f"npx cdk destroy {own}",
    )
    yield RemovalStep(
        "The stack of the queues is protected",
        "aws cloudformation update-termination-protection --no-enable-termination-protection "
        f"--stack-name {queues}",
    )
    yield RemovalStep("The stack goes, its queues stay", f"npx cdk destroy {queues}")
    yield RemovalStep(f"Take {pipeline.name} out of `pipelines` in your settings", None)
    yield RemovalStep("What all pipelines share forgets it", "npx cdk deploy --all")


def _stays(app: App, pipeline: DeployedPipeline, known: PipelineStatus) -> Iterator[Remainder]:
    urls = (
        pipeline.main_url,
        pipeline.dlq_url,
        *pipeline.dedicated.values(),
        *pipeline.parking.values(),
    )
    for url in urls:
        if _is_ours(app, pipeline, url):
            yield Remainder(
                _name(url),
                "a queue of ours, kept with what is in it unless the app is ephemeral; its name "
                "stays taken until it is deleted, or imported (docs/operate.md)",
                f"aws sqs delete-queue --queue-url {url}",
            )
            continue
        depth = known.dlq if url == pipeline.dlq_url else None
        inside = f", with {count(messages, 'message')}" if (messages := _messages(depth)) else ""
        yield Remainder(_name(url), f"your queue{inside}: we don't touch it", None)
    yield Remainder(
        app.letters_table,
        "its failure records, until they expire; nothing reads them any more",
        None,
    )
    yield Remainder(
        app.rules_table,
        f"its rules, which a new pipeline {pipeline.name} would obey",
        f"dlq rules list --pipeline {pipeline.name}",
    )


def _is_ours(app: App, pipeline: DeployedPipeline, url: str) -> bool:
    return _name(url).startswith(pipeline_prefix(app.name, pipeline.name))


def _name(url: str) -> str:
    return url.rpartition("/")[2]
