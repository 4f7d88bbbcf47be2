"""The drill: everything that a run needs fails once, in real minutes, and a person is paged.

Each scene has a pipeline of its own in one deployed app, with its schedules on. All troubles
begin at the same moment. Each has to page within PAGED_WITHIN, and the page has to clear when
the trouble is over; before the trouble there is no page at all. It takes about half an hour;
`make nightly` runs it. The figures go to build/drill.md.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from sandbox.deploy import deploy
from sandbox.queue_metrics import QueueMetrics
from sandbox.server import ROOT, Sandbox
from tests.drill.scenes import LETTERS, OUTAGES, SCENES, Scene, Stage
from tests.e2e.deployed import Deployed
from tests.e2e.receiver import Receiver

# Seconds from the trouble to its page.
PAGED_WITHIN = 300.0

# Seconds of a healthy app before the trouble: a heartbeat that rings falsely does so in these.
HEALTHY = 180.0

# Seconds that the trouble lasts at least, so that a second page would be seen; and at most.
LASTS, LASTS_AT_MOST = 360.0, 480.0

# Seconds after the trouble in which each page has to clear: a throttled step of an outage is
# looked at over fifteen minutes, because its calls come in bursts.
CLEARED_WITHIN = 960.0

# Seconds between two looks, and between two of what happens meanwhile.
LOOK, MEANWHILE = 2.0, 15.0

OPENS = {"window": 10, "minimum": 4, "consecutive": 4, "cooldown": 5, "cooldown_cap": 10}
NEVER_OPENS = {"failure_rate": 1.0, "minimum": 100_000, "consecutive": 0}


def pipeline(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "consumer": {"kind": "webhook", "batch_size": 2, "allow_loopback": True},
        "context": {"tenantId": "body.tenantId"},
        # The pages are about the pipeline's own circuit.
        "circuit_key": "pipeline",
        "circuit": OPENS if name in OUTAGES else NEVER_OPENS,
    }


@dataclass(frozen=True, slots=True)
class Page:
    """A change of an alarm's state as the pager heard it; `at` in seconds of the drill."""

    alarm: str
    state: str
    at: float


@dataclass
class Pager:
    """A queue that is subscribed to the app's alarms."""

    aws: Callable[[str], Any]
    topic: str
    pages: list[Page] = field(default_factory=list)

    def __post_init__(self) -> None:
        sqs = self.aws("sqs")
        self._url = sqs.create_queue(QueueName="pager")["QueueUrl"]
        attributes = sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])
        arn = attributes["Attributes"]["QueueArn"]
        allow = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}}
        statement = allow | {"Action": "sqs:SendMessage", "Resource": arn}
        policy = json.dumps({"Statement": [statement]})
        sqs.set_queue_attributes(QueueUrl=self._url, Attributes={"Policy": policy})
        self.aws("sns").subscribe(TopicArn=self.topic, Protocol="sqs", Endpoint=arn)

    def listen(self, now: float) -> None:
        sqs = self.aws("sqs")
        while messages := sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10).get(
            "Messages"
        ):
            for message in messages:
                notice = json.loads(json.loads(message["Body"])["Message"])
                self.pages.append(Page(notice["AlarmName"], notice["NewStateValue"], now))
                sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])

    def first(self, alarm: str, state: str, since: float) -> float | None:
        times = [page.at for page in self.pages if (page.alarm, page.state) == (alarm, state)]
        return min((at for at in times if at >= since), default=None)


@dataclass
class Outcome:
    """What one scene came to; times in seconds from the begin of its trouble, or from its end."""

    scene: Scene
    paged: float | None = None
    cleared: float | None = None
    others: list[str] = field(default_factory=list)
    receives: int = 0
    status: str = ""
    left: int = 0


