"""What we claim about AWS: page, list and checks agree, and each check sees moto's differences."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from rich.console import Console

from deadletter.rules.pattern import compile_pattern
from deadletter.testing.clock import Clock
from deadletter.testing.fakes.dynamodb import MemoryDynamoDB
from deadletter.testing.fakes.sqs import MemorySqs
from infra.names import pascal_case
from tests.aws.backends import Checked
from tests.aws.differences import DIFFERENCES
from tools.verify_aws import __main__ as command
from tools.verify_aws import page, templates
from tools.verify_aws.account import (
    PREFIX,
    AskedAccount,
    Differs,
    Stopped,
    Unclear,
    expect,
    is_ours,
    refused,
    zipped,
)
from tools.verify_aws.check import CHECKS, Check, check
from tools.verify_aws.checks.events import CASES, ENVELOPE
from tools.verify_aws.checks.machines import NOTHING
from tools.verify_aws.claims import SERVICES, AwsClaim, claims
from tools.verify_aws.prove import STEPS, Proof, Unproved, most, prove
from tools.verify_aws.report import (
    DECIDED,
    DIFFERS,
    HOLDS,
    UNCLEAR,
    UNDECIDED,
    WRONG,
    AwsAnswer,
    ProofStep,
    VerifyReport,
    verdicts,
)
from tools.verify_aws.run import ask, ask_all
from tools.verify_aws.sweep import sweep

# An account number of AWS's documentation, which moto takes for its own.
NUMBER = "123456789012"

# What moto does otherwise than AWS, or cannot be asked. Everything else holds there.
MOTO: Mapping[str, str] = {
    "attributes": DIFFERS,
    "batch-of-writes": DIFFERS,
    "body": DIFFERS,
    "client-context": UNCLEAR,
    "customer-key": DIFFERS,
    "dashboard-limits": DIFFERS,
    "data-limit": UNCLEAR,
    "deduplication-after-move": DIFFERS,
    "deduplication-id-on-standard": DIFFERS,
    "deduplication-memory": DIFFERS,
    "definitions": UNCLEAR,
    "delay": DIFFERS,
    "description": DIFFERS,
    "emf": UNCLEAR,
    "environment": DIFFERS,
    "execution-name": UNCLEAR,
    "export-in-use": UNCLEAR,
    "item-size": DIFFERS,
    "leading-keys": DIFFERS,
    "leading-keys-elsewhere": DIFFERS,
    "managed-key": UNCLEAR,
    "map-tolerance": UNCLEAR,
    "mapping-changes": DIFFERS,
    "mapping-visibility": DIFFERS,
    "message-size": DIFFERS,
    "missing-data": DIFFERS,
    "move-keeps": DIFFERS,
    "move-task": UNCLEAR,
    "mute-rule": UNCLEAR,
    "number": DIFFERS,
    "parameter-size": DIFFERS,
    "partial-failures": UNCLEAR,
    "patterns": UNCLEAR,
    "payload": DIFFERS,
    "payload-of-a-state": DIFFERS,
    "queue-limits": DIFFERS,
    "recursion": UNCLEAR,
    "retain-at-a-rollback": UNCLEAR,
    "redrive-allow": DIFFERS,
    "redrive-type": DIFFERS,
    "runtime": UNCLEAR,
    "send-task-success": UNCLEAR,
    "sender": DIFFERS,
    "sender-after-move": DIFFERS,
    "ten-attributes": DIFFERS,
    "throttled": UNCLEAR,
    "token": DIFFERS,
    "trace-header-in-a-batch": DIFFERS,
    "units": DIFFERS,
}

# moto knows no mute rules, so it removes none either.
NOT_REMOVED = {"mute-rule"}

# What our strict models in memory leave out, or say otherwise. Everything else holds there.
MODELS: Mapping[str, str] = {
    "attributes": UNCLEAR,
    "customer-key": UNCLEAR,
    "leading-keys": UNCLEAR,
    "leading-keys-elsewhere": UNCLEAR,
    "move-task": UNCLEAR,
    "redrive-allow": DIFFERS,
    "token": DIFFERS,
    "units": UNCLEAR,
}

# moto's CloudFormation needs packages that we do not install.
MOCKED = (
    "cloudwatch",
    "dynamodb",
    "iam",
    "lambda",
    "logs",
    "s3",
    "scheduler",
    "sns",
    "sqs",
    "ssm",
    "stepfunctions",
)


def leftovers(account: AskedAccount, **more: Any) -> tuple[list[str], list[str]]:
    """What is swept up, and what cannot be."""
    return sweep(account, MOCKED, **more)


class Waiting:
    """Time that passes only while a check waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def clock(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def client() -> Iterator[Callable[[str], Any]]:
    """The clients of one mocked account."""
    with pytest.MonkeyPatch.context() as patch, mock_aws(config={"lambda": {"use_docker": False}}):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        made: dict[str, Any] = {}

        def client(service: str) -> Any:
            if service not in made:
                made[service] = boto3.client(service, region_name="us-east-1")
            return made[service]

        yield client


@pytest.fixture
def account(client: Callable[[str], Any]) -> AskedAccount:
    waiting = Waiting()
    return AskedAccount(
        client, run="0a1b2c", pause=waiting.pause, clock=waiting.clock, poll_seconds=0
    )


# Synthesizing the apps takes longer than all checks; tests/infra reads their templates.
TEMPLATE: Mapping[str, Any] = {
    "Resources": {
        "Rings": {
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "AlarmActions": [{"Ref": "Topic"}],
                "ComparisonOperator": "GreaterThanThreshold",
                "Dimensions": [
                    {"Name": "QueueName", "Value": {"Fn::GetAtt": ["Queue", "QueueName"]}}
                ],
                "EvaluationPeriods": 1,
                "MetricName": "ApproximateNumberOfMessagesVisible",
                "Namespace": "AWS/SQS",
                "Period": 60,
                "Statistic": "Maximum",
                "Threshold": 0,
            },
        },
        "Board": {
            "Type": "AWS::CloudWatch::Dashboard",
            "Properties": {
                "DashboardBody": {
                    "Fn::Join": [
                        "",
                        [
                            '{"widgets":[{"type":"alarm","width":6,"height":6,"properties":'
                            '{"title":"',
                            {"Ref": "AWS::Region"},
                            {"Fn::Sub": '","alarms":["${Rings.Arn}"]}}]}'},
                        ],
                    ]
                }
            },
        },
    }
}


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """The templates that a check finds."""
    found = [templates.filled(TEMPLATE, "eu-west-1")]
    monkeypatch.setattr(templates, "synthesized", lambda _region: found)
    return found


