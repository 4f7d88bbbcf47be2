"""`dlq observe report`: what would have gone where, and why, since observing began."""

from __future__ import annotations

import json
import time
from typing import Any

from deadletter.aws.observed import DynamoDBObserved
from deadletter.contract import Reason
from deadletter.redrive.observed import MOST_OBSERVED
from deadletter.routing.decision import Decision, Park, Redrive
from tests.console.conftest import Cloud, Dlq

BACK = Redrive(60, "attempt 1, backoff of 60 s")
GIVEN_UP = Park(Reason.POISON, "the same failure in 3 lives", "strict")


def note(cloud: Cloud, judged: list[tuple[str, Decision]], source: str = "dlq") -> None:
    """Letters that an observing run has judged, an hour ago."""
    store = DynamoDBObserved(cloud.dynamodb, "letters", "orders", time.time)
    store.note(source, judged, time.time() - 3_600)


def read(dlq: Dlq, *arguments: str) -> dict[str, Any]:
    result = dlq("observe", "report", *arguments, "--json")
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_letters_are_grouped_by_decision_and_cause(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", mode="observe")
    for origin in ("a", "b", "c"):
        cloud.failed("orders", origin, fingerprint="f1", error_type="Timeout", message="no answer")
    cloud.failed("orders", "d", fingerprint="f2", error_type="KeyError")
    cloud.recovered("orders", "b")
    note(cloud, [("a", BACK), ("b", BACK), ("d", GIVEN_UP)])
    note(cloud, [("c", BACK), ("unknown", BACK)], source="vip")

    answer = read(dlq)

    assert (answer["letters"], answer["at_least"], answer["mode"]) == (5, False, "observe")
    assert answer["since"] is not None
    first, *others = answer["causes"]
    assert (first["action"], first["target"], first["letters"], first["processed"]) == (
        "REDRIVE", "main queue", 3, 1,
    )  # fmt: skip
    assert (first["cause"], first["error_type"], first["words"]) == ("f1", "Timeout", "no answer")
    assert {(each["action"], each["target"], each["rule"], each["cause"]) for each in others} == {
        ("PARK", "POISON", "strict", "f2"),
        ("REDRIVE", "main queue", "", ""),
    }


def test_more_letters_than_are_kept_are_said_to_be_more(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", mode="observe")
    note(cloud, [(str(number), BACK) for number in range(MOST_OBSERVED + 2)])

    answer = read(dlq)

    assert (answer["letters"], answer["at_least"]) == (2_000, True)
    assert "2 looks at others" in answer["notes"][0]


def test_a_pipeline_that_observed_nothing_says_what_to_type(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders")

    result = dlq("observe", "report")

    assert result.exit_code == 0
    assert "nothing was observed yet (mode enforce)" in result.stdout
    assert "dlq retry --auto" in result.stdout


def test_a_person_reads_where_why_and_how_many(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders")
    cloud.failed("orders", "d", fingerprint="f2", error_type="KeyError", message="no \x1b[2J")
    note(cloud, [("d", GIVEN_UP)])

    shown = dlq("observe", "report").stdout

    for text in (
        "1 letter in 1 group, observed for 1 h",
        "does not observe any more",
        "1 letter  would PARK: POISON by rule strict",
        r"failed with KeyError: no \x1b[2J [transient]",
        "because: the same failure in 3 lives; for example d",
        "dlq show d",
    ):
        assert text in shown
