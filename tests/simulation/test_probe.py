"""The probe on the in-memory AWS: which letter it takes, and where each one is afterwards."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from deadletter.aws.clients import Clients
from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.aws.wiring.stores import Stores
from deadletter.circuit.state import CircuitPolicy, State
from deadletter.circuit.transitions import CLOCK_SKEW
from deadletter.contract import Blame, Category
from deadletter.failure.failure import Failure
from deadletter.failure.fate import GIVEN_BACK
from deadletter.outage.canaries import ASIDE_COOLDOWNS
from deadletter.outage.prober import ConsumerUnavailable
from deadletter.outage.steps import ExecutionStep
from deadletter.redrive.journal import Intent, Plan, key_of
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline
from deadletter.testing.fakes import MemoryLambda, client_error
from tests.simulation.probed_stage import CONSUMER_SECONDS, ProbedStage
from tests.simulation.stage import Stage, prompt_policy
from tests.tables import LETTERS

ACKNOWLEDGED: dict[str, Any] = {"batchItemFailures": []}


def refused(event: dict[str, Any]) -> dict[str, Any]:
    item = event["Records"][0]["messageId"]
    return {"batchItemFailures": [{"itemIdentifier": item}]}


def neutral(event: dict[str, Any]) -> dict[str, Any]:
    return {**refused(event), "deadletter": {"circuits": {}}}


@dataclass
class ProbedFunction(ProbedStage):
    """A stage whose circuit has tripped, and the consumer as a function in memory."""

    answer: Callable[[dict[str, Any]], Any] = lambda _: ACKNOWLEDGED
    function: str = "consumer"
    given: list[str] = field(default_factory=list)
    permits: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = itertools.count(1)
        self.functions = MemoryLambda(self.stage.clock, lambda: f"request{next(numbers)}")
        self.functions.register("consumer", self._consume)
        self.client: Any = self.functions

    def _consume(self, event: dict[str, Any], context: Any) -> Any:
        [record] = event["Records"]
        self.given.append(record["body"])
        self.sources.append(record["eventSourceARN"].rpartition(":")[2])
        self.permits.append(context.client_context.custom["deadletter_permit"])
        return self.answer(event)

    def probe_clients(self) -> tuple[Clients, Any]:
        return self.stage.clients, self.client

    def __call__(self) -> ExecutionStep:
        stage = self.stage
        stage.resources = replace(stage.resources, consumer_function=self.function)
        return self.probe()


def stage_for(**settings: Any) -> Stage:
    circuit = CircuitPolicy(lease=60, successes=1)
    base = Pipeline(
        "orders",
        policy=prompt_policy(),
        context={"tenantId": "body.tenantId"},
        circuit=circuit,
        workers=1,
    )
    stage = Stage(replace(base, **settings))
    policy = {"deadLetterTargetArn": stage.arn(stage.dlq), "maxReceiveCount": 5}
    stage.sqs.set_queue_attributes(
        QueueUrl=stage.main, Attributes={"RedrivePolicy": json.dumps(policy)}
    )
    return stage


@pytest.fixture
def stage() -> Stage:
    return stage_for()


@pytest.fixture
def probe(stage: Stage) -> ProbedFunction:
    return ProbedFunction(stage)


def test_a_dead_letter_comes_first_and_is_gone_when_it_was_processed(probe: ProbedFunction) -> None:
    stage = probe.stage
    stage.put('"dead"', url=stage.dlq)
    stage.put('"live"')
    assert probe().state == "CLOSED"
    assert (probe.given, probe.sources) == (['"dead"'], ["orders-dlq"])
    assert stage.bodies(stage.dlq) == []
    assert stage.bodies(stage.main) == ['"live"']


def test_without_a_dead_letter_one_of_the_main_queue_is_let_through(probe: ProbedFunction) -> None:
    stage = probe.stage
    stage.put('"one"')
    stage.put('"two"')
    assert probe().state == "CLOSED"
    assert (len(probe.given), probe.sources) == (1, ["orders"])
    assert len(stage.bodies(stage.main)) == 1


def test_a_letter_that_failed_stays_and_the_next_probe_takes_another(probe: ProbedFunction) -> None:
    stage = probe.stage
    for body in ("1", "2"):
        stage.put(body, url=stage.dlq)
    probe.answer = refused
    assert probe().state == "OPEN"
    assert probe().state == "OPEN"
    assert sorted(probe.given) == ["1", "2"]
    assert stage.bodies(stage.dlq) == ["1", "2"]
    stage.clock.advance(ASIDE_COOLDOWNS * stage.pipeline.circuit.cooldown_cap)
    assert len(stage.take(stage.dlq)) == 2


def test_a_dead_letter_that_failed_rests_for_three_of_the_longest_cooldowns(
    probe: ProbedFunction,
) -> None:
    stage = probe.stage
    stage.put("1", url=stage.dlq)
    probe.answer = refused
    probe()
    stage.clock.advance(3 * stage.pipeline.circuit.cooldown_cap - 5)
    assert stage.take(stage.dlq) == []
    stage.clock.advance(10)
    assert len(stage.take(stage.dlq)) == 1


def test_one_dead_letter_of_its_own_fault_does_not_keep_the_circuit_open(
    probe: ProbedFunction,
) -> None:
    probe.stage.put('"poison"', url=probe.stage.dlq)
    probe.answer = refused
    probe()
    states = [probe().state for _ in range(3)]
    assert states[-1] == "CLOSED"
    assert probe.stage.bodies(probe.stage.dlq) == ['"poison"']


def lane(stage: Stage, key: str = "orders") -> list[str]:
    """The bodies of the letters in a circuit's lane."""
    room = Stores(stage.pipeline, stage.resources, stage.clients, stage.world).room
    waiting = room.look(f"circuit:{key}", 100, bodies=True)
    return sorted(letter.letter.body for letter in waiting if letter.letter is not None)