def test_a_template_s_references_become_texts(deployed: list[Mapping[str, Any]]) -> None:
    ((_, board),) = templates.resources(deployed, "AWS::CloudWatch::Dashboard")
    (widget,) = json.loads(board["DashboardBody"])["widgets"]
    assert widget["properties"] == {
        "title": "eu-west-1",
        "alarms": ["arn:aws:cloudwatch:eu-west-1:111122223333:alarm:Rings"],
    }
    ((_, alarm),) = templates.resources(deployed, "AWS::CloudWatch::Alarm")
    assert alarm["AlarmActions"] == ["Topic"]
    assert alarm["Dimensions"] == [{"Name": "QueueName", "Value": "Queue"}]


@pytest.mark.parametrize("name", ["dashboards", "alarms-of-ours"])
def test_templates_without_anything_to_ask_prove_nothing(
    name: str, account: AskedAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "synthesized", lambda _region: [])
    assert ask(CHECKS[name], account, []).verdict == DIFFERS


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize("name", list(CHECKS))
def test_a_check_says_of_moto_what_is_known_of_it(name: str, account: AskedAccount) -> None:
    left: list[str] = []
    finding = ask(CHECKS[name], account, left)
    assert finding.verdict == MOTO.get(name, HOLDS), finding.seen
    assert bool(left) == (name in NOT_REMOVED)
    assert leftovers(account) == ([], []), "the check left something behind"


@pytest.fixture
def modelled() -> AskedAccount:
    """An account of the strict models that the contract suite holds to AWS's documentation."""
    clock, numbers = Clock(), count(1)
    sender = "AROAEXAMPLE:a-check"
    sqs = MemorySqs(
        clock, lambda: f"00000000-0000-4000-8000-{next(numbers):012d}", region="us-east-1"
    ).as_sender(sender)
    models = {
        "sqs": Checked(sqs, "sqs"),
        "dynamodb": Tables(clock),
        "sts": SimpleNamespace(get_caller_identity=lambda: {"UserId": sender}),
    }
    return AskedAccount(
        models.__getitem__,
        run="0a1b2c",
        pause=clock.advance,
        clock=lambda: clock.now,
        poll_seconds=0,
    )


