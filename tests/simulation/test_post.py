"""Canaries by post, on the in-memory AWS: the consumer polls the main queue as a container does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from deadletter.aws.clients import Clients, ConsumerClients
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.wiring.consuming import consumer_for
from deadletter.circuit.state import CircuitPolicy, State
from deadletter.circuit.transitions import CLOCK_SKEW
from deadletter.consumer import Permanent, Skip
from deadletter.contract import Mode
from deadletter.message.letter import from_api, to_event
from deadletter.message.queue import QueueUnavailable
from deadletter.outage.canaries import ASIDE_COOLDOWNS
from deadletter.outage.steps import SECONDS_TO_FIRST_CHECK, ExecutionStep
from deadletter.processing.delivery import Delivery
from deadletter.settings.pipeline import Pipeline
from deadletter.testing.fakes import client_error
from tests.simulation.probed_stage import ProbedStage, SilentBus
from tests.simulation.stage import CONSUMER, REDRIVER, Stage, attribute, prompt_policy
from tests.tables import LETTERS

PROBE = "AROAPROBE"


class Down(ConnectionError):
    """The dependency is down."""


class Dead(BaseException):
    """The process is gone."""


class Faulty:
    """A client of which a call may fail: "before" it takes effect or "after", "lost",
    "error" or "denied"."""

    def __init__(self, client: Any, strike: Callable[[str], str | None]) -> None:
        self._client, self._strike = client, strike

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._client, name)

        def call(**options: Any) -> Any:
            fault = self._strike(name)
            if fault == "before":
                raise Dead
            if fault == "error":
                raise client_error(name, "InternalError", "not applied", status=500)
            if fault == "denied":
                raise client_error(name, "AccessDenied", "not you", status=403)
            answer = act(**options)
            if fault == "after":
                raise Dead
            if fault == "lost":
                raise client_error(name, "RequestTimeout", "applied, perhaps", status=500)
            return answer

        return call


@dataclass
class PostedSite(ProbedStage):
    """A stage with an open circuit, a probe without a function to call, and a polling consumer."""

    down: Callable[[Delivery], Exception | None] = lambda _: None
    processed: Counter[str] = field(default_factory=Counter)
    strike: Callable[[str], str | None] = lambda _: None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sqs = self.stage.sqs.as_sender(f"{PROBE}:probe")

    def changes(self) -> dict[str, Any]:
        return {"trusted_senders": (REDRIVER, CONSUMER, PROBE)}

    @property
    def ledger(self) -> DynamoDBLedger:
        dynamodb = self.stage.clients.dynamodb
        return DynamoDBLedger(dynamodb, LETTERS, "orders", self.stage.clock, 1e6)

    def probe_clients(self) -> tuple[Clients, Any]:
        """Clients whose calls may fail; nothing calls the consumer."""
        sqs: Any = Faulty(self.sqs, self.strike)
        dynamodb: Any = Faulty(self.stage.dynamodb, self.strike)
        nothing: Any = SilentBus()
        s3 = self.stage.clients.s3
        return Clients(sqs, sqs, dynamodb, dynamodb, s3, nothing), nothing

    def wait(self, step: ExecutionStep) -> None:
        self.stage.clock.advance(step.wait_seconds)

    def consume(self, rounds: int = 1) -> None:
        """The container polls, and deletes what the library acknowledges."""
        stage = self.stage
        sqs, dynamodb = stage.consumer_sqs, stage.clients.dynamodb
        clients: Any = ConsumerClients(sqs=sqs, sending=sqs, dynamodb=dynamodb)  # type: ignore[arg-type]
        for _ in range(rounds):
            consumer = consumer_for(
                stage.pipeline,
                stage.resources,
                clients,
                stage.world,
                handle=self._handle,
                count_metric=lambda *_: None,
            )
            messages = sqs.receive_message(
                QueueUrl=stage.main,
                MaxNumberOfMessages=10,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            ).get("Messages", [])
            records = [
                to_event(
                    from_api(message),
                    receipt_handle=message["ReceiptHandle"],
                    source_arn=stage.resources.main_arn,
                )
                for message in messages
            ]
            handled = consumer.process(records, deadline=stage.clock() + 25)
            for pair, handling in zip(messages, handled.results, strict=True):
                if handling.acknowledged:
                    sqs.delete_message(QueueUrl=stage.main, ReceiptHandle=pair["ReceiptHandle"])

    def _handle(self, delivery: Delivery) -> None:
        trouble = self.down(delivery)
        if trouble is not None:
            raise trouble
        self.processed[delivery.letter.body] += 1

    def everywhere(self) -> list[str]:
        """The bodies of all copies there are, the waiting room's included."""
        stage = self.stage
        return sorted(
            [
                *stage.bodies(stage.main),
                *stage.bodies(stage.dlq),
                *stage.bodies(stage.parking),
                *("waiting" for _ in stage.waiting()),
            ]
        )


