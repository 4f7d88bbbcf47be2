"""One step of the watch that fails stops no other, and leaves a reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from deadletter.circuit.state import Circuit, CircuitsUnavailable, State
from deadletter.contract import DAY, END_OF_TIME, HOUR, MINUTE
from deadletter.failure.causes import CauseHold, Causes, CausesUnavailable
from deadletter.message.queue import Depth, QueueState, QueueUnavailable
from deadletter.outage.reconciler import Sweep
from deadletter.redrive.lease import LeaseUnavailable
from deadletter.redrive.source_memory import SourceMemory
from deadletter.redrive.waiting_room import Lane, LaneCount, RoomUnavailable
from deadletter.replay.care import Care
from deadletter.routing.router import LaneAnswer, Question, RouterAnswer, RouterUnavailable
from deadletter.rules.refused_rule import RefusedRule
from deadletter.signals.figures import Count, Counted, Figure
from deadletter.signals.pages import Alarm
from deadletter.signals.troubles import TroubleKind, why
from deadletter.watch.observation import OldestMessage
from deadletter.watch.row import WatchRow, row_from_json, row_to_json
from deadletter.watch.watch import Minute, RescueUnavailable, Watch, WatchSetup
from deadletter.watch.watch_settings import WatchSettings

T = TypeVar("T")
NOW = 1_800_000_000.0
REASON = "AccessDeniedException for something:Done on deadletter-messages"


def one_by_one(calls: Sequence[Callable[[], T]]) -> list[T]:
    return [call() for call in calls]


@dataclass
class CausesOf:
    """The causes of a world, one of them held."""

    world: World

    def read(self) -> Causes:
        self.world._answers("causes", CausesUnavailable)
        return Causes(
            holds={"a": CauseHold(NOW, NOW + HOUR), "b": CauseHold(NOW - 9, NOW - 1)},
        )


@dataclass
class World:
    """A pipeline with one letter in its DLQ; what is in `down` gives no answer."""

    now: float = NOW
    down: set[str] = field(default_factory=set)
    row: WatchRow | None = None
    ran_well: bool = True
    sweep: Sweep = field(default_factory=lambda: Sweep(()))
    lanes_of_room: dict[str, tuple[int, float]] = field(default_factory=dict)
    rescued: list[str] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)
    retention: float = 14.0 * DAY
    fails: str = ""
    most: int = 1_000
    counted: Counter[str] = field(default_factory=Counter)
    touched: dict[str, float] = field(default_factory=dict)
    care: Care = field(default_factory=Care)
    waiting: list[str] = field(default_factory=list)
    closed: Circuit = field(default_factory=lambda: Circuit("orders"))
    in_main: int = 0

    def watch(self) -> Watch:
        return Watch(
            WatchSetup(
                settings=WatchSettings(
                    pipeline="orders", dedicated=("slow",), message_ttl=12.0 * DAY
                ),
                store=self,
                queues=self.queue,
                sweep=lambda _looks: self.sweep,
                router=self,
                lanes=self,
                rescue=self.rescue,
                clock=lambda: self.now,
                in_parallel=one_by_one,
                causes=CausesOf(self),
                replays=self.replays,
                counts=self.counted,
                circuits=self.circuits,
                oldest=self.oldest,
            )
        )

    def read(self) -> tuple[WatchRow | None, Mapping[str, SourceMemory]]:
        self._answers("read", LeaseUnavailable)
        well_at = self.now if self.ran_well else None
        return self.row, {"dlq": SourceMemory(ended_well_at=well_at)}

    def write(self, row: WatchRow) -> None:
        self._answers("write", LeaseUnavailable)
        self.row = row

    def queue(self, id_: str) -> QueueState:
        self._answers(id_, QueueUnavailable)
        letters = {"dlq": 1, "main": self.in_main}.get(id_, 0)
        retention = 4.0 * DAY if id_ == "main" else self.retention
        return QueueState(depth=Depth(letters, 0, 0), created=NOW - DAY, retention=retention)

    def circuits(self, keys: Sequence[str]) -> Mapping[str, Circuit]:
        self._answers("circuits", CircuitsUnavailable)
        return dict.fromkeys(keys, self.closed)

    def replays(self, waiting: Iterable[str]) -> Care:
        self.waiting = list(waiting)
        return self.care

    def oldest(self) -> OldestMessage:
        self._answers("oldest", QueueUnavailable)
        return OldestMessage(NOW - DAY)

    def decide(self, questions: Sequence[Question]) -> RouterAnswer:
        self._answers("router", RouterUnavailable)
        assert not questions
        return RouterAnswer((), (RefusedRule("typo", "unknown field"),))

    def open_lanes(self, lanes: Sequence[str]) -> LaneAnswer:
        raise AssertionError("the watch releases nothing")

    def lanes(self) -> Sequence[Lane]:
        self._answers("lanes", RoomUnavailable)
        return [Lane(name, self.touched.get(name, NOW)) for name in self.lanes_of_room]

    def count(self, lane: str) -> LaneCount:
        self._answers("count", RoomUnavailable)
        if lane == self.fails:
            raise RoomUnavailable(REASON)
        self.counts.append(lane)
        letters = self.lanes_of_room[lane][0]
        return LaneCount(min(letters, self.most), letters > self.most)

    def first_due(self, lane: str) -> float | None:
        return self.lanes_of_room[lane][1]

    def rescue(self, source: str) -> None:
        self._answers("rescue", RescueUnavailable)
        self.rescued.append(source)

    def _answers(self, what: str, error: type[Exception]) -> None:
        if what in self.down:
            raise error(REASON)


def figures(minute: Minute) -> dict[tuple[Counted, str | None], float]:
    return {(point.metric, point.source): point.value for point in minute.points}


def test_a_minute_is_looked_at_remembered_and_published() -> None:
    world = World(lanes_of_room={"due": (4, NOW - 30)})
    minute = world.watch().run()
    values = figures(minute)
    assert values[Figure.MESSAGES, "dlq"] == 1
    assert values[Figure.MESSAGES, "room"] == 4
    assert values[Figure.OLDEST_MESSAGE_AGE, "room:due"] == 30
    assert values[Figure.RULE_TROUBLE, None] == 1
    assert values[Figure.REDRIVE_STALLED, None] == 0
    assert world.row == minute.row
    assert {seen["kind"] for seen in minute.trouble["seen"]} == {"cause-dominates", "rule-invalid"}


def test_each_step_that_fails_leaves_the_others_and_its_reason() -> None:
    whole = figures(World(lanes_of_room={"due": (4, NOW - 30)}).watch().run())
    steps = {
        "read": "lease",
        "dlq": "queue dlq",
        "slow": "queue slow",
        "main": "queue main",
        "router": "router",
        "lanes": "what waits",
        "count": "what waits",
    }
    for down, step in steps.items():
        world = World(lanes_of_room={"due": (4, NOW - 30)})
        watch = world.watch()
        watch.run()
        world.down = {down}
        world.now += 11 * MINUTE
        minute = watch.run()
        assert {name: failing.why for name, failing in minute.row.failing.items()} == {step: REASON}
        assert minute.trouble["failing"][step]["why"] == REASON
        assert set(figures(minute)) == set(whole), down


def test_a_sweep_that_fails_says_whether_circuits_or_repairs_do() -> None:
    world = World(sweep=Sweep(None, (REASON,)))
    assert set(world.watch().run().row.failing) == {"circuits"}
    open_circuit = Circuit("orders", State.OPEN)
    world = World(sweep=Sweep((open_circuit,), (REASON,)))
    minute = world.watch().run()
    assert set(minute.row.failing) == {"repairs"}
    assert figures(minute)[Figure.CIRCUIT_STATE, None] == 2


def test_a_lease_that_cannot_be_read_is_a_stall_at_once() -> None:
    minute = World(down={"read"}).watch().run()
    assert figures(minute)[Figure.REDRIVE_STALLED, None] == 1
    [seen] = minute.row.of(Alarm.REDRIVE_STALLED)
    assert seen.says() == f"lease: {REASON}"


def test_the_watch_remembers_on_its_own_while_its_row_cannot_be_stored() -> None:
    world = World(down={"write"})
    watch = world.watch()
    watch.run()
    for _ in range(5):
        world.now += MINUTE
        minute = watch.run()
    assert world.row is None
    values = figures(minute)
    assert values[Figure.OLDEST_MESSAGE_AGE, "dlq"] == 5 * MINUTE
    assert values[Figure.REDRIVE_STALLED, None] == 1
    world.down = set()
    world.now += MINUTE
    watch.run()
    world.now += MINUTE
    assert figures(watch.run())[Figure.REDRIVE_STALLED, None] == 0


def test_a_row_that_another_process_has_written_since_counts() -> None:
    world = World()
    first, second = world.watch(), world.watch()
    first.run()
    world.now += MINUTE
    second.run()
    assert world.row is not None
    second_row = world.row
    world.down = {"dlq"}
    world.now += MINUTE
    assert first.run().row.queues["dlq"].read_at == second_row.ran_at


def test_a_rescue_that_is_due_is_started_and_remembered() -> None:
    world = World(sweep=Sweep((Circuit("orders", State.OPEN),)), retention=float(DAY))
    watch = world.watch()
    minute = watch.run()
    assert world.rescued == list(minute.rescues) == ["dlq"]
    assert minute.trouble["rescues"] == ["dlq"]
    world.now += MINUTE
    assert watch.run().rescues == ()


def test_a_rescue_that_cannot_be_started_is_tried_in_the_next_minute() -> None:
    world = World(
        sweep=Sweep((Circuit("orders", State.OPEN),)), retention=float(DAY), down={"rescue"}
    )
    watch = world.watch()
    assert watch.run().rescues == ()
    world.now += MINUTE
    minute = watch.run()
    assert minute.row.failing["rescue of dlq"].why == REASON
    for _ in range(2):
        world.now += MINUTE
        minute = watch.run()
    assert figures(minute)[Figure.REDRIVE_STALLED, None] == 1
    world.down = set()
    world.now += MINUTE
    assert watch.run().rescues == ("dlq",)


def test_a_count_that_fails_half_way_counts_nothing() -> None:
    world = World(lanes_of_room={"rule:a": (2, NOW), "rule:b": (3, NOW)})
    watch = world.watch()
    watch.run()
    world.now += 10 * MINUTE
    del world.lanes_of_room["rule:b"]
    world.lanes_of_room |= {"rule:a": (1, NOW)}
    world.fails = "rule:c"
    world.lanes_of_room["rule:c"] = (9, NOW)
    assert figures(watch.run())[Figure.MESSAGES, "room"] == 5


def test_a_lane_of_millions_has_at_least_what_was_counted_until_it_is_counted_whole() -> None:
    parked = (10_000_000, END_OF_TIME + NOW - 9 * DAY)
    world = World(lanes_of_room={"parked": parked, "rule:a": (2, NOW)})
    watch = world.watch()
    watch.run()
    world.now += 8 * DAY
    minute = watch.run()
    assert figures(minute)[Figure.MESSAGES, "parking:default"] == world.most
    [trouble] = [each for each in minute.row.seen if each.kind is TroubleKind.UNATTENDED]
    # Some may have left: that none has is not said.
    assert trouble.says() == "a person has to look at at least 1,000 messages in parking:default"
    read = row_from_json(row_to_json(minute.row))
    assert read is not None
    assert {kind for kind, lane in read.lanes.items() if lane.more_at} == {"parked"}
    world.lanes_of_room["parked"] = (900, parked[1])
    world.now += 10 * MINUTE
    assert watch.run().row.lanes["parked"].more_at is None


def test_the_lane_of_delays_is_looked_at_each_minute_and_counted_every_ten() -> None:
    world = World(lanes_of_room={"due": (4, NOW - 30), "rule:a": (2, NOW)})
    watch = world.watch()
    watch.run()
    world.lanes_of_room["due"] = (5, NOW - 300)
    world.counts.clear()
    for _ in range(9):
        world.now += MINUTE
        minute = watch.run()
    assert world.counts == []
    assert figures(minute)[Figure.OLDEST_MESSAGE_AGE, "room:due"] == 300 + 9 * MINUTE
    world.now += MINUTE
    assert figures(watch.run())[Figure.MESSAGES, "room"] == 7


def test_what_the_sweep_has_counted_is_published_once() -> None:
    world = World()
    watch = world.watch()
    world.counted[Count.UNDECIDED] += 2
    assert figures(watch.run())[Count.UNDECIDED, None] == 2
    world.now += MINUTE
    assert (Count.UNDECIDED, None) not in figures(watch.run())


def test_the_row_that_a_process_keeps_is_used_while_the_table_gives_no_answer() -> None:
    world = World()
    watch = world.watch()
    first = watch.run()
    world.down = {"read"}
    world.now += MINUTE
    assert watch.run().row.first_at == first.row.first_at == NOW


def test_the_first_reason_of_a_sweep_is_the_one_that_is_shown() -> None:
    minute = World(sweep=Sweep(None, ("denied", "and so nothing else"))).watch().run()
    assert minute.row.failing["circuits"].why == "denied"


def test_of_too_many_lanes_those_that_were_used_last_are_counted() -> None:
    names = [f"rule:{number}" for number in range(41)]
    world = World(lanes_of_room=dict.fromkeys(names, (1, NOW)))
    world.touched = {name: NOW + number for number, name in enumerate(names)}
    world.watch().run()
    assert set(world.counts) == set(names[1:])


def test_causes_that_are_held_now_are_a_level() -> None:
    minute = World().watch().run()
    assert [p.value for p in minute.points if p.metric is Count.CAUSES_HELD] == [1]
    away = World(down={"causes"}).watch().run()
    assert [p for p in away.points if p.metric is Count.CAUSES_HELD] == []
    assert away.row.failing["causes"].why == REASON


def full_for_an_hour(world: World) -> None:
    """The main queue has not been seen empty for an hour."""
    assert world.row is not None
    main = replace(world.row.queues["main"], messages=1, filled_at=world.now - HOUR - MINUTE)
    queues = {**world.row.queues, "main": main}
    # Another process has looked since.
    world.row = replace(world.row, queues=queues, ran_at=world.now + 1)
    world.in_main = 1


def test_cloudwatch_is_asked_for_the_main_queues_age_and_its_refusal_is_named() -> None:
    world = World()
    watch = world.watch()
    watch.run()
    full_for_an_hour(world)
    world.now += MINUTE
    world.down = {"oldest"}
    minute = watch.run()
    assert minute.row.failing["age of the main queue"].why == REASON
    assert minute.row.main.oldest is None
    # It is asked again in the next minute.
    world.down = set()
    world.now += MINUTE
    minute = watch.run()
    assert minute.row.main.oldest == NOW - DAY
    assert minute.row.failing == {}


def test_a_circuit_that_is_closed_again_is_read_for_its_outages() -> None:
    world = World()
    watch = world.watch()
    watch.run()
    world.closed = Circuit("orders", outage=5, trips=3, opened_at=NOW + 20)
    world.now += MINUTE
    assert "opened 3 times" in why(watch.run().row.of(Alarm.CIRCUIT_TROUBLE))
    world.down = {"circuits"}
    world.now += MINUTE
    minute = watch.run()
    assert minute.row.failing["circuits"].why == REASON
    assert "opened 3 times" in why(minute.row.of(Alarm.CIRCUIT_TROUBLE))


def test_runs_that_are_broken_or_lost_reach_the_row() -> None:
    world = World()
    watch = world.watch()
    world.care = Care(broken=("r1",), restarted=("r2",), moving=("r3",), failed=(REASON, "more"))
    row = watch.run().row
    assert (row.replays.broken, row.replays.moved_at) == (("r1",), NOW)
    assert row.replays.lost == {"r2": (NOW,)}
    assert row.failing["runs of people"].why == REASON
    world.care = Care(known=False, failed=(REASON,))
    world.now += MINUTE
    assert watch.run().row.replays.broken == ("r1",)


def test_only_runs_in_whose_lanes_letters_wait_are_asked_for() -> None:
    world = World(lanes_of_room={"run:r1": (2, NOW), "run:r2": (0, NOW), "due": (1, NOW)})
    world.watch().run()
    assert world.waiting == ["r1"]
