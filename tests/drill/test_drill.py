"""The drill: things break, a person is called, types what the card says, and all is well.

Each scene has a pipeline of its own in one deployed app, with its schedules on, in a sandbox
whose clock runs ten times as fast: 60 s of any setting are 6 s. First all pipelines are healthy
and have traffic, and no alarm rings, from the deployment on. Then all troubles begin. Each rings
exactly its alarms; `dlq status` has one card, which tells the cause; its command, typed as it is
printed once the world outside is well, ends the trouble; each page ends by itself; and each message
that was sent is processed, parked, or where the scene says. `make drill` runs it, and writes
build/drill.md.

What a person needs to read, to think and to decide is not measured.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import pytest

from sandbox.alarms import MINUTE, SHORT_MINUTE
from sandbox.deploy import deploy
from sandbox.faults import Fault
from sandbox.progress import Progress, Standstill
from sandbox.queue_metrics import QueueMetrics
from sandbox.server import ROOT, Sandbox
from tests.drill import scenes
from tests.drill.commands import type_it
from tests.drill.pager import ALARM, OK, Page, Pager
from tests.drill.report import Outcome, table
from tests.drill.scenes import Scene, a_week_later
from tests.drill.stage import Stage
from tests.e2e.deployed import Deployed
from tests.e2e.receiver import Receiver

SPEED = MINUTE / SHORT_MINUTE

# The scenes to play, by their names: make drill OF="bad-rule big-backlog".
CHOSEN = os.environ.get("DRILL_OF", "").split()
SCENES = [scene for scene in scenes.SCENES if not CHOSEN or scene.name in CHOSEN]

# Minutes of the template without trouble, after the deployment.
HEALTHY = 12

# Seconds of the machine between two messages of a pipeline.
TRAFFIC = 4.0

# Minutes of the template in which nothing else may ring after a scene's last OK.
QUIET = 5

# Minutes after which a page will not end, and letters will not come to rest.
TOO_LONG = 25

# How many times as long as it should take a page is waited for.
PATIENCE = 1.5

# Seconds of the machine without any progress after which there will be none.
STANDSTILL = 120.0

LOOK = 0.5

SERVICES = ("cloudwatch", "dynamodb", "iam", "lambda", "scheduler", "sns", "sqs", "ssm")

REPORT = ROOT / "build" / "drill.md"


class Faults:
    """The faults of all scenes: the sandbox is told all of them each time."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._by_scene: dict[str, tuple[Fault, ...]] = {}
        self._lock = threading.Lock()

    def of(self, scene: str) -> Callable[..., None]:
        def fail(*faults: Fault) -> None:
            with self._lock:
                self._by_scene[scene] = faults
                self._sandbox.fail(*(fault for each in self._by_scene.values() for fault in each))

        return fail


