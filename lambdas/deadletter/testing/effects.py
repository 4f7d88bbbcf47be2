"""Runs a handler with a crash after each of its effects, and again, as SQS would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from deadletter.failure.signals import Skip, reject_deferred_result

# What only reads may happen twice. The methods of boto3 and of most stubs are named so.
_READS = ("get", "list", "describe", "head", "query", "scan", "batch_get", "find", "read")

Place = tuple[Any, str]
"""An object, a class or a module, and the name of a function of it that has an effect."""


class Crash(BaseException):
    """The process is killed. No handler catches it; what it has done has happened."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """An effect that happened twice, because the process was killed after another or itself."""

    effect: str
    killed_after: str


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of a handler: `in_order` as they happen undisturbed, and what was repeated."""

    in_order: tuple[str, ...]
    repeats: tuple[Repeat, ...]

    @property
    def twice(self) -> tuple[str, ...]:
        """The effects that happen twice after some crash, each once."""
        return tuple(dict.fromkeys(repeat.effect for repeat in self.repeats))


def at_every_effect(
    handler: Callable[..., object],
    message: object,
    *clients: object,
    places: Iterable[Place] = (),
    reset: Callable[[], object] = lambda: None,
) -> Effects:
    """Call `handler(message, *clients)` with a crash after each effect, and then once more.

    An effect is a call of a client that returns, unless its name says that it reads (`get_item`,
    `list_…`), and a call of a place: `places=[(shop, "ship")]` watches `shop.ship`. A call that
    raises has had no effect, as a refused conditional write. Clients are boto3's, or stubs. `reset`
    is called before each first run, and makes the world new.

    Raises what the handler raises undisturbed or in its second run, except Skip, and ValueError if
    it has no effect, or fewer than at first: then `reset` does not bring back its world.
    """
    watch = _Watch()
    watched = [_Watched(client, watch) for client in clients]

    def run() -> None:
        with suppress(Skip):
            reject_deferred_result(handler(message, *watched))

    with _watched_places(places, watch):
        reset()
        run()
        in_order = tuple(watch.happened)
        if not in_order:
            raise ValueError(
                "no effect was seen; allowed: clients or places that the handler calls"
            )
        repeats: dict[Repeat, None] = {}
        for number, killed_after in enumerate(in_order, start=1):
            reset()
            watch.begin(kill_after=number)
            with suppress(Crash):
                run()
            if not watch.killed:
                raise ValueError(
                    f"the handler had {len(watch.happened)} effects and {len(in_order)} at first;"
                    " allowed: a `reset` after which it does all of them again"
                )
            watch.killed, watch.kill_after = False, 0
            run()
            extra = Counter(watch.happened) - Counter(in_order)
            repeats |= dict.fromkeys(Repeat(effect, killed_after) for effect in extra)
    return Effects(in_order, tuple(repeats))


@dataclass(slots=True)
class _Watch:
    """The effects that happened, and after how many the process is killed; 0 for never."""

    happened: list[str] = field(default_factory=list)
    kill_after: int = 0
    killed: bool = False

    def begin(self, kill_after: int) -> None:
        self.happened, self.kill_after, self.killed = [], kill_after, False

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            if self.killed:
                # What a handler does in its `finally`, no killed process does.
                raise Crash
            answer = call(*arguments, **options)
            self.happened.append(name)
            if len(self.happened) == self.kill_after:
                self.killed = True
                raise Crash
            return answer

        return watched


class _Watched:
    """A client whose calls are watched."""

    def __init__(self, client: object, watch: _Watch) -> None:
        self._client = client
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._client, name)
        if not callable(value) or name.startswith(("_", *_READS)):
            return value
        return self._watch.around(_named(self._client, name), value)


@contextmanager
def _watched_places(places: Iterable[Place], watch: _Watch) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name in places:
            watched = watch.around(_named(owner, name), getattr(owner, name))
            stack.enter_context(patch.object(owner, name, watched))
        yield


def _named(owner: object, name: str) -> str:
    """An effect as people know it: `shop.ship`, `Bank.charge`, `DynamoDB.put_item`."""
    known = getattr(owner, "__name__", None) or type(owner).__name__
    return f"{known}.{name}"