class Tables:
    """The model of DynamoDB, with a removal that its tables need no code for."""

    def __init__(self, clock: Clock) -> None:
        self._model = Checked(MemoryDynamoDB(clock), "dynamodb")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def delete_table(self, **_arguments: object) -> None:
        return None


@pytest.mark.parametrize(
    "name",
    [each.name for each in CHECKS.values() if each.ask.__module__.endswith((".queues", ".tables"))],
)
def test_a_check_holds_on_a_model_that_does_what_aws_says(
    name: str, modelled: AskedAccount
) -> None:
    finding = ask(CHECKS[name], modelled, [])
    assert finding.verdict == MODELS.get(name, HOLDS), finding.seen


def test_patterns_are_asked_that_match_and_patterns_that_do_not() -> None:
    matched = [
        compile_pattern({"detail": pattern}).matches({**ENVELOPE, "detail": document})
        for pattern, document in CASES
    ]
    assert 10 < sum(matched) < len(CASES) - 5


def test_no_check_is_excused_that_does_not_exist() -> None:
    assert MOTO.keys() | MODELS.keys() <= CHECKS.keys()


def test_every_claim_is_asked_or_tested_or_can_be_watched() -> None:
    asked = {claim for each in CHECKS.values() for claim in each.claims}
    known = claims()
    assert asked <= known.keys(), "a check decides a claim that is not in claims.toml"
    open_ends = [
        claim.id
        for claim in known.values()
        if not (claim.id in asked or claim.watch or claim.tested or claim.step)
    ]
    assert open_ends == []
    assert {claim.step for claim in known.values()} - {""} <= STEPS.keys()


def test_every_claim_names_a_page_of_aws_and_a_service() -> None:
    for claim in claims().values():
        assert claim.source.startswith("https://docs.aws.amazon.com/"), claim.id
        assert claim.service in SERVICES.values()
        assert claim.says.endswith(".")
        assert claim.relies.endswith(".")


def test_a_test_that_a_claim_names_exists() -> None:
    root = Path(__file__).parents[2]
    assert [c.id for c in claims().values() if c.tested and not (root / c.tested).exists()] == []


def test_claims_and_known_differences_of_the_emulators_have_the_same_names() -> None:
    """An id of both lists is one claim: the contract suite knows which emulators differ."""
    shared = claims().keys() & DIFFERENCES.keys()
    assert len(shared) >= 10
    for each in CHECKS.values():
        moto = [c for c in each.claims if c in shared and DIFFERENCES[c].moto]
        # The stale handle is no promise of AWS's either, so there is nothing to differ from.
        if moto and each.name not in ("stale-handle", "twelve-hours"):
            assert MOTO.get(each.name) == DIFFERS, f"{each.name}: moto differs in {moto}"


def test_the_page_is_up_to_date() -> None:
    assert page.PAGE.read_text() == page.text(), "run `python -m tools.verify_aws --page`"


def test_a_run_costs_less_than_a_dollar_and_half_an_hour() -> None:
    dollars, minutes = most(CHECKS.values(), proves=True)
    assert dollars < 1
    assert minutes <= 30
    # Beside each other: the longer one counts.
    assert minutes == max(most(CHECKS.values(), False)[1], most([], True)[1])
    assert most([], True)[1] >= sum(STEPS.values()) / 60
    assert most([], False) == (0, 0)


def test_every_check_asks_a_question() -> None:
    assert [each.name for each in CHECKS.values() if not each.question.endswith("?")] == []


def asking(answer: Callable[[AskedAccount], str]) -> Check:
    return Check("this", ("sqs-delay",), "nothing", 0, 1, answer)


def test_what_a_check_made_is_removed_when_it_fails(account: AskedAccount) -> None:
    def fails(account: AskedAccount) -> str:
        account.queue()
        account.table()
        raise Differs("the sky is green")

    left: list[str] = []
    finding = ask(asking(fails), account, left)
    assert (finding.verdict, finding.seen, left) == (DIFFERS, "the sky is green", [])
    assert leftovers(account) == ([], [])


def test_what_a_check_made_is_removed_when_a_person_interrupts(account: AskedAccount) -> None:
    def interrupted(account: AskedAccount) -> str:
        account.queue()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(asking(interrupted), account, [])
    assert leftovers(account) == ([], [])


