"""Retiring a pipeline: what is left of it, and how it is removed once nothing is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from deadletter.circuit.state import State
from deadletter.contract import MAIN_DLQ, PARKED_LANE, is_of_delays, pipeline_prefix
from deadletter.signals.troubles import TroubleKind

from . import circuits, status
from .answer import Answer
from .waiting import waits_for, way_out
from .words import count

if TYPE_CHECKING:
    from .app import App, DeployedPipeline
    from .queue import QueueDepth
    from .session import Session
    from .status import PipelineStatus

# The kinds of what is left; UNREAD is what could not be read, so that nobody knows.
QUEUE, LANE, REPLAY, CIRCUIT, UNREAD = "QUEUE", "LANE", "REPLAY", "CIRCUIT", "UNREAD"


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something that has to go before the pipeline can."""

    kind: Annotated[str, "QUEUE, LANE, REPLAY, CIRCUIT, or UNREAD: AWS did not say"]
    name: Annotated[str, "the queue, lane, run or circuit"]
    letters: Annotated[int | None, "letters or messages in it; null if it has none of its own"]
    says: Annotated[str, "a sentence for people"]
    command: Annotated[str | None, "what to type to empty or end it; null if nothing does"]


@dataclass(frozen=True, slots=True)
class RetireStep:
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
class Retirement(Answer):
    """What `dlq retire` answers."""

    at: Annotated[datetime, "when it was read"]
    pipeline: Annotated[str, "name of the pipeline"]
    ready: Annotated[bool, "whether nothing is left, so that it can be removed"]
    left: Annotated[Sequence[Leftover], "what is left, in the order in which to empty it"]
    steps: Annotated[Sequence[RetireStep], "how to remove it; empty unless it is ready"]
    stays: Annotated[Sequence[Remainder], "what stays after that"]


def read(session: Session, pipeline: str | None) -> Retirement:
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
    return Retirement(
        **session.place,
        at=session.now,
        pipeline=deployed.name,
        ready=not left,
        left=tuple(left),
        steps=() if left else tuple(_steps(deployed)),
        stays=tuple(_stays(app, deployed, known)),
    )


def _replays(known: PipelineStatus) -> Iterator[Leftover]:
    for run in known.replays:
        yield Leftover(
            REPLAY,
            run.run,
            run.messages,
            f"replay run {run.run} is {run.state} or has letters: wait for its end, or abort it",
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
            f"dlq circuit auto{key} --pipeline {pipeline.name}" if row.forced else None,
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
        if letters := _letters(depth):
            if pipeline.mode == "observe" and url != pipeline.main_url:
                says, command = f"{says}; mode observe moves nothing: set mode to enforce", None
            yield Leftover(
                QUEUE,
                _name(url),
                letters,
                f"{count(letters, 'message')} in {_name(url)}: {says}",
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
        if lane.letters == 0:
            continue
        letters = "letters" if lane.letters is None else count(lane.letters, "letter")
        command = way_out(lane.lane, known.name)
        recall = f"dlq retry --in {_place(lane.lane)} -p {known.name}"
        yield Leftover(
            LANE,
            lane.lane,
            lane.letters,
            f"{letters} in lane {lane.lane}: for {waits_for(lane.lane)}",
            command or recall,
        )
    if more := known.lanes_not_counted:
        yield Leftover(
            LANE,
            "others",
            None,
            f"{count(more, 'more lane')}, not counted",
            f"dlq list --in waiting --pipeline {known.name}",
        )


def _letters(depth: QueueDepth | None) -> int:
    # What could not be read is named as unread.
    return 0 if depth is None else depth.visible + depth.in_flight + depth.delayed


def _steps(pipeline: DeployedPipeline) -> Iterator[RetireStep]:
    yield RetireStep(
        "A consumer of yours that uses the library: set DEADLETTER=off for it, and detach the "
        "pipeline's policy from its role. CloudFormation deletes no policy that is attached",
        None,
    )
    own, queues = pipeline.stacks["pipeline"], pipeline.stacks["queues"]
    if own == queues:
        yield RetireStep("Take the pipeline out of your code", None)
        yield RetireStep("Functions, schedules and alarms go, queues stay", f"npx cdk deploy {own}")
        return
    yield RetireStep(
        "Functions, schedules and alarms go. While your settings name the pipeline: the CDK "
        "does not know its stacks after that",
        f"npx cdk destroy {own}",
    )
    yield RetireStep(
        "The stack of the queues is protected",
        "aws cloudformation update-termination-protection --no-enable-termination-protection "
        f"--stack-name {queues}",
    )
    yield RetireStep("The stack goes, its queues stay", f"npx cdk destroy {queues}")
    yield RetireStep(f"Take {pipeline.name} out of `pipelines` in your settings", None)
    yield RetireStep("What all pipelines share forgets it", "npx cdk deploy --all")


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
        inside = f", with {count(letters, 'message')}" if (letters := _letters(depth)) else ""
        yield Remainder(_name(url), f"your queue{inside}: we don't touch it", None)
    yield Remainder(
        app.letters_table,
        "the ledger's rows, until they expire; nothing reads them any more",
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
