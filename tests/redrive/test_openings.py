"""Which lanes of the waiting room open for which run, and until when."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from deadletter.aws.wiring.redrive import redriver_for
from deadletter.contract import PARKED_LANE, dedicated_lane, parking_source
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.openings import QUIET_LANE, open_shards
from deadletter.redrive.order import Order
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.waiting_room import END_OF_TIME, FOREVER, never
from deadletter.routing.decision import DUE, Hold
from tests.samples import letter, verdict
from tests.samples import received as taken
from tests.simulation.stage import Stage

SLOW_LANE = dedicated_lane("slow")


@pytest.fixture
def stage() -> Stage:
    return Stage()


def setup_of(stage: Stage, home: str = "dlq") -> RedriverSetup:
    redriver = redriver_for(
        stage.pipeline, stage.resources, stage.clients, stage.world, home=home, router=stage.router
    )
    return redriver._setup


def rescued(lane: str, home: str, copy: str = "m1", group: str | None = None) -> Order:
    """The order of a letter that goes from its queue into a lane that no time opens."""
    system = {} if group is None else {"MessageGroupId": group, "SequenceNumber": copy}
    mail = letter(message_id=copy, **system)
    received: ReceivedLetter = taken(mail, home)
    return Order(
        received, Hold(lane, never(mail), "rescued"), verdict(copy, Hold(lane, 0, "")).stamp
    )


def opened(stage: Stage, home: str) -> Sequence[str]:
    return sorted({shard.lane for shard in open_shards(setup_of(stage, home)).shards})


def test_the_lane_of_a_dedicated_dlq_opens_for_the_runs_of_that_dlq_alone(stage: Stage) -> None:
    setup_of(stage).room.admit([rescued(SLOW_LANE, "slow")])
    assert opened(stage, "dlq") == []
    [shard] = open_shards(setup_of(stage, "slow")).shards
    assert (shard.lane, shard.until) == (SLOW_LANE, FOREVER)


def test_the_lane_parked_opens_for_no_run(stage: Stage) -> None:
    setup_of(stage).room.admit([rescued(PARKED_LANE, parking_source("default"))])
    stage.clock.advance(40 * QUIET_LANE)
    for home in ("dlq", "slow"):
        assert opened(stage, home) == []
    assert PARKED_LANE in {lane.name for lane in setup_of(stage).room.lanes()}


def test_a_lane_that_a_router_calls_releasable_stays_shut(stage: Stage) -> None:
    room = setup_of(stage).room
    room.admit([rescued(PARKED_LANE, "parking:default"), rescued(SLOW_LANE, "slow", "m2")])

    class Releasing:
        def decide(self, questions: object) -> object:
            raise AssertionError("no letter is judged")

        def releasable_lanes(self, lanes: Sequence[str]) -> Sequence[str]:
            return [*lanes, PARKED_LANE, SLOW_LANE]

    redriver = redriver_for(
        stage.pipeline,
        stage.resources,
        stage.clients,
        stage.world,
        router=Releasing(),  # type: ignore[arg-type]  # only what the openings ask for
    )
    assert open_shards(redriver._setup).shards == []


def test_a_run_of_a_dedicated_dlq_opens_no_other_lane(stage: Stage) -> None:
    late = Hold(DUE, 1.0, "waits")
    order = rescued(SLOW_LANE, "slow")
    setup_of(stage).room.admit([Order(order.received, late, order.stamp)])
    assert opened(stage, "slow") == []
    assert opened(stage, "dlq") == [DUE]


def test_the_empty_lane_of_a_dedicated_dlq_is_retired_after_a_day_and_a_full_one_is_not(
    stage: Stage,
) -> None:
    room = setup_of(stage).room
    room.admit([rescued(SLOW_LANE, "slow")])
    stage.clock.advance(2 * QUIET_LANE)
    assert opened(stage, "slow") == [SLOW_LANE]
    stage.run(home="slow")
    assert len(stage.bodies(stage.main)) == 1
    assert opened(stage, "slow") == []
    assert list(room.lanes()) == []


def test_letters_that_are_never_due_are_kept_by_age(stage: Stage) -> None:
    young, old = letter(SentTimestamp="2000"), letter(SentTimestamp="1000")
    assert END_OF_TIME < never(old) < never(young) < FOREVER