def test_a_live_message_that_failed_moves_into_the_lane_and_is_the_next_canary(
    probe: ProbedFunction,
) -> None:
    stage = probe.stage
    stage.put("1")
    probe.answer = refused
    assert probe().state == "OPEN"
    assert (lane(stage), stage.bodies(stage.main)) == (["1"], [])
    probe.answer = lambda _: ACKNOWLEDGED
    assert probe().state == "CLOSED"
    assert probe.given == ["1", "1"]
    assert (lane(stage), stage.bodies(stage.main), stage.bodies(stage.dlq)) == ([], [], [])


def test_no_live_message_dies_of_probing(probe: ProbedFunction) -> None:
    stage = probe.stage
    for number in range(3):
        stage.put(str(number))
    probe.answer = refused
    for _ in range(30):
        probe()
        stage.clock.advance(600)
    assert stage.bodies(stage.dlq) == []
    assert sorted([*lane(stage), *stage.bodies(stage.main)]) == ["0", "1", "2"]


def test_a_live_message_at_its_last_receive_is_moved_before_it_is_tried(
    probe: ProbedFunction,
) -> None:
    stage = probe.stage
    policy = {"deadLetterTargetArn": stage.arn(stage.dlq), "maxReceiveCount": 1}
    stage.sqs.set_queue_attributes(
        QueueUrl=stage.main, Attributes={"RedrivePolicy": json.dumps(policy)}
    )
    stage.put("1")
    assert probe().state == "HALF_OPEN"
    assert (lane(stage), probe.given) == (["1"], [])
    assert probe().state == "CLOSED"
    assert probe.given == ["1"]


@pytest.mark.parametrize("verdict", ["failure", "neutral"])
def test_a_moved_message_is_processed_once_the_circuit_is_closed(
    probe: ProbedFunction, verdict: str
) -> None:
    stage = probe.stage
    stage.put("1")
    probe.answer = lambda event: {**refused(event), "deadletter": {"verdict": verdict}}
    probe()
    assert lane(stage) == ["1"]
    stage.set_circuit("CLOSED")
    stage.clock.advance(600)
    stage.run()
    assert (lane(stage), stage.bodies(stage.main)) == ([], ["1"])
    [stamp] = stage.stamps(stage.main)
    assert stamp.attempt == 1


def test_letters_that_say_nothing_make_room_for_another_in_the_same_probe(
    probe: ProbedFunction,
) -> None:
    stage = probe.stage
    for body in ("1", "2", "3"):
        stage.put(body, url=stage.dlq)
    answers = iter([neutral, neutral, lambda _: ACKNOWLEDGED])
    probe.answer = lambda event: next(answers)(event)
    assert probe().state == "CLOSED"
    assert sorted(probe.given) == ["1", "2", "3"]
    assert stage.bodies(stage.dlq) == sorted(probe.given[:2])


