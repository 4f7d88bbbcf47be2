"""The demo as a script: it starts an AWS, breaks things in it, and accounts for every event."""

import json
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from sandbox.demo import live
from sandbox.demo.events import (
    HEALTHY,
    RECOVERING,
    REFUSING,
    SNAPSHOT_TYPE,
    TENANTS,
    Event,
    plan,
)
from sandbox.demo.pipeline import Pipeline, Seated
from sandbox.demo.receiver import Receiver, Visit
from sandbox.demo.reconcile import Found, Reconciliation, reconcile
from sandbox.deploy import deploy
from sandbox.server import ROOT, Sandbox

SEED = 1

# The settings, compressed in time; the code is the code. A message that fails is
# back after 12 seconds, and after its second failure it is a letter.
PIPELINE = "orders"
CONTEXT = {
    "pipelines": json.dumps(
        [
            {
                "name": PIPELINE,
                "context": {"tenantId": "body.tenantId", "messageType": "body.type"},
                "consumer": {
                    "kind": "webhook",
                    "timeout": 2,
                    "request_timeout": 0.39,
                    "batch_size": 5,
                    # Each is a process of its own, and a laptop has few cores to spare.
                    "max_concurrency": 2,
                    "allow_loopback": True,
                },
                "main_queue": {"max_receive_count": 2},
                "policy": {"max_attempts": 20, "backoff": {"base": 1, "cap": 4, "floor": 0}},
            }
        ]
    )
}

# The schedule starts a run a minute; an impatient engineer starts them by hand.
RUN_EVERY_SECONDS = 3.0
LOOK_EVERY_SECONDS = 0.5

# Long enough for letters to come back into the outage and fail again.
OUTAGE_SECONDS = 40.0

# Twice in a row with nothing on its way: between two looks at two queues a letter
# may slip from one to the other.
EMPTY_LOOKS = 2

# Far more than it takes. What is on its way then is reported as waiting.
PATIENCE_SECONDS = 300.0

HOLD_RULE = "hold-snapshots"
QUARANTINE_RULE = "quarantine-cedar"


