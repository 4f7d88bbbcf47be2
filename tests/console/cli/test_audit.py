"""`dlq audit`: one line for each change, the newest first."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from console.cli import command
from console.cli.exit import Exit
from console.operations import audit_trail, item
from console.operations.session import Session
from deadletter.aws.edits import DynamoDBEndpointHistory, DynamoDBHistory
from deadletter.rules.checker import RuleEdit
from tests.console.command_lines import parse
from tests.console.conftest import connecting
from tests.each_row import each_row

PAGE = (Path(__file__).parents[3] / "docs" / "audit.md").read_text()

RULE = ("-f", "tenant=a", "--action", "hold", "--reason", "noise", "--expires", "1h", "--yes")


@pytest.fixture
def orders(cloud: Any) -> Any:
    cloud.deploy("orders", "invoices", context=["tenantId"])
    return cloud


def streamed(cloud: Any, old: Any, new: Any, ago: float = 0.0, sequence: int = 1) -> None:
    """The rule checker keeps a change of a rule that the stream has told it."""
    rule = new or old
    at = float(int(time.time() - ago))
    history = DynamoDBHistory(cloud.dynamodb, "audit", time.time, 86_400.0)
    history.keep(
        RuleEdit(str(sequence), f"e{sequence}", at, rule["pipeline"], rule["rule_id"], old, new)
    )


ENDPOINT = {
    "tenant": "acme", "endpoint": "default", "enabled": True,
    "url": "https://hooks.acme.example/in?token=hunter2", "secrets": ["deadletter/webhooks/acme"],
}  # fmt: skip


def endpoint_streamed(cloud: Any, old: Any, new: Any, ago: float = 0.0, sequence: int = 1) -> None:
    """The rule checker keeps a change of an endpoint that the stream has told it."""
    keys = {name: (new or old)[name] for name in ("tenant", "endpoint")}
    images = {"OldImage": old, "NewImage": new}
    change = {
        "ApproximateCreationDateTime": int(time.time() - ago),
        "SequenceNumber": str(sequence),
        "Keys": item.stored(keys),
        **{name: item.stored(image) for name, image in images.items() if image is not None},
    }
    history = DynamoDBEndpointHistory(
        cloud.dynamodb, "audit", time.time, 86_400.0, secrets="deadletter/webhooks/"
    )
    assert not history.keep([{"eventID": f"e{sequence}", "dynamodb": change}]).failed


def changed(cloud: Any, ago: float, **facts: Any) -> None:
    """A change by `dlq`, some seconds ago, that has ended."""
    at = round(time.time() - ago, 3)
    row = {
        "pk": "#by#AROA:ann", "sk": f"{at:014.3f}#x", "pipeline": "orders", "happened": at,
        "command": "retry", "target": "cause f1", "why": "a test",
        "who": "arn:aws:sts::123456789012:assumed-role/OnCall/ann", **facts,
    }  # fmt: skip
    end = {name: row[name] for name in ("pk", "pipeline")}
    end |= {"sk": f"{row['sk']}#end", "happened": round(at + 0.01, 3), "outcome": "done"}
    for each in (row, end):
        cloud.put("audit", item.stored(each))


def asked(dlq: Any, *options: str) -> Any:
    done = dlq("audit", *options, "--json", ends=Exit.DONE)
    return json.loads(done.stdout)


def commands(answer: Any) -> list[str]:
    return [change["command"] for change in answer["changes"]]


def test_a_rule_that_dlq_adds_is_one_line_with_its_author_and_its_columns(
    orders: Any, dlq: Any
) -> None:
    dlq("rules add r --pipeline orders", *RULE, ends=Exit.DONE)
    rule = orders.rules()["r"]
    streamed(orders, None, {**rule, "status": "VALID"})
    [change] = asked(dlq, "orders")["changes"]
    assert (change["command"], change["via"], change["outcome"]) == ("rules add", "dlq", "done")
    assert (change["target"], change["why"]) == ("rule r", "noise")
    assert change["who"].startswith("arn:aws:sts::123456789012:")
    assert (change["before"], change["after"]["tenantId"]) == (None, "a")
    says = ("rules add: rule r of orders", "by user/moto: noise", "action: none -> HOLD")
    dlq("audit", says=says)


def test_an_endpoint_changed_in_the_console_is_a_line_outside_dlq(orders: Any, dlq: Any) -> None:
    """Who points an endpoint elsewhere gets its events."""
    endpoint_streamed(orders, ENDPOINT, {**ENDPOINT, "url": "https://evil.example/in"})
    [change] = asked(dlq, "orders")["changes"]
    assert (change["command"], change["via"]) == ("endpoint edit", "outside dlq")
    assert (change["who"], change["target"]) == (None, "endpoint acme/default")
    assert commands(asked(dlq, "-f", "text~endpoint")) == ["endpoint edit"]
    says = (
        "endpoint edit: endpoint acme/default",
        "outside dlq, by an unknown person or program",
        "url: https://hooks.acme.example -> https://evil.example",
    )
    assert not [text for text in ("hunter2", "secrets") if text in dlq("audit", says=says).stdout]


def test_a_change_beside_the_one_that_dlq_makes_is_a_line_of_its_own(orders: Any, dlq: Any) -> None:
    """A person may say that he enables an endpoint, and point it elsewhere by another call."""
    off = {**ENDPOINT, "enabled": False}
    endpoint_streamed(orders, off, {**ENDPOINT, "url": "https://hooks.acme.example/mine"}, 20)
    changed(orders, 20, command="endpoint add", pipeline="*", target="endpoint acme/default",
            before={"standing": "disabled"}, after={"standing": "enabled"})  # fmt: skip
    assert sorted(commands(asked(dlq))) == ["endpoint add", "endpoint edit"]
    assert "https://hooks.acme.example with another path" in dlq("audit").stdout


def test_what_belongs_to_all_pipelines_is_shown_with_each(orders: Any, dlq: Any) -> None:
    changed(orders, 60, pipeline="*", command="endpoint disable", target="endpoint acme/default")
    changed(orders, 50, pipeline="invoices", command="circuit open", target="circuit invoices")
    changed(orders, 40)
    assert commands(asked(dlq)) == ["retry", "circuit open", "endpoint disable"]
    assert commands(asked(dlq, "invoices")) == ["circuit open", "endpoint disable"]
    assert commands(asked(dlq, "--pipeline", "orders")) == ["retry", "endpoint disable"]


def test_changes_are_chosen_by_caller_command_and_time(orders: Any, dlq: Any) -> None:
    changed(orders, 60)
    bob = "arn:aws:sts::123456789012:assumed-role/OnCall/bob"
    changed(orders, 50, who=bob, command="run abort", pk="#by#AROA:bob")
    changed(orders, 9 * 86_400, command="retry")
    for chosen, found in (
        ("-f by=BOB", ["run abort"]),
        ("-f by~oncall/b", ["run abort"]),
        ("-f by=bo", []),
        ("-f by=bob,ann", ["run abort", "retry"]),
        ("-f by=bob -f text~park", []),
        ("-f text~ABORT", ["run abort"]),
        ("-f text~f1", ["run abort", "retry"]),
        ("", ["run abort", "retry"]),
        ("-f since=30d -f until=8d", ["retry"]),
    ):
        assert commands(asked(dlq, *chosen.split())) == found, chosen
    assert "No such change since" in dlq("audit -f since=10s").stdout


@pytest.mark.parametrize("rows_of_a_page", [1, 3, 1_000])
def test_older_changes_are_read_page_by_page_without_losing_one(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch, rows_of_a_page: int
) -> None:
    for number in range(12):
        # Three within a second, as a file of rules makes them.
        ago = time.time() - int(time.time()) + 3_600 * (number // 3) + number / 1_000
        changed(orders, ago + 1, sk=f"{number}", target=f"cause {number}")
    connecting(monkeypatch, dynamodb=lambda client: Paged(client, rows_of_a_page))
    monkeypatch.setattr(audit_trail, "_MOST_ROWS", 8)
    seen: list[str] = []
    options: list[str] = []
    for _ in range(20):
        answer = asked(dlq, "orders", "--limit", "2", *options)
        seen += [change["target"] for change in answer["changes"]]
        assert {change["outcome"] for change in answer["changes"]} <= {"done"}
        if answer["more"] is None:
            break
        options = ["-f", f"until={answer['more']}"]
    assert sorted(seen) == sorted(f"cause {number}" for number in range(12))
    more = asked(dlq, "--limit", "2")["more"][:13]
    assert f"add -f until={more}" in dlq("audit --limit 2").stdout


class Paged:
    """A client whose queries answer in pages of so many rows."""

    def __init__(self, client: Any, rows: int) -> None:
        self._client, self._rows = client, rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def query(self, **request: Any) -> Any:
        return self._client.query(**request, Limit=self._rows)


def test_a_removed_pipeline_has_its_history_and_a_mistyped_one_is_refused(
    orders: Any, dlq: Any
) -> None:
    changed(orders, 60, pipeline="gone")
    assert commands(asked(dlq, "gone")) == ["retry"]
    dlq("audit ordres", ends=Exit.ABSENT, refuses="no pipeline 'ordres': it has invoices, orders")


def test_a_change_without_an_end_and_one_that_failed_say_so(orders: Any, dlq: Any) -> None:
    changed(orders, 60)
    rows = orders.dynamodb.scan(TableName="audit")["Items"]
    [end] = [row for row in rows if row["sk"]["S"].endswith("#end")]
    orders.put("audit", {**end, "outcome": {"S": "failed"}, "error": {"S": "AccessDenied"}})
    assert "retry: cause f1 of orders (failed: AccessDenied)" in dlq("audit").stdout
    orders.dynamodb.delete_item(TableName="audit", Key={name: end[name] for name in ("pk", "sk")})
    assert "(its end is not on record)" in dlq("audit").stdout
    [change] = asked(dlq)["changes"]
    assert (change["outcome"], change["ended"]) == ("unknown", None)


@each_row(
    ("terms", "says"),
    [
        ("since=soon", "'soon' is no time: write how long ago (2h, 4d)"),
        ("since=999999999d", "of the years 1 to 9999"),
        ("since=0001-01-01T00:00+14:00", "of the years 1 to 9999"),
        ("since=1h -f until=2h", "has to be before until="),
        ("tenant=acme", "changes are chosen by by, since, until and text"),
        ("by<ann", "by takes = ~"),
    ],
)
def test_a_condition_that_is_none_of_changes_is_refused(
    orders: Any, dlq: Any, terms: str, says: str
) -> None:
    assert says in dlq(f"audit -f {terms}", ends=Exit.USAGE).stderr


def test_the_commands_of_the_page_exist() -> None:
    typed = re.findall(r"^dlq .*", PAGE, re.M)
    assert len(typed) >= 3
    for example in typed:
        parse(example)


def test_the_list_of_the_page_is_what_dlq_prints(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime(2026, 11, 23, 2, 20, tzinfo=UTC).timestamp()
    monkeypatch.setattr(command, "Session", partial(Session, clock=lambda: now))
    since = time.time() - now
    changed(
        orders, since + 360, command="circuit open", target="circuit orders",
        why="the bank is down till 6",
        before={"state": "CLOSED", "forced": "none"},
        after={"state": "OPEN", "forced": "OPEN", "until": "2026-11-23T05:14:00+00:00"},
    )  # fmt: skip
    rule = {"pipeline": "orders", "rule_id": "stop-acme", "action": "HOLD"}
    streamed(orders, rule, {**rule, "action": "DEFAULT"}, ago=since + 660)
    printed = PAGE.partition("```\n02:14")[2].partition("```")[0]
    assert f"02:14{printed}" in dlq("audit orders").stdout
