"""Named dependencies of one handler: `with dependency("payments"):`, each with its own circuit."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deadletter.contract import Blame, dependency_key
from deadletter.failure.signals import DependencyOpen, is_message_failure
from deadletter.processing.diagnosing import is_throttled, speakers_of
from deadletter.processing.result import CallOutcome, outcomes_of

if TYPE_CHECKING:
    from deadletter.failure.blame import TeamsWord

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(slots=True, eq=False, repr=False)
class DependencyCalls:
    """The calls that the handler of one message makes to named dependencies.

    `wait_for` gives the seconds that a circuit refuses the message, None if it does not;
    `team` is what the team says of its own exceptions; `clock` gives epoch seconds.
    `outcomes` is what the calls showed; `own_seconds` is how long the handler took without them.
    """

    wait_for: Callable[[str], float | None]
    team: TeamsWord | None
    clock: Callable[[], float]
    outcomes: list[CallOutcome] = field(default_factory=list)
    own_seconds: float = 0.0
    _depth: int = 0
    # The exceptions by which calls failed, with the key of the dependency's circuit.
    _failures: list[tuple[BaseException, str]] = field(default_factory=list)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the calls that are made in this block, the handler's."""
        token, began = _calls.set(self), self.clock()
        try:
            yield
        finally:
            _calls.reset(token)
            # Calls in threads may overlap.
            self.own_seconds = max(0.0, self.own_seconds + self.clock() - began)

    @contextmanager
    def call(self, name: str) -> Iterator[None]:
        """Count the block as one call; raises DependencyOpen if the circuit refuses it."""
        key = dependency_key(name)
        wait = self.wait_for(key)
        if wait is not None:
            raise DependencyOpen(name, key, retry_after=wait)
        # What was being handled before the call is none of its failures.
        earlier, began = sys.exception(), self.clock()
        self._depth += 1
        blame: Blame | None = Blame.NEITHER
        throttled = False
        try:
            yield
            blame = None
        except BaseException as error:
            if is_message_failure(error):
                blame, throttled = self._blame(key, error, earlier)
            raise
        finally:
            self._depth -= 1
            seconds = self.clock() - began
            self.own_seconds -= 0.0 if self._depth else seconds
            self.outcomes.extend(outcomes_of(key, blame, seconds, throttled=throttled))

    def circuit_of(self, error: BaseException) -> str:
        """The key of the named dependency's circuit that a failure speaks of; empty if of none."""
        _, _, speakers = speakers_of(error, self.team)
        return next((key for speaker in speakers for key in self._keys_of(speaker)), "")

    def _blame(
        self, key: str, error: BaseException, earlier: BaseException | None
    ) -> tuple[Blame, bool]:
        """Who is to blame for a call's failure, and whether it was throttled."""
        chain, blame, speakers = speakers_of(error, self.team, earlier)
        if any(self._keys_of(speaker) for speaker in speakers):
            # It failed in another dependency, which this block calls within.
            return Blame.NEITHER, False
        if blame is not Blame.NEITHER:
            self._failures.extend((speaker, key) for speaker in speakers)
        return blame, is_throttled(chain, blame, speakers)

    def _keys_of(self, speaker: BaseException) -> list[str]:
        return [key for failure, key in self._failures if failure is speaker]


_calls: ContextVar[DependencyCalls | None] = ContextVar("deadletter_calls", default=None)


def refusal_in(error: BaseException) -> DependencyOpen | None:
    """The refusal behind a handler's exception; None if the exception has another reason.

    What a fallback raised instead is another reason, if it says anything.
    """
    _, _, speakers = speakers_of(error)
    return next((speaker for speaker in speakers if isinstance(speaker, DependencyOpen)), None)


@contextmanager
def dependency(name: str) -> Iterator[None]:
    """Make the block one call of the dependency `name`, which has a circuit of its own.

    While that circuit is open the block is not entered: it raises DependencyOpen, and if the
    handler lets it pass the message waits without using an attempt. Else the block counts as a
    success or, if it raises an exception that speaks of the dependency, as a failure of this
    dependency alone.

    Outside a message, and with the library switched off, it does nothing. So it does in a thread
    that the handler starts, unless that runs in a copy of the handler's context
    (`contextvars.copy_context`); asyncio and `asyncio.to_thread` make one.

    Raises ValueError for a name that no circuit can have.
    """
    if _NAME.fullmatch(name) is None:
        raise ValueError(
            f"the name of a dependency is {name!r}; allowed: 1 to 64 characters of A-Za-z0-9._-, "
            'the first a letter or a digit, such as dependency("payments")'
        )
    calls = _calls.get()
    if calls is None:
        yield
        return
    with calls.call(name):
        yield
