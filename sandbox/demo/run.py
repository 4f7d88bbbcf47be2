"""The demo from beginning to end: an AWS, the app in it, the mail, and the account of it."""

import json
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from sandbox.demo.events import Event, plan
from sandbox.demo.live import Screen, account, screen
from sandbox.demo.look import Look, look
from sandbox.demo.pages import Pages, pages
from sandbox.demo.pipeline import DemoPipeline
from sandbox.demo.receiver import Receiver, Visit
from sandbox.demo.reconcile import DeliveredEvent, FoundLetters, Reconciliation, reconcile
from sandbox.demo.script import prepare, steps
from sandbox.demo.watch import watch
from sandbox.deploy import deploy
from sandbox.queue_metrics import QueueMetrics
from sandbox.server import Sandbox

SEED = 1
LOOK_EVERY_SECONDS = 0.5

# The settings, compressed in time; the code is the code. What fails once is a letter a
# second later.
PIPELINE = {
    "name": "orders",
    "context": {"tenantId": "body.tenantId", "messageType": "body.type"},
    "consumer": {
        "kind": "webhook",
        # What a busy machine may need; nothing here waits for them.
        "timeout": 30,
        "request_timeout": 5,
        "batch_size": 5,
        # Each is a process here, and a laptop has few cores.
        "max_concurrency": 2,
        "allow_loopback": True,
    },
    "main_queue": {"max_receive_count": 1},
    "retry": {"base": 1, "cap": 1, "floor": 0},
    "circuit": {
        "window": 12,
        "failure_rate": 0.95,
        "minimum": 30,
        "consecutive": 15,
        "cooldown": 3,
        "cooldown_factor": 1.5,
        "cooldown_cap": 8,
        "settle": 60,
        "lease": 60,
        "ramp": 5,
    },
    "workers": 2,
    # A letter that its endpoint refuses waits for the rule that quarantines it: its circuit stays
    # closed, and three lives take seconds here.
    "poison_lives": 20,
    # More attempts than patience lasts for.
    "policy": {"max_attempts": 20, "backoff": {"base": 1, "cap": 4, "floor": 0}},
}

# What a shell says of a program that Ctrl-C ended.
INTERRUPTED = 130


def main(folder: Path, report: Path) -> int:
    """Run the demo; the exit status is 0 if every event is accounted for and no alarm rang.

    Logs and outputs go to *folder*, the figures to *report*. Nothing of it is left
    running, whatever ends it.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A demo that is broken off leaves no figures, least of all yesterday's.
    report.unlink(missing_ok=True)
    try:
        return _demo(folder, report)
    except KeyboardInterrupt:
        return INTERRUPTED


def _demo(folder: Path, report: Path) -> int:
    console = Console(highlight=False)
    began = time.monotonic()

    def clock() -> float:
        return time.monotonic() - began

    events = plan(SEED)
    with Receiver() as receiver, Sandbox(folder) as sandbox:
        with screen(console, clock, len(events)) as display:
            pipeline = _deployed(sandbox, display)
            cloudwatch = sandbox.client("cloudwatch")
            # Alarms on queues would see nothing in an AWS that publishes no metrics of queues.
            with QueueMetrics(sandbox.queues, cloudwatch):
                found, last = _play(pipeline, receiver, events, display)
            called = pages(cloudwatch)
        outcome = reconcile(events, found)
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(json.dumps(figures(outcome, last, called, clock()), indent=2) + "\n")
        console.print(account(outcome))
        for what, ids in outcome.wrong.items():
            console.print(f"{what}: {', '.join(ids)}")
        console.print(f"The figures are in {report}, the logs in {folder}.", soft_wrap=True)
        console.print(called.says, soft_wrap=True)
        return 0 if outcome.passed and called.passed else 1


def _deployed(sandbox: Sandbox, display: Screen) -> DemoPipeline:
    display.tell(f"an AWS of your own is up at {sandbox.endpoint}")
    deploy(sandbox, context={"pipelines": json.dumps([PIPELINE])}, show=display.note)
    display.tell("the CDK CLI has deployed the app into it")
    return DemoPipeline(sandbox, str(PIPELINE["name"]))


def _play(
    pipeline: DemoPipeline, receiver: Receiver, events: Sequence[Event], display: Screen
) -> tuple[FoundLetters, Look]:
    """Send the events, watch until they have settled, then look at every end."""
    for scene in prepare(pipeline, receiver):
        display.tell(scene)
    origins = pipeline.send(events)
    display.tell(f"{len(origins)} events sent")
    began = time.monotonic()

    def now() -> Look:
        return look(pipeline, receiver.visits, time.monotonic() - began)

    held: set[str] = set()
    for seen in watch(
        now,
        steps(pipeline, receiver),
        start_run=pipeline.start_run,
        tell=display.tell,
    ):
        display.show(seen)
        held |= {letter.origin for letter in seen.seated}
        time.sleep(LOOK_EVERY_SECONDS)
    display.note("reading the parking lot")
    found = FoundLetters(
        delivered=deliveries(receiver.visits, origins),
        parked=pipeline.parked(),
        waiting=[
            *pipeline.on_its_way(),
            *(_digest(letter.origin, origins) for letter in pipeline.seated()),
        ],
        held=[_digest(message, origins) for message in held],
        recovered=[_digest(origin, origins) for origin in pipeline.recovered()],
    )
    last = now()
    display.show(last)
    return found, last


def deliveries(visits: Sequence[Visit], origins: Mapping[str, Event]) -> list[DeliveredEvent]:
    """List what endpoints accepted; *origins* are the events by the MessageIds they were given.

    A letter that has no room for the Redrive attribute comes back under another
    webhook-id, in what looks like a first life.
    """
    return [
        DeliveredEvent(visit.digest, redriven=visit.attempt > 1 or visit.webhook_id not in origins)
        for visit in visits
        if visit.accepted
    ]


def _digest(origin: str, origins: Mapping[str, Event]) -> str:
    return origins[origin].digest if origin in origins else origin


def figures(outcome: Reconciliation, last: Look, called: Pages, seconds: float) -> dict[str, Any]:
    """Write the account as the report's JSON; *seconds* is how long it all took."""
    return {
        "sent": outcome.sent,
        "delivered": outcome.delivered,
        "parked_by_reason": dict(outcome.parked_by_reason),
        "waiting": outcome.waiting,
        "lost": len(outcome.lost),
        "duplicates": outcome.duplicates,
        "seconds": round(seconds, 1),
        "healed": outcome.healed,
        "recovered": outcome.recovered,
        "held": outcome.held,
        "strangers": outcome.strangers,
        "altered": len(outcome.altered),
        "astray": len(outcome.astray),
        "outages": last.circuit.trips,
        "runs": len(last.reports),
        "decisions": dict(last.decisions),
        "alarms_that_rang": list(called.rang),
    }
