"""`dlq rules add`, `disable` and `remove`: what is written, what is refused, what is asked."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from console.cli.exit import Exit
from deadletter.failure.ledger import AboutLetter
from tests.console.rules import HOLD, hold, meanwhile, typed
from tests.each_row import each_row
from tests.rules import cookbook
from tests.rules.cookbook import Recipe

CALLER = "arn:aws:sts::123456789012:user/moto"
SAID = ("--reason", "half a body", "--yes")
WRITTEN = (*SAID, "--expires", "never")
AT_TERMINAL = ("--reason", "x", "--expires", "never")
ADD = "add r --action hold -f tenant=a"
KEYS = {"pipeline": "orders", "rule_id": "r"}
SHARED = {**HOLD, "pipeline": "*"}


@pytest.fixture
def orders(cloud: Any, functions: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A deployed pipeline `orders` with contexts, a dedicated DLQ and a policy."""
    context = {"tenantId": "body.tenantId", "messageType": "body.type"}
    cloud.deploy(
        "orders",
        dedicated=["bulk"],
        context=list(context),
        policies=["gold"],
        settings={"context": context},
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.json").write_text('{"body": {"type": ["x"]}}')
    (tmp_path / "rules.json").write_text(json.dumps([{**KEYS, **HOLD, "tenantId": "b"}]))
    return cloud


def failing(cloud: Any, tenants: str, pipeline: str = "orders") -> None:
    """Messages in the DLQ that have failed, with their records."""
    for number, tenant in enumerate(tenants.split()):
        cloud.letter("{}", f"{pipeline}-dlq")
        cloud.failed(pipeline, f"{tenant}-{number}", AboutLetter({"tenantId": tenant}))


@each_row(
    ("line", "columns"),
    [
        (
            "--action delayed_redrive=2h -f tenant=acme -f field.messageType=a=b -f body.n=1.5"
            " --policy gold --priority 7 --shadow --max-matches 50",
            {"action": "DELAYED_REDRIVE", "tenantId": "acme", "messageType": "a=b",
             "pattern": '{"body": {"n": ["1.5", 1.5]}}', "delay_seconds": 7_200, "policy": "gold",
             "priority": 7, "mode": "shadow", "max_matches": 50},
        ),
        ("--action Throttle=0.5 -f field.messageType=import",
         {"action": "THROTTLE", "rate": "0.5", "messageType": "import"}),
        ("--action dedicated_dlq=bulk -f field.messageType=import",
         {"action": "DEDICATED_DLQ", "queue": "bulk", "messageType": "import"}),
        ("--action hold -f tenant=a,b -f 'status>499'",
         {"action": "HOLD", "pattern": '{"context": {"tenantId": ["a", "b"]}, '
          '"failure": {"http_status": [{"numeric": [">", 499]}]}}'}),
        ("--action quarantine -f cause=9c1f08e2",
         {"action": "QUARANTINE",
          "pattern": '{"failure": {"fingerprint": [{"prefix": "9c1f08e2"}]}}'}),
        # A column says these otherwise than a condition does.
        ("--action hold -f tenant=true",
         {"action": "HOLD", "pattern": '{"context": {"tenantId": ["true", true]}}'}),
        ("--action hold --all",
         {"action": "HOLD", "breadth": "all", "pattern": '{"pipeline": ["orders"]}'}),
        ("""--action hold --all -f 'match={"pipeline": ["orders"]}'""",
         {"action": "HOLD", "breadth": "all", "pattern": '{"pipeline": ["orders"]}'}),
        ("--action hold -f match=@p.json",
         {"action": "HOLD", "pattern": '{"body": {"type": ["x"]}}'}),
    ],
)  # fmt: skip
def test_a_rule_is_stored_as_it_is_meant(
    orders: Any, dlq: Any, line: str, columns: dict[str, Any]
) -> None:
    hold(orders, typo={**HOLD, "action": "HALT"})
    done = typed(dlq, f"add r --json {line}", *WRITTEN)
    notes = {"reason": "half a body", "created_by": CALLER}
    assert orders.rules()["r"] == {**KEYS, **columns, **notes}
    assert json.loads(done.stdout)["before"] is None
    rules = json.loads(typed(dlq, "list --json").stdout)["pipelines"][0]["rules"]
    assert {rule["rule_id"]: rule["status"] for rule in rules}["r"] == "VALID"


INVALID = "Nothing was written: rule r would be INVALID in orders: "


NO_END = f"{ADD} --reason x --yes"
NEVER = f"{NO_END} --expires never"
BROAD = """-f 'match={"pipeline": ["orders"]}'"""


@each_row(
    ("there", "ends", "line", "says"),
    [
        *(({}, Exit.ATTENTION, f"{NEVER} {more}", f"{INVALID}{why}") for more, why in (
            ("--action qurantine", "action 'QURANTINE' is unknown; allowed are QUARANTINE"),
            ("-f field.tenant=a", "unknown field 'tenant'"),
            ("--action dedicated_dlq=nope", "queue 'nope' is unknown"),
            ("--action delayed_redrive=30d", "delay_seconds 2592000 (30 d) is out of range"),
            ("--policy silver", "policy 'silver' is unknown; allowed are gold"),
        )),
        *(({}, Exit.USAGE, f"{NEVER} {more}", why) for more, why in (
            ("--action delayed_redrive=soon", "is not a length of time"),
            ("--action throttle", "THROTTLE needs a value: --action THROTTLE=5"),
            ("--action hold=2h", "HOLD takes no value: write --action HOLD"),
            ("-f messageType", "is no condition: write KEY=VALUE"),
            ("-f tenat=a", "There is no key 'tenat'. Did you mean tenant?"),
            ("-f since=2h", "since=2h: a rule knows no since. Allowed: tenant, cause, "),
            ("-f tenant=b", "Two conditions on tenant: write one, with commas for or"),
            ("""-f 'match={"body": {"x": 1}}'""", "neither a list nor an object"),
            ("""-f 'match={"body": {"x": [1], "x": [2]}}'""", "a key appears twice"),
            ("-f match=@nope.json", "Can't read nope.json: No such file"),
            ("--expires tomorrow", "'tomorrow' is no time"),
            ("--expires 999999999d", "of the years 1 to 9999"),
            ("--expires 2026-01-01", "The rule would have ended at 2026-01-01 already"),
            ("--reason ' '", "A rule needs a reason"),
            (f"--reason {'x' * 1_001}", "at most 1,000 characters"),
            (f"--priority {'9' * 50}", "numbers of up to 38 digits"),
        )),
        ({}, Exit.USAGE, NO_END, "--expires 24h, or --expires never"),
        ({}, Exit.USAGE, NEVER.replace("-f tenant=a", ""), "-f KEY=VALUE, or --all"),
        ({}, Exit.ATTENTION, NEVER.replace("-f tenant=a", BROAD), "breadth = all (dlq rules add"),
        ({"r": SHARED}, Exit.ATTENTION, NEVER, "another rule with the same id"),
        ({"r": HOLD}, Exit.ATTENTION, NEVER, "a rule 'r' for orders already: add --replace"),
        ({"r": SHARED}, Exit.ABSENT, "remove r -p orders --reason x --yes",
         "but there is a rule of every pipeline: add -p '*'"),
        ({}, Exit.ABSENT, "disable q --reason x --yes", "There is no rule q of orders"),
        ({}, Exit.ABSENT, "remove q --reason x --yes", "There is no rule q of orders"),
        ({"r": {**HOLD, "enabled": False}}, Exit.ATTENTION, "disable r --reason x --yes",
         "is disabled already: nothing to do. To take that back: dlq rules undo r -p orders"),
    ],
)  # fmt: skip
def test_what_is_refused_is_not_written(
    orders: Any, dlq: Any, there: dict[str, Any], ends: Exit, line: str, says: str
) -> None:
    hold(orders, **there)
    before = orders.rules()
    typed(dlq, line, ends=ends, refuses=says)
    assert orders.rules() == before


# When it ends, and why.


@each_row(
    "line",
    [
        "add q --action hold -f tenant=a --expires never",
        *("disable r", "remove r", "undo r", "apply rules.json"),
    ],
)
def test_each_change_takes_a_reason_and_a_yes_and_can_be_refused(
    orders: Any, dlq: Any, line: str
) -> None:
    hold(orders)
    typed(dlq, ADD, *WRITTEN)
    before = orders.rules()
    assert "needs a reason: add --reason" in typed(dlq, line, "--yes", ends=Exit.USAGE).stderr
    assert "add --yes" in typed(dlq, line, "--reason", "x", ends=Exit.USAGE).stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("console.cli.asking.interactive", lambda: True)
        done = typed(dlq, line, "--reason", "x", answers="n\n", ends=Exit.ATTENTION)
    assert "Nothing was done" in done.stderr
    assert orders.rules() == before


@each_row(
    ("expires", "ends"),
    [
        ("24h", timedelta(hours=24)),
        ("7d", timedelta(days=7)),
        ("2099-01-01T03:00:00+02:00", datetime(2099, 1, 1, 1, tzinfo=UTC)),
    ],
)
def test_an_end_is_a_length_of_time_or_a_time(
    orders: Any, dlq: Any, expires: str, ends: timedelta | datetime
) -> None:
    typed(dlq, f"{ADD} --replace --expires {expires}", *SAID)
    written = datetime.fromisoformat(orders.rules()["r"]["expires_at"])
    expected = ends if isinstance(ends, datetime) else datetime.now(UTC) + ends
    assert timedelta(0) <= expected - written < timedelta(minutes=1)


@pytest.mark.usefixtures("at_a_terminal")
@each_row(
    ("answers", "ends", "hours"),
    [
        ("half a body\n\ny\n", Exit.DONE, 24),
        ("x\nnever\ny\n", Exit.DONE, None),
        ("\nnever\n", Exit.USAGE, None),
    ],
)
def test_a_person_is_asked_why_and_until_when_and_a_day_is_suggested(
    orders: Any, dlq: Any, answers: str, ends: Exit, hours: int | None
) -> None:
    hold(orders)
    done = typed(dlq, ADD, answers=answers, ends=ends)
    assert "Why?" in done.stderr
    rule = orders.rules().get("r", {})
    assert rule.get("reason", "") == ("" if ends else answers.split("\n")[0])
    assert ("expires_at" in rule) is (hours is not None)
    if hours is not None:
        assert "[24h]" in done.stderr
        left = datetime.fromisoformat(rule["expires_at"]) - datetime.now(UTC)
        assert timedelta(hours=hours - 1) < left <= timedelta(hours=hours)


# The question.

TIED = "Note: other rules of priority 100 can match the same messages: imports goes before it"


@pytest.mark.usefixtures("at_a_terminal")
@pytest.mark.parametrize(
    ("failed", "more", "says"),
    [
        ("a a b", "--max-matches 9", [
            "App deadletter in account 123456789012, eu-west-1.",
            'Add rule r of orders: HOLD for messages with tenantId "a", enforced, '
            "for 9 messages (up to 99 more if runs overlap), without an end.",
            "Matches 2 of 3 messages here now; 2 of 3 in 7 days, since", "; 1 tenant.",
            "Not searched: 2 parked messages, 1 message without a failure record, processed "
            "messages, messages that have not failed.",
        ]),
        ("A A A birch", "", [
            "Matches 0 of 4 messages here now; 0 of 4 in 7 days", "Did you mean tenant=A (3)?",
        ]),
        ("", "-f \"field.messageType='import'\"", [
            "Note: quotes around messageType are left out", TIED,
        ]),
        ("a b", "-f body.n=1", [
            "Matches 0 of 2 messages here now",
            "Can't be told for 1 message: bodies and attributes are not kept.",
            "dlq rules test RULE_ID --look",
        ]),
        (None, "", ["What it matches here can't be told: Nothing could be read"]),
    ],
    ids=["matches", "nearest value", "notes", "bodies", "unread"],
)  # fmt: skip
def test_the_question_says_what_and_how_many_messages_and_receives_none(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch, failed: str | None, more: str,
    says: list[str],
) -> None:  # fmt: skip
    orders.rule("imports", messageType="import", action="DEFAULT", enabled=failed == "")
    failing(orders, failed or "")
    if failed is None:
        monkeypatch.setattr("console.operations.groups.read_shard", lambda *_: None)
    orders.letter("{}")
    orders.letter("{}", "orders-parking-default")
    orders.rescued("orders", "POISON", 1)
    done = typed(dlq, f"{ADD} {more}", *AT_TERMINAL, answers="y\n", refuses=says)
    assert "Matches" not in done.stdout
    # A look is offered where records can't tell.
    assert ("dlq rules test RULE_ID --look" in done.stderr) is (failed == "" or "body" in more)
    assert orders.received("orders-dlq") == 0


def test_with_yes_the_answer_says_what_the_rule_matches(orders: Any, dlq: Any) -> None:
    failing(orders, "cedar")
    orders.rule("imports", messageType="import", action="DEFAULT")
    answer = json.loads(typed(dlq, ADD, *WRITTEN, "--json").stdout)
    [matches], [note] = answer["matches"], answer["notes"]
    assert (matches["matched"], matches["here"], matches["problem"]) == (0, 1, None)
    assert matches["hints"] == ["tenant is cedar (1) here."]
    says = ("Matches 0 of 1 message here now", *matches["hints"], f"Note: {note}")
    page = typed(dlq, ADD, *WRITTEN, "--replace", says=says).stdout
    assert " ".join(page.split()).endswith("It is undone by dlq rules undo r -p orders")


def test_a_dry_run_says_the_plan_and_writes_nothing(orders: Any, dlq: Any) -> None:
    failing(orders, "a b")
    done = typed(dlq, f"{ADD} --dry-run --expires 24h", says="Matches 1 of 2 messages here now")
    assert done.stdout.startswith("Add rule r of orders: HOLD for messages with tenantId")
    assert orders.rules() == {}


@pytest.mark.usefixtures("at_a_terminal")
def test_a_rule_of_every_pipeline_is_valid_and_counted_in_each(orders: Any, dlq: Any) -> None:
    line = f"{ADD} --pipeline '*'"
    orders.deploy("invoices")
    refuses = "would be INVALID in invoices: unknown field 'tenantId'"
    typed(dlq, line, *WRITTEN, ends=Exit.ATTENTION, refuses=refuses)
    context = {"tenantId": "body.customer"}
    orders.deploy("invoices", context=["tenantId"], settings={"context": context})
    failing(orders, "a", pipeline="invoices")
    asks = ("Matches 1 of 1 message in invoices now", "In 1 other pipeline: 0 of 0.")
    says = "Rule r of every pipeline added"
    typed(dlq, line, *AT_TERMINAL, answers="y\n", refuses=asks, says=says)
    assert orders.rules()["r"]["pipeline"] == "*"


def test_without_a_pipeline_no_rule_can_be_judged(cloud: Any, dlq: Any) -> None:
    cloud.deploy()
    refuses = "The app has no pipeline yet: deploy one."
    typed(dlq, f"{ADD} --pipeline '*'", *WRITTEN, ends=Exit.ABSENT, refuses=refuses)


# A rule that is there already.


@pytest.mark.usefixtures("at_a_terminal")
def test_replacing_shows_what_changes_and_drops_the_old_verdict(orders: Any, dlq: Any) -> None:
    orders.rule("r", tenantId="b", action="HOLD", status="INVALID", checked_at="then", reason="y")
    asks = ("Replace rule r of orders", "tenantId: b -> a")
    done = typed(dlq, f"{ADD} --replace", *AT_TERMINAL, answers="y\n", refuses=asks)
    assert "reason" not in done.stderr
    assert orders.rules()["r"].keys() == {*KEYS, *HOLD, "reason", "created_by"}


THEIRS = {**HOLD, "tenantId": "b", "max_matches": 1}


@pytest.mark.parametrize(
    ("there", "line", "becomes", "ends", "after"),
    [
        ({}, f"{ADD} --expires never", THEIRS, Exit.ATTENTION, THEIRS),
        ({"r": HOLD}, f"{ADD} --expires never --replace", THEIRS, Exit.ATTENTION, THEIRS),
        ({"r": HOLD}, "remove r", THEIRS, Exit.ATTENTION, THEIRS),
        ({"r": HOLD}, "remove r", None, Exit.ATTENTION, None),
        # To disable a rule is urgent, but it does not bring it back.
        ({"r": HOLD}, "disable r", THEIRS, Exit.DONE, {**THEIRS, "enabled": False}),
        ({"r": HOLD}, "disable r", None, Exit.ATTENTION, None),
        # Its verdict is no change of a rule.
        ({"r": HOLD}, f"{ADD} --expires never --replace", {**HOLD, "status": "VALID"}, Exit.DONE,
         HOLD),
    ],
)  # fmt: skip
def test_a_rule_that_another_person_changes_meanwhile_is_left_alone(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch, there: dict[str, Any], line: str,
    becomes: dict[str, Any] | None, ends: Exit, after: dict[str, Any] | None,
) -> None:  # fmt: skip
    hold(orders, **there)
    meanwhile(monkeypatch, lambda: hold(orders, **({"r": becomes} if becomes else {})))
    done = typed(dlq, line, *SAID, ends=ends)
    assert ("has just been changed by another person" in done.stderr) is (ends != Exit.DONE)
    aside = {*KEYS, "reason", "created_by"}
    left = {key: value for key, value in orders.rules().get("r", {}).items() if key not in aside}
    assert left == (after or {})


# Disabling.


def test_a_disabled_rule_says_who_why_and_what_it_was_for(orders: Any, dlq: Any) -> None:
    orders.rule("r", tenantId="a", action="HALT", reason="half a body", max_matches=3)
    says = "Rule r of orders disabled in account 123456789012"
    typed(dlq, "disable r --reason mended --yes", says=says)
    reason = f"mended (disabled by {CALLER}; before: half a body)"
    columns = {"tenantId": "a", "action": "HALT", "max_matches": 3}
    assert orders.rules()["r"] == {**KEYS, **columns, "enabled": False, "reason": reason}


def test_a_long_reason_is_cut_rather_than_made_invalid(orders: Any, dlq: Any) -> None:
    orders.rule("r", **HOLD, reason="x" * 1_020)
    typed(dlq, "disable r --reason mended --yes")
    (rule,) = json.loads(typed(dlq, "list --json").stdout)["pipelines"][0]["rules"]
    assert (rule["status"], rule["effect"]) == ("VALID", "disabled")


TYPED = tuple(recipe for recipe in cookbook.recipes() if recipe.commands)


@pytest.mark.parametrize("recipe", TYPED, ids=lambda recipe: recipe.title)
def test_a_command_of_the_cookbook_writes_its_rule(cloud: Any, dlq: Any, recipe: Recipe) -> None:
    settings = cookbook.settings()
    cloud.deploy(
        "orders", **{key: list(settings[key]) for key in ("context", "dedicated", "policies")}
    )
    for command in recipe.commands:
        dlq(*shlex.split(command)[1:], "--yes", ends=Exit.DONE)
    # Author, reason and end differ for each person.
    aside = {"pipeline", "created_by", "reason", "expires_at"}
    rules = json.loads(dlq("rules list --yaml --json").stdout)["file"]
    assert sorted(
        ({key: value for key, value in rule.items() if key not in aside} for rule in rules),
        key=lambda rule: str(rule["rule_id"]),
    ) == list(recipe.rules)


def test_most_recipes_of_the_cookbook_have_a_command() -> None:
    assert len(TYPED) >= 10
