"""No lane starves the DLQ: it gets its share of a run, however much waits in lanes."""

from __future__ import annotations

import pytest

from tests.scenarios.conftest import MakeStage
from tests.scenarios.figures import Figures
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.nightly

DELAY = 7_200


def fill_lane(stage: Stage, letters: int) -> None:
    """Letters wait in the lane of delays, all of them due."""
    stage.add_rule("later", tenantId="a", action="DELAYED_REDRIVE", delay_seconds=DELAY)
    stage.put(stage.dlq, letters, body='{"tenantId": "a"}')
    for _ in range(60):
        stage.account.minutes(1)
        if len(stage.waiting()) == letters:
            break
    assert len(stage.waiting()) == letters
    stage.account.clock.advance(2 * DELAY)


@pytest.mark.parametrize("letters", [12_000, 100_000])
def test_a_large_lane_leaves_the_dlq_its_share(
    deployed: MakeStage, figures: Figures, letters: int
) -> None:
    stage = deployed("steady-rate")
    fill_lane(stage, letters)
    stage.put(stage.dlq, 5_000, body='{"tenantId": "b"}')
    report = stage.redrive(source="dlq")
    from_dlq = 5_000 - len(stage.held(stage.dlq))
    share = from_dlq / report["counts"]["Redriven"]
    figures.least("the DLQ's share of a run, %", f"{letters} letters in a lane", share * 100, "%")
    assert share >= 0.2
    # And the lane is not starved either.
    assert share <= 0.8
    # The consumer takes nothing here, so that the rate falls in the end.
    assert report["counts"]["Redriven"] > 1_500