def test_a_duplicate_says_nothing_and_is_gone(probe: ProbedFunction) -> None:
    stage = probe.stage
    stage.put("1", url=stage.dlq)
    probe.answer = lambda _: {**ACKNOWLEDGED, "deadletter": {"circuits": {}}}
    assert probe().state == "HALF_OPEN"
    assert stage.bodies(stage.dlq) == []


def raising(_: dict[str, Any]) -> Any:
    raise RuntimeError("the consumer dies")


@pytest.mark.parametrize(
    "answer",
    [
        raising,
        lambda _: {"batchItemFailures": [{"itemIdentifier": ""}]},
        lambda _: {"batchItemFailures": "none"},
    ],
)
def test_what_is_no_success_deletes_nothing(
    probe: ProbedFunction, answer: Callable[[dict[str, Any]], Any]
) -> None:
    probe.stage.put("1", url=probe.stage.dlq)
    probe.answer = answer
    assert probe().state == "OPEN"
    assert probe.stage.bodies(probe.stage.dlq) == ["1"]


@pytest.mark.parametrize("said", [None, "done", {"batchItemFailures": None}, {}, ACKNOWLEDGED])
def test_a_consumer_that_reports_no_items_succeeds_by_not_failing(
    probe: ProbedFunction, said: object
) -> None:
    probe.stage.put("1", url=probe.stage.dlq)
    probe.answer = lambda _: said
    assert probe().state == "CLOSED"


class Failing:
    """A Lambda that fails every invocation."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def invoke(self, **_: Any) -> Any:
        raise self._error


def test_no_answer_leaves_the_letter_locked_for_it_may_be_at_work_still(
    probe: ProbedFunction,
) -> None:
    stage = probe.stage
    stage.put("1", url=stage.dlq)
    probe.client = Failing(ReadTimeoutError(endpoint_url="lambda"))
    assert probe().state == "OPEN"
    assert stage.bodies(stage.dlq) == ["1"]
    assert stage.take(stage.dlq) == []


def test_a_dead_letter_without_an_answer_is_counted_by_the_run_that_sends_it_again(
    probe: ProbedFunction,
) -> None:
    stage = probe.stage
    stage.put("1", url=stage.dlq)
    probe.client = Failing(ReadTimeoutError(endpoint_url="lambda"))
    probe()
    assert probe.metrics["PossibleDuplicate"] == 0
    stage.set_circuit("CLOSED")
    stage.clock.advance(600)
    report = stage.run()
    assert (report.counts["PossibleDuplicate"], report.counts["Redriven"]) == (1, 1)
    assert stage.bodies(stage.main) == ["1"]


def test_a_dead_letter_that_was_processed_and_not_deleted_is_only_deleted_later(
    probe: ProbedFunction, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = probe.stage
    stage.put("1", url=stage.dlq)
    with monkeypatch.context() as broken:
        broken.setattr(stage.redriver_sqs, "delete_message_batch", lambda **_: {"Failed": []})
        assert probe().state == "CLOSED"
    assert probe.metrics["Undeleted"] == 1
    assert stage.bodies(stage.dlq) == ["1"]
    stage.clock.advance(600)
    counts = stage.run().counts
    assert (counts["AlreadySent"], counts.get("PossibleDuplicate", 0)) == (1, 0)
    assert stage.bodies(stage.dlq) == stage.bodies(stage.main) == []


class Killed(BaseException):
    """The probe's process ends."""


class Killing:
    """A Lambda in whose invocation the caller dies."""

    def invoke(self, **_: Any) -> Any:
        raise Killed


def test_a_dead_letter_whose_probe_died_is_counted_by_the_run_that_sends_it_again(
    probe: ProbedFunction,
) -> None:
    stage = probe.stage
    stage.put("1", url=stage.dlq)
    probe.client = Killing()
    with pytest.raises(Killed):
        probe()
    stage.clock.advance(600)
    probe()
    assert probe.metrics["PossibleDuplicate"] == 0
    stage.set_circuit("CLOSED")
    assert stage.run().counts["PossibleDuplicate"] == 1