def test_a_stopped_check_gives_up_and_removes_what_it_made(client: Callable[[str], Any]) -> None:
    waited: list[float] = []
    account = AskedAccount(client, run="0a1b2c", pause=waited.append, stopped=lambda: True)

    def waits(account: AskedAccount) -> str:
        account.queue()
        account.remove("slow", lambda: account.pause(5))
        account.pause(600)
        return "too late"

    left: list[str] = []
    answer = ask(asking(waits), account, left)
    assert (answer.verdict, answer.seen) == (UNCLEAR, "interrupted")
    assert (waited, left) == ([5], [])
    assert leftovers(account) == ([], [])


def test_what_a_removal_waits_for_is_waited_for_after_an_interruption(
    client: Callable[[str], Any],
) -> None:
    waited: list[float] = []
    account = AskedAccount(client, run="0a1b2c", pause=waited.append, stopped=lambda: True)
    life = account.another()
    with pytest.raises(Stopped):
        life.pause(1)
    account.remove("an app", lambda: life.pause(2))
    assert (account.clear(), waited) == ([], [2])


def test_an_interrupted_run_begins_no_other_check_and_reports_what_it_knows(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def interrupted(_checks: object, account: AskedAccount, *_more: object) -> None:
        asked.append(account.region)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "ask_all", interrupted)
    assert person.runs("--yes", "--only", "delay") == command.FAILED
    assert asked == ["us-east-1"]
    assert "interrupted" in json.loads(command.REPORT.read_text())["left"][0]


def test_ctrl_c_stops_the_checks_that_have_not_begun(account: AskedAccount) -> None:
    begun: list[str] = []
    stopped: list[bool] = []

    def answers(_account: AskedAccount) -> str:
        begun.append("one")
        return "done"

    def interrupt(_answer: AwsAnswer) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask_all([asking(answers)], account, [], interrupt, lambda: stopped.append(True))
    assert (begun, stopped) == (["one"], [True])


def test_a_check_that_breaks_is_unclear_and_stops_no_other(account: AskedAccount) -> None:
    def broken(_account: AskedAccount) -> str:
        raise KeyError("Attributes")

    assert ask(asking(broken), account, []).verdict == UNCLEAR


def test_what_cannot_be_removed_is_reported(account: AskedAccount) -> None:
    def stuck(account: AskedAccount) -> str:
        def refuse() -> None:
            raise ClientError({"Error": {"Code": "Busy", "Message": "later"}}, "DeleteThing")

        account.remove("the thing", refuse)
        return "made"

    left: list[str] = []
    assert ask(asking(stuck), account, left).verdict == HOLDS
    assert [what.partition(":")[0] for what in left] == ["the thing"]
    assert not VerifyReport("us-east-1", "now", [], left).clean


def test_the_last_made_is_removed_first(account: AskedAccount) -> None:
    order: list[str] = []
    with account.opened([]):
        for name in ("first", "second"):
            account.remove(name, lambda name=name: order.append(name))  # type: ignore[misc]
    assert order == ["second", "first"]


def answering(code: str) -> Callable[..., object]:
    def call(**_arguments: object) -> None:
        if code:
            raise ClientError({"Error": {"Code": code, "Message": "no"}}, "Call")

    return call


def test_a_refusal_counts_only_with_the_right_code() -> None:
    assert refused(answering("TooLong"), "TooLong") == "TooLong"
    assert refused(answering("Anything")) == "Anything"
    with pytest.raises(Differs, match="was taken"):
        refused(answering(""))
    with pytest.raises(Differs, match="not with TooLong"):
        refused(answering("TooShort"), "TooLong")


def test_a_missing_permission_says_nothing_about_a_claim() -> None:
    with pytest.raises(Unclear):
        refused(answering("AccessDenied"))
    assert refused(answering("AccessDenied"), "AccessDenied") == "AccessDenied"


Proving = Callable[..., list[ProofStep]]


