"""Owns time and turns: one seed is one schedule, and every call to AWS is a place for a fault."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from random import Random
from typing import Any, TypeVar

from botocore.exceptions import (
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)
from greenlet import getcurrent, greenlet

from deadletter.redrive.turns import Turns
from deadletter.testing.clock import Clock
from deadletter.testing.fakes.errors import client_error

T = TypeVar("T")


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
    HANG = "hangs, applied or not"
    SLOW = "slow, and answers well"
    NO_CONNECTION = "no connection"


EVERYWHERE = tuple(fault for fault in Fault if fault is not Fault.NO_CONNECTION)
"""What strikes any call. Sends without a connection have a sort of schedules for themselves."""


class Strike(StrEnum):
    """What a fault means to the process that made the call."""

    KILLED = "killed"
    NO_ANSWER = "no answer"
    REFUSED = "refused"
    NOT_TAKEN = "surely not taken"
    PARTLY = "done in part"


class Crash(BaseException):
    """The process is gone; nothing may catch this."""


PAUSES = ((20.0, 100.0), (120.0, 400.0), (120.0, 400.0))
"""Seconds: some end within a run and its locks, some outlast both."""

LATENCY = (0.001, 0.05)
"""Seconds that a call takes at least, and how many more at most."""

SLOWEST = 10.0
"""Seconds that a slow answer takes at most; a client gives up earlier if its time-out is less."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client waits: seconds to connect and for an answer, and how often it tries."""

    connect: float
    read: float
    tries: int


BRIEF = Patience(connect=2, read=3, tries=2)
ONCE = Patience(connect=2, read=3, tries=1)


@dataclass(eq=False)
class Process:
    """One process of an actor: its own clock, which may be wrong, and its own end.

    It is killed at `ends`, in true time. `faults` counts what befell it, `pauses` how often it
    was held up, `strikes` what it can have noticed; `dead` processes make no call any more.
    `doubts` are the copies of which the journal, as it read that last, cannot say whether they
    were sent, each with whether they were to come out of the waiting room.
    `published` and `used` are possible duplicates: those it counted, and those that came true;
    those in `paid_beside` could have counted one of them instead.
    """

    name: str
    skew: float = 0.0
    ends: float = math.inf
    dead: bool = False
    faults: int = 0
    pauses: int = 0
    strikes: int = 0
    holds: dict[str, Any] = field(default_factory=dict)
    journal: dict[Any, Any] = field(default_factory=dict)
    doubts: set[tuple[bytes, bool]] = field(default_factory=set)
    open: dict[object, Any] = field(default_factory=dict)
    undeleted: set[str] = field(default_factory=set)
    published: int = 0
    used: int = 0
    paid_beside: list[Process] = field(default_factory=list)
    # How many it had counted before each send that came true: side by side, sends end in any
    # order, and one that began late may not use up the count of one that began early.
    counted_before: list[int] = field(default_factory=list)
    asked: int = 0

    def can_pay(self, published: int) -> bool:
        """Whether one of so many possible duplicates has not come true yet.

        If none is left, another process may take one over that either had counted.
        """
        if not self._has_left(published):
            for other in self.paid_beside:
                if other.published > other.used:
                    self.paid_beside.remove(other)
                    other.pay(other.published)
                    self.used -= 1
                    if self.counted_before:
                        self.counted_before.remove(min(self.counted_before))
                    break
        self.asked = published
        return self._has_left(published)

    def pay(self, published: int) -> None:
        """One of so many possible duplicates has come true."""
        self.used += 1
        self.counted_before.append(published)

    def _has_left(self, published: int) -> bool:
        """Whether each send, this one too, has a count of its own from before it."""
        counted = sorted((*self.counted_before, published))
        return all(number <= before for number, before in enumerate(counted, start=1))


Plan = Callable[[Process, str, int], Fault | None]
"""Says which fault, if any, strikes a process at a call, the number of the call given."""


OnEnd = Callable[[str, str, Any, Fault | None, BaseException | None], None]
"""Is told of each call once it is over: process, operation, options, fault, and its error."""


@dataclass(eq=False, slots=True)
class _Actor:
    body: greenlet
    wakes: float


