"""Every command that changes something is recorded before it does, or does nothing."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.exceptions import ClientError

from console.cli.exit import Exit
from console.operations import endpoint_check, item, pager
from deadletter.replay.run import RunState
from deadletter.replay.ticket import ReplayOutcome
from deadletter.testing.fakes import client_error
from deadletter.webhook.http import NoAnswer
from tests.console.cli import test_discard, test_replay_report, test_replay_runs, test_retry
from tests.console.conftest import REGION, connecting, routed
from tests.infra.test_permissions import COMMANDS
from tests.tables import create_keyed_table
from tools import commands_page

CAUSE = "0123456789abcdef"
HELD, WAITING = "4f0c1b2a3d4e5f60", "5f0c1b2a3d4e5f60"
RUNNING, OVER = "7f0c1b2a3d4e5f60", "6f0c1b2a3d4e5f60"
SECRET = "deadletter/webhooks/acme"
URL = "https://hooks.acme.example/in?token=hunter2"
SAID = "--reason 'a test'"

# What no row may say: contents of letters, and what may be a token.
SECRETS = ("4111-x", "hunter2", "price", "whsec_")

# What is typed behind each command that changes something, with the reason that is kept.
TYPED = {
    "dlq mute": f"orders --for 2h {SAID}",
    "dlq doctor": "--send-page",
    "dlq retry": f"-f reason=poison {SAID} --yes",
    "dlq discard": f"-f reason=poison {SAID} --yes",
    "dlq restore": f"thrown-away {SAID} --yes",
    "dlq forget": f"due-0 {SAID} --confirm deadletter",
    "dlq run hold": f"{RUNNING} {SAID}",
    "dlq run resume": f"{HELD} {SAID} --yes",
    "dlq run abort": f"{HELD} {SAID} --yes",
    "dlq run approve": f"{WAITING} {SAID} --yes",
    "dlq run reject": f"{WAITING} {SAID} --yes",
    "dlq circuit open": f"{SAID} --expires 1h --yes",
    "dlq circuit close": f"{SAID} --expires 1h --yes",
    "dlq circuit release": f"{SAID} --yes",
    "dlq endpoint add": f"new --url '{URL}' --secret {SECRET} {SAID} --yes",
    "dlq endpoint disable": f"acme {SAID} --yes",
    "dlq rules add": f"new -f tenant=a --action hold {SAID} --expires 1h --yes",
    "dlq rules disable": f"on {SAID} --yes",
    "dlq rules remove": f"on {SAID} --yes",
    "dlq rules undo": f"edited {SAID} --yes",
    "dlq rules apply": f"rules.json {SAID} --yes",
}

AUTO = f"dlq retry --auto {SAID} --yes"

# Looks, and trials that change nothing.
LOOKS = (
    *("retry --auto --dry-run", "retry --in parked --all --dry-run", "list --look", "run list"),
    *(f"show {HELD}", "circuit list", "doctor orders", "doctor orders --removal", "groups"),
    *("endpoint list", "endpoint add acme --post --dry-run", "rules list", "audit"),
    "rules test -f tenant=acme",
)

_CHANGING = (
    *("Put", "Update", "Delete", "Create", "Set", "Start", "Send"),
    *("BatchWrite", "Invoke", "Publish"),
)


def changes(reached: Mapping[str, set[str]]) -> Iterator[str]:
    """The actions among these that change something, or act on somebody else."""
    for what, actions in reached.items():
        for action in actions:
            asks = action == "logs:StartQuery" or what == "routers"
            signs = action == "secretsmanager:GetSecretValue"
            verb = action.partition(":")[2]
            if what != "table Audit" and not asks and (verb.startswith(_CHANGING) or signs):
                yield action


CHANGING = sorted(
    command
    for command, policies in COMMANDS.items()
    if any(list(changes(reached)) for reached in policies.values())
)


def test_each_command_that_changes_something_is_typed_here() -> None:
    assert sorted(TYPED) == CHANGING
    may_record = {
        command
        for command, policies in COMMANDS.items()
        if any(
            "dynamodb:PutItem" in reached.get("table Audit", ()) for reached in policies.values()
        )
    }
    assert sorted(may_record) == CHANGING
    entries = commands_page.commands().items()
    verbs = {path: entry.callback.__wrapped__.__wrapped__.view.verb for path, entry in entries}
    # What has no reason has no row: init writes a file of yours.
    changing = {path for path, verb in verbs.items() if verb.commit and verb.reasoned}
    assert changing <= set(TYPED)


class Mutable:
    """CloudWatch with one alarm, that knows mute rules: moto does not."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.muted: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_alarm_mute_rule(self, **_request: Any) -> Any:
        raise client_error("GetAlarmMuteRule", "ResourceNotFoundException", "no such rule")

    def get_paginator(self, operation: str) -> Any:
        return self if operation == "describe_alarms" else self._client.get_paginator(operation)

    def paginate(self, **_request: Any) -> Any:
        alarm = {"AlarmName": "deadletter-orders-DlqAge", "StateValue": "OK"}
        return [{"MetricAlarms": [{**alarm, "StateUpdatedTimestamp": datetime.now(UTC)}]}]

    def put_alarm_mute_rule(self, **request: Any) -> None:
        self.muted.append(request["Name"])