@pytest.fixture
def proving(account: AskedAccount, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Proving:
    """Make a run of the steps that are given."""
    numbers = count()

    def run(**steps: Callable[[], str]) -> list[ProofStep]:
        said: list[str] = []
        monkeypatch.setattr("tools.verify_aws.prove.FOLDER", tmp_path / str(next(numbers)))
        monkeypatch.setattr(Proof, "steps", steps)
        ran = prove(account, "0a1b2c", said.append, environment={}, services=MOCKED, patience=1)
        assert [line for line in said if "begins" not in line] == list(map(str, ran))
        assert f"step {ran[0].name} begins" == said[0]
        return ran

    return run


def fails() -> str:
    raise Unproved("the sky is green")


def test_a_run_names_the_step_that_failed_takes_no_other_and_removes_what_it_made(
    account: AskedAccount, proving: Proving
) -> None:
    steps = proving(deploy=account.queue, die=fails, page=account.table)
    assert [(step.name, step.fault) for step in steps] == [
        ("deploy", ""),
        ("die", "the sky is green"),
        ("destroy", ""),
    ]
    assert leftovers(account) == ([], [])


def test_what_stayed_of_a_run_is_removed_and_a_stranger_s_is_not(
    account: AskedAccount, client: Callable[[str], Any], proving: Proving
) -> None:
    def deploy() -> str:
        for name in (f"{PREFIX}-0a1b2c-messages", f"{PREFIX}-ffffff-messages"):
            protected(client, name)
        return "made"

    steps = proving(deploy=deploy)
    assert [step.fault for step in steps] == ["", ""]
    removed, left = leftovers(account)
    assert (removed, left) == ([f"table {PREFIX}-ffffff-messages"], [])


def protected(client: Callable[[str], Any], name: str) -> None:
    """A table as an app that keeps its data has it."""
    client("dynamodb").create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        DeletionProtectionEnabled=True,
    )


def test_a_run_that_leaves_something_behind_is_not_proved(
    account: AskedAccount, monkeypatch: pytest.MonkeyPatch, proving: Proving
) -> None:
    def stuck(*_: object) -> Iterator[tuple[str, Callable[[], object]]]:
        yield f"queue {PREFIX}-0a1b2c-orders-dlq", answering("Busy")

    monkeypatch.setattr("tools.verify_aws.prove.found", stuck)
    steps = proving(deploy=lambda: "made")
    assert f"{PREFIX}-0a1b2c-orders-dlq" in steps[-1].fault
    assert not VerifyReport("us-east-1", "now", [], [], steps).clean


def test_each_claim_is_decided_wrong_or_undecided() -> None:
    def claim(id_: str, **more: str) -> AwsClaim:
        return AwsClaim(id_, "It is.", "All.", "https://docs.aws.amazon.com/", **more)

    def answered(verdict: str, *claims: str) -> AwsAnswer:
        return AwsAnswer("this", claims, verdict, f"seen: {verdict}", 1.0)

    known = [
        *(claim(f"sqs-{name}") for name in ("true", "false", "doubtful", "both", "open")),
        claim("sqs-shown", step="heal"),
        claim("sqs-not-shown", step="page"),
        claim("sqs-not-reached", step="replay"),
    ]
    found = [
        answered(HOLDS, "sqs-true", "sqs-both"),
        answered(DIFFERS, "sqs-false"),
        answered(UNCLEAR, "sqs-doubtful", "sqs-both"),
    ]
    steps = [ProofStep("heal", 1, "healed"), ProofStep("page", 1, "", "no page came")]
    said = {each.claim: (each.verdict, each.because) for each in verdicts(known, found, steps)}
    assert said == {
        "sqs-true": (DECIDED, "seen: holds"),
        "sqs-false": (WRONG, "seen: differs"),
        "sqs-doubtful": (UNDECIDED, "seen: unclear"),
        "sqs-both": (UNDECIDED, "seen: unclear"),
        "sqs-open": (UNDECIDED, "not asked"),
        "sqs-shown": (DECIDED, "healed"),
        "sqs-not-shown": (UNDECIDED, "no page came"),
        "sqs-not-reached": (UNDECIDED, "not asked"),
    }


def test_the_stacks_of_a_run_are_ours() -> None:
    run = f"{PREFIX}-0a1bfc"
    assert is_ours(f"{pascal_case(run)}-Orders-Queues")
    assert is_ours(f"{run}-messages-{NUMBER}-eu-west-1")
    assert not is_ours(f"{PREFIX}-orders-main")


def test_waiting_ends(account: AskedAccount) -> None:
    answers = iter([None, None, "there"])
    assert account.until(lambda: next(answers), 10, "it") == "there"
    with pytest.raises(Unclear, match="it: not within 5 s"):
        account.until(lambda: None, 5, "it")