@dataclass
class Drill:
    """The app while the drill runs: its clock, its pager, its stages."""

    stages: Mapping[str, Stage]
    pager: Pager
    began: float

    def now(self) -> float:
        return time.monotonic() - self.began

    def last(
        self,
        least: float,
        most: float,
        done: Callable[[], bool],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Listen to the pager for `least` seconds, and on until all is done or `most` are over."""
        start, due = self.now(), 0.0
        while (lasted := self.now() - start) < most and not (lasted >= least and done()):
            if lasted >= due:
                meanwhile()
                due = lasted + MEANWHILE
            self.pager.listen(self.now())
            threading.Event().wait(LOOK)


@pytest.fixture(scope="module")
def drill() -> Iterator[Drill]:
    with (
        Sandbox(ROOT / "build" / "drill", real_minutes=True) as sandbox,
        Receiver() as receiver,
    ):
        pipelines = json.dumps([pipeline(scene.pipeline) for scene in SCENES])
        stacks = deploy(sandbox, context={"pipelines": pipelines}, show=print)
        began = time.monotonic()
        outputs = {name: value for stack in stacks.values() for name, value in stack.items()}
        aws = cache(sandbox.client)
        stages = {}
        for scene in SCENES:
            name = scene.pipeline
            stages[name] = Stage(Deployed(sandbox, aws, outputs, name), receiver)
            stages[name].deployed.register(name, receiver.url(name))
        topic = stages[SCENES[0].pipeline].deployed.app["alarm_topic"]
        with QueueMetrics(sandbox.queues, sandbox.client("cloudwatch"), interval=5.0):
            yield Drill(stages, Pager(aws, topic), began)


def most_receives(stage: Stage) -> int:
    return max((message["ReceiveCount"] for message in stage.deployed.held("Dlq")), default=0)


def why_stalled(stage: Stage) -> dict[str, str]:
    """The reason that `dlq status` gives for what has stalled, by pipeline."""
    pipelines = stage.deployed.dlq("status")["pipelines"]
    return {
        pipeline["name"]: pipeline["stalled"]["why"]
        for pipeline in pipelines
        if pipeline["stalled"]
    }


def others(drill: Drill, outcome: Outcome, since: float, until: float) -> list[str]:
    """Other alarms of the same pipeline that rang."""
    prefix = f"deadletter-{outcome.scene.pipeline}-"
    return [
        f"{page.alarm.removeprefix(prefix)} at {page.at - since:.0f} s"
        for page in drill.pager.pages
        if page.alarm.startswith(prefix)
        and page.state == "ALARM"
        and since <= page.at < until
        and (page.alarm, round(page.at - since, 3))
        != (outcome.scene.alarm, round(outcome.paged or 0, 3))
    ]


def seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.0f} s"


def table(outcomes: list[Outcome], before: list[Page]) -> str:
    lines = [
        "# The drill",
        "",
        f"Pages of a first deployment and {HEALTHY:.0f} healthy seconds: {len(before)}"
        + "".join(f"; {page.alarm}" for page in before),
        "",
        "| trouble | alarm | paged after | cleared after | other pages"
        " | most receives of a letter | letters left | `dlq status` |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {outcome.scene.trouble} | {outcome.scene.alarm} | {seconds(outcome.paged)}"
            f" | {seconds(outcome.cleared)} | {', '.join(outcome.others) or 'none'}"
            f" | {outcome.receives} | {outcome.left} | {outcome.status} |"
            for outcome in outcomes
        ),
        "",
    ]
    return "\n".join(lines)


def test_each_trouble_pages_within_five_minutes_and_its_page_clears(drill: Drill) -> None:
    outcomes = [Outcome(scene) for scene in SCENES]

    drill.last(HEALTHY, HEALTHY, done=lambda: True)
    before = [page for page in drill.pager.pages if page.state == "ALARM"]

    began: dict[str, float] = {}
    for scene in SCENES:
        stage = drill.stages[scene.pipeline]
        scene.begin(stage)
        stage.send(LETTERS, "Dlq")
        began[scene.pipeline] = drill.now()

    def paged() -> bool:
        for outcome in outcomes:
            since = began[outcome.scene.pipeline]
            at = drill.pager.first(outcome.scene.alarm, "ALARM", since)
            outcome.paged = None if at is None else at - since
        return all(outcome.paged is not None for outcome in outcomes)

    def meanwhile() -> None:
        for outcome in outcomes:
            stage = drill.stages[outcome.scene.pipeline]
            outcome.scene.meanwhile(stage)
            outcome.receives = max(outcome.receives, most_receives(stage))

    drill.last(LASTS, LASTS_AT_MOST, paged, meanwhile)
    reasons = why_stalled(drill.stages[SCENES[0].pipeline])
    for outcome in outcomes:
        outcome.status = reasons.get(outcome.scene.pipeline, "")
        outcome.receives = max(
            outcome.receives, most_receives(drill.stages[outcome.scene.pipeline])
        )

    ended: dict[str, float] = {}
    for scene in SCENES:
        stage = drill.stages[scene.pipeline]
        stage.receiver.statuses[scene.pipeline] = 200
        scene.end(stage)
        ended[scene.pipeline] = drill.now()

    def cleared() -> bool:
        for outcome in outcomes:
            since = ended[outcome.scene.pipeline]
            at = drill.pager.first(outcome.scene.alarm, "OK", since)
            outcome.cleared = None if at is None else at - since
        return all(outcome.cleared is not None for outcome in outcomes)

    drill.last(0, CLEARED_WITHIN, cleared)
    for outcome in outcomes:
        name = outcome.scene.pipeline
        outcome.others = others(drill, outcome, began[name], drill.now())
        outcome.left = len(drill.stages[name].deployed.held("Dlq"))

    report = table(outcomes, before)
    (ROOT / "build" / "drill.md").write_text(report)
    sys.stdout.write(report)
    assert before == []
    assert {
        outcome.scene.trouble: outcome.paged
        for outcome in outcomes
        if outcome.paged is None or outcome.paged > PAGED_WITHIN
    } == {}, "paged late or never"
    assert [outcome.scene.trouble for outcome in outcomes if outcome.cleared is None] == []
