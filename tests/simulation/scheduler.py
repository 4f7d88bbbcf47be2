"""Owns time and turns: one seed is one schedule, and every call to AWS is a place for a fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any

from greenlet import getcurrent, greenlet

from deadletter.testing.clock import Clock
from deadletter.testing.fakes.errors import client_error


class Fault(StrEnum):
    """What can happen to one call."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    ERROR = "error, not applied"
    LOST_RETRIED = "applied, answer lost, tried again by the SDK"
    LOST = "applied, answer lost"
    THROTTLED = "throttled"
    PAUSE = "pause"
    PARTLY = "done in part"


class Crash(BaseException):
    """The process is gone; nothing may catch this."""


PAUSES = ((20.0, 100.0), (120.0, 400.0), (120.0, 400.0))
"""Seconds: some end within a run and its locks, some outlast both."""


@dataclass(eq=False)
class Process:
    """One process of an actor: its own clock, which may be wrong, and its own end.

    `faults` counts what befell it, `pauses` how often it was held up; `dead` processes make
    no call any more.
    """

    name: str
    skew: float = 0.0
    dead: bool = False
    faults: int = 0
    pauses: int = 0
    holds: dict[str, Any] = field(default_factory=dict)
    journal: dict[Any, str] = field(default_factory=dict)
    looked_at: float = 0.0


Plan = Callable[[Process, str, int], Fault | None]
"""Says which fault, if any, strikes a process at a call, the number of the call given."""


class Scheduler:
    """Runs actors as greenlets, switching at every call; `now` is the true time."""

    def __init__(self, seed: int, start: float, plan: Plan) -> None:
        self.random = Random(seed)
        self.clock = Clock(start)
        self.plan = plan
        self.calls = 0
        self.log: list[tuple[Any, ...]] = []
        self._actors: list[tuple[greenlet, float]] = []
        self._main = getcurrent()
        self.after_call: Callable[[Process, str, str, Mapping[str, Any], Any], None] | None = None
        self.before_call: Callable[[Process, str, str, Mapping[str, Any]], None] | None = None

    @property
    def now(self) -> float:
        return self.clock.now

    @now.setter
    def now(self, moment: float) -> None:
        self.clock.now = moment

    def add(self, act: Callable[[], None]) -> None:
        """An actor that starts at once."""
        self._actors.append((greenlet(act, parent=self._main), self.now))

    def sleep(self, seconds: float) -> None:
        """Let the present actor's time pass while the others work."""
        self._main.switch(self.now + max(0.0, seconds))

    def run(self) -> None:
        """Give turns until every actor has ended."""
        while self._actors:
            ready = [at for at, (_, when) in enumerate(self._actors) if when <= self.now]
            if not ready:
                self.now = min(when for _, when in self._actors)
                continue
            chosen = ready[0] if len(ready) == 1 else ready[self.random.randrange(len(ready))]
            actor, _ = self._actors[chosen]
            wake_at = actor.switch()
            if actor.dead:
                del self._actors[chosen]
            else:
                self._actors[chosen] = (actor, wake_at)

    def call(
        self, process: Process, service: str, name: str, act: Callable[..., Any], options: Any
    ) -> Any:
        """One call of a process: others may come first, and a fault may strike it."""
        if process.dead:
            raise Crash
        number = self.calls
        self.calls += 1
        fault = self.plan(process, name, number)
        if self.before_call is not None:
            self.before_call(process, service, name, options)
        self.log.append((round(self.now, 3), process.name, name, fault))
        pause = 0.001 + self.random.random() * 0.05
        if fault is Fault.PAUSE:
            process.faults += 1
            process.pauses += 1
            shortest, longest = self.random.choice(PAUSES)
            pause = shortest + (longest - shortest) * self.random.random()
        self.sleep(pause)
        if fault is None or fault is Fault.PAUSE:
            return self._applied(process, service, name, act, options)
        process.faults += 1
        match fault:
            case Fault.CRASH_BEFORE:
                self._kill(process)
            case Fault.CRASH_AFTER:
                self._try(process, service, name, act, options)
                self._kill(process)
            case Fault.ERROR:
                raise client_error(name, "InternalError", "not applied", status=500)
            case Fault.THROTTLED:
                raise client_error(name, "ThrottlingException", "slow down", status=400)
            case Fault.PARTLY:
                return self._partly(process, service, name, act, options)
            case Fault.LOST:
                self._try(process, service, name, act, options)
                raise client_error(name, "RequestTimeout", "applied, perhaps", status=500)
        self._try(process, service, name, act, options)
        return self._retried(process, service, name, act, options)

    def _partly(
        self, process: Process, service: str, name: str, act: Callable[..., Any], options: Any
    ) -> Any:
        """A batch of which some entries are left undone, as its answer says."""
        going, undone = divided(options, self.random)
        answer: dict[str, Any] = {}
        if going is not None:
            answer = self._applied(process, service, name, act, going)
        for key, left in undone.items():
            answer[key] = [*answer.get(key, ()), *left] if isinstance(left, list) else left
        return answer

    def _kill(self, process: Process) -> None:
        process.dead = True
        raise Crash

    def _applied(
        self, process: Process, service: str, name: str, act: Callable[..., Any], options: Any
    ) -> Any:
        answer = act(**options)
        if self.after_call is not None:
            self.after_call(process, service, name, options, answer)
        return answer

    def _try(self, *arguments: Any) -> None:
        """The call takes effect, and its answer is lost."""
        try:
            self._applied(*arguments)
        except Exception:
            return

    def _retried(self, *arguments: Any) -> Any:
        """The SDK's second try, which says so in its answer."""
        try:
            return self._applied(*arguments)
        except Exception as error:
            response = getattr(error, "response", None)
            if response is not None:
                response["ResponseMetadata"]["RetryAttempts"] = 1
            raise