def test_two_checks_cannot_share_a_name() -> None:
    with pytest.raises(ValueError, match="two checks are called delay"):

        @check("sqs-delay", creates="nothing")
        def delay(_account: AskedAccount) -> str:
            return ""


def made(client: Callable[[str], Any], name: str) -> set[str]:
    """One resource of each kind under a name; the kinds."""
    client("sqs").create_queue(QueueName=name)
    client("dynamodb").create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    allowed = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    role = client("iam").create_role(RoleName=name, AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    client("iam").put_role_policy(RoleName=name, PolicyName="this", PolicyDocument=policy)
    client("lambda").create_function(
        FunctionName=name,
        Runtime="python3.13",
        Role=role,
        Handler="index.handler",
        Code={"ZipFile": zipped("")},
    )
    client("stepfunctions").create_state_machine(
        name=name, definition=json.dumps(NOTHING), roleArn=role
    )
    client("logs").create_log_group(logGroupName=f"/aws/lambda/{name}")
    client("cloudwatch").put_dashboard(DashboardName=name, DashboardBody='{"widgets":[]}')
    client("cloudwatch").put_metric_alarm(
        AlarmName=name,
        Namespace="x",
        MetricName="x",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
    )
    client("ssm").put_parameter(Name=name, Value="x", Type="String")
    client("s3").create_bucket(Bucket=name)
    client("s3").put_object(Bucket=name, Key="page", Body=b"x")
    client("sns").create_topic(Name=name)
    client("scheduler").create_schedule(
        Name=name,
        ScheduleExpression="rate(1 minute)",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={"Arn": "arn:aws:lambda:us-east-1:123456789012:function:x", "RoleArn": role},
    )
    return {
        "alarm",
        "bucket",
        "dashboard",
        "function",
        "log",
        "parameter",
        "queue",
        "role",
        "schedule",
        "state",
        "table",
        "topic",
    }


def test_the_sweep_removes_what_a_killed_run_left_and_nothing_else(
    account: AskedAccount, client: Callable[[str], Any]
) -> None:
    theirs = f"{PREFIX}-orders"
    kinds = made(client, account.name())
    made(client, theirs)
    client("dynamodb").update_table(
        TableName=f"{PREFIX}-0a1b2c-x-1", DeletionProtectionEnabled=True
    )
    removed, left = leftovers(account)
    assert {what.split()[0] for what in removed} == kinds
    assert len(removed) == len(kinds)
    assert left == []
    assert leftovers(account) == ([], []), "what counts as removed is still there"


def test_a_policy_of_a_stack_is_detached_before_the_role_goes_with_all_of_its_own(
    account: AskedAccount, client: Callable[[str], Any]
) -> None:
    iam, name = client("iam"), account.role("lambda.amazonaws.com", []).rpartition("/")[2]
    allowed = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    for policy in (f"{PREFIX}-0a1b2c-orders-consumer", "theirs"):
        made = iam.create_policy(PolicyName=policy, PolicyDocument=document)["Policy"]
        iam.attach_role_policy(RoleName=name, PolicyArn=made["Arn"])
    removed, left = leftovers(account)
    assert removed == [f"policy {PREFIX}-0a1b2c-orders-consumer of {name}", f"role {name}"]
    assert left == []


class Person:
    """What a person types, and what the command prints."""

    def __init__(self, client: Callable[[str], Any], folder: Path) -> None:
        self._client = client
        self._screen = io.StringIO()
        self.asked: list[str] = []
        self.answer = ""

    def runs(self, *arguments: str) -> int:
        def answer(question: str) -> str:
            self.asked.append(question)
            return self.answer

        return command.main(
            arguments,
            client=self._client,
            answer=answer,
            console=Console(file=self._screen, width=200),
            account={"pause": Waiting().pause, "poll_seconds": 0},
        )

    @property
    def reads(self) -> str:
        return self._screen.getvalue()


@pytest.fixture
def person(client: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    monkeypatch.setattr(command, "REPORT", tmp_path / "build" / "verify-aws.json")
    return Person(client, tmp_path)


def test_nothing_is_asked_until_the_account_s_number_is_typed(person: Person) -> None:
    person.answer = "111122223333"
    assert person.runs("--only", "fifo-delay") == command.USAGE
    assert f"Account {NUMBER}" in person.reads
    assert "nothing was asked" in person.reads
    assert not command.REPORT.exists()


def test_the_account_s_number_starts_a_run(person: Person) -> None:
    person.answer = NUMBER
    assert person.runs("--only", "fifo-delay") == command.OK
    assert "fifo-delay: holds" in person.reads
    assert json.loads(command.REPORT.read_text())["counts"] == {HOLDS: 1, DIFFERS: 0, UNCLEAR: 0}


def test_the_product_is_proved_beside_the_checks_and_decides_claims(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    made: list[str] = []

    def proves(account: AskedAccount, run: str, say: Callable[[str], None], **_: object) -> Any:
        names.append(run)
        assert account.name().startswith(f"{PREFIX}-{run}-")
        say("step again begins")
        return [ProofStep("again", 1, "taken over")]

    def asks(checks: Any, account: AskedAccount, *more: Any) -> None:
        made.append(account.name())
        ask_all(checks, account, *more)

    monkeypatch.setattr(command, "prove", proves)
    monkeypatch.setattr(command, "ask_all", asks)
    assert person.runs("--yes", "--only", "product", "fifo-delay") == command.OK
    assert re.search(r"run 1 checks, deploy an app .* \$0\.\d\d by list prices", person.reads)
    # What is left of the product is removed, and never what a check has made.
    assert not made[0].startswith(f"{PREFIX}-{names[0]}")
    assert "step again begins" in person.reads
    assert re.search(r"differences.md: 2 decided, \d+ undecided, 0 wrong", person.reads)
    report = json.loads(command.REPORT.read_text())
    decided = {each["claim"] for each in report["claims"] if each["verdict"] == DECIDED}
    assert decided == {"sqs-fifo-delay", "cloudformation-import"}
    assert len(report["claims"]) == len(claims())
    assert person.runs("--yes", "--only", "fifo-delay") == command.OK
    assert len(names) == 1


def test_an_interruption_ends_the_product_too_and_says_what_removes_the_rest(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    def proves(account: AskedAccount, *_: object, **__: object) -> list[ProofStep]:
        def works() -> None:
            for _ in range(1_000_000):
                account.pause(1)

        with pytest.raises(Stopped):
            works()
        return [ProofStep("deploy", 1, "", "interrupted")]

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "prove", proves)
    monkeypatch.setattr(command, "ask_all", interrupted)
    assert person.runs("--yes") == command.FAILED
    assert 'make verify-aws ARGS="--sweep"' in person.reads
    assert json.loads(command.REPORT.read_text())["steps"][0]["fault"] == "interrupted"


def test_a_claim_that_differs_fails_the_run(
    person: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    assert person.runs("--yes", "--json", "--only", "ten-attributes", "fifo-delay") == 1
    assert person.asked == []
    report = json.loads(capsys.readouterr().out)
    assert report["counts"] == {HOLDS: 1, DIFFERS: 1, UNCLEAR: 0}
    assert ["sqs-ten-attributes"] in [each["claims"] for each in report["findings"]]


def test_an_unknown_check_is_named(person: Person) -> None:
    assert person.runs("--only", "fifo-dealy") == command.USAGE
    assert "fifo-dealy" in person.reads


def test_the_list_asks_nobody(person: Person) -> None:
    assert person.runs("--list") == command.OK
    assert re.search(r"All: at most \$0\.\d\d by list prices, and \d+ minutes", person.reads)
    assert "fifo-delay" in person.reads
    assert person.asked == []


def test_a_sweep_asks_first_and_says_what_it_removed(
    person: Person, account: AskedAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.queue("left")
    monkeypatch.setattr(command, "sweep", leftovers)
    assert person.runs("--sweep") == command.USAGE
    assert person.runs("--sweep", "--yes") == command.OK
    assert "removing queue " in person.reads
    assert f"{PREFIX}-0a1b2c-left" in person.reads
    assert "1 removed." in person.reads


def test_the_report_shows_what_aws_said_as_text() -> None:
    screen = io.StringIO()
    finding = AwsAnswer("delay", ("sqs-delay",), DIFFERS, "it said [bold]no[/]", 1.0)
    VerifyReport("us-east-1", "now", [finding]).show(Console(file=screen, width=120))
    assert "[bold]no[/]" in screen.getvalue()


def test_expecting_says_what_was_seen() -> None:
    expect(True, "fine")
    with pytest.raises(Differs, match="eleven"):
        expect(False, "eleven")