def site_for(**settings: Any) -> PostedSite:
    policy = CircuitPolicy(lease=60, successes=1, cooldown=30, cooldown_cap=600)
    base = Pipeline(
        "orders",
        policy=prompt_policy(),
        context={"tenantId": "body.tenantId"},
        circuit=policy,
        workers=1,
        consumer_library=True,
    )
    return PostedSite(Stage(replace(base, **settings)))


@pytest.fixture
def site() -> PostedSite:
    return site_for()


def test_a_letter_that_is_processed_closes_the_circuit(site: PostedSite) -> None:
    site.stage.put("1", url=site.stage.dlq)
    sent = site.probe()
    assert (sent.next, sent.state, sent.wait_seconds) == (
        "probe",
        "HALF_OPEN",
        SECONDS_TO_FIRST_CHECK,
    )
    assert site.everywhere() == site.stage.bodies(site.stage.main) == ["1"]
    site.consume()
    site.wait(sent)
    assert site.probe().state == "CLOSED"
    assert site.processed == {"1": 1}
    assert site.everywhere() == site.stage.journal() == []
    assert site.metrics["Redriven"] == 1


def test_one_letter_is_under_way_at_a_time_however_often_it_is_asked_after(
    site: PostedSite,
) -> None:
    for body in "123":
        site.stage.put(body, url=site.stage.dlq)
    site.probe()
    for _ in range(3):
        site.probe()
    assert len(site.stage.bodies(site.stage.main)) == 1
    assert len(site.stage.bodies(site.stage.dlq)) == 2


def test_the_consumer_refuses_everything_but_the_canary(site: PostedSite) -> None:
    site.stage.put('"dead"', url=site.stage.dlq)
    site.probe()
    site.stage.put('"live"')
    site.consume()
    assert site.processed == {'"dead"': 1}


def test_a_permit_that_has_ended_opens_no_door(site: PostedSite) -> None:
    site.stage.put("1", url=site.stage.dlq)
    site.probe()
    site.stage.clock.advance(site.stage.pipeline.circuit.lease)
    site.consume()
    assert site.processed == {}


def test_a_canary_that_failed_opens_it_for_longer_and_is_refused_like_any_other(
    site: PostedSite,
) -> None:
    site.down = lambda _: Down()
    site.stage.put("1", url=site.stage.dlq)
    site.wait(site.probe())
    site.stage.take(site.stage.dlq)
    cooldown = site.circuit().cooldown
    site.consume()
    assert site.probe().state == "OPEN"
    assert site.circuit().cooldown == 2 * cooldown
    # The dependency is well again, but the permit is gone.
    site.down = lambda _: None
    site.stage.clock.advance(31)
    site.consume()
    assert site.processed == {}
    assert site.everywhere() == ["1"]


@pytest.mark.parametrize("trouble", [Permanent("never"), Skip("nothing to do")])
def test_what_says_nothing_of_the_dependency_gives_the_permit_back(
    site: PostedSite, trouble: Exception
) -> None:
    site.down = lambda _: trouble
    site.stage.put("1", url=site.stage.dlq)
    site.wait(site.probe())
    site.consume()
    step = site.probe()
    assert (step.state, site.circuit().permit, site.circuit().successes) == ("HALF_OPEN", None, 0)


def test_a_duplicate_says_nothing_of_the_dependency() -> None:
    site = site_for(idempotency_key="body.id")
    site.stage.put('{"id": 7}')
    site.consume()
    site.stage.put('{"id": 7}', url=site.stage.dlq)
    site.probe()
    site.consume()
    assert site.probe().state == "HALF_OPEN"
    assert site.circuit().permit is None
    assert site.processed == {'{"id": 7}': 1}


