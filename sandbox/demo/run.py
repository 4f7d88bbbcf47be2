"""The demo from beginning to end: an AWS, the app in it, the mail, and the account of it."""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from sandbox import stay
from sandbox.demo import page, person
from sandbox.demo.beside import beside, measured
from sandbox.demo.chronicle import Chronicle
from sandbox.demo.events import plan
from sandbox.demo.live import Screen, account, comparison, screen
from sandbox.demo.pipeline import DemoPipeline
from sandbox.demo.pipeline import settings as pipeline_settings
from sandbox.demo.play import Play
from sandbox.demo.receiver import Receiver
from sandbox.demo.reconcile import reconcile
from sandbox.demo.report import choose, explained, figures, pages, story
from sandbox.deploy import deploy
from sandbox.queue_metrics import QueueMetrics
from sandbox.server import Sandbox

SEED = 1

# Beside the report.
PAGE = "demo.html"

# What a newcomer types next, each with half a line of why.
NEXT = (
    "make sandbox MESSAGES=60  # an AWS of your own whose DLQ is full; in a second terminal:",
    ". build/sandbox.env && dlq groups orders  # why they failed, and what to type",
)

# Two commands that show something of what has been played.
TRIES = (
    "dlq status       # what needs attention, first",
    "dlq list --in parked --look  # what waits for a person, and why",
)


def main(folder: Path, report: Path) -> int:
    """Run the demo; the exit status is 0 if every event is accounted for.

    Logs and outputs go to *folder*, the figures to *report*. At a terminal the sandbox then stays
    until Ctrl-C (`sandbox.stay.wanted`). Nothing of it is left running, whatever ends it.
    """
    # A demo that is broken off leaves no figures, least of all yesterday's.
    for old in (report, report.with_name(PAGE)):
        old.unlink(missing_ok=True)
    console = Console(highlight=False)
    began = time.monotonic()

    def clock() -> float:
        return time.monotonic() - began

    def show(text: str) -> None:
        console.print(text, soft_wrap=True, markup=False)

    events = plan(SEED)
    pace = scale(measure())
    with Receiver(clock) as receiver, Sandbox(folder) as sandbox, ExitStack() as meanwhile:
        with screen(console, clock, len(events)) as display:
            chronicle = Chronicle(display, clock)
            pipeline = _deployed(sandbox, chronicle, display, pace)
            cloudwatch = sandbox.client("cloudwatch")
            # Alarms on queues would see nothing in an AWS that publishes no metrics of queues.
            meanwhile.enter_context(QueueMetrics(sandbox.queues, cloudwatch))
            played = Play(pipeline, receiver, chronicle, clock, pace).all_of(events)
        outcome = reconcile(events, played.found)
        called = pages(cloudwatch)
        written = {
            **figures(outcome, played.last, called, clock()),
            **story(events, played, chronicle),
            "scale": pace,
        }
        console.print(account(outcome))
        for what, ids in outcome.wrong.items():
            show(f"{what}: {', '.join(ids)}")
        show(called.says)
        letter = choose(played.origins, played.failures, played.found.healed)
        if letter is not None:
            told = explained(letter, sandbox.dlq)
            written["letter"] = asdict(told)
            show(f"\nOne message's life: {told.command}\n\n{told.shown}\n")
        own = measured(
            events,
            played.last.visits,
            played.found,
            outcome,
            sent_at=played.sent_at,
            acts=person.acts_of_run(
                chronicle.timeline,
                chronicle.outage["began"],
                called.rang,
                parked=sum(outcome.parked_by_reason.values()),
            ),
        )
        others = beside(events, outage_minutes=chronicle.outage_minutes)
        written["beside"] = ways = [way.as_json() for way in (own, *others)]
        console.print(comparison(ways))
        show(person.IN_SHORT)
        for way in ways:
            show(f"{way['system']}: {way['note']}")
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(json.dumps(written, indent=2) + "\n")
        page.write(written, report.with_name(PAGE))
        show(f"All of it, and what each figure means, on a page: {report.with_name(PAGE)}")
        show(f"Figures: {report}, logs: {folder}")
        if stay.wanted(sys.stdin, sys.stdout, os.environ):
            stay.stay(sandbox, TRIES, show=show)
        show("Try next:")
        for command in NEXT:
            show(f"  {command}")
        return 0 if outcome.passed else 1


def _deployed(sandbox: Sandbox, chronicle: Chronicle, display: Screen, pace: int) -> DemoPipeline:
    chronicle.tell(f"an AWS of your own is up at {sandbox.endpoint}; the app is deployed into it")
    if pace > 1:
        chronicle.tell("this machine is slow or busy just now: it takes longer, and is waited for")
    settings = pipeline_settings()
    deploy(sandbox, context={"pipelines": json.dumps([settings])}, show=display.note)
    chronicle.tell("the CDK CLI has deployed the app")
    return DemoPipeline(sandbox, str(settings["name"]))


# What `measure` takes on two quiet cores is half of it, in seconds.
REFERENCE_SECONDS = 0.5

# How many times as long a slow machine may stand still before the demo gives up.
SLOW = 4

ROUNDS = 3_000_000


def measure(clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds that a fixed piece of work takes now, beside all else that runs here."""
    began = clock()
    remainder = 0
    for number in range(ROUNDS):
        remainder += number * number % 7
    return clock() - began


def scale(seconds: float) -> int:
    """How many times as long to wait for something to move, by what `measure` took."""
    return 1 if seconds <= REFERENCE_SECONDS else SLOW