class Scheduler:
    """Runs actors as greenlets, switching at every call; `now` is the true time.

    `delays` are the seconds that a service takes longer now; infinity is a service that hangs.
    `latency` is the shortest time of a call, and how much longer it may take.
    """

    def __init__(self, seed: int, start: float, plan: Plan) -> None:
        self.random = Random(seed)
        self.clock = Clock(start)
        self.plan = plan
        self.calls = 0
        self.log: list[tuple[Any, ...]] = []
        self.delays: Callable[[str], float] | None = None
        self.latency = LATENCY
        # Each is told of process, service, call and options, and at the end of the answer.
        self.before_call: Callable[[Process, str, str, Mapping[str, Any]], None] | None = None
        self.after_call: Callable[[Process, str, str, Mapping[str, Any], Any], None] | None = None
        self.on_answer: Callable[[Process, str, str, Mapping[str, Any], Any], None] | None = None
        self.on_strike: Callable[[Process, Strike, str, Mapping[str, Any]], None] | None = None
        self.on_end: OnEnd | None = None
        # The seconds for which a process stands still behind a call, whatever came of it.
        self.stand_still: Callable[[Process, str], float] | None = None
        self._actors: list[_Actor] = []
        self._present: _Actor | None = None
        self._main = getcurrent()

    @property
    def now(self) -> float:
        return self.clock.now

    @now.setter
    def now(self, moment: float) -> None:
        self.clock.now = moment

    def add(self, act: Callable[[], None]) -> greenlet:
        """An actor that starts at once."""
        body = greenlet(act, parent=self._main)
        self._actors.append(_Actor(body, self.now))
        return body

    def sleep(self, seconds: float) -> None:
        """Let the present actor's time pass while the others work."""
        until = self.clock.now + max(0.0, seconds)
        present = self._present
        for actor in self._actors:
            if actor.wakes <= until and actor is not present:
                self._main.switch(until)
                return
        # No other one has anything to do until then.
        self.clock.now = until

    def wait(self, process: Process, seconds: float) -> None:
        """The same for a process, which may be killed meanwhile."""
        self._pass(process, max(0.0, seconds))

    def park(self) -> None:
        """Stop the present actor until another one wakes it."""
        self._main.switch(math.inf)

    def wake(self, body: greenlet) -> None:
        for actor in self._actors:
            if actor.body is body:
                actor.wakes = self.now

    def worker(self) -> object:
        """The worker of a run whose turn it is, None outside of workers."""
        return getattr(getcurrent(), "worker", None)

    def in_parallel(self, calls: Sequence[Callable[[], T]], /) -> list[T]:
        """Make calls at the same time, as the threads of one process do."""
        parent = getcurrent()
        worker = self.worker()
        if len(calls) == 1:
            # The first level of calls are the workers of a run; deeper ones are theirs.
            parent.worker = worker or object()
            try:
                return [calls[0]()]
            finally:
                parent.worker = worker
        results: dict[int, T] = {}
        errors: dict[int, BaseException] = {}

        def act(number: int) -> None:
            try:
                results[number] = calls[number]()
            except (Exception, Crash) as error:
                errors[number] = error
            if len(results) + len(errors) == len(calls):
                self.wake(parent)

        for number, call in enumerate(calls):
            # A worker of a run may start more of them.
            is_worker = isinstance(getattr(call, "__self__", None), Turns)
            actor = self.add(partial(act, number))
            actor.worker = object() if is_worker else worker or object()
        if calls:
            self.park()
        for number in sorted(errors):
            raise errors[number]
        return [results[number] for number in range(len(calls))]

    def run(self) -> None:
        """Give turns until every actor has ended."""
        actors = self._actors
        while actors:
            now = self.now
            ready = [actor for actor in actors if actor.wakes <= now]
            if not ready:
                self.now = min(actor.wakes for actor in actors)
                if self.now == math.inf:
                    raise AssertionError("every actor waits for another one")
                continue
            actor = ready[0] if len(ready) == 1 else ready[self.random.randrange(len(ready))]
            self._present = actor
            wakes = actor.body.switch()
            if actor.body.dead:
                actors.remove(actor)
            else:
                actor.wakes = wakes

    def call(
        self,
        process: Process,
        service: str,
        name: str,
        act: Callable[..., Any],
        options: Any,
        patience: Patience = BRIEF,
    ) -> Any:
        """One call of a process: others may come first, and a fault may strike it."""
        if process.dead:
            raise Crash
        number = self.calls
        self.calls += 1
        fault = self.plan(process, name, number)
        if fault is Fault.LOST_RETRIED and patience.tries == 1:
            fault = Fault.LOST
        if self.before_call is not None:
            self.before_call(process, service, name, options)
        self.log.append((round(self.now, 3), process.name, name, fault))
        made = SimulatedCall(self, process, service, name, act, options)
        try:
            answering = partial(self._made, made, fault, patience)
            return self.heard(process, name, options, fault, answering)
        finally:
            if self.stand_still is not None and not process.dead:
                self._pass(process, self.stand_still(process, name))

    def heard(
        self, process: Process, name: str, options: Any, fault: Fault | None, call: Callable[[], T]
    ) -> T:
        """Make a call; `on_end` hears what came of it."""
        error: BaseException | None = None
        try:
            answer = call()
        except (Exception, Crash) as raised:
            error = raised
            raise
        else:
            return answer
        finally:
            if self.on_end is not None:
                self.on_end(process.name, name, options, fault, error)

    def _made(self, call: SimulatedCall, fault: Fault | None, patience: Patience) -> Any:
        """The answer of a call that this fault strikes, if any."""
        process, name = call.process, call.name
        if fault is None or fault is Fault.HANG or fault is Fault.SLOW or fault is Fault.PAUSE:
            if fault is not None:
                process.faults += 1
                process.pauses += 1
            return self._in_time(call, fault, patience)
        self._pass(process, self._latency(), call)
        process.faults += 1
        match fault:
            case Fault.CRASH_BEFORE:
                self._kill(process)
            case Fault.CRASH_AFTER:
                call.take_effect()
                self._kill(process)
            case Fault.ERROR:
                call.strike(Strike.REFUSED)
                raise client_error(name, "InternalError", "not applied", status=500)
            case Fault.THROTTLED:
                call.strike(Strike.NOT_TAKEN)
                raise client_error(name, "ThrottlingException", "slow down", status=400)
            case Fault.NO_CONNECTION:
                call.strike(Strike.NOT_TAKEN)
                if self.random.random() < 0.5:
                    raise EndpointConnectionError(endpoint_url=call.service)
                self._pass(process, patience.connect)
                raise ConnectTimeoutError(endpoint_url=call.service)
            case Fault.PARTLY:
                return self._partly(call)
            case Fault.LOST:
                call.strike(Strike.NO_ANSWER)
                call.take_effect()
                raise client_error(name, "RequestTimeout", "applied, perhaps", status=500)
        call.strike(Strike.NO_ANSWER)
        call.take_effect()
        return call.retried()

    def _latency(self) -> float:
        """The seconds of a call that nothing odd happens to."""
        shortest, more = self.latency
        return shortest + self.random.random() * more

    def _in_time(self, call: SimulatedCall, fault: Fault | None, patience: Patience) -> Any:
        """The tries of a call, each of which is answered, slowly or not, or hangs."""
        process, random, connects = call.process, self.random, True
        hanging = random.randint(1, patience.tries) if fault is Fault.HANG else 0
        if fault is Fault.PAUSE:
            shortest, longest = random.choice(PAUSES)
            # Before the request leaves: it is not under way when the process is killed.
            self._pass(process, shortest + (longest - shortest) * random.random())
        for number in range(patience.tries):
            seconds = self._latency()
            if self.delays is not None and (delay := self.delays(call.service)):
                process.pauses += 1
                seconds += delay * random.random() if delay < math.inf else delay
            if fault is Fault.SLOW and number == 0:
                seconds += 0.2 + (SLOWEST - 0.2) * random.random()
            if number < hanging:
                seconds = math.inf
            if seconds <= patience.read:
                way = seconds if seconds < 0.1 else seconds * random.random()
                self._pass(process, way, call)
                answer = call.retried() if number else call.answer()
                if seconds > way:
                    self._pass(process, seconds - way)
                return answer
            call.strike(Strike.NO_ANSWER)
            connects = self._hang(call, patience)
        # While TLS is agreed on, a time-out may have either name.
        if random.random() < 0.5 or connects:
            raise ReadTimeoutError(endpoint_url=call.service)
        raise ConnectTimeoutError(endpoint_url=call.service)

    def _hang(self, call: SimulatedCall, patience: Patience) -> bool:
        """A try without an answer: it takes effect, late, or not at all.

        Returns whether there was a connection; without one it has no effect.
        """
        call.process.faults += 1
        arrives = self.random.random()
        connects = arrives < 0.75
        if arrives < 0.5:
            self._pass(call.process, patience.read * 2 * arrives, call)
            call.take_effect()
            self._pass(call.process, patience.read * (1 - 2 * arrives))
        else:
            self._pass(call.process, patience.read if connects else patience.connect)
        return connects

    def _pass(
        self, process: Process, seconds: float, under_way: SimulatedCall | None = None
    ) -> None:
        """Let a process's time pass. If it is killed meanwhile, the call that is under way takes
        effect or not."""
        if self.now + seconds < process.ends:
            self.sleep(seconds)
            if not process.dead:
                return
        else:
            self.sleep(process.ends - self.now)
        if not process.dead:
            self._die(process)
        if under_way is not None and self.random.random() < 0.5:
            under_way.take_effect()
        raise Crash

    def _partly(self, call: SimulatedCall) -> Any:
        """A batch of which some entries are left undone, as its answer says."""
        going, undone, entries = divided(call.options, self.random)
        if self.on_strike is not None and entries:
            self.on_strike(call.process, Strike.PARTLY, call.name, entries)
        answer: dict[str, Any] = {}
        if going is not None:
            answer = call.answer(going)
        for key, left in undone.items():
            answer[key] = [*answer.get(key, ()), *left] if isinstance(left, list) else left
        return answer

    def _kill(self, process: Process) -> None:
        self._die(process)
        raise Crash

    def _die(self, process: Process) -> None:
        process.dead = True
        process.faults += 1
        process.strikes += 1
        if self.on_strike is not None:
            self.on_strike(process, Strike.KILLED, "", {})