@dataclass
class Drill:
    """The app while the drill runs."""

    sandbox: Sandbox
    stages: Mapping[str, Stage]
    pager: Pager
    began: float
    deployed_in: float

    def until(self, condition: Callable[[], bool], what: str, marks: Callable[[], object]) -> None:
        """Wait for something; raises Standstill when no marks have moved for long."""
        progress = Progress()
        while not condition():
            progress.read(marks(), time.monotonic())
            if progress.is_over(STANDSTILL):
                raise Standstill(f"waited for: {what}; last seen: {progress.marks}")
            threading.Event().wait(LOOK)

    def watched(self, stage: Stage, minutes: float) -> Callable[[], bool]:
        """Whether so many minutes have passed, and the alarms have been judged in each.

        On a busy machine runs of the watch are late, and a page is with them.
        """
        since, seen = self.sandbox.time(), set[int]()

        def passed() -> bool:
            seen.add(int(self.sandbox.time() // MINUTE))
            return self.sandbox.time() - since >= minutes * MINUTE and len(seen) >= minutes

        return passed

    def rang(self, stage: Stage, since: float) -> list[Page]:
        return [page for page in self.pager.heard(stage.name, since) if page.state == ALARM]

    def is_quiet(self, stage: Stage, since: float) -> bool:
        """Whether each alarm that rang has ended."""
        last = {page.alarm: page.state for page in self.pager.heard(stage.name, since)}
        return all(state == OK for state in last.values())


@pytest.fixture(scope="module")
def drill() -> Iterator[Drill]:
    with Sandbox(ROOT / "build" / "drill", own_clock=True) as sandbox, Receiver() as receiver:
        began = time.monotonic()
        pipelines = [
            {
                "name": scene.name,
                "consumer": {"kind": "webhook"},
                "tuning": {"consumer.batch_size": 2, "consumer.allow_loopback": True},
                "context": {"tenantId": "body.tenantId"},
                **scene.settings,
            }
            for scene in SCENES
        ]
        stacks = deploy(sandbox, context={"pipelines": json.dumps(pipelines)}, show=print)
        outputs = {name: value for stack in stacks.values() for name, value in stack.items()}
        warm_up(sandbox)
        sandbox.hurry(SPEED)
        aws, faults = cache(sandbox.client), Faults(sandbox)
        for service in SERVICES:
            aws(service)  # made here: threads share the clients
        stages = {}
        for scene in SCENES:
            deployed = Deployed(sandbox, aws, outputs, scene.name)
            deployed.register(scene.name, receiver.url(scene.name))
            stages[scene.name] = Stage(deployed, receiver, faults.of(scene.name))
        topic = stages[SCENES[0].name].deployed.app["alarm_topic"]
        pager = Pager(aws, topic, sandbox.time)
        pager.start()
        cloudwatch = sandbox.client("cloudwatch")
        with QueueMetrics(sandbox.queues, cloudwatch, interval=3.0, clock=sandbox.time):
            yield Drill(sandbox, stages, pager, began, time.monotonic() - began)
        pager.stop()


def warm_up(sandbox: Sandbox) -> None:
    """Let each function that runs every minute begin its process, a second of computing each."""
    functions = sandbox.client("lambda")
    for scene in SCENES:
        for role, event in (("watch", {}), ("redrive", {"source": "dlq"})):
            functions.invoke(
                FunctionName=f"deadletter-{scene.name}-{role}", Payload=json.dumps(event)
            )


def rung_before(drill: Drill) -> list[str]:
    """The alarms that rang since the deployment, the first one's included."""
    cloudwatch = drill.sandbox.client("cloudwatch")
    pages = cloudwatch.get_paginator("describe_alarm_history").paginate(
        HistoryItemType="StateUpdate"
    )
    said = [
        item["AlarmName"]
        for page in pages
        for item in page["AlarmHistoryItems"]
        if f"to {ALARM}" in item["HistorySummary"]
    ]
    heard = [page.alarm for page in drill.pager.all() if page.state == ALARM]
    return sorted({*said, *heard})


def keep_sending(stages: Mapping[str, Stage], stop: threading.Event) -> None:
    """Healthy traffic of all pipelines."""
    while not stop.wait(TRAFFIC):
        for stage in stages.values():
            if stop.is_set():
                return
            stage.send(1)


def play(drill: Drill, outcome: Outcome) -> None:
    """One scene from its begin to its last OK."""
    scene = outcome.scene
    stage = drill.stages[scene.name]
    began, begun_at = drill.sandbox.time(), time.monotonic()
    scene.begin(stage)

    def paged() -> list[Page]:
        return drill.rang(stage, began)

    def all_rang() -> bool:
        return set(scene.rings) <= {page.alarm for page in paged()}

    too_long = drill.watched(stage, scene.within * PATIENCE)

    def rang_or_never() -> bool:
        if scene.name == "poison-tenant":
            with suppress(Exception):  # the watch wrote its row in between: the next look
                a_week_later(stage)
        return all_rang() or too_long()

    drill.until(rang_or_never, "the page", drill.sandbox.time)
    rang_at = time.monotonic()
    if pages := paged():
        outcome.begins = (pages[0].at - began) / SPEED
        outcome.pages = rang_at - begun_at
    seen = stage.deployed.dlq("status", "--pipeline", scene.name)["attention"]
    if not all_rang():
        missing = sorted(set(scene.rings) - {page.alarm for page in paged()})
        outcome.faults.append(f"never rang: {', '.join(missing)}; seen: {seen}")
    cards = [card for card in seen if card["needs_person"]]
    if [card["kind"] for card in cards] != [scene.card] or scene.tells not in cards[0]["says"]:
        outcome.faults.append(f"not one card, {scene.card}, that says {scene.tells!r}: {cards}")

    scene.mend(stage)
    # The card of what rings; one beside it can wait for a person who has slept.
    for card in cards:
        if card["alarm"] and card["type"]:
            status, said = type_it(stage.sandbox, card["type"])
            outcome.typed.append(card["type"])
            if status:
                outcome.faults.append(f"{card['type']} ended with {status}: {said}")
    typed_at = time.monotonic()

    too_long = drill.watched(stage, TOO_LONG)
    drill.until(
        lambda: drill.is_quiet(stage, began) or too_long(), "the page ends", drill.sandbox.time
    )
    if not drill.is_quiet(stage, began):
        outcome.faults.append(f"does not end: {drill.pager.heard(scene.name, began)}")
        return
    outcome.clears, outcome.repaired = time.monotonic() - rang_at, time.monotonic() - typed_at
    scene.afterwards(stage)


def settled(stage: Stage, scene: Scene) -> bool:
    letters = stage.letters()
    return letters.left == 0 and letters.parked == scene.parked


def test_each_trouble_rings_its_alarms_and_ends_by_its_card(drill: Drill) -> None:
    stop = threading.Event()
    traffic = threading.Thread(target=keep_sending, args=(drill.stages, stop), daemon=True)
    traffic.start()

    any_stage = drill.stages[SCENES[0].name]
    drill.until(drill.watched(any_stage, HEALTHY), "the healthy minutes", drill.sandbox.time)
    before = rung_before(drill)
    healthy = time.monotonic() - drill.began - drill.deployed_in
    processed = sum(stage.letters().processed for stage in drill.stages.values())

    troubles = drill.sandbox.time()
    outcomes = [Outcome(scene) for scene in SCENES]
    with ThreadPoolExecutor(len(SCENES)) as side_by_side:
        plays = [side_by_side.submit(play, drill, outcome) for outcome in outcomes]
    for outcome, done in zip(outcomes, plays, strict=True):
        if (error := done.exception()) is not None:
            outcome.faults.append(f"{type(error).__name__}: {error}")

    stop.set()
    traffic.join()
    quiet = drill.watched(any_stage, QUIET)
    too_long = drill.watched(any_stage, TOO_LONG)
    drill.until(
        lambda: quiet() and (too_long() or all(settled(drill.stages[s.name], s) for s in SCENES)),
        "the letters come to rest",
        drill.sandbox.time,
    )
    for outcome in outcomes:
        judge(drill, outcome, troubles)
    minutes = (time.monotonic() - drill.began) / 60
    facts = [
        f"{len(SCENES)} pipelines side by side, in {minutes:.1f} minutes of the machine:"
        f" {drill.deployed_in:.0f} s to deploy, {healthy:.0f} s healthy",
        f"A minute of the app is {SHORT_MINUTE:.0f} s of the machine. At the deployment and in"
        f" {healthy / SHORT_MINUTE:.0f} healthy minutes, with {processed} messages, {len(before)}"
        f" alarms rang{''.join(f'; {name}' for name in before)}",
        "Times are the machine's: no person had to read or to think",
    ]
    write(outcomes, facts)
    assert before == []
    assert {o.scene.name: o.faults for o in outcomes if o.faults} == {}


def judge(drill: Drill, outcome: Outcome, since: float) -> None:
    """What the scene came to when all is over: its pages, its commands, its letters."""
    scene, faults = outcome.scene, outcome.faults
    stage = drill.stages[scene.name]
    rang = drill.rang(stage, since)
    outcome.rang = list(dict.fromkeys(page.alarm for page in rang))
    outcome.letters = letters = stage.letters()
    if set(outcome.rang) != set(scene.rings):
        faults.append(f"rang {outcome.rang} and not {[str(alarm) for alarm in scene.rings]}")
    if len(rang) != len(outcome.rang):
        faults.append(f"rang more than once: {rang}")
    if letters.lost or letters.left or letters.parked != scene.parked:
        faults.append(f"letters: {letters}")


def write(outcomes: list[Outcome], facts: list[str]) -> None:
    report = table(outcomes, facts)
    REPORT.write_text(report)
    sys.stdout.write(report)
