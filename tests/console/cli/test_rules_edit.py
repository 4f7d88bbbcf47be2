"""`dlq rules add` and `disable`: what is written, what is refused, and what is asked first."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from console.cli.exit import Exit
from console.operations.rule_table import RuleTable
from console.operations.rules import RuleScope
from deadletter.failure.ledger import AboutLetter

CALLER = "arn:aws:sts::123456789012:user/moto"
WRITTEN = ("--yes", "--reason", "half a body", "--expires", "never")


@pytest.fixture
def orders(cloud: Any, functions: Any) -> Any:
    """A deployed pipeline `orders` with contexts, a dedicated DLQ and a policy."""
    context = {"tenantId": "body.tenantId", "messageType": "body.type"}
    cloud.deploy(
        "orders",
        dedicated=["bulk"],
        context=list(context),
        policies=["gold"],
        settings={"context": context},
    )
    return cloud


def failing(cloud: Any, *tenants: str, pipeline: str = "orders", **more: str) -> None:
    """Messages in the DLQ that have failed, with their records."""
    for number, tenant in enumerate(tenants):
        cloud.letter("{}", f"{pipeline}-dlq")
        about = AboutLetter({"tenantId": tenant, **more})
        cloud.failed(pipeline, f"{tenant}-{number}", about)


def add(dlq: Any, *arguments: str, answers: str = "") -> Any:
    return dlq("rules", "add", "r", "-f", "tenant=a", "--action", "hold", *arguments,
               answers=answers)  # fmt: skip


KEYS = {"pipeline": "orders", "rule_id": "r"}
NOTES = {"reason": "half a body", "created_by": CALLER}
IMPORTS = "field.messageType=import"
ADD = "add q --action hold -f tenant=a --expires never"


@pytest.mark.parametrize(
    ("typed", "columns"),
    [
        (
            ["--action", "delayed_redrive=2h", "-f", "tenant=acme", "-f", "field.messageType=a=b",
             "-f", "body.n=1.5", "--policy", "gold", "--priority", "7", "--shadow",
             "--max-matches", "50"],
            {"action": "DELAYED_REDRIVE", "tenantId": "acme", "messageType": "a=b",
             "pattern": '{"body": {"n": ["1.5", 1.5]}}', "delay_seconds": 7_200, "policy": "gold",
             "priority": 7, "mode": "shadow", "max_matches": 50},
        ),
        (["--action", "Throttle=0.5", "-f", IMPORTS],
         {"action": "THROTTLE", "rate": "0.5", "messageType": "import"}),
        (["--action", "dedicated_dlq=bulk", "-f", IMPORTS],
         {"action": "DEDICATED_DLQ", "queue": "bulk", "messageType": "import"}),
        (["--action", "hold", "-f", "tenant=a,b", "-f", "status>499"],
         {"action": "HOLD", "pattern": '{"context": {"tenantId": ["a", "b"]}, '
          '"failure": {"http_status": [{"numeric": [">", 499]}]}}'}),
        (["--action", "quarantine", "-f", "cause=9c1f08e2"],
         {"action": "QUARANTINE",
          "pattern": '{"failure": {"fingerprint": [{"prefix": "9c1f08e2"}]}}'}),
        # A column says these otherwise than a condition does.
        (["--action", "hold", "-f", "tenant=true"],
         {"action": "HOLD", "pattern": '{"context": {"tenantId": ["true", true]}}'}),
        (["--action", "hold", "--all"],
         {"action": "HOLD", "breadth": "all", "pattern": '{"pipeline": ["orders"]}'}),
    ],
)  # fmt: skip
def test_a_rule_is_stored_as_it_is_meant(
    orders: Any, dlq: Any, typed: list[str], columns: dict[str, Any]
) -> None:
    done = dlq("rules", "add", "r", *typed, "--json", *WRITTEN)
    assert done.exit_code == Exit.DONE, done.output
    assert orders.rules() == {"r": {**KEYS, **columns, **NOTES}}
    assert json.loads(done.stdout)["before"] is None
    (rule,) = json.loads(dlq("rules", "list", "--json").stdout)["pipelines"][0]["rules"]
    assert rule["status"] == "VALID"


def test_a_pattern_may_come_from_a_file(orders: Any, dlq: Any, tmp_path: Any) -> None:
    (tmp_path / "p.json").write_text('{"body": {"type": ["x"]}}')
    done = dlq("rules", "add", "r", "--action", "HOLD", "-f", f"match=@{tmp_path}/p.json",
               *WRITTEN)  # fmt: skip
    assert done.exit_code == Exit.DONE, done.output
    assert orders.rules()["r"]["pattern"] == '{"body": {"type": ["x"]}}'
    done = dlq("rules", "add", "q", "--action", "HOLD", "-f", "match=@nope.json", *WRITTEN)
    assert done.exit_code == Exit.USAGE
    assert "Can't read nope.json: No such file" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--action", "qurantine"], "action 'QURANTINE' is unknown; allowed are QUARANTINE"),
        (["-f", "field.tenant=a"], "unknown field 'tenant'"),
        (["--action", "dedicated_dlq=nope"], "queue 'nope' is unknown"),
        (
            ["--action", "delayed_redrive=30d"],
            "delay_seconds 2592000 (30 d) is out of range",
        ),
        (["--policy", "silver"], "policy 'silver' is unknown; allowed are gold"),
    ],
)
def test_a_rule_that_would_be_invalid_is_not_written(
    orders: Any, dlq: Any, arguments: list[str], why: str
) -> None:
    done = add(dlq, *WRITTEN, *arguments)
    assert done.exit_code == Exit.ATTENTION
    assert "Nothing was written: rule r would be INVALID in orders: " in done.stderr
    assert why in done.stderr
    assert orders.rules() == {}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--action", "delayed_redrive=soon"], "is not a length of time"),
        (["--action", "throttle"], "THROTTLE needs a value: --action THROTTLE=5"),
        (["--action", "hold=2h"], "HOLD takes no value: write --action HOLD"),
        (["-f", "messageType"], "is no condition: write KEY=VALUE"),
        (["-f", "tenat=a"], "There is no key 'tenat'. Did you mean tenant?"),
        (["-f", "since=2h"], "since=2h: a rule knows no since. Allowed: tenant, cause, "),
        (["-f", "tenant=b"], "Two conditions on tenant: write one, with commas for or"),
        (["-f", 'match={"body": {"x": 1}}'], "neither a list nor an object"),
        (["-f", 'match={"body": {"x": [1], "x": [2]}}'], "a key appears twice"),
        (["--expires", "tomorrow"], "is not a length of time"),
        (["--expires", "2026-01-01"], "The rule would have ended at 2026-01-01 already"),
        (["--reason", " "], "A rule needs a reason"),
        (["--reason", "x" * 1_001], "at most 1,000 characters"),
        (["--priority", "9" * 50], "numbers of up to 38 digits"),
    ],
)
def test_a_wrong_option_is_a_usage_error(
    orders: Any, dlq: Any, arguments: list[str], why: str
) -> None:
    done = add(dlq, *WRITTEN, *arguments)
    assert done.exit_code == Exit.USAGE, done.output
    assert why in done.stderr
    assert orders.rules() == {}


def test_a_rule_needs_messages_that_it_matches(orders: Any, dlq: Any) -> None:
    done = dlq("rules", "add", "r", "--action", "hold", *WRITTEN)
    assert (done.exit_code, orders.rules()) == (Exit.USAGE, {})
    assert "-f KEY=VALUE, or --all" in done.stderr
    every = ("rules", "add", "r", "--action", "hold", "-f", 'match={"pipeline": ["orders"]}')
    assert "breadth = all (dlq rules add --all)" in dlq(*every, *WRITTEN).stderr
    assert dlq(*every, "--all", *WRITTEN).exit_code == Exit.DONE


def test_a_rule_that_would_make_another_rule_invalid_is_not_written(orders: Any, dlq: Any) -> None:
    orders.rule("r", "*", tenantId="b", action="HOLD")
    done = add(dlq, *WRITTEN)
    assert done.exit_code == Exit.ATTENTION
    assert "another rule with the same id" in done.stderr
    assert list(orders.rules()) == ["r"]


def test_an_invalid_rule_does_not_stop_a_new_rule(orders: Any, dlq: Any) -> None:
    orders.rule("typo", tenantId="b", action="HALT")
    assert add(dlq, *WRITTEN).exit_code == Exit.DONE


# When it ends, and why.


@pytest.mark.parametrize("words", [ADD, "disable r", "remove r", "undo r", "apply rules.json"])
def test_each_change_takes_a_reason_and_a_yes_and_can_be_refused(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, words: str
) -> None:
    assert add(dlq, *WRITTEN).exit_code == Exit.DONE
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.json").write_text(json.dumps([{**KEYS, "action": "HOLD", "tenantId": "b"}]))
    before, typed = orders.rules(), ("rules", *words.split())
    done = dlq(*typed, "--yes")
    assert (done.exit_code, "needs a reason: add --reason" in done.stderr) == (Exit.USAGE, True)
    done = dlq(*typed, "--reason", "x")
    assert (done.exit_code, "add --yes" in done.stderr) == (Exit.USAGE, True)
    monkeypatch.setattr("console.cli.asking.interactive", lambda: True)
    done = dlq(*typed, "--reason", "x", answers="n\n")
    assert (done.exit_code, "Nothing was done" in done.stderr) == (Exit.ATTENTION, True)
    assert orders.rules() == before


def test_an_end_has_to_be_given(orders: Any, dlq: Any) -> None:
    done = add(dlq, "--yes", "--reason", "x")
    assert (done.exit_code, orders.rules()) == (Exit.USAGE, {})
    assert "--expires 24h, or --expires never" in done.stderr


@pytest.mark.parametrize(
    ("typed", "after"),
    [("24h", timedelta(hours=24)), ("7d", timedelta(days=7))],
)
def test_an_end_may_be_a_length_of_time_or_a_time(
    orders: Any, dlq: Any, typed: str, after: timedelta
) -> None:
    assert add(dlq, "--yes", "--reason", "x", "--expires", typed).exit_code == Exit.DONE
    ends = datetime.fromisoformat(orders.rules()["r"]["expires_at"])
    assert timedelta(0) <= datetime.now(UTC) + after - ends < timedelta(minutes=1)
    add(dlq, "--replace", *WRITTEN[:3], "--expires", "2099-01-01T03:00:00+02:00")
    assert orders.rules()["r"]["expires_at"] == "2099-01-01T01:00:00Z"


@pytest.mark.usefixtures("at_a_terminal")
def test_a_person_is_asked_and_a_day_is_suggested(orders: Any, dlq: Any) -> None:
    done = add(dlq, answers="half a body\n\ny\n")
    assert done.exit_code == Exit.DONE, done.output
    assert "[24h]" in done.stderr
    assert "Why?" in done.stderr
    rule = orders.rules()["r"]
    assert rule["reason"] == "half a body"
    ends = datetime.fromisoformat(rule["expires_at"])
    assert timedelta(hours=23) < ends - datetime.now(UTC) <= timedelta(hours=24)


@pytest.mark.usefixtures("at_a_terminal")
def test_a_person_may_refuse_the_end_but_not_the_reason(orders: Any, dlq: Any) -> None:
    assert add(dlq, answers="\nnever\n").exit_code == Exit.USAGE
    assert orders.rules() == {}
    assert add(dlq, answers="x\nnever\ny\n").exit_code == Exit.DONE
    assert "expires_at" not in orders.rules()["r"]


# The question.


TIED = "Note: other rules of priority 100 can match the same messages: imports goes before it"


@pytest.mark.usefixtures("at_a_terminal")
@pytest.mark.parametrize(
    ("failed", "typed", "says"),
    [
        ("a a b", ["--max-matches", "9"], [
            "App deadletter in account 123456789012, eu-west-1.",
            'Add rule r of orders: HOLD for messages with tenantId "a", enforced, '
            "for 9 messages (up to 99 more if runs overlap), without an end.",
            "Matches 2 of 3 messages here now; 2 of 3 in 7 days, since", "; 1 tenant.",
        ]),
        ("A A A birch", [], [
            "Matches 0 of 4 messages here now; 0 of 4 in 7 days",
            "Did you mean tenant=A (3)?",
        ]),
        ("", ["-f", "field.messageType='import'"], [
            "Note: quotes around messageType are left out", TIED,
        ]),
        ("a b", ["-f", "body.n=1"], [
            "Matches 0 of 2 messages here now",
            "Can't be told for 1 message: bodies and attributes are not kept.",
            "dlq rules test RULE_ID --look",
        ]),
    ],
    ids=["matches", "nearest value", "notes", "bodies"],
)  # fmt: skip
def test_the_question_says_what_and_how_many_messages_and_receives_none(
    orders: Any, dlq: Any, failed: str, typed: list[str], says: list[str]
) -> None:
    orders.rule("imports", messageType="import", action="DEFAULT", enabled=not failed)
    failing(orders, *failed.split())
    done = add(dlq, *typed, "--reason", "x", "--expires", "never", answers="y\n")
    assert done.exit_code == Exit.DONE, done.output
    assert [each for each in says if each not in " ".join(done.stderr.split())] == []
    assert "Matches" not in done.stdout
    assert orders.received("orders-dlq") == 0


@pytest.mark.usefixtures("at_a_terminal")
def test_what_was_not_searched_is_named_with_its_number(orders: Any, dlq: Any) -> None:
    failing(orders, "a")
    orders.letter("{}")
    orders.letter("{}", "orders-parking-default")
    orders.rescued("orders", "POISON", 1)
    done = add(dlq, "--reason", "x", "--expires", "never", answers="y\n")
    assert (
        "Not searched: 2 parked messages, 1 message without a failure record, processed messages, "
        "messages that have not failed." in " ".join(done.stderr.split())
    )
    assert "dlq rules test" not in done.stderr


@pytest.mark.usefixtures("at_a_terminal")
def test_records_that_can_not_be_read_do_not_stop_a_rule(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.operations.groups.read_shard", lambda *_: None)
    done = add(dlq, "--reason", "x", "--expires", "never", answers="y\n")
    assert done.exit_code == Exit.DONE, done.output
    assert "What it matches here can't be told: Nothing could be read" in done.stderr


def test_with_yes_the_answer_says_what_the_rule_matches(orders: Any, dlq: Any) -> None:
    failing(orders, "cedar")
    orders.rule("imports", messageType="import", action="DEFAULT")
    answer = json.loads(add(dlq, *WRITTEN, "--json").stdout)
    [matches], [note] = answer["matches"], answer["notes"]
    assert (matches["matched"], matches["here"], matches["problem"]) == (0, 1, None)
    assert matches["hints"] == ["tenant is cedar (1) here."]
    page = " ".join(add(dlq, *WRITTEN, "--replace").stdout.split())
    for each in ("Matches 0 of 1 message here now", *matches["hints"], f"Note: {note}"):
        assert each in page
    assert page.endswith("It is undone by dlq rules undo r")


def test_a_dry_run_says_the_plan_and_writes_nothing(orders: Any, dlq: Any) -> None:
    failing(orders, "a", "b")
    done = add(dlq, "--dry-run", "--expires", "24h")
    assert (done.exit_code, orders.rules()) == (Exit.DONE, {})
    assert done.stdout.startswith("Add rule r of orders: HOLD for messages with tenantId")
    assert "Matches 1 of 2 messages here now" in done.stdout


# Rules of all pipelines.


def test_a_rule_of_every_pipeline_must_be_valid_in_each(orders: Any, dlq: Any) -> None:
    orders.deploy("invoices")
    done = add(dlq, *WRITTEN, "--pipeline", "*")
    assert done.exit_code == Exit.ATTENTION
    assert "would be INVALID in invoices: unknown field 'tenantId'" in done.stderr
    orders.deploy("invoices", context=["tenantId"])
    assert add(dlq, *WRITTEN, "--pipeline", "*").exit_code == Exit.DONE
    assert orders.rules()["r"]["pipeline"] == "*"


@pytest.mark.usefixtures("at_a_terminal")
def test_a_rule_of_every_pipeline_is_counted_in_each(orders: Any, dlq: Any) -> None:
    context = {"tenantId": "body.customer"}
    orders.deploy("invoices", context=["tenantId"], settings={"context": context})
    failing(orders, "a", pipeline="invoices")
    done = add(dlq, "--reason", "x", "--expires", "never", "--pipeline", "*", answers="y\n")
    said = " ".join(done.stderr.split())
    assert "Matches 1 of 1 message in invoices now" in said
    assert "In 1 other pipeline: 0 of 0." in said
    assert "Rule r of every pipeline added" in done.stdout


# A rule that is there already.


def test_a_rule_is_not_overwritten_by_accident(orders: Any, dlq: Any) -> None:
    orders.rule("r", tenantId="b", action="QUARANTINE")
    done = add(dlq, *WRITTEN)
    assert done.exit_code == Exit.ATTENTION
    assert "add --replace" in done.stderr
    assert orders.rules()["r"]["tenantId"] == "b"


@pytest.mark.usefixtures("at_a_terminal")
def test_replacing_shows_what_changes_and_drops_the_old_verdict(orders: Any, dlq: Any) -> None:
    orders.rule("r", tenantId="b", action="HOLD", status="INVALID", checked_at="then")
    done = add(dlq, "--replace", "--reason", "x", "--expires", "never", answers="y\n")
    assert done.exit_code == Exit.DONE, done.output
    assert "Replace rule r of orders" in done.stderr
    assert "tenantId: b -> a" in done.stderr
    assert set(orders.rules()["r"]) == {
        "pipeline", "rule_id", "tenantId", "action", "reason", "created_by",
    }  # fmt: skip


def changing(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Another person changes something between the plan of a rule and its writing."""
    real = RuleScope.check

    def check(*arguments: Any, **options: Any) -> None:
        change()
        real(*arguments, **options)

    monkeypatch.setattr(RuleScope, "check", check)


