"""A replay run hands letters to a team's function, and learns what its ledger says too."""

from __future__ import annotations

from typing import Any

from deadletter.aws.consumer_function import LambdaDelivery
from deadletter.aws.rows import FAILURES
from deadletter.consumer import Permanent, Skip, consumer
from deadletter.contract import Partition
from deadletter.failure.ledger import Recovery
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp
from deadletter.replay.carriers import DirectFate
from deadletter.testing import Letterbox
from deadletter.testing.fakes import MemoryLambda
from tests.samples import letter

RUN = "0123456789abcdef"
ARN = "arn:aws:sqs:us-east-1:123456789012:test-main"
ERRORS: dict[str, Exception] = {
    "fails": ValueError("x"),
    "skips": Skip(),
    "fails for good": Permanent("x"),
}


@consumer
def handler(record: dict[str, Any]) -> None:
    """Does what the body says."""
    if record["body"] in ERRORS:
        raise ERRORS[record["body"]]


def deliver(box: Letterbox, *letters: Letter, handler: Any = handler) -> dict[str, DirectFate]:
    functions: Any = MemoryLambda(box.clock, box.new_id)
    functions.register("orders", handler)
    delivery = LambdaDelivery(
        functions, "orders", source_arn=ARN, sender="AROAREDRIVER", timeout=60
    )
    return dict(delivery.deliver(letters, RUN).fates)


def of_run(body: str, name: str, attempt: int = 3) -> Letter:
    stamp = Stamp(f"origin of {name}", attempt, 1, run=RUN, ticket=name)
    return letter(body, name, {stamps.NAME: stamps.attribute(stamp)})


def test_response_and_ledger_agree_on_each_letter(letterbox: Letterbox) -> None:
    bodies = ("works", "fails", "skips", "fails for good")
    fates = deliver(letterbox, *(of_run(body, f"m{n}") for n, body in enumerate(bodies)))
    assert fates == {
        "m0": DirectFate.RECOVERED,
        "m1": DirectFate.FAILED,
        "m2": DirectFate.RECOVERED,
        "m3": DirectFate.FAILED,
    }
    rows = [letterbox.ledger(f"origin of m{number}") for number in range(4)]
    assert [row.outcome_in(3) for row in rows] == ["recovered", None, "recovered", None]
    assert [[failure.attempt for failure in row.failures] for row in rows] == [[], [3], [], [3]]
    # The run judges the permanent failure.
    assert letterbox.parked == []


def test_a_letter_that_is_delivered_again_is_a_duplicate(letterbox: Letterbox) -> None:
    assert deliver(letterbox, of_run("works", "m0", 3)) == {"m0": DirectFate.RECOVERED}
    assert deliver(letterbox, of_run("works", "m0", 4)) == {"m0": DirectFate.DUPLICATE}
    row = letterbox.ledger("origin of m0")
    assert [row.outcome_in(attempt) for attempt in (3, 4)] == [None, "duplicate"]


def test_one_whose_process_died_before_it_said_so_is_no_duplicate(letterbox: Letterbox) -> None:
    assert deliver(letterbox, of_run("works", "m0")) == {"m0": DirectFate.RECOVERED}
    place = Partition.LEDGER.of(letterbox.settings.name, "origin of m0")
    letterbox.dynamodb.delete_item(
        TableName="messages", Key={"pk": {"S": place}, "sk": {"S": FAILURES}}
    )
    assert deliver(letterbox, of_run("works", "m0")) == {"m0": DirectFate.RECOVERED}
    assert letterbox.ledger("origin of m0").recovered_as is Recovery.FOUND
