"""Start a re-drive run. Only the Lambda function moves letters; this starts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

from deadletter.contract import MAIN_DLQ
from deadletter.signals.figures import Count

from .answer import Answer
from .app import App, DeployedPipeline
from .audit import IntendedChange, recorded
from .aws import Aws
from .problem import Cause, Problem
from .queue import depth
from .redrive_function import NoRoom, ask
from .session import Session

# Metrics of letters that stay where they are until a person does something.
_NEED_PERSON = {Count.UNDECIDED, Count.UNSENDABLE, Count.BAD_ROW}

# What of a report is kept as what has come of it.
_RECORDED = ("stopped", "received", "moved", "failed", "left")

# Seconds before a further try, and tries: Lambda ends the run at work within 15 minutes.
_AGAIN_AFTER = 10.0
_MOST_TRIES = 91


@dataclass(frozen=True, slots=True)
class RedriveRun(Answer):
    """What `dlq redrive now` answers."""

    pipeline: Annotated[str, "name of the pipeline"]
    source: Annotated[str, "`dlq`, or the id of a dedicated DLQ"]
    dry_run: Annotated[bool, "whether nothing was moved"]
    report: Annotated[
        Mapping[str, Any],
        "what the run reported: `stopped` (why it ended), `ended_well` (whether it could do "
        "its work), `trouble` (what AWS refused or did not answer), `received`, `decisions` "
        "(number of letters by decision and reason), `moved`, `failed`, `left`, "
        "`possible_duplicates`, `possible_duplicates_of_killed_runs` (those among them whose run "
        "was killed; the others had no answer), and whatever else it counted; for a dry run "
        "`letters`, each with `message_id`, `action`, `because`, and its `delay`, `lane` and "
        "`due`, `queue` or `reason`",
    ]

    @property
    def ended_well(self) -> bool:
        """Whether it could do its work, or had none."""
        return self.report.get("ended_well") is True

    @property
    def needs_person(self) -> bool:
        """Whether a letter could not be moved or judged, or the run did not do its work."""
        counts = self.report.get("counts")
        undone = _NEED_PERSON & counts.keys() if isinstance(counts, dict) else set()
        failed = bool(self.report.get("failed") or undone)
        return failed or self.was_busy or not self.ended_well

    @property
    def was_busy(self) -> bool:
        """Whether another run was at work, so that this one did nothing."""
        return _met_another(self.report)

    @property
    def trouble(self) -> str | None:
        """What AWS refused or did not answer; None if the run does not say."""
        trouble = self.report.get("trouble")
        return trouble if isinstance(trouble, str) and trouble else None


@dataclass(frozen=True, slots=True)
class RedriveTarget:
    """A queue that a run can drain: the DLQ of a pipeline, or a dedicated DLQ."""

    app: App
    pipeline: DeployedPipeline
    source: str
    url: str

    @property
    def observes(self) -> bool:
        """Whether a run decides and reports without moving anything."""
        return self.pipeline.mode == "observe"


def target(session: Session, pipeline: str | None, source: str) -> RedriveTarget:
    """The queue with this source id; Problem if the pipeline has no such source."""
    app = session.app()
    deployed = app.pipeline(pipeline)
    urls = {MAIN_DLQ: deployed.dlq_url, **deployed.dedicated}
    if source not in urls:
        raise Problem(
            f"Pipeline {deployed.name} has no source {source!r}: it has {', '.join(urls)}.",
            Cause.ABSENT,
        )
    return RedriveTarget(app, deployed, source, urls[source])


def visible_letters(session: Session, queue: RedriveTarget) -> int:
    """How many letters a run may find, as SQS estimates it."""
    return depth(session.aws.sqs, queue.url).visible


def start(
    session: Session,
    queue: RedriveTarget,
    *,
    dry_run: bool,
    pause: Callable[[float], None],
    why: str = "",
) -> RedriveRun:
    """Starts a run that a person asks for, and waits for its report.

    Such a run does not wait although earlier runs could move nothing, and in mode observe it
    looks at letters that were looked at before. Where another run is at work, or Lambda has no
    room, it is started again until it can work, with a `pause` of some seconds before each
    further try. Raises Problem if the function fails, is busy all the time, does not answer or
    answers no report.
    """
    if dry_run:
        report = _invoke(session.aws, queue, pause, dry_run=True)
    else:
        change = IntendedChange("redrive now", queue.pipeline.name, f"source {queue.source}", why)
        with recorded(session, queue.app, change) as record:
            report = _invoke(session.aws, queue, pause, dry_run=False)
            figures = {name: report[name] for name in _RECORDED if report.get(name) is not None}
            record.done(figures)
    return RedriveRun(
        **session.place,
        pipeline=queue.pipeline.name,
        source=queue.source,
        dry_run=dry_run,
        report=report,
    )


def _invoke(
    aws: Aws, queue: RedriveTarget, pause: Callable[[float], None], *, dry_run: bool
) -> Mapping[str, Any]:
    def once() -> Mapping[str, Any]:
        return ask(
            aws,
            queue.pipeline,
            {"source": queue.source, "dry_run": dry_run, "asked": True},
            lost="the run may still be going on; see dlq status",
            failed="what it had not moved is still in its queue",
        )

    for _ in range(_MOST_TRIES - 1):
        with suppress(NoRoom):
            report = once()
            if not _met_another(report):
                return report
        pause(_AGAIN_AFTER)
    return once()


def _met_another(report: Mapping[str, Any]) -> bool:
    from deadletter.redrive.redriver import LEASE_HELD

    return report.get("stopped") == LEASE_HELD
