"""A person opens a pipeline's circuit and lets it go, while each endpoint has a circuit of its own.

All times are the deployment's: seconds of the timeline on which every process waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import pytest

from deadletter.aws.wiring.stores import Stores
from deadletter.circuit.state import NO_END, Circuit, Override, State
from deadletter.circuit.transitions import Event, OverrideBegun, OverrideEnded
from deadletter.outage.steps import Execution
from tests.scenario_bench.event_source import Environment
from tests.scenario_bench.measure import places_of, send
from tests.scenario_bench.scenario import Scenario, Spell, Trouble
from tests.scenario_bench.systems import Deadletter
from tests.scenario_bench.traffic import Book, messages_of

DIES, OPENED = 30.0, 300.0
"""When endpoints die, and when the person opens the switch: by then most of their circuits are
open, and dozens of messages are letters."""

SECONDS_TO_STOP = 2.0
"""What a person stops, stops within these."""

SECONDS_TO_CLOSE = 120.0
"""From the end of the hold to CLOSED, the next minute of the watch included."""

MOST_POSTS = 2
"""To one dead endpoint, from the stop to CLOSED."""

GIVEN_UP = 400.0
"""Seconds after the hold at which nothing more is waited for."""


class Post(NamedTuple):
    """One call of an endpoint; `probe` numbers the probe that sent it, if one did."""

    at: float
    endpoint: str
    message: int
    probe: int | None


class Switched(Deadletter):
    """The product, and what it does while a person opens the switch and lets it go."""

    def __init__(self, scenario: Scenario, seed: int, held: float) -> None:
        super().__init__(scenario, seed, Book(messages_of(scenario, seed)))
        self.let_go = OPENED + held
        self.posts: list[Post] = []
        self._probes = 0

    def play(self) -> None:
        """Until the circuit has closed."""
        with self.patched():
            self.prepare()
            self.timeline.spawn(lambda: send(self))
            held = Override(State.OPEN, "ann", "a rollback", NO_END)
            for at, event in ((OPENED, OverrideBegun(held)), (self.let_go, OverrideEnded())):
                self.timeline.spawn(partial(self._apply, event), self.began + at)
            self.timeline.run_until(self.began + self.let_go + 1)
            while not self.circuit().is_closed and self.elapsed < self.let_go + GIVEN_UP:
                self.timeline.advance(1.0)
            self.timeline.close()

    def circuit(self, key: str = "orders") -> Circuit:
        return self._breaker().read([key])[key]

    def call(self, environment: Environment, name: str, message: Mapping[str, Any]) -> Any:
        probe = self._probes if environment is self._canary_environment else None
        self.posts.append(Post(self.elapsed, message["endpoint"], message["id"], probe))
        return super().call(environment, name, message)

    def _step(self, step: str, execution: Execution) -> Mapping[str, Any]:
        self._probes += step == "probe"
        return super()._step(step, execution)

    def _apply(self, event: Event) -> None:
        self._breaker().apply(self.stage.pipeline.name, event)

    def _breaker(self) -> Any:
        return Stores(self.stage.pipeline, self.resources, self.clients, self.world).breaker


class Episode(NamedTuple):
    """What happened from the stop to CLOSED.

    let_go   when the person ended the hold
    posts    all calls of endpoints
    letters  messages that had died by the end
    lost     messages that are nowhere
    states   the states of the dead endpoints' circuits at the end
    paused   whether the consumer's mapping is as the pause left it
    """

    let_go: float
    closed_after: float | None
    posts: tuple[Post, ...]
    letters: int
    lost: set[int]
    states: Counter[str]
    paused: bool


@cache
def episode(
    endpoints: int,
    dead: int,
    *,
    held: float = 90.0,
    dies: float = DIES,
    keyed: bool = True,
    trouble: Trouble = Trouble.ERROR,
) -> Episode:
    scenario = Scenario(
        name="switch",
        title="a person opens the switch and lets it go",
        rate=0.5,
        lasts=OPENED + held + GIVEN_UP,
        keys=endpoints,
        spells=tuple(
            Spell(begins=dies, ends=1e9, key=f"e{number}", trouble=trouble)
            for number in range(dead)
        ),
        settings={"circuit_key": "body.endpoint"} if keyed else {},
    )
    system = Switched(scenario, 1, held)
    system.play()
    circuit, book = system.circuit(), system.book
    sent = {message.number for message in book.messages if message.at < system.elapsed}
    return Episode(
        let_go=system.let_go,
        closed_after=system.elapsed - system.let_go if circuit.is_closed else None,
        posts=tuple(post for post in system.posts if post.at > OPENED + SECONDS_TO_STOP),
        letters=len(system.deaths),
        lost=sent - book.processed_at.keys() - set().union(*places_of(system).values()),
        states=Counter(str(system.circuit(f"e{number}").state) for number in range(dead)),
        paused=circuit.paused is not None,
    )


def assert_ends_well(episode: Episode, dead: int) -> None:
    assert episode.closed_after is not None
    assert episode.closed_after <= SECONDS_TO_CLOSE
    posts = Counter(post.endpoint for post in episode.posts)
    assert max((posts[f"e{number}"] for number in range(dead)), default=0) <= MOST_POSTS
    tries = Counter((post.probe, post.message) for post in episode.posts)
    assert max(tries.values(), default=1) == 1
    assert None not in {post.probe for post in episode.posts}
    assert all(post.at >= episode.let_go for post in episode.posts)
    assert episode.lost == set()


def at_night(*cases: tuple[int, int]) -> list[Any]:
    return [pytest.param(*case, marks=pytest.mark.nightly) for case in cases]


BY_DAY = {(2, 50), (10, 90)}


@pytest.mark.parametrize(
    ("endpoints", "share"),
    [
        pytest.param(*case, marks=() if case in BY_DAY else pytest.mark.nightly)
        for case in product([1, 2, 10, 50], range(0, 100, 10))
    ],
)
def test_the_switch_ends_whatever_share_of_the_endpoints_is_dead(
    endpoints: int, share: int
) -> None:
    dead = endpoints * share // 100
    assert_ends_well(episode(endpoints, dead), dead)


@pytest.mark.nightly
@pytest.mark.parametrize("endpoints", [1, 2, 10])
def test_it_ends_if_all_of_them_are_dead(endpoints: int) -> None:
    """Their own circuits hold their messages."""
    found = episode(endpoints, endpoints)
    assert_ends_well(found, endpoints)
    assert found.letters > 20


@pytest.mark.parametrize(("endpoints", "dead"), [(2, 1), *at_night((1, 1), (10, 9), (50, 45))])
def test_it_ends_if_they_die_while_it_is_held(endpoints: int, dead: int) -> None:
    """Their circuits are closed: they have not been called since."""
    assert_ends_well(episode(endpoints, dead, dies=OPENED + 10), dead)


WAYS = (Trouble.UNAUTHORIZED, Trouble.TIMEOUT, Trouble.NOT_FOUND)
DEAD = ((1, 1), (2, 1), (10, 9))


@pytest.mark.parametrize(
    ("endpoints", "dead", "trouble"),
    [
        pytest.param(*case, marks=() if case == (1, 1, WAYS[0]) else pytest.mark.nightly)
        for case in ((*dead, way) for dead, way in product(DEAD, WAYS))
    ],
)
def test_it_ends_however_they_fail(endpoints: int, dead: int, trouble: Trouble) -> None:
    assert_ends_well(episode(endpoints, dead, trouble=trouble), dead)


@pytest.mark.parametrize(("endpoints", "dead"), [(1, 1), *at_night((1, 0), (10, 5))])
def test_it_ends_if_it_was_held_for_a_moment(endpoints: int, dead: int) -> None:
    """No execution has run, and the consumer is not paused yet."""
    assert_ends_well(episode(endpoints, dead, held=5.0), dead)


def test_the_circuit_of_a_dead_endpoint_stays_open_while_the_pipeline_is_held() -> None:
    """Its letters wait for the pipeline too: none is tried, and that is no evidence."""
    found = episode(2, 1, held=600.0)
    assert_ends_well(found, 1)
    assert found.states["CLOSED"] == 0


def test_a_dead_dependency_of_the_pipeline_itself_keeps_it_open() -> None:
    """Without a circuit for each endpoint the first canary shows an outage, which pauses."""
    found = episode(1, 1, dies=OPENED + 10, keyed=False)
    assert found.closed_after is None
    assert found.paused
    assert len(found.posts) <= GIVEN_UP / 36 + 1