@pytest.mark.parametrize("client", [Failing(ReadTimeoutError(endpoint_url="lambda")), Killing()])
def test_a_live_message_without_an_answer_is_counted_while_it_is_locked(
    probe: ProbedFunction, client: Any
) -> None:
    stage = probe.stage
    stage.put("1")
    probe.client = client
    with suppress(Killed):
        probe()
    if (permit := probe.circuit().permit) is not None:
        stage.clock.now = permit.until + CLOCK_SKEW + 1
        probe()
    assert probe.metrics["PossibleDuplicate"] == 1
    assert stage.take(stage.main) == []


def test_a_throttled_consumer_says_nothing_and_the_step_is_tried_again(
    probe: ProbedFunction,
) -> None:
    stage = probe.stage
    stage.put("1", url=stage.dlq)
    probe.client = Failing(client_error("Invoke", "TooManyRequestsException", "", status=429))
    with pytest.raises(ConsumerUnavailable):
        probe()
    assert probe.circuit().state is State.HALF_OPEN
    assert probe.circuit().permit is None
    assert stage.bodies(stage.dlq) == ["1"]


def test_a_consumer_that_is_no_function_is_tried_by_closing_gently(probe: ProbedFunction) -> None:
    stage = probe.stage
    stage.put("1", url=stage.dlq)
    probe.function = ""
    assert [probe().state for _ in range(3)] == ["HALF_OPEN", "HALF_OPEN", "CLOSED"]
    assert len(stage.take(stage.dlq)) == 1


def test_a_lease_in_which_no_canary_could_be_answered_is_refused() -> None:
    probe = ProbedFunction(stage_for(circuit=CircuitPolicy(lease=CONSUMER_SECONDS + 14)))
    with pytest.raises(BadSettings, match="lease is 34 seconds; allowed: at least 35"):
        probe()


# Letters that are no canaries.


def test_a_letter_that_a_rule_stops_is_no_canary(probe: ProbedFunction) -> None:
    stage = probe.stage
    stage.put('{"tenantId": "b"}', url=stage.dlq)
    stage.add_rule("stop", action="HOLD", tenantId="b")
    stage.put("2")
    probe()
    assert probe.given == ["2"]
    assert stage.bodies(stage.dlq) == ['{"tenantId": "b"}']


def test_a_letter_in_an_open_intent_is_no_canary(probe: ProbedFunction) -> None:
    stage = probe.stage
    copy = stage.put("1", url=stage.dlq)
    journal = DynamoDBJournal(stage.clients.dynamodb, LETTERS, "orders", 1e6)
    plans = (Plan(key_of(copy), "main", 1),)
    intent = Intent("slot", "me", 1, stage.clock() + 3_600, plans)
    journal.write(intent, None)
    probe()
    assert probe.given == []
    journal.mark(intent.marked([copy]))
    probe()
    assert probe.given == []
    assert stage.bodies(stage.dlq) == ["1"]


def test_a_letter_that_died_in_another_queue_is_no_canary(probe: ProbedFunction) -> None:
    stage = probe.stage
    other = stage.sqs.create_queue(QueueName="others")["QueueUrl"]
    redrive = json.dumps({"deadLetterTargetArn": stage.arn(stage.dlq), "maxReceiveCount": 1})
    stage.sqs.set_queue_attributes(QueueUrl=other, Attributes={"RedrivePolicy": redrive})
    stage.put("1", url=other)
    stage.take(other)
    stage.clock.advance(31)
    stage.take(other)
    assert stage.bodies(stage.dlq) == ["1"]
    probe()
    assert probe.given == []


def test_those_that_are_passed_over_are_there_at_once(probe: ProbedFunction) -> None:
    stage = probe.stage
    stage.put('{"tenantId": "b"}', url=stage.dlq)
    stage.add_rule("stop", action="HOLD", tenantId="b")
    probe()
    assert len(stage.take(stage.dlq)) == 1


# Single keys, and their lane.


@pytest.fixture
def keyed() -> ProbedFunction:
    stage = stage_for(circuit_key="body.to")
    return ProbedFunction(stage, key="b")