class NoClient:
    """An endpoint that never answers."""

    def addresses(self, _to: Any) -> list[str]:
        return []

    def exchange(self, *_request: Any) -> Any:
        raise NoAnswer("no answer")


@dataclass(frozen=True)
class Stage:
    """An app in which each command has something to do."""

    cloud: Any
    functions: Any
    dlq: Any
    cloudwatch: Mutable

    def type(self, command: str, **expected: Any) -> Any:
        line = command.removeprefix("dlq ")
        return self.dlq(f"{line} {TYPED.get(command, '')}", **expected)

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the audit table, the first first."""
        every = map(item.plain, self.cloud.dynamodb.scan(TableName="audit")["Items"])
        found = [row for row in every if "event_id" not in row]
        return sorted(found, key=lambda row: row["happened"])

    def everything(self) -> Any:
        """What a change could touch."""
        tables = {
            table: sorted(
                json.dumps(item.plain(row), sort_keys=True)
                for row in self.cloud.dynamodb.scan(TableName=table)["Items"]
            )
            for table in ("messages", "rules", "circuits", "endpoints")
        }
        objects = self.cloud.s3.list_objects_v2(Bucket="messages-bucket").get("Contents", [])
        machine = self.functions.machine
        asked = [name for name, _ in self.functions.invoked if not name.endswith("-router")]
        others = len(machine.started), list(machine.answered), list(self.cloudwatch.muted)
        return tables, len(objects), asked, *others


@pytest.fixture
def stage(
    cloud: Any, functions: Any, dlq: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Stage:
    settings = {"consumer_library": True, "context": {"tenantId": "body.tenant"}}
    routed(cloud, functions, settings, context=["tenantId"])
    functions.report = {"stopped": "the source is empty", "moved": 0, "ended_well": True}
    _endpoints(cloud, monkeypatch)
    _runs(cloud)
    for number in range(2):
        cloud.park("orders", "POISON", '{"card": "4111-x"}', origin=f"poison-{number}")
    cloud.park("orders", "PERMANENT", origin="d")
    test_discard.discarded(cloud, OVER, "thrown-away")
    cloud.waiting("orders", "due", 1, due=4e9)
    cloud.sudden(CAUSE)
    dlq(f"circuit open {SAID} --expires 1h --yes", ends=Exit.DONE)
    cloud.rule("on", tenantId="a", action="HOLD")
    rule = {"pipeline": "orders", "tenantId": "c", "action": "QUARANTINE"}
    rules = json.dumps([{**rule, "rule_id": name} for name in ("one", "two")])
    (tmp_path / "rules.json").write_text(rules)
    monkeypatch.chdir(tmp_path)
    cloud.failed("orders", cloud.letter('{"card": "4111-x"}'), fingerprint="f1")
    for row in cloud.dynamodb.scan(TableName="audit")["Items"]:
        cloud.dynamodb.delete_item(TableName="audit", Key={key: row[key] for key in ("pk", "sk")})
    _edited(cloud)
    cloudwatch = Mutable(cloud.cloudwatch)
    connecting(monkeypatch, cloudwatch=lambda _client: cloudwatch)
    return Stage(cloud, functions, dlq, cloudwatch)


def _edited(cloud: Any) -> None:
    """A rule that was edited outside dlq, as the stream of the rules table tells it."""
    keys = {"pipeline": "orders", "rule_id": "edited"}
    old, new = ({**keys, "tenantId": tenant, "action": "HOLD"} for tenant in ("d", "e"))
    cloud.put("rules", item.stored(new))
    happened = int(time.time()) - 60
    at = datetime.fromtimestamp(happened, UTC).isoformat()
    told = {"pk": "orders#edited", "sk": f"{at}#1", "at": at, "happened": happened, **keys}
    cloud.put("audit", item.stored({**told, "event_id": "1", "old": old, "new": new}))


def _endpoints(cloud: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud.redeploy("app", endpoints_table="endpoints", alarm_topic=subscribed_topic())
    create_keyed_table(cloud.dynamodb, "endpoints", ("tenant", "endpoint"))
    row = {"tenant": "acme", "endpoint": "default", "url": URL, "secrets": [SECRET]}
    cloud.put("endpoints", item.stored({**row, "enabled": True}))
    secrets = boto3.client("secretsmanager", REGION)
    secrets.create_secret(Name=SECRET, SecretString="whsec_" + "c2VjcmV0" * 6)
    monkeypatch.setattr(endpoint_check, "http_client", NoClient)


def subscribed_topic() -> str:
    """A topic that one mailbox has subscribed to; its ARN."""
    sns = boto3.client("sns", REGION)
    topic: str = sns.create_topic(Name="deadletter-alarms")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="email", Endpoint="ann@example.com")
    return topic


def _runs(cloud: Any) -> None:
    """Runs: held with letters, waiting for an approval, sending, and over."""
    test_retry.Held(cloud, test_retry.BODIES, cloud.replay(test_retry.held_run()))
    cloud.replay(test_replay_runs.run(RunState.WAITING_APPROVAL, id=WAITING))
    cloud.replay(test_replay_runs.run(RunState.RUNNING, id=RUNNING))
    over = test_replay_report.run(id=OVER)
    cloud.replay(over)
    cloud.snapshot(over, [(test_replay_report.name("d"), ReplayOutcome.PARKED)])
    test_retry.keep(cloud, OVER)


class Refuses:
    """A DynamoDB client that refuses to write into the audit table, from the n-th row on."""

    def __init__(self, client: Any, allowed: int = 0) -> None:
        self._client = client
        self._allowed = allowed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def put_item(self, **request: Any) -> Any:
        if request["TableName"] == "audit":
            self._allowed -= 1
            if self._allowed < 0:
                raise client_error("PutItem", "AccessDeniedException", "not allowed")
        return self._client.put_item(**request)


def refusing(monkeypatch: pytest.MonkeyPatch, allowed: int = 0) -> None:
    connecting(monkeypatch, dynamodb=lambda client: Refuses(client, allowed))


@pytest.mark.parametrize("command", TYPED)
def test_a_change_is_recorded_with_who_what_and_why_and_how_it_ended_or_is_not_made(
    stage: Stage, command: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        refusing(patch)
        as_it_was = stage.everything()
        refuses = (
            "Nothing was done, because the change could not be recorded",
            "dynamodb:PutItem into the audit table audit",
        )
        stage.type(command, ends=Exit.UNREACHABLE, refuses=refuses)
        assert stage.everything() == as_it_was
    before = time.time()
    done = stage.type(command)
    assert done.exit_code in (Exit.DONE, Exit.ATTENTION), done.output
    rows = stage.rows()
    begun = [row for row in rows if not row["sk"].endswith("#end")]
    ends = {row["sk"].removesuffix("#end"): row for row in rows if row["sk"].endswith("#end")}
    # A file of two rules makes two changes.
    assert len(begun) == (2 if command == "dlq rules apply" else 1)
    caller = boto3.client("sts", REGION).get_caller_identity()
    for row in begun:
        assert row["pk"] == f"#by#{caller['UserId']}"
        why = pager.WHY if command == "dlq doctor" else "a test"
        assert (row["who"], row["why"]) == (caller["Arn"], why)
        assert f"dlq {row['command']}" == command
        everywhere = command.startswith(("dlq endpoint", "dlq doctor"))
        assert row["pipeline"] == ("*" if everywhere else "orders")
        assert row["target"].partition(" ")[2]
        assert before - 1 <= row["happened"] <= time.time()
        assert row["ttl"] == pytest.approx(before + 400 * 86_400, abs=60)
        end = ends.pop(row["sk"])
        assert (end["outcome"], end["ttl"] >= row["ttl"]) == ("done", True)
        assert (end["pk"], end["pipeline"]) == (row["pk"], row["pipeline"])
        assert end["happened"] > row["happened"]
    assert ends == {}
    text = json.dumps(rows)
    assert not [secret for secret in SECRETS if secret in text]


def test_a_look_is_not_recorded(stage: Stage) -> None:
    for words in LOOKS:
        done = stage.type(words)
        assert done.exit_code in (Exit.DONE, Exit.ATTENTION), (words, done.output)
        assert stage.rows() == [], words


def test_without_the_permission_the_table_and_the_policies_are_named(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch)
    before = stage.everything()
    refuses = ("AWS refuses PutItem: not allowed", "managed polic")
    stage.type("dlq rules disable", ends=Exit.UNREACHABLE, refuses=refuses)
    assert stage.everything() == before


def test_of_a_file_no_rule_is_written_unless_all_are_recorded(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, allowed=1)
    before = stage.everything()
    stage.type("dlq rules apply", ends=Exit.UNREACHABLE)
    assert stage.everything() == before


TWO_CHANGES = [
    "retry --in dlq --in parked --all --yes",
    "retry --in parked --in time --all --yes",
    "discard --in dlq --in parked --all --yes",
    "forget due-0 --all --confirm deadletter",
]


@pytest.mark.parametrize("line", TWO_CHANGES)
def test_what_was_changed_before_another_change_could_not_be_recorded_is_said(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    refusing(monkeypatch, allowed=2)
    done = stage.dlq(f"{line} {SAID}", ends=Exit.UNREACHABLE)
    [started] = stage.functions.machine.started
    run = json.loads(started["input"])["run"]
    assert re.search(rf"Changes made: \w+: [^.]*run {run}\. Nothing more was done", done.stderr)


def test_what_was_changed_before_another_change_failed_is_said(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    throttled = client_error("StartExecution", "ThrottlingException", "slow down")
    starts = Mock(side_effect=[None, throttled])
    monkeypatch.setattr("deadletter.aws.replay_runs.StepFunctionsReplays.start", starts)
    done = stage.dlq(f"{TWO_CHANGES[0]} {SAID}", ends=Exit.UNREACHABLE)
    says = r"Changes made: retry: run (\w+)\. Not made, or not wholly: retry: run (?!\1)\w+\. AWS"
    assert re.search(says, done.stderr), done.stderr


def test_a_change_whose_end_can_not_be_recorded_is_made_all_the_same(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, allowed=1)
    stage.type("dlq rules disable", ends=Exit.DONE)
    assert stage.cloud.rules()["on"]["enabled"] is False
    [row] = stage.rows()
    assert row["before"]["rule_id"] == "on"


def test_a_change_that_fails_is_recorded_with_the_name_of_its_error(stage: Stage) -> None:
    denied = {"Error": {"Code": "AccessDeniedException", "Message": "may not: card 4111-x"}}
    stage.functions.raises = ClientError(denied, "Invoke")  # type: ignore[arg-type]
    stage.type(AUTO, ends=Exit.UNREACHABLE)
    _, end = stage.rows()
    assert (end["outcome"], end["error"]) == ("failed", "AccessDeniedException")
    assert "4111-x" not in json.dumps(stage.rows())


def test_a_run_that_is_not_waited_for_is_recorded_as_such(stage: Stage) -> None:
    stage.functions.raises = KeyboardInterrupt()
    stage.type(AUTO, ends=Exit.STOPPED)
    _, end = stage.rows()
    assert (end["outcome"], end["error"]) == ("failed", "KeyboardInterrupt")
