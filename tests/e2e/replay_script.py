"""What happens in a replay of many letters, and what became of each."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.message import Message
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from sandbox.loopback import LoopbackEndpoint
from sandbox.progress import until
from tests.e2e.replay_pipeline import CommandFailed, ReplayPipeline

REDRIVE_EVERY = 3.0
"""Seconds between two runs of the redriver: the schedule's minute, compressed."""

TRIES = 3
"""Tries of a command that asks a function which has to start first."""

WHY = "the fix is deployed"


@dataclass(frozen=True, slots=True)
class TakenLetter:
    """A letter that the endpoint has taken: its ordering key and place, and the run it names."""

    key: str
    place: int
    run: str


class ReplayEndpoint(LoopbackEndpoint):
    """Serves `url`; a context manager. While `broken` is true it answers 503."""

    def __init__(self) -> None:
        self.broken = False
        self.refused = 0
        self._taken: list[TakenLetter] = []
        self._lock = threading.Lock()
        super().__init__()

    @property
    def url(self) -> str:
        """Where it is posted to."""
        return self.address()

    @property
    def taken(self) -> tuple[TakenLetter, ...]:
        """Everything that was taken so far, oldest first."""
        with self._lock:
            return tuple(self._taken)

    def answer(self, path: str, body: bytes, headers: Message) -> HTTPStatus:
        order = json.loads(body)
        with self._lock:
            if self.broken:
                self.refused += 1
                return HTTPStatus.SERVICE_UNAVAILABLE
            run = headers.get("webhook-replay", "")
            self._taken.append(TakenLetter(str(order["key"]), int(order["place"]), run))
        return HTTPStatus.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How many letters there are of each sort, and how fast the run may be.

    prefix       of each key by which letters are ordered: those of another script are others
    """

    letters: int = 2_000
    keys: int = 50
    grouped: int = 25
    parked: int = 200
    rate: float = 40.0
    kills: int = 2
    prefix: str = "k"


@dataclass(frozen=True, slots=True)
class ReplayAccount:
    """What became of the letters: each line of `wrong` names what must not be."""

    figures: dict[str, int]
    wrong: tuple[str, ...]


def by_key(sizes: Sizes) -> list[tuple[str, int]]:
    """The letters of the pipeline with an ordering key, as they died: all keys mixed."""
    return [
        (f"{sizes.prefix}{number % sizes.keys:02}", number // sizes.keys + 1)
        for number in range(sizes.letters)
    ]


def by_group(sizes: Sizes) -> list[tuple[str, int]]:
    """The letters of one FIFO group."""
    return [("g", number + 1) for number in range(sizes.grouped)]


def given_up(sizes: Sizes) -> list[tuple[str, int]]:
    """The parked letters, each with a key of its own."""
    return [(f"p{number:03}", 1) for number in range(sizes.parked)]


class ReplayScript:
    """Plays the scenes one after the other; `tell` says what happens."""

    def __init__(
        self,
        keyed: ReplayPipeline,
        grouped: ReplayPipeline,
        endpoint: ReplayEndpoint,
        sizes: Sizes,
        folder: Path,
        tell: Callable[[str], None],
    ) -> None:
        self._keyed = keyed
        self._grouped = grouped
        self._endpoint = endpoint
        self._sizes = sizes
        self._folder = folder
        self._tell = tell
        self._redriven_at = 0.0
        self.runs: dict[str, dict[str, Any]] = {}

    def play(self) -> ReplayAccount:
        """All scenes that have letters. Returns the account of every letter."""
        self._prepare()
        run = self._plan_and_start(self._keyed)
        self._interrupted(run)
        if self._sizes.grouped:
            self._fifo()
        # A run that could not hold itself in time has parked some letters.
        if self._sizes.parked or self._keyed.depth("parking"):
            self._release()
        return self._account()

    def _prepare(self) -> None:
        for pipeline in (self._keyed, self._grouped):
            pipeline.stop_schedule()
            pipeline.register(self._endpoint.url)
        self._keyed.put_dead(by_key(self._sizes))
        self._grouped.put_dead(by_group(self._sizes))
        self._keyed.put_dead(given_up(self._sizes), parked=True)
        self._tell(
            f"{self._sizes.letters} messages of {self._sizes.keys} keys are dead,"
            f" {self._sizes.grouped} of one FIFO group, and {self._sizes.parked} are parked"
        )

    def _plan_and_start(self, pipeline: ReplayPipeline, *options: str) -> str:
        """Start a run of all dead letters; it is not watched, for the scenes go on."""
        answer = self._retry(pipeline, "dlq", *options)
        [started] = answer["runs"]
        run = str(started["run"])
        self._tell(f"run {run} of {pipeline.name} has {started['messages']} messages")
        if started["state"] == "HELD":
            pipeline.command("run", "resume", run, "--reason", WHY, "--yes")
        return run

    def _retry(self, pipeline: ReplayPipeline, place: str, *options: str) -> Any:
        words = ("retry", "--in", place, "--all", "-p", pipeline.name, "--hold", *options)
        rate = ("--rate", str(self._sizes.rate), "--reason", WHY, "--yes")
        return _tried_again(partial(pipeline.dlq, *words, *rate))

    def _interrupted(self, run: str) -> None:
        """Workers are killed, the endpoint fails, the run holds itself, a person resumes it."""
        total, pipeline = self._sizes.letters, self._keyed
        for number in range(self._sizes.kills):
            self._until_taken(run, total * (number + 1) // 8)
            killed = pipeline.kill_workers()
            self._tell(f"{killed} processes of the run's function are killed")
        self._until_taken(run, total // 2)
        self._endpoint.broken = True
        self._tell("the endpoint fails: it answers 503")
        self._until_state(run, "HELD")
        self._tell(f"the run holds itself: {self._item(run).get('because', '')}")
        self._endpoint.broken = False
        pipeline.dlq("run", "resume", run, "--reason", WHY, "--yes")
        self._tell("the endpoint works again, and a person resumes the run")
        self._until_ended(pipeline, run)

    def _fifo(self) -> None:
        """A FIFO group goes back in its order, after a person has approved its snapshot."""
        pipeline = self._grouped
        run = self._plan_and_start(pipeline, "--approve")
        self._until_state(run, "WAITING_APPROVAL", pipeline)
        pipeline.dlq("run", "approve", run, "--reason", WHY, "--yes")
        self._tell("a person approves its messages")
        self._until_ended(pipeline, run)

    def _release(self) -> None:
        for started in self._retry(self._keyed, "parked")["runs"]:
            run = str(started["run"])
            self._keyed.command("run", "resume", run, "--reason", WHY, "--yes")
            self._tell(f"run {run} sends {started['messages']} parked messages")
            self._until_ended(self._keyed, run)

    # Waiting.

    def _until_taken(self, run: str, letters: int) -> None:
        def enough() -> bool | None:
            self._redrive(self._keyed, run)
            return len(self._endpoint.taken) >= letters or None

        until(enough, f"{letters} messages are taken", marks=lambda: self._marks(run))

    def _until_state(self, run: str, state: str, pipeline: ReplayPipeline | None = None) -> None:
        def reached() -> bool | None:
            self._redrive(pipeline or self._keyed, run)
            return self._item(run, pipeline).get("state") == state or None

        until(reached, f"the run is {state}", marks=lambda: self._marks(run, pipeline))

    def _until_ended(self, pipeline: ReplayPipeline, run: str) -> None:
        def ended() -> bool | None:
            self._redrive(pipeline, run)
            return self._item(run, pipeline).get("left") or None

        until(ended, "the run has ended", marks=lambda: self._marks(run, pipeline))
        report = pipeline.dlq("show", run)["outcomes"]
        self.runs[run] = {**self._item(run, pipeline), "report": report}
        self._tell(f"run {run} is {self.runs[run]['state']}: {_said(self.runs[run]['counts'])}")

    def _marks(self, run: str, pipeline: ReplayPipeline | None = None) -> object:
        item = self._item(run, pipeline)
        return item, len(self._endpoint.taken), self._endpoint.refused

    def _item(self, run: str, pipeline: ReplayPipeline | None = None) -> dict[str, Any]:
        item = (pipeline or self._keyed).run(run)
        return {name: _plain(value) for name, value in item.items()}

    def _redrive(self, pipeline: ReplayPipeline, run: str) -> None:
        """What comes back from the run is brought to it; before its snapshot, nothing is moved."""
        now = time.monotonic()
        has_snapshot = self._item(run, pipeline).get("state") not in ("PLANNED", "MOVING")
        if has_snapshot and now - self._redriven_at >= REDRIVE_EVERY:
            self._redriven_at = now
            pipeline.redrive()

    # The account.

    def _account(self) -> ReplayAccount:
        sizes, taken = self._sizes, self._endpoint.taken
        sent = [*by_key(sizes), *by_group(sizes), *given_up(sizes)]
        numbers = Counter((letter.key, letter.place) for letter in taken)
        missing = [letter for letter in sent if letter not in numbers]
        figures = {
            "messages": len(sent),
            "taken by the endpoint": len(sent) - len(missing),
            "missing": len(missing),
            "out of order": len(out_of_order(taken)),
            "taken twice": sum(number > 1 for number in numbers.values()),
            "refused while it was broken": self._endpoint.refused,
            "left in a queue": sum(
                pipeline.depth(queue)
                for pipeline in (self._keyed, self._grouped)
                for queue in ("main", "dlq", "parking")
            ),
            "without an outcome": sum(
                int(run["counts"].get("UNACCOUNTED", 0)) for run in self.runs.values()
            ),
            "without the header of a run": sum(not letter.run for letter in taken),
        }
        zero = ("missing", "out of order", "left in a queue", "without an outcome")
        wrong = [f"{figures[name]} messages are {name}" for name in zero if figures[name]]
        wrong += [
            f"run {run} is {item['state']}"
            for run, item in self.runs.items()
            if item["state"] != "DONE"
        ]
        return ReplayAccount(figures, tuple(wrong))


def _tried_again(command: Callable[[], Any]) -> Any:
    """What a command says; on a busy machine its function may need a second try to begin."""
    for _ in range(TRIES - 1):
        try:
            return command()
        except CommandFailed:
            continue
    return command()


def out_of_order(taken: Sequence[TakenLetter]) -> list[TakenLetter]:
    """The letters that were first taken after a later one of their key, by the same run.

    What a run has given up is released by another run, after the rest of its key.
    """
    last: defaultdict[tuple[str, str], int] = defaultdict(int)
    late, seen = [], set()
    for letter in taken:
        if (letter.key, letter.place) in seen:
            continue
        seen.add((letter.key, letter.place))
        line = letter.run, letter.key
        if letter.place < last[line]:
            late.append(letter)
        last[line] = max(last[line], letter.place)
    return late


def _plain(value: dict[str, Any]) -> Any:
    """An attribute value of DynamoDB as plain data, numbers as text."""
    [(kind, content)] = value.items()
    if kind == "M":
        return {name: _plain(item) for name, item in content.items()}
    return content


def _said(counts: dict[str, Any]) -> str:
    return ", ".join(f"{number} {name.lower()}" for name, number in sorted(counts.items()))