def test_a_single_keys_canary_is_a_letter_of_that_key(keyed: ProbedFunction) -> None:
    stage = keyed.stage
    for to in ("a", "b", "a"):
        stage.put(f'{{"to": "{to}"}}', url=stage.dlq)
    assert keyed().state == "CLOSED"
    assert keyed.given == ['{"to": "b"}']
    assert len(stage.bodies(stage.dlq)) == 2


def test_a_single_keys_canary_is_never_looked_for_in_the_main_queue(keyed: ProbedFunction) -> None:
    keyed.stage.put('{"to": "a"}')
    keyed()
    assert keyed.given == []


def test_a_letter_that_is_leaving_its_lane_is_no_canary(
    keyed: ProbedFunction,
) -> None:
    stage = keyed.stage
    keyed.trip()
    copy = stage.put('{"to": "b"}', url=stage.dlq)
    stage.run()
    plans = (Plan(key_of(copy), "main", 1),)
    intent = Intent("another slot", "me", 1, stage.clock() + 3_600, plans)
    DynamoDBJournal(stage.clients.dynamodb, LETTERS, "orders", 1e6).write(intent, None)
    keyed()
    assert keyed.given == []
    assert len(stage.waiting()) == 1


def test_the_letters_of_an_open_key_wait_in_its_lane_and_one_is_tried(
    keyed: ProbedFunction,
) -> None:
    stage = keyed.stage
    keyed.trip()
    for number in range(3):
        stage.put(f'{{"to": "b", "n": {number}}}', url=stage.dlq)
    stage.run()
    assert len(stage.waiting()) == 3
    keyed.answer = refused
    assert keyed().state == "OPEN"
    assert len(stage.waiting()) == 3
    keyed.answer = lambda _: ACKNOWLEDGED
    assert keyed().state == "CLOSED"
    assert len(stage.waiting()) == 2
    assert stage.journal() == []


def test_a_letter_that_was_rescued_from_the_dlq_is_a_canary_where_it_waits(
    probe: ProbedFunction,
) -> None:
    stage = probe.stage
    stage.put('{"tenantId": "a"}', url=stage.dlq)
    probe.trip()
    assert stage.rescue().counts["Held"] == 1
    assert probe().state == "CLOSED"
    assert (probe.given, probe.sources) == (['{"tenantId": "a"}'], ["orders-dlq"])
    assert stage.waiting() == []


def test_a_letter_whose_delay_is_not_over_is_no_canary(probe: ProbedFunction) -> None:
    stage = probe.stage
    stage.add_rule("slow", tenantId="a", action="DELAYED_REDRIVE", delay_seconds=86_400)
    stage.put('{"tenantId": "a"}', url=stage.dlq)
    assert stage.run().decisions == {"HOLD": 1}
    assert probe().state != "CLOSED"
    assert probe.given == []


def test_an_unanswered_canary_of_the_lane_is_known_to_the_run_that_releases_it(
    keyed: ProbedFunction,
) -> None:
    stage = keyed.stage
    keyed.trip()
    stage.put('{"to": "b"}', url=stage.dlq)
    stage.run()
    keyed.client = Failing(ReadTimeoutError(endpoint_url="lambda"))
    assert keyed().state == "OPEN"
    assert len(stage.waiting()) == len(stage.journal()) == 1
    keyed.client = keyed.functions
    # Its intent has not ended, or nobody knows what became of it: it is no canary again.
    keyed()
    assert keyed.given == []
    stage.set_circuit("CLOSED", "b")
    stage.clock.advance(600)
    report = stage.run()
    assert report.counts["PossibleDuplicate"] == 1
    assert stage.waiting() == []
    assert len(stage.bodies(stage.main)) == 1


def test_of_a_fifo_group_none_goes_before_an_earlier_one() -> None:
    stage = stage_for(fifo=True, circuit_key="body.to")
    other = ProbedFunction(stage, key="b")
    other.trip()
    for number, to in enumerate("ba"):
        stage.put(
            f'{{"to": "{to}"}}',
            url=stage.dlq,
            MessageGroupId="g",
            MessageDeduplicationId=f"d{number}",
        )
    stage.run()
    assert len(stage.waiting()) == 2
    stage.put('{"to": "c"}', url=stage.dlq, MessageGroupId="g", MessageDeduplicationId="d3")
    third = ProbedFunction(stage, key="c")
    third()
    assert third.given == []