@dataclass(frozen=True, slots=True)
class SimulatedCall:
    """One call, and what may become of it."""

    scheduler: Scheduler
    process: Process
    service: str
    name: str
    act: Callable[..., Any]
    options: Any

    def strike(self, strike: Strike) -> None:
        self.process.strikes += 1
        if self.scheduler.on_strike is not None:
            self.scheduler.on_strike(self.process, strike, self.name, self.options)

    def answer(self, options: Any = None) -> Any:
        """The call takes effect and is answered."""
        options = self.options if options is None else options
        answer = self._effect(options)
        if self.scheduler.on_answer is not None:
            self.scheduler.on_answer(self.process, self.service, self.name, options, answer)
        return answer

    def take_effect(self) -> None:
        """The call takes effect, and its answer is lost."""
        try:
            self._effect(self.options)
        except Exception:
            return

    def retried(self) -> Any:
        """The SDK's next try, which says so in its answer."""
        try:
            return self.answer()
        except Exception as error:
            response = getattr(error, "response", None)
            if response is not None:
                response["ResponseMetadata"]["RetryAttempts"] = 1
            raise

    def _effect(self, options: Any) -> Any:
        answer = self.act(**options)
        if self.scheduler.after_call is not None:
            self.scheduler.after_call(self.process, self.service, self.name, options, answer)
        return answer