def test_an_unanswered_canary_never_jams_the_circuit(site: PostedSite) -> None:
    site.stage.put("1", url=site.stage.dlq)
    step = site.probe()
    waited = 0
    while step.state == "HALF_OPEN":
        site.wait(step)
        waited += step.wait_seconds
        step = site.probe()
    assert step.state == "OPEN"
    assert waited <= site.stage.pipeline.circuit.lease + CLOCK_SKEW + 2
    assert site.everywhere() == ["1"]


def test_a_ledger_that_gives_no_answer_never_jams_the_circuit(site: PostedSite) -> None:
    site.stage.put("1", url=site.stage.dlq)
    site.probe()
    site.stage.clock.advance(site.stage.pipeline.circuit.lease + CLOCK_SKEW + 1)
    reads = iter(range(9))
    # The first read is the circuit's, the second the ledger's, and then the circuit's again.
    site.strike = lambda name: "error" if name == "batch_get_item" and next(reads) == 1 else None
    assert site.probe().state == "OPEN"
    assert site.metrics["LedgerUnavailable"] == 1


def test_one_letter_of_its_own_fault_does_not_keep_the_circuit_open(site: PostedSite) -> None:
    site.down = lambda _: Down()
    site.stage.put("1", url=site.stage.dlq)
    for _ in range(2):
        site.wait(site.probe())
        site.consume()
    # It dies, and comes back into the DLQ.
    site.stage.clock.advance(900)
    site.stage.take(site.stage.main)
    assert site.stage.bodies(site.stage.dlq) == ["1"]
    states = [site.probe().state for _ in range(4)]
    assert states[-1] == "CLOSED"
    assert site.stage.bodies(site.stage.dlq) == ["1"]


def test_it_is_tried_again_when_it_has_rested(site: PostedSite) -> None:
    site.down = lambda _: Down()
    site.stage.put("1", url=site.stage.dlq)
    site.probe()
    site.consume()
    site.probe()
    site.stage.clock.advance(ASIDE_COOLDOWNS * site.stage.pipeline.circuit.cooldown_cap)
    site.stage.take(site.stage.main)
    assert site.probe().state == "HALF_OPEN"
    assert site.stage.bodies(site.stage.main) == ["1"]


def test_what_goes_back_later_carries_no_mark_of_a_canary(site: PostedSite) -> None:
    site.down = lambda _: Down()
    site.stage.put("1", url=site.stage.dlq)
    site.probe()
    [mark] = site.stage.stamps(site.stage.main)
    assert (mark.attempt, mark.canary) == (1, site.circuit().permit.owner)  # type: ignore[union-attr]
    site.consume()
    site.probe()
    site.stage.clock.advance(900)
    site.stage.take(site.stage.main)
    site.stage.set_circuit("CLOSED")
    site.stage.run()
    [mark] = site.stage.stamps(site.stage.main)
    assert (mark.attempt, mark.canary) == (2, None)


def test_a_mark_that_a_producer_wrote_opens_no_door(site: PostedSite) -> None:
    site.stage.put("1", url=site.stage.dlq)
    site.probe()
    [mark] = site.stage.sqs.snapshot()
    forged = mark.attributes["Redrive"]["StringValue"]
    site.consume()
    site.processed.clear()
    site.stage.put("2", MessageAttributes={"Redrive": attribute(forged)})
    site.consume()
    assert site.processed == {}


def test_a_letter_that_cannot_carry_the_mark_is_no_canary(site: PostedSite) -> None:
    full = {f"a{number}": attribute("x") for number in range(10)}
    site.stage.put("1", url=site.stage.dlq, MessageAttributes=full)
    assert site.probe().empty == 1
    assert len(site.stage.take(site.stage.dlq)) == 1


def test_where_nothing_may_be_moved_or_the_ledger_is_silent_nothing_is_sent() -> None:
    for settings in ({"mode": Mode.OBSERVE}, {"consumer_library": False}):
        site = site_for(**settings)
        site.stage.put("1", url=site.stage.dlq)
        assert site.probe().empty == 1
        assert site.stage.bodies(site.stage.dlq) == ["1"]


def test_a_single_keys_canary_comes_from_its_lane() -> None:
    site = site_for(circuit_key="body.to")
    site.key = "b"
    site.trip()
    for number in range(3):
        site.stage.put(f'{{"to": "b", "n": {number}}}', url=site.stage.dlq)
    site.stage.run()
    assert len(site.stage.waiting()) == 3
    site.wait(site.probe())
    assert (len(site.stage.waiting()), len(site.stage.bodies(site.stage.main))) == (2, 1)
    site.consume()
    assert site.probe().state == "CLOSED"
    assert site.processed.total() == 1
    assert site.stage.journal() == []