# With the library the ledger says why a letter failed.


@pytest.fixture
def recorded() -> ProbedFunction:
    """A probe of a pipeline whose consumer uses the library."""
    return ProbedFunction(stage_for(consumer_library=True))


def bury(probe: ProbedFunction, body: str, **failure: Any) -> str:
    """A dead letter, with its last failure in the ledger; returns its id."""
    stage = probe.stage
    copy = stage.put(body, url=stage.dlq)
    dynamodb = stage.clients.dynamodb
    ledger = DynamoDBLedger(dynamodb, LETTERS, "orders", stage.clock, 1e6)
    fields = {"category": Category.TRANSIENT, "error_type": "X", "message": "x", **failure}
    ledger.failed(copy, Failure(at=stage.clock(), attempt=0, **fields))
    return copy


def test_a_dead_letter_that_is_evidence_is_tried_in_the_lane(recorded: ProbedFunction) -> None:
    stage = recorded.stage
    bury(recorded, "1", blame=Blame.DEPENDENCY)
    recorded.answer = refused
    assert recorded().state == "OPEN"
    assert (recorded.given, lane(stage), stage.bodies(stage.dlq)) == (["1"], ["1"], [])
    recorded.answer = lambda _: ACKNOWLEDGED
    assert recorded().state == "CLOSED"
    assert (lane(stage), stage.bodies(stage.dlq)) == ([], [])


@pytest.mark.parametrize(
    ("failure", "key", "is_canary"),
    [
        ({"blame": Blame.DEPENDENCY}, "orders", True),
        ({"blame": Blame.NEITHER}, "orders", False),
        ({"blame": Blame.CONFIGURATION}, "orders", False),
        ({"blame": Blame.DEPENDENCY, "circuit": "dependency/bank"}, "orders", False),
        # The consumer gave it back untried: it has not failed.
        ({"error_type": "RefusedWhileOpen", "message": GIVEN_BACK}, "orders", True),
    ],
)
def test_only_a_letter_whose_last_failure_is_evidence_for_the_circuit_is_a_canary(
    recorded: ProbedFunction, failure: dict[str, Any], key: str, is_canary: bool
) -> None:
    bury(recorded, "1", **failure)
    recorded.trip(key)
    recorded()
    assert recorded.given == (["1"] if is_canary else [])
    assert (recorded.stage.bodies(recorded.stage.dlq) == []) is is_canary


def test_a_dead_letter_that_the_ledger_does_not_know_may_kill_the_consumer(
    recorded: ProbedFunction,
) -> None:
    recorded.stage.put("1", url=recorded.stage.dlq)
    recorded()
    assert recorded.given == []


def test_a_letter_that_failed_by_its_own_fault_is_not_tried_again_in_the_outage(
    recorded: ProbedFunction,
) -> None:
    stage = recorded.stage
    copy = stage.put('"poison"')
    recorded.answer = neutral
    ledger = DynamoDBLedger(stage.clients.dynamodb, LETTERS, "orders", stage.clock, 1e6)

    def fails(event: dict[str, Any]) -> Any:
        failure = Failure(
            at=stage.clock(), attempt=0, category=Category.BUSINESS, blame=Blame.NEITHER
        )
        ledger.failed(copy, failure)
        return neutral(event)

    recorded.answer = fails
    for _ in range(2):
        recorded()
    assert recorded.given == ['"poison"']
    assert lane(stage) == ['"poison"']


def test_letters_that_the_index_does_not_show_yet_are_tried_by_the_next_probe() -> None:
    stage = stage_for(consumer_library=True)
    recorded = ProbedFunction(stage)
    bury(recorded, "1", blame=Blame.DEPENDENCY)
    shown = DynamoDBWaitingRoom.due
    with pytest.MonkeyPatch.context() as lagging:
        lagging.setattr(DynamoDBWaitingRoom, "due", lambda *_: [])
        step = recorded()
    assert (step.state, step.empty, recorded.given) == ("HALF_OPEN", 0, [])
    assert DynamoDBWaitingRoom.due is shown
    assert recorded().state == "CLOSED"
    assert recorded.given == ["1"]
