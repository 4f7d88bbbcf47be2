"""Event-like troubles ring once, and stages of one account do not hear each other."""

from __future__ import annotations

import pytest

from tests.infra.conftest import Synthesize
from tests.infra.templates import Synthesis
from tests.scenarios.account import Account
from tests.scenarios.conftest import MakeStage
from tests.scenarios.figures import Figures
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.long


def test_one_mistyped_rule_is_one_page_that_clears(deployed: MakeStage, figures: Figures) -> None:
    stage = deployed("enforce-1m")
    stage.account.minutes(15)
    began = stage.account.elapsed / 60
    stage.add_rule("typo", tenantId="a", action="QUARANTNE")
    stage.die(3)
    stage.account.minutes(40)
    pages = stage.account.cloudwatch.pages
    [(at, alarm)] = stage.pages()
    assert len(pages) == 1
    assert alarm == "RuleTrouble"
    figures.worst("a page after the trouble began", "a mistyped rule", at - began, "min")
    assert at - began <= 5
    stage.delete_rule("typo")
    waited = until_quiet(stage)
    figures.worst("the page ends after the trouble", "a mistyped rule", waited, "min")
    stage.account.minutes(10)
    assert len(stage.account.cloudwatch.pages) == 1


def test_one_mistyped_rule_of_all_pipelines_is_one_page(deployed: MakeStage) -> None:
    stage = deployed("enforce-1m")
    stage.account.minutes(15)
    stage.add_rule("typo", pipeline="*", tenantId="a", action="QUARANTNE")
    stage.account.minutes(30)
    assert [page.alarm for page in stage.account.cloudwatch.pages] == ["deadletter-RuleTrouble"]
    stage.delete_rule("typo", pipeline="*")
    stage.account.minutes(6)
    assert stage.account.cloudwatch.alarming == []
    assert len(stage.account.cloudwatch.pages) == 1


@pytest.mark.parametrize(
    "state",
    [
        {"State": "Disabled"},
        {"State": "Enabled", "LastProcessingResult": "PROBLEM: Function call failed"},
    ],
    ids=["off", "failing"],
)
def test_a_rule_checker_that_sees_no_edits_is_one_page_of_the_app(
    deployed: MakeStage, figures: Figures, state: dict[str, str]
) -> None:
    stage = deployed("enforce-1m")
    stage.account.minutes(15)
    began = stage.account.clock()
    works, stage.account.rule_checker = stage.account.rule_checker, state
    stage.account.minutes(20)
    [page] = stage.account.cloudwatch.pages
    assert page.alarm == "deadletter-SharedTrouble"
    late = (page.at - began) / 60
    figures.worst("a page after the trouble began", "the rule checker is off or fails", late, "min")
    assert late <= 3
    stage.account.rule_checker = works
    stage.account.minutes(6)
    assert stage.account.cloudwatch.alarming == []
    assert len(stage.account.cloudwatch.pages) == 1


def until_quiet(stage: Stage) -> int:
    """Minutes until no alarm rings any more: a few at most."""
    for waited in range(6):
        if not stage.alarming():
            return waited
        stage.account.minutes(1)
    raise AssertionError(stage.alarming())


def test_a_dominant_failure_is_a_figure_and_no_page(deployed: MakeStage, figures: Figures) -> None:
    stage = deployed("library")
    stage.account.minutes(15)

    def fails(_body: str) -> None:
        raise KeyError("price")

    # Three bursts of letters die of the same defect, minutes apart.
    for _ in range(3):
        sent = [stage.send() for _ in range(15)]
        stage.process(fails)
        # One of many that fail comes back when the queue's visibility timeout ends.
        stage.account.minutes(4)
        stage.bury(sent)
        stage.account.minutes(5)
    pages = [alarm for _, alarm in stage.pages()]
    # A defect of the consumer is a cause in `dlq groups`; its letters are parked as POISON, and
    # only if nobody looks after them for days they page.
    assert pages == []
    assert stage.held(stage.parking)
    counted = stage.account.cloudwatch.values(
        "Deadletter", "FailureDominates", app="deadletter", pipeline="library"
    )
    assert sum(number > 0 for number in counted) >= 3
    figures.worst("pages of a defect in 3 bursts", "45 letters that fail alike", len(pages), "")


@pytest.fixture(scope="session")
def stages(synthesize: Synthesize) -> tuple[Synthesis, Synthesis]:
    """The same pipeline as two apps of one account."""
    orders = {"name": "orders", "consumer": "none", "context": {"tenantId": "body.tenantId"}}
    dev, prod = (synthesize({"app": app, "pipelines": [orders]}) for app in ("dev", "prod"))
    return dev, prod


@pytest.fixture
def dev_and_prod(stages: tuple[Synthesis, Synthesis]) -> tuple[Stage, Stage]:
    account = Account(pipelines=["orders"])
    for synthesis in stages:
        account.deploy(synthesis)
    account.minutes(15)
    return Stage(account, "orders", "dev"), Stage(account, "orders", "prod")


def test_an_open_circuit_of_prod_rings_although_that_of_dev_is_closed(
    dev_and_prod: tuple[Stage, Stage],
) -> None:
    dev, prod = dev_and_prod
    prod.trip()
    prod.account.minutes(45)
    assert [alarm for _, alarm in prod.pages()] == ["CircuitTrouble"]
    assert dev.pages() == []


def test_troubles_of_dev_do_not_page_prod(dev_and_prod: tuple[Stage, Stage]) -> None:
    dev, prod = dev_and_prod
    dev.add_rule("typo", tenantId="a", action="QUARANTNE")
    dev.account.throttled.add(dev.function("route"))
    dev.trip()
    dev.die(120)
    dev.account.minutes(90)
    alarms = {alarm for _, alarm in dev.pages()}
    assert {"RedriveStalled", "CircuitTrouble", "DlqDepth"} <= alarms
    assert prod.pages() == []
    names = [page.alarm for page in dev.account.cloudwatch.pages]
    assert not [name for name in names if name.startswith("prod-")]