@pytest.mark.parametrize("there", [True, False])
def test_a_rule_that_another_person_writes_meanwhile_is_left_alone(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    if there:
        orders.rule("r", tenantId="b", action="HOLD")
    changing(monkeypatch, lambda: orders.rule("r", tenantId="b", action="HOLD", max_matches=1))
    done = add(dlq, *WRITTEN, *(["--replace"] if there else []))
    assert done.exit_code == Exit.ATTENTION
    assert "Rule r has just been changed by another person" in done.stderr
    assert orders.rules()["r"]["tenantId"] == "b"


def test_a_verdict_that_is_written_back_meanwhile_is_no_change(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.rule("r", tenantId="b", action="HOLD", status="INVALID")
    changing(monkeypatch, lambda: orders.rule("r", tenantId="b", action="HOLD", status="VALID"))
    assert add(dlq, *WRITTEN, "--replace").exit_code == Exit.DONE


# Disabling.


def test_a_disabled_rule_says_who_why_and_what_it_was_for(orders: Any, dlq: Any) -> None:
    orders.rule("r", tenantId="a", action="HALT", reason="half a body", max_matches=3)
    done = dlq("rules", "disable", "r", "--reason", "mended", "--yes")
    assert done.exit_code == Exit.DONE, done.output
    assert "Rule r of orders disabled in account 123456789012" in done.stdout
    rule = orders.rules()["r"]
    assert rule["enabled"] is False
    assert rule["reason"] == f"mended (disabled by {CALLER}; before: half a body)"
    assert (rule["action"], rule["max_matches"]) == ("HALT", 3)


def test_a_long_reason_is_cut_rather_than_made_invalid(orders: Any, dlq: Any) -> None:
    orders.rule("r", tenantId="a", action="HOLD", reason="x" * 1_020)
    dlq("rules", "disable", "r", "--reason", "mended", "--yes")
    (rule,) = json.loads(dlq("rules", "list", "--json").stdout)["pipelines"][0]["rules"]
    assert (rule["status"], rule["effect"]) == ("VALID", "disabled")


def test_a_missing_rule_is_named_with_the_pipeline_that_has_it(orders: Any, dlq: Any) -> None:
    orders.rule("r", "*", tenantId="a", action="HOLD")
    here = ("--pipeline", "orders", "--reason", "x", "--yes")
    done = dlq("rules", "disable", "r", *here)
    assert done.exit_code == Exit.ABSENT
    assert "but there is a rule of every pipeline: add -p '*'" in done.stderr
    done = dlq("rules", "disable", "r", "--pipeline", "*", "--reason", "x", "--yes")
    assert done.exit_code == Exit.DONE
    assert dlq("rules", "disable", "q", "--reason", "x", "--yes").exit_code == Exit.ABSENT


def test_a_rule_that_is_deleted_meanwhile_does_not_come_back(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.rule("r", tenantId="a", action="HOLD")
    real = RuleTable.disable

    def disable(*arguments: Any) -> None:
        orders.dynamodb.delete_item(
            TableName="rules", Key={"pipeline": {"S": "orders"}, "rule_id": {"S": "r"}}
        )
        real(*arguments)

    monkeypatch.setattr(RuleTable, "disable", disable)
    done = dlq("rules", "disable", "r", "--reason", "x", "--yes")
    assert done.exit_code == Exit.ATTENTION
    assert orders.rules() == {}


def test_a_disabled_rule_is_not_disabled_again(orders: Any, dlq: Any) -> None:
    orders.rule("r", tenantId="a", action="HOLD", enabled=False, reason="half a body")
    done = dlq("rules", "disable", "r", "--reason", "again", "--yes")
    assert done.exit_code == Exit.ATTENTION
    assert "Rule r is disabled already: nothing to do. dlq rules undo takes that" in done.stderr
    assert orders.rules()["r"]["reason"] == "half a body"
