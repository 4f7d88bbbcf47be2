"""`dlq rules explain`: what the deployed router says about one letter, rule by rule."""

from __future__ import annotations

import json
from typing import Any

import pytest

from console.cli.exit import Exit
from tests.console.conftest import TRUSTED


@pytest.fixture
def orders(cloud: Any, functions: Any) -> Any:
    """A deployed pipeline `orders` whose router really decides."""
    cloud.deploy("orders", dedicated=["bulk"], context=["tenantId"])
    functions.configure("orders", context={"tenantId": "body.tenantId"}, dedicated=["bulk"])
    functions.routes = True
    return cloud


def explained(dlq: Any, *arguments: str, answers: str = "") -> Any:
    done = dlq("rules", "explain", "--json", *arguments, answers=answers)
    assert done.exit_code == Exit.DONE, done.output
    return json.loads(done.stdout)


def test_every_rule_says_why_it_did_or_did_not_match(orders: Any, dlq: Any) -> None:
    orders.rule("typo", tenantId="a", action="HALT")
    orders.rule("other", tenantId="b", action="HOLD", priority=1)
    orders.rule("off", tenantId="a", action="HOLD", priority=2, enabled=False)
    orders.rule("stop", "*", tenantId="a", action="QUARANTINE")
    orders.rule("late", tenantId="a", action="HOLD", priority=200)
    sent = orders.letter('{"tenantId": "a", "secret": 4111111111111111}')
    orders.letter('{"tenantId": "b"}')
    answer = explained(dlq, sent)
    assert [(rule["rule_id"], rule["outcome"].split(":")[0]) for rule in answer["tried"]] == [
        ("typo", "INVALID"),
        ("other", "does not match"),
        ("off", "disabled"),
        ("stop", "matches and speaks"),
        ("late", "matches, but an earlier rule speaks"),
    ]
    assert answer["decision"] == {
        "action": "PARK",
        "reason": "QUARANTINED",
        "because": "rule stop says QUARANTINE",
        "rule": "stop",
    }
    assert orders.visible("orders-dlq") == 2
    page = dlq("rules", "explain", sent).stdout
    assert f"Letter {sent} of orders, from dlq, in account 123456789012" in page
    assert '\n      context.tenantId: expected "b"; found string\n' in page
    assert "Decision: PARK as QUARANTINED\n  because: rule stop says QUARANTINE" in page
    assert "4111111111111111" not in page


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (None, "Decision: REDRIVE to the main queue after "),
        ({"action": "HOLD"}, "Decision: HOLD in lane rule:r, at the latest until "),
        ({"action": "DEDICATED_DLQ", "queue": "bulk"}, "Decision: DIVERT to dedicated DLQ bulk"),
        ({"action": "DELAYED_REDRIVE", "delay_seconds": 600}, "after 10 min\n"),
        ({"action": "DELAYED_REDRIVE", "delay_seconds": 9_000}, "Decision: HOLD in lane delay:r"),
    ],
)
def test_each_decision_is_told_in_words(orders: Any, dlq: Any, rule: Any, says: str) -> None:
    if rule:
        orders.rule("r", tenantId="a", **rule)
    done = dlq("rules", "explain", "--body", "-", answers='{"tenantId": "a"}')
    assert done.exit_code == Exit.DONE, done.output
    assert says in done.stdout


def test_a_body_is_shown_only_if_asked_for(orders: Any, dlq: Any) -> None:
    sent = orders.letter('{"card": "4111111111111111"}\x1b[2J', card="4222222222222222")
    for arguments in ([sent], [sent, "--json"]):
        output = dlq("rules", "explain", *arguments).output
        assert "4111111111111111" not in output
        assert "4222222222222222" not in output
    page = dlq("rules", "explain", sent, "--show-body").stdout
    assert "4111111111111111" in page
    assert "card = 4222222222222222" in page
    assert "\x1b" not in page
    assert explained(dlq, sent, "--show-body")["attributes"] == {"card": "4222222222222222"}


def test_a_letter_is_found_by_its_origin_too(orders: Any, dlq: Any) -> None:
    sent = orders.park("orders", "POISON", origin="first", attempt=2)
    orders.park("orders", "POISON", origin="another")
    answer = explained(dlq, "first", "--source", "parking")
    assert (answer["message_id"], answer["attempts"]) == (sent, 2)


def test_attempts_do_not_count_the_next_redrive(orders: Any, dlq: Any) -> None:
    message = {
        "MessageId": "m1",
        "Body": '{"tenantId": "a"}',
        "Attributes": {"SenderId": TRUSTED},
        "MessageAttributes": {
            "Redrive": {"DataType": "String", "StringValue": '{"origin": "o", "attempt": 3}'}
        },
    }
    pasted = json.dumps(message)
    assert explained(dlq, "--body", "-", answers=pasted)["decision"]["action"] != "PARK"
    assert explained(dlq, "--body", "-", answers=pasted)["attempts"] == 3
    orders.rule("stop", tenantId="a", action="QUARANTINE")
    assert explained(dlq, "--body", "-", answers=pasted)["attempts"] == 3