def test_a_letter_of_the_lane_that_is_passed_over_leaves_no_intent() -> None:
    site = site_for(circuit_key="body.to")
    site.key = "b"
    site.trip()
    full = {f"a{number}": attribute("x") for number in range(10)}
    site.stage.put('{"to": "b"}', url=site.stage.dlq, MessageAttributes=full)
    site.stage.run()
    assert site.probe().empty == 1
    assert len(site.stage.waiting()) == 1
    assert site.stage.journal() == []


def test_a_main_queue_that_takes_nothing_gives_letter_and_permit_back(site: PostedSite) -> None:
    site.stage.put("1", url=site.stage.dlq)
    site.strike = lambda name: "error" if name == "get_queue_attributes" else None
    with pytest.raises(QueueUnavailable):
        site.probe()
    assert (site.circuit().state, site.circuit().permit) == (State.HALF_OPEN, None)
    assert len(site.stage.take(site.stage.dlq)) == 1


def test_a_letter_that_was_processed_before_is_no_canary(site: PostedSite) -> None:
    origin = site.stage.put("1", url=site.stage.dlq)
    site.ledger.recovered(origin, 1, site.stage.clock())
    assert site.probe().empty == 1
    assert len(site.stage.take(site.stage.dlq)) == 1


def test_a_send_that_was_refused_gives_letter_and_permit_back(site: PostedSite) -> None:
    site.stage.put("1", url=site.stage.dlq)
    site.strike = lambda name: "denied" if name == "send_message_batch" else None
    with pytest.raises(QueueUnavailable):
        site.probe()
    assert (site.circuit().state, site.circuit().permit) == (State.HALF_OPEN, None)
    assert len(site.stage.take(site.stage.dlq)) == 1
    assert site.stage.journal() == []


def test_a_send_without_an_answer_may_have_arrived_and_is_asked_after(site: PostedSite) -> None:
    site.stage.put("1", url=site.stage.dlq)
    site.strike = lambda name: "lost" if name == "send_message_batch" else None
    site.wait(site.probe())
    site.strike = lambda _: None
    assert site.circuit().permit is not None
    # A process that sees the other copy is told by the intent.
    assert site.stage.bodies(site.stage.dlq) == site.stage.bodies(site.stage.main) == ["1"]
    assert len(site.stage.journal()) == 1
    site.consume()
    assert site.probe().state == "CLOSED"


def nth(number: int, fault: str) -> tuple[Callable[[str], str | None], list[str]]:
    """A fault at one call, and the names of the calls so far."""
    calls: list[str] = []

    def strike(name: str) -> str | None:
        calls.append(name)
        return fault if len(calls) == number + 1 else None

    return strike, calls


@pytest.mark.parametrize("lane", [False, True])
@pytest.mark.parametrize("fault", ["before", "after", "lost", "error"])
def test_a_fault_at_any_call_loses_nothing_doubles_nothing_unmarked_and_jams_nothing(
    fault: str, lane: bool
) -> None:
    """At each call of the sending probe: the letter is kept, and the circuit closes."""
    number, struck = 0, True
    while struck:
        site = site_for(**({"circuit_key": "body.to"} if lane else {}))
        site.key = "b" if lane else "orders"
        site.trip()
        site.stage.put('{"to": "b"}', url=site.stage.dlq)
        if lane:
            site.stage.run()
        site.strike, calls = nth(number, fault)
        attempt(site)
        struck = len(calls) > number
        site.strike = lambda _: None
        where = f"{fault} at {calls[number : number + 1]}, call {number}"
        assert site.everywhere() or site.processed, where
        heal(site)
        assert site.circuit().is_closed, where
        assert site.processed == {'{"to": "b"}': 1}, where
        assert site.everywhere() == [], where
        number += 1
    assert number > 12


def attempt(site: PostedSite) -> None:
    try:
        site.probe()
    except (Dead, Exception):
        # A state that failed is entered again.
        return


def heal(site: PostedSite) -> None:
    """Probes as the execution makes them, a consumer that polls, and the run of each minute."""
    for _ in range(40):
        if site.circuit().is_closed and not site.everywhere():
            return
        if not site.circuit().is_closed:
            step = site.probe()
            site.consume()
            site.wait(step)
        else:
            site.stage.clock.advance(60)
        site.stage.run()
        site.consume()