@dataclass(frozen=True, slots=True)
class Look:
    """One look at everything, *at* seconds since the events were sent."""

    at: float
    depths: Mapping[str, int]
    seated: Sequence[Seated]
    visits: Sequence[Visit]
    reports: Sequence[Mapping[str, Any]]

    @property
    def on_its_way(self) -> int:
        return self.depths["main queue"] + self.depths["DLQ"] + len(self.seated)

    @property
    def decisions(self) -> Mapping[str, int]:
        total: Counter[str] = Counter()
        for report in self.reports:
            total.update(report["decisions"])
        return dict(sorted(total.items()))

    def answers(self, tenant: str) -> Mapping[int, int]:
        return Counter(one.status for one in self.visits if one.tenant == tenant)


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens once: as soon as *when* is true, *act* is done and *says* told."""

    when: Callable[[Look], bool]
    act: Callable[[], object]
    says: str


class Demo:
    """One run of the demo on a pipeline that is up."""

    def __init__(
        self,
        pipeline: Pipeline,
        receiver: Receiver,
        screen: live.Screen,
        clock: Callable[[], float],
    ) -> None:
        self._pipeline = pipeline
        self._receiver = receiver
        self._screen = screen
        self._clock = clock
        self.seated: dict[str, Seated] = {}
        self.runs = 0
        self.decisions: Mapping[str, int] = {}

    def prepare(self) -> None:
        """Name the endpoints, and hold what must not go out during the outage."""
        for tenant in TENANTS:
            self._pipeline.register(tenant, self._receiver.url(tenant))
        self._tell(
            f"{HEALTHY}'s endpoint is well, {RECOVERING}'s answers 503,"
            f" {REFUSING}'s refuses all it is sent with 422"
        )
        self._pipeline.add_rule(
            HOLD_RULE,
            messageType=SNAPSHOT_TYPE,
            action="HOLD",
            reason="one megabyte each: not before the endpoint is back",
        )
        self._tell(f"rule {HOLD_RULE}: snapshots that failed go to the waiting room")

    def send(self, events: Sequence[Event]) -> Mapping[str, str]:
        """Send the events; the id of each by its first MessageId."""
        sent = self._pipeline.send(events)
        megabytes = sum(event.size for event in events) / 1e6
        self._tell(f"{len(sent)} events sent, {megabytes:.1f} MB")
        return sent

    def watch(self, total: int) -> bool:
        """Look, act and start runs until nothing is on its way; False if patience ends first."""
        began = self._clock()
        last_run = began
        steps = self._steps()
        empty = 0
        pause = threading.Event()
        while self._clock() - began < PATIENCE_SECONDS:
            if self._clock() - last_run >= RUN_EVERY_SECONDS:
                self._pipeline.start_run()
                last_run = self._clock()
            look = self._look(began)
            self._show(look, total)
            due = [step for step in steps if step.when(look)]
            for step in due:
                step.act()
                self._tell(step.says)
                steps.remove(step)
            empty = 0 if look.on_its_way else empty + 1
            if empty >= EMPTY_LOOKS:
                return True
            pause.wait(LOOK_EVERY_SECONDS)
        return False

    def found(self, origins: Mapping[str, Event]) -> Found:
        """Look at every end, and delete nothing; *origins* knows events by their MessageIds."""
        return Found(
            delivered=[one.digest for one in self._receiver.visits if one.accepted],
            parked=self._pipeline.parked(),
            waiting=[
                *self._pipeline.on_its_way(),
                *(self._digest(one, origins) for one in self._pipeline.seated()),
            ],
        )

    @staticmethod
    def _digest(seated: Seated, origins: Mapping[str, Event]) -> str:
        event = origins.get(seated.origin)
        return event.digest if event else seated.origin

    def _steps(self) -> list[Step]:
        return [
            Step(
                when=lambda look: any(
                    one.tenant == REFUSING and one.attempt > 1 for one in look.visits
                ),
                act=lambda: self._pipeline.add_rule(
                    QUARANTINE_RULE,
                    tenantId=REFUSING,
                    action="QUARANTINE",
                    reason="422 also after a re-drive; support has been told",
                ),
                says=f"{REFUSING} refuses letters that were re-driven: rule {QUARANTINE_RULE}"
                " typed into the table",
            ),
            Step(
                when=lambda look: (
                    look.at >= OUTAGE_SECONDS and any(one.in_bucket for one in look.seated)
                ),
                act=self._receiver.mend,
                says=f"{RECOVERING}'s endpoint is up again",
            ),
            Step(
                when=lambda look: 200 in look.answers(RECOVERING),
                act=lambda: self._pipeline.remove_rule(HOLD_RULE),
                says=f"{RECOVERING} takes events: rule {HOLD_RULE} deleted",
            ),
        ]

    def _look(self, began: float) -> Look:
        reports = self._pipeline.reports()
        seated = self._pipeline.seated()
        look = Look(
            at=self._clock() - began,
            depths=self._pipeline.depths(),
            seated=seated,
            visits=self._receiver.visits,
            reports=reports,
        )
        self.seated |= {one.origin: one for one in seated}
        self.runs, self.decisions = len(reports), look.decisions
        return look

    def _show(self, look: Look, total: int) -> None:
        delivered = len({one.digest for one in look.visits if one.accepted})
        self._screen.show(
            live.View(
                at=self._clock(),
                sent=total,
                settled=min(total, delivered + look.depths["parking lot"]),
                places={**look.depths, "waiting room": len(look.seated)},
                decisions=look.decisions,
                answers={tenant: look.answers(tenant) for tenant in TENANTS},
            )
        )

    def _tell(self, text: str) -> None:
        self._screen.tell(self._clock(), text)


def healed(visits: Sequence[Visit], origins: Mapping[str, Event]) -> set[str]:
    """Bodies that were delivered after a re-drive.

    A letter without room for our attribute comes back under another webhook-id.
    """
    return {
        one.digest
        for one in visits
        if one.accepted and (one.attempt > 1 or one.webhook_id not in origins)
    }


def main(folder: Path, report: Path) -> int:
    """Run the demo; the exit status is 0 if every event is accounted for.

    Logs and outputs go to *folder*, the figures to *report*.
    """
    # An interrupted demo has accounted for nothing.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    console = Console(highlight=False)
    started = time.monotonic()

    def clock() -> float:
        return time.monotonic() - started

    with live.screen(console) as screen, Receiver() as receiver, Sandbox(folder) as sandbox:
        screen.tell(clock(), f"an AWS of your own is up at {sandbox.endpoint}")
        deploy(sandbox, context=CONTEXT, show=screen.note)
        screen.tell(clock(), "the CDK CLI has deployed the app into it")
        demo = Demo(Pipeline(sandbox, PIPELINE), receiver, screen, clock)
        demo.prepare()
        events = plan(SEED)
        by_id = {event.event_id: event for event in events}
        origins = {message: by_id[one] for message, one in demo.send(events).items()}
        in_time = demo.watch(len(events))
        screen.tell(clock(), "nothing is on its way any more" if in_time else "patience is over")
        found = demo.found(origins)
        outcome = reconcile(events, found)
    figures = {
        "sent": outcome.sent,
        "delivered": outcome.delivered,
        "healed": len(healed(receiver.visits, origins)),
        "parked_by_reason": outcome.parked_by_reason,
        "waiting": outcome.waiting,
        "lost": len(outcome.lost),
        "duplicates": outcome.duplicates,
        "seconds": round(clock(), 1),
        "runs": demo.runs,
        "decisions": demo.decisions,
    }
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(json.dumps(figures, indent=2) + "\n")
    console.print(live.verdict(outcome))
    return 0 if outcome.passed else 1


if __name__ == "__main__":
    sys.exit(main(ROOT / "build" / "demo", ROOT / "build" / "demo-report.json"))
