"""No level stays when its cause is gone, whatever was seen and not seen before."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from deadletter.circuit.state import NO_END, Circuit, Override, State
from deadletter.contract import DAY, END_OF_TIME, HOUR, MINUTE, WATCH, Mode
from deadletter.replay.care import Care
from deadletter.signals.figures import Figure
from deadletter.watch.observation import (
    FirstDue,
    LaneState,
    RulesState,
    circuits_state,
)
from tests.watch.minutes import BEGIN, Minutes

KEYS = ("orders", "orders#config", "dependency/mail", "dependency/mail#config", "tenant-1")
PARKED, OTHER, SLOW = "parking:default", "parking:business", "slow"
SENT = END_OF_TIME + BEGIN

CALLS = (
    Figure.DLQ_DEPTH,
    Figure.CIRCUIT_TROUBLE,
    Figure.PARKED_UNATTENDED,
    Figure.RULE_TROUBLE,
    Figure.REPLAY_BROKEN,
    Figure.REDRIVE_STALLED,
)


@dataclass(frozen=True)
class Seen:
    """What one look sees; what is None could not be read."""

    circuits: tuple[Circuit, ...] | None
    causes: int | None
    rules: RulesState | None
    replays: Care | None
    due: float | None
    letters: int
    dead: int
    in_lane: int
    read: bool
    well: bool
    jump: float


@st.composite
def circuits(draw: st.DrawFn) -> Circuit:
    forced = draw(
        st.sampled_from(
            [
                None,
                None,
                Override(State.OPEN, "ada", "", BEGIN + DAY, begun=BEGIN),
                Override(State.OPEN, "ada", "", NO_END, begun=BEGIN),
                Override(State.CLOSED, "ada", "", NO_END),
            ]
        )
    )
    state = draw(st.sampled_from(list(State))) if forced is None else forced.state
    return Circuit(
        draw(st.sampled_from(KEYS)),
        state,
        outage=draw(st.integers(1, 30)),
        trips=draw(st.integers(1, 30)),
        opened_at=draw(st.floats(BEGIN - DAY, BEGIN + DAY)),
        forced=forced,
        unreadable=draw(st.sampled_from([False, False, False, True])),
    )


RUNS = st.lists(st.sampled_from(["r1", "r2"]), unique=True, max_size=2).map(tuple)

LOOKS = st.lists(
    st.builds(
        Seen,
        circuits=st.none() | st.lists(circuits(), max_size=4).map(tuple),
        causes=st.none() | st.integers(0, 2),
        rules=st.none()
        | st.builds(RulesState, refused=RUNS, limited=RUNS, everywhere=st.integers(0, 1)),
        replays=st.none() | st.builds(Care, broken=RUNS, restarted=RUNS, moving=RUNS),
        due=st.none() | st.floats(BEGIN - DAY, BEGIN + DAY),
        letters=st.integers(0, 5),
        dead=st.sampled_from([0, 50, 500]),
        in_lane=st.integers(0, 5),
        read=st.booleans(),
        well=st.booleans(),
        jump=st.sampled_from([0.0, 0.0, 20.0 * MINUTE, 8.0 * DAY]),
    ),
    max_size=25,
)


def after(looks: list[Seen], mode: Mode) -> Minutes:
    """The watch after it has seen all that."""
    minutes = Minutes(created=BEGIN)
    minutes.settings = replace(
        minutes.settings,
        mode=mode,
        parking=("default", "business"),
        dedicated=(SLOW,),
        alarms=WATCH._replace(open_circuits=1),
    )
    minutes.pass_minutes(1)
    for seen in looks:
        minutes.circuits = (
            None if seen.circuits is None else circuits_state("orders", seen.circuits)
        )
        minutes.causes, minutes.rules, minutes.replays = seen.causes, seen.rules, seen.replays
        minutes.due = FirstDue(seen.due)
        minutes.letters = dict.fromkeys((PARKED, OTHER, SLOW), seen.letters) | {"dlq": seen.dead}
        minutes.lanes = {"parked": LaneState(seen.in_lane, SENT)} if seen.in_lane else {}
        minutes.unreadable = set() if seen.read else {PARKED, OTHER, SLOW}
        minutes.now += seen.jump
        minutes.pass_minutes(1, runs_end_well=seen.well)
    return minutes


def mend(minutes: Minutes) -> None:
    """All causes are gone, and a person has taken a letter of each queue."""
    own = None if minutes.row is None else minutes.row.circuits.openings.get("orders")
    outage, trips = (0, 0) if own is None else (own.outage, own.trips)
    minutes.circuits = circuits_state("orders", [Circuit("orders", outage=outage, trips=trips)])
    minutes.causes, minutes.rules, minutes.replays = 0, RulesState(), Care()
    minutes.due = FirstDue(None)
    minutes.unreadable = set()


@settings(max_examples=60, deadline=None)
@given(LOOKS, st.integers(0, 4))
def test_a_level_ends_when_its_cause_has_been_gone_for_the_documented_time(
    looks: list[Seen], left: int
) -> None:
    minutes = after(looks, Mode.OBSERVE)
    mend(minutes)
    # Counts settle first, and then a letter leaves.
    minutes.letters = dict.fromkeys((PARKED, OTHER, SLOW), left + 1)
    minutes.pass_minutes(25)
    minutes.letters = dict.fromkeys((PARKED, OTHER, SLOW), left)
    minutes.pass_minutes(1)
    assert not minutes.value(Figure.RULE_TROUBLE)
    assert not minutes.value(Figure.REDRIVE_STALLED)
    assert not minutes.value(Figure.REPLAY_BROKEN)
    minutes.pass_minutes(20)
    assert not minutes.value(Figure.PARKED_UNATTENDED)
    minutes.pass_minutes(HOUR // MINUTE - 46)
    minutes.pass_minutes(1)
    assert not any(minutes.value(metric) for metric in CALLS)
    assert minutes.row is not None
    assert minutes.row.seen == ()


@settings(max_examples=50, deadline=None)
@given(LOOKS)
def test_a_stall_ends_with_the_next_look_that_finds_nothing(looks: list[Seen]) -> None:
    minutes = after(looks, Mode.ENFORCE)
    mend(minutes)
    minutes.pass_minutes(1)
    assert minutes.value(Figure.REDRIVE_STALLED) == 0


@settings(max_examples=50, deadline=None)
@given(LOOKS)
def test_a_trouble_has_its_words_as_long_as_its_level_is_shown(looks: list[Seen]) -> None:
    minutes = after(looks, Mode.ENFORCE)
    assert minutes.row is not None
    for metric in CALLS[:-1]:
        assert bool(minutes.value(metric)) == bool(minutes.why(metric)), metric
    assert bool(minutes.value(Figure.REDRIVE_STALLED)) == bool(minutes.why(Figure.REDRIVE_STALLED))