def test_a_forged_attribute_is_called_forged(orders: Any, dlq: Any) -> None:
    answer = explained(dlq, "--body", "-", "--attribute", "Redrive={}", answers="{}")
    assert answer["forged"] is True
    shown = dlq("rules", "explain", "--body", "-", "--attribute", "Redrive={}", answers="{}").stdout
    assert "is not believed, and goes on as Redrive-original" in " ".join(shown.split())


def test_a_letter_of_a_dedicated_dlq_is_judged_as_such(
    orders: Any, dlq: Any, functions: Any
) -> None:
    orders.rule("r", tenantId="a", action="DEDICATED_DLQ", queue="bulk")
    sent = orders.letter('{"tenantId": "a"}', "orders-dlq-bulk")
    assert explained(dlq, sent, "--source", "bulk")["decision"]["action"] != "DIVERT"
    assert functions.invoked[-1][1]["explain"]["home"] == "bulk"


def test_a_letter_that_is_not_in_the_sample_is_not_found(orders: Any, dlq: Any) -> None:
    orders.letter("{}")
    done = dlq("rules", "explain", "8f14e45f")
    assert done.exit_code == Exit.ABSENT
    assert "8f14e45f is not among the 1 letter that dlq of orders showed" in done.stderr
    assert orders.visible("orders-dlq") == 1


@pytest.mark.parametrize("arguments", [[], ["m1", "--body", "-"]])
def test_a_letter_must_be_named_or_made_up(orders: Any, dlq: Any, arguments: list[str]) -> None:
    assert dlq("rules", "explain", *arguments).exit_code == Exit.USAGE


def test_several_letters_are_too_many(orders: Any, dlq: Any) -> None:
    pasted = {"Messages": [{"MessageId": "m", "Body": "b"}] * 2}
    done = dlq("rules", "explain", "--body", "-", answers=json.dumps(pasted))
    assert done.exit_code == Exit.USAGE
    assert "One letter at a time: - holds 2." in done.stderr


def test_a_router_that_fails_is_quoted_in_short(orders: Any, dlq: Any, functions: Any) -> None:
    functions.routes = False
    functions.function_error = "Unhandled"
    functions.report = {"errorType": "RouterUnavailable", "errorMessage": "x\x1b" * 999}
    done = dlq("rules", "explain", "--body", "-", answers="{}")
    assert done.exit_code == Exit.ATTENTION
    assert "The router function orders-router failed (RouterUnavailable: x" in done.stderr
    assert "\x1b" not in done.stderr
    assert len(done.stderr) < 1_500


@pytest.mark.parametrize("answer", [b"", b"null", b"{}", b'{"verdict": {"decision": {}}}'])
def test_an_answer_without_an_explanation_is_refused(
    orders: Any, dlq: Any, functions: Any, answer: bytes
) -> None:
    functions.routes = False
    functions.report = answer
    done = dlq("rules", "explain", "--body", "-", answers="{}")
    assert done.exit_code == Exit.ATTENTION
    assert "answered no explanation" in done.stderr


def test_a_page_has_the_rules_that_match_and_the_near_misses(orders: Any, dlq: Any) -> None:
    for number in range(12):
        far = "" if number < 3 else f', "attributes": {{"region": ["r{number}"]}}'
        orders.rule(
            f"miss-{number:02}", action="HOLD",
            pattern=f'{{"body": {{"tenantId": ["t{number}"]}}{far}}}',
        )  # fmt: skip
    orders.rule("off", tenantId="b", action="HOLD", enabled=False)
    orders.rule("stop", tenantId="a", action="QUARANTINE", priority=900)
    typed = ("rules", "explain", "--body", "-")
    page = dlq(*typed, answers='{"tenantId": "a"}').stdout
    assert "stop  matches and speaks" in page
    assert [name for name in ("miss-00", "miss-01", "miss-02") if name in page] == [
        "miss-00",
        "miss-01",
        "miss-02",
    ]
    assert page.count("miss-") == 5
    assert "off  disabled" not in page
    assert "8 more rules do not match or are off: --all shows them" in page
    whole = dlq(*typed, "--all", answers='{"tenantId": "a"}').stdout
    assert whole.count("miss-") == 12
    assert "off  disabled" in whole
    assert len(json.loads(dlq(*typed, "--json", answers="{}").stdout)["tried"]) == 14
