"""Mode observe: `dlq status` counts what would have been done, and `dlq show` tells why."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from console.cli.exit import Exit
from deadletter.aws.observed import DynamoDBObserved
from deadletter.contract import Reason
from deadletter.redrive.observed import MOST_OBSERVED
from deadletter.routing.decision import Decision, Hold, Park, Redrive
from tests.console.conftest import Cloud, Dlq

BACK = Redrive(60, "attempt 1, backoff of 60 s")
GIVEN_UP = Park(Reason.POISON, "the same failure in 3 lives", "strict")


def note(cloud: Cloud, judged: list[tuple[str, Decision]], source: str = "dlq") -> None:
    """Messages that an observing run has decided on, an hour ago."""
    store = DynamoDBObserved(cloud.dynamodb, "messages", "orders", time.time)
    store.note(source, judged, time.time() - 3_600)


def observed(dlq: Dlq) -> dict[str, Any]:
    result = dlq("show orders --json")
    answer: dict[str, Any] = json.loads(result.stdout)["pipeline"]["observed"]
    return answer


def card(dlq: Dlq) -> Any:
    answer = json.loads(dlq("status --json").stdout)
    [found] = [each for each in answer["attention"] if each["kind"] == "observed"]
    return found


def test_messages_are_grouped_by_decision_and_cause(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", mode="observe")
    for origin in ("a", "b", "c"):
        cloud.failed("orders", origin, fingerprint="f1", error_type="Timeout", message="no answer")
    cloud.failed("orders", "d", fingerprint="f2", error_type="KeyError")
    cloud.recovered("orders", "b")
    cloud.ledger().recovered("a", 1, time.time() - 7_200)  # Before the decision.
    note(cloud, [("a", BACK), ("b", BACK), ("d", GIVEN_UP)])
    note(cloud, [("c", BACK), ("unknown", BACK)], source="vip")

    answer = observed(dlq)
    counts = answer["counts"]
    assert (counts["messages"], counts["at_least"]) == (5, False)
    assert counts["would"] == {"REDRIVE": 4, "PARK": 1}
    assert counts["since"] is not None
    first, *others = answer["causes"]
    assert (first["action"], first["target"]) == ("REDRIVE", "main queue")
    assert (first["messages"], first["processed"]) == (3, 1)
    assert (first["cause"], first["error_type"], first["words"]) == ("f1", "Timeout", "no answer")
    assert {(each["action"], each["target"], each["rule"], each["cause"]) for each in others} == {
        ("PARK", "POISON", "strict", "f2"),
        ("REDRIVE", "main queue", "", ""),
    }


def test_status_has_a_card_with_the_counts_that_calls_no_person(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", mode="observe")
    cloud.watched("orders")
    note(cloud, [("a", BACK), ("b", BACK), ("d", GIVEN_UP), ("e", Hold("circuit:k", 9e9, "open"))])

    found = card(dlq)
    dlq("status --check", ends=Exit.DONE, says="Nothing needs a person; 1 thing to know.")

    would = "it would have retried 2, held 1, parked 1"
    says = rf"mode observe moves nothing; of 4 messages since .*UTC {would}"
    assert re.fullmatch(says, found["says"])
    assert (found["type"], found["needs_person"]) == ("dlq show orders", False)


def test_more_messages_than_are_kept_are_said_to_be_more(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", mode="observe")
    note(cloud, [(str(number), BACK) for number in range(MOST_OBSERVED + 2)])

    answer = observed(dlq)

    assert (answer["counts"]["messages"], answer["counts"]["at_least"]) == (2_000, True)
    assert "2 looks at others" in answer["notes"][0]
    assert "of at least 2,000 messages" in card(dlq)["says"]


def test_where_nothing_was_observed_nothing_is_said(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", mode="observe")
    assert observed(dlq) is None
    assert "would have been done" not in dlq("show orders").stdout
    assert "it would have" not in dlq("status").stdout


def test_a_person_reads_where_why_and_how_many(cloud: Cloud, dlq: Dlq) -> None:
    """Also once the mode is another; status is about now alone."""
    cloud.deploy("orders")
    cloud.failed("orders", "d", fingerprint="f2", error_type="KeyError", message="no \x1b[2J")
    note(cloud, [("d", GIVEN_UP), ("e", Hold("circuit:k", 9e9, "it is open"))])

    says = (
        "What would have been done with 2 messages since ",
        "does not observe any more",
        "1 message would be parked: POISON by rule strict",
        r"failed with KeyError: no \x1b[2J [transient]",
        "because: the same failure in 3 lives; for example d",
        "1 message would wait for circuit k to close",
    )
    dlq("show orders", says=says)
    assert "it would have" not in dlq("status").stdout
