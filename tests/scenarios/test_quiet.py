"""What is in order pages nobody."""

from __future__ import annotations

from random import Random

import pytest

from tests.scenarios.account import MINUTE
from tests.scenarios.conftest import EACH_EVERY, EVERY, MakeStage
from tests.scenarios.figures import Figures
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.long

DAY_MINUTES = 1_440


@pytest.mark.parametrize("phase", [0, pytest.param(4, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("every", EACH_EVERY)
@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_a_first_deployment_pages_nobody(
    deployed: MakeStage, figures: Figures, mode: str, every: str, phase: int
) -> None:
    stage = deployed(f"{mode}-{every}", phase=phase)
    stage.account.minutes(180)
    assert stage.account.errors == []
    assert stage.account.cloudwatch.pages == []
    figures.worst("pages in the first three hours", "a first deployment", 0, "")


@pytest.mark.parametrize("name", ["isolated", "ordered", "brought"])
def test_a_first_deployment_of_every_sort_pages_nobody(deployed: MakeStage, name: str) -> None:
    stage = deployed(name)
    stage.account.minutes(60)
    assert stage.account.errors == []
    assert stage.account.cloudwatch.pages == []


class Traffic:
    """Ten messages a minute by day; a few fail once, fewer die once, and an outage heals."""

    def __init__(self, stage: Stage, *, outage_at: float) -> None:
        self.stage = stage
        self.outage_at = outage_at
        self.random = Random(11)
        self.sent = 0
        self.tries: dict[str, int] = {}
        self.fails: dict[str, int] = {}

    def minute(self) -> None:
        for _ in range(self.random.choice((1, 2, 3))):
            self.sent += 1
            body = f'{{"number": {self.sent}}}'
            self.stage.send(body)
            lot = self.random.random()
            # One in fifty needs a second try, one in four hundred dies once.
            self.fails[body] = 1 if lot < 0.02 else 6 if lot > 0.9975 else 0
        self.stage.work(self.succeeds)

    def succeeds(self, body: str) -> bool:
        minutes = self.stage.account.elapsed / MINUTE
        if self.outage_at <= minutes < self.outage_at + 8:
            return False
        self.tries[body] = self.tries.get(body, 0) + 1
        return self.tries[body] > self.fails[body]


def live(stage: Stage, *, days: int, outage_at: float) -> Traffic:
    traffic = Traffic(stage, outage_at=outage_at)
    stage.account.each_minute.append(traffic.minute)
    stage.account.minutes(days * DAY_MINUTES)
    return traffic


@pytest.mark.nightly
def test_a_healthy_week_pages_nobody(deployed: MakeStage, figures: Figures) -> None:
    stage = deployed("enforce-1m")
    traffic = live(stage, days=7, outage_at=600.0)
    redriven = stage.account.cloudwatch.values(
        "Deadletter", "Redriven", app="deadletter", pipeline=stage.name
    )
    assert sum(redriven) > 5
    assert stage.account.errors == []
    assert stage.account.cloudwatch.pages == []
    # What is not consumed yet was sent in the last minutes.
    assert traffic.sent - len(stage.consumed) < 20
    assert stage.account.sqs.expired() == []
    figures.worst("pages in healthy days", f"7 days, {traffic.sent} messages", 0, "")


@pytest.mark.nightly
@pytest.mark.parametrize("every", EVERY)
def test_observe_looks_twice_at_a_letter_and_no_more(
    deployed: MakeStage, figures: Figures, every: str
) -> None:
    stage = deployed(f"observe-{every}")
    stage.die(30)
    before = {letter.message_id: letter.receive_count for letter in stage.held(stage.dlq)}
    stage.account.minutes(DAY_MINUTES + 60)
    looks = [letter.receive_count - before[letter.message_id] for letter in stage.held(stage.dlq)]
    assert sum(looks) <= 3 * len(looks)
    figures.worst("receives of a letter in a day, observe", every, sum(looks) / len(looks), "")