class TurnLock:
    """A lock of `threading` among actors: the one who has to wait gives its turn away."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_held = False
        self._waiting: list[greenlet] = []

    def __enter__(self) -> None:
        while self._is_held:
            self._waiting.append(getcurrent())
            self._scheduler.park()
        self._is_held = True

    def __exit__(self, *_: object) -> None:
        self._is_held = False
        if self._waiting:
            self._scheduler.wake(self._waiting.pop(0))


def divided(
    options: Mapping[str, Any], random: Random
) -> tuple[Mapping[str, Any] | None, dict[str, Any], Mapping[str, Any]]:
    """The call with the entries that go through (None if none do), how its answer names the
    others, and the call with these; a call that is no batch goes through whole."""
    if options.get("Entries"):
        going, left = _halves(options["Entries"], random)
        failed = [
            {"Id": entry["Id"], "Code": "InternalError", "SenderFault": False} for entry in left
        ]
        undone = {**options, "Entries": left} if left else {}
        return {**options, "Entries": going} if going else None, {"Failed": failed}, undone
    if options.get("RequestItems"):
        [(table, asked)] = options["RequestItems"].items()
        reads = isinstance(asked, Mapping)
        going, left = _halves(asked["Keys"] if reads else asked, random)
        done, undone = (
            {table: {**asked, "Keys": part} if reads else part} if part else {}
            for part in (going, left)
        )
        name = "UnprocessedKeys" if reads else "UnprocessedItems"
        rest = {**options, "RequestItems": undone} if undone else {}
        return {**options, "RequestItems": done} if done else None, {name: undone}, rest
    return options, {}, {}


def _halves(entries: Sequence[Any], random: Random) -> tuple[list[Any], list[Any]]:
    """Each entry on one side or the other, by lot."""
    chosen = [random.random() < 0.5 for _ in entries]
    return (
        [pair for pair, goes in zip(entries, chosen, strict=True) if goes],
        [pair for pair, goes in zip(entries, chosen, strict=True) if not goes],
    )


class Client:
    """A boto3-shaped client whose every call goes through the scheduler."""

    def __init__(
        self,
        scheduler: Scheduler,
        process: Process,
        service: str,
        real: Any,
        patience: Patience = BRIEF,
    ) -> None:
        self._scheduler = scheduler
        self._process = process
        self._service = service
        self._real = real
        self._patience = patience

    def __getattr__(self, name: str) -> Callable[..., Any]:
        act = getattr(self._real, name)
        scheduler, process, service = self._scheduler, self._process, self._service
        patience = self._patience

        def call(**options: Any) -> Any:
            return scheduler.call(process, service, name, act, options, patience)

        self.__dict__[name] = call
        return call