def divided(
    options: Mapping[str, Any], random: Random
) -> tuple[Mapping[str, Any] | None, dict[str, Any]]:
    """The call with the entries that go through (None if none do), and how its answer names
    the others; a call that is no batch goes through whole."""
    if options.get("Entries"):
        going, left = _halves(options["Entries"], random)
        failed = [
            {"Id": entry["Id"], "Code": "InternalError", "SenderFault": False} for entry in left
        ]
        return {**options, "Entries": going} if going else None, {"Failed": failed}
    if options.get("RequestItems"):
        [(table, asked)] = options["RequestItems"].items()
        reads = isinstance(asked, Mapping)
        going, left = _halves(asked["Keys"] if reads else asked, random)
        done, undone = (
            {table: {**asked, "Keys": part} if reads else part} if part else {}
            for part in (going, left)
        )
        name = "UnprocessedKeys" if reads else "UnprocessedItems"
        return {**options, "RequestItems": done} if done else None, {name: undone}
    return options, {}


def _halves(entries: Sequence[Any], random: Random) -> tuple[list[Any], list[Any]]:
    """Each entry on one side or the other, by lot."""
    chosen = [random.random() < 0.5 for _ in entries]
    return (
        [pair for pair, goes in zip(entries, chosen, strict=True) if goes],
        [pair for pair, goes in zip(entries, chosen, strict=True) if not goes],
    )


class Client:
    """A boto3-shaped client whose every call goes through the scheduler."""

    def __init__(self, scheduler: Scheduler, process: Process, service: str, real: Any) -> None:
        self._scheduler = scheduler
        self._process = process
        self._service = service
        self._real = real

    def __getattr__(self, name: str) -> Callable[..., Any]:
        act = getattr(self._real, name)

        def call(**options: Any) -> Any:
            return self._scheduler.call(self._process, self._service, name, act, options)

        self.__dict__[name] = call
        return call
