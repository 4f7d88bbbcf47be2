"""`dlq doctor` on deliberately bad queues, with nothing of ours deployed."""

from __future__ import annotations

import io
import json
import shlex
import time
import zipfile
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from console.cli.exit import Exit
from console.operations import doctor
from deadletter.circuit.state import State
from deadletter.outage.mapping import PAUSE_TAG
from deadletter.testing.fakes import client_error
from tests.console.conftest import ACCOUNT, redrive_policy
from tests.each_row import each_row

REGION = "eu-west-1"


@pytest.fixture(autouse=True)
def _queues_are_motos(in_memory: Any) -> None:
    """Its Lambda looks for the queue of a mapping."""
    del in_memory["sqs"]


def _function(name: str, **variables: str) -> str:
    """A Lambda function that may run for a minute."""
    trust = {"Version": "2012-10-17", "Statement": []}
    iam = boto3.client("iam", REGION)
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))["Role"]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as code:
        code.writestr("app.py", "")
    answer = boto3.client("lambda", REGION).create_function(
        FunctionName=name, Runtime="python3.13", Role=role["Arn"], Handler="app.handler",
        Timeout=60, Environment={"Variables": variables}, Code={"ZipFile": archive.getvalue()},
    )  # fmt: skip
    return str(answer["FunctionArn"])


@pytest.fixture
def bad(cloud: Any) -> Iterator[Any]:
    """A main queue, a DLQ, a consumer and an alarm with a fault each."""
    dlq = cloud.queue("orders-dlq", MessageRetentionPeriod="86400", SqsManagedSseEnabled="false")
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:orders-dlq"
    redrive = redrive_policy("orders-dlq", receives=1)
    for name in ("orders", "invoices"):
        cloud.queue(name, RedrivePolicy=redrive, MessageRetentionPeriod="345600")
    consumer = _function("consumer")
    boto3.client("lambda", REGION).create_event_source_mapping(
        EventSourceArn=f"arn:aws:sqs:{REGION}:{ACCOUNT}:orders", FunctionName=consumer
    )
    on_dlq = [{"Name": "QueueName", "Value": "orders-dlq"}]
    cloud.alarm("letters", "OK", MetricName="NumberOfMessagesSent", Dimensions=on_dlq)
    sns = boto3.client("sns", REGION)
    topic = sns.create_topic(Name="prices")["TopicArn"]
    sns.subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint=f"{arn.rpartition(':')[0]}:orders",
        Attributes={"RedrivePolicy": json.dumps({"deadLetterTargetArn": arn})},
    )  # fmt: skip
    events = boto3.client("events", REGION)
    events.put_rule(Name="nightly", ScheduleExpression="rate(1 day)")
    events.put_targets(
        Rule="nightly", Targets=[{"Id": "job", "Arn": consumer, "DeadLetterConfig": {"Arn": arn}}]
    )
    assert dlq
    return cloud


ILLS = {
    ("ERROR", "short-retention", "orders-dlq"),
    ("ERROR", "few-receives", "orders"),
    ("ERROR", "few-receives", "invoices"),
    ("ERROR", "whole-batches", "consumer"),
    ("ERROR", "short-visibility", "orders"),
    ("ERROR", "blind-alarm", "letters"),
    ("WARNING", "shared-dlq", "orders-dlq"),
    ("WARNING", "unencrypted", "orders-dlq"),
    ("WARNING", "no-tls", "orders"),
    ("WARNING", "other-kind", "orders-dlq"),
    ("WARNING", "no-alarm", "orders-dlq"),
}


@pytest.mark.parametrize("queue", ["orders", "orders-dlq"])
def test_a_bad_queue_is_examined_from_either_end(bad: Any, dlq: Any, queue: str) -> None:
    done = dlq(f"doctor queue:{queue} --json", ends=Exit.ATTENTION)
    answer = json.loads(done.stdout)
    found = {(item["level"], item["check"], item["subject"]) for item in answer["findings"]}
    assert found >= ILLS
    assert answer["unchecked"] == []
    kinds = [item["says"] for item in answer["findings"] if item["check"] == "other-kind"]
    assert any("SNS topic prices" in says for says in kinds)
    assert any("EventBridge rule nightly" in says for says in kinds)


def test_the_lines_for_a_script_are_the_findings_and_not_the_names_of_queues(
    bad: Any, dlq: Any
) -> None:
    lines = dlq("doctor queue:orders-dlq --jsonl").stdout.splitlines()
    assert {json.loads(line)["check"] for line in lines} >= {check for _, check, _ in ILLS}


def test_the_fixes_repair_what_can_be_repaired(bad: Any, dlq: Any) -> None:
    """What a person would paste, typed at the same AWS."""
    answer = json.loads(dlq("doctor queue:orders --json").stdout)
    for finding in answer["findings"]:
        for command in (finding["fix"] or "").split(" && "):
            _paste(bad, shlex.split(command))
    again = json.loads(dlq("doctor queue:orders --json").stdout)
    left = {item["check"] for item in again["findings"]}
    assert not left & {
        *("few-receives", "short-retention", "short-visibility", "unencrypted"),
        *("blind-alarm", "no-alarm", "shared-dlq"),
    }


def _paste(cloud: Any, words: list[str]) -> None:
    def value(option: str) -> str:
        return words[words.index(option) + 1]

    match words:
        case ["aws", "sqs", "set-queue-attributes", *_]:
            attributes = json.loads(value("--attributes"))
            cloud.sqs.set_queue_attributes(QueueUrl=value("--queue-url"), Attributes=attributes)
        case ["aws", "sqs", "create-queue", *_]:
            cloud.queue(value("--queue-name"), **json.loads(value("--attributes")))
        case ["aws", "cloudwatch", "put-metric-alarm", *_]:
            on_dlq = [{"Name": "QueueName", "Value": "orders-dlq"}]
            metric = value("--metric-name")
            cloud.alarm(value("--alarm-name"), "OK", MetricName=metric, Dimensions=on_dlq)


def test_a_person_reads_the_worst_first_and_each_repair(bad: Any, dlq: Any) -> None:
    says = (
        "orders-dlq in account 123456789012, eu-west-1",
        "aws sqs set-queue-attributes --queue-url https://",
    )
    shown = dlq("doctor queue:orders-dlq", says=says).stdout
    assert shown.splitlines()[0].endswith(" other findings")
    assert shown.index("ERROR") < shown.index("WARNING")


def test_a_pipeline_is_examined_by_its_name(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    assert " run botocore " not in dlq("doctor orders").stdout
    cloud.watched("orders", botocore="1.40.4")
    says = f"Its functions run botocore 1.40.4; {doctor.TESTED_BOTOCORE} was tested."
    dlq("doctor orders", says=(says, "Not asked: "))
    answer = json.loads(dlq("doctor orders --json").stdout)
    assert (answer["mains"], answer["botocore"]) == (["orders-main"], "1.40.4")
    assert "none-named" in {item["check"] for item in answer["findings"]}
    assert answer["asked_account"] is False
    assert "Not asked: " not in dlq("doctor queue:orders-dlq").stdout


def test_a_queue_that_is_missing_is_named(cloud: Any, dlq: Any) -> None:
    dlq("doctor queue:nope", ends=Exit.ABSENT, refuses="There is no queue 'nope'")


@each_row(
    "words",
    ["queue:q -p orders", "queue:q --removal", "queue:q --send-page", "--send-page --removal"],
)
def test_a_doctor_does_one_thing_at_a_time(dlq: Any, words: str) -> None:
    dlq(f"doctor {words}", ends=Exit.USAGE)


def test_what_is_no_error_leaves_the_exit_status(cloud: Any, dlq: Any) -> None:
    cloud.queue("alone-dlq")
    done = dlq("doctor queue:alone-dlq --json", ends=Exit.DONE)
    assert {item["level"] for item in json.loads(done.stdout)["findings"]} == {"WARNING", "NOTE"}


def test_a_pipeline_whose_main_queue_lost_its_dlq_gets_it_back(cloud: Any, dlq: Any) -> None:
    """Also if the main queue has a name as a DLQ has one."""
    cloud.deploy("errors")
    answer = json.loads(dlq("doctor errors --json").stdout)
    assert answer["mains"] == ["errors-main"]
    (lost,) = [item for item in answer["findings"] if item["check"] == "none-named"]
    _paste(cloud, shlex.split(lost["fix"]))
    again = json.loads(dlq("doctor errors --json").stdout)
    assert again["dlq"] == "errors-dlq"


@pytest.mark.parametrize(
    ("row", "tag", "check"),
    [
        (True, False, "paused"),
        (False, True, "paused"),
        (False, False, "disabled"),
        (False, None, "perhaps-paused"),
    ],
)
def test_a_mapping_that_a_circuit_has_paused_is_not_to_be_enabled(
    cloud: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch, row: bool, tag: bool | None, check: str
) -> None:
    """By the circuit's row, or by our tag where the row is gone."""
    cloud.deploy("orders")
    mapping = boto3.client("lambda", REGION).create_event_source_mapping(
        EventSourceArn=f"arn:aws:sqs:{REGION}:{ACCOUNT}:orders-main",
        FunctionName=_function("consumer"), Enabled=False,
    )["UUID"]  # fmt: skip
    if row:
        paused = {"mapping": mapping, "at": int(time.time())}
        cloud.circuit("orders", "orders", State.OPEN, paused=paused)

    def has_tag(_: object, found: Any) -> bool | None:
        assert found["UUID"] == mapping
        return tag

    monkeypatch.setattr(doctor, "_has_pause_tag", has_tag)

    answer = json.loads(dlq("doctor orders --json").stdout)
    mapped = {"paused", "disabled", "perhaps-paused"}
    (finding,) = [each for each in answer["findings"] if each["check"] in mapped]

    assert finding["check"] == check
    assert (finding["fix"] is None) is (check != "disabled")


def test_the_tag_of_a_paused_mapping_is_read_as_our_circuits_write_it() -> None:
    def list_tags(Resource: str) -> Any:  # noqa: N803 - the name is boto3's
        if Resource == "denied":
            raise client_error("ListTags", "AccessDeniedException", "no")
        return {"Tags": {PAUSE_TAG: "x"} if Resource == "paused" else {"team": "x"}}

    aws: Any = SimpleNamespace(functions=SimpleNamespace(list_tags=list_tags))
    rows = [{"EventSourceMappingArn": arn} for arn in ("paused", "other", "denied", "")]
    said = [doctor._has_pause_tag(aws, row) for row in rows]
    assert said == [True, False, None, None]


def test_the_key_of_the_alarms_topic_is_read_and_its_fix_repairs_it(cloud: Any, dlq: Any) -> None:
    kms = boto3.client("kms", REGION)
    made = kms.create_key()["KeyMetadata"]["Arn"]
    sns = boto3.client("sns", REGION)
    topic = sns.create_topic(Name="pages", Attributes={"KmsMasterKeyId": made})["TopicArn"]
    cloud.deploy("orders")
    cloud.redeploy("app", alarm_topic=topic)

    def of_the_pager() -> list[dict[str, Any]]:
        answer = json.loads(dlq("doctor orders --json").stdout)
        assert not [what for what in answer["unchecked"] if "key" in what]
        return [item for item in answer["findings"] if item["check"] == "pager-key"]

    [finding] = of_the_pager()
    assert (finding["level"], finding["subject"]) == ("ERROR", "pages")
    assert "alarms reach no one, and no error is shown" in finding["says"]
    words = shlex.split(finding["fix"])
    assert words[:3] == ["aws", "kms", "put-key-policy"]
    policy = words[words.index("--policy") + 1]
    kms.put_key_policy(KeyId=made, PolicyName="default", Policy=policy)
    assert of_the_pager() == []


def test_a_function_that_boto3_makes_all_calls_of_is_named(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    for role, value in (("redrive", "0"), ("probe", "1")):
        _function(f"deadletter-orders-{role}", DEADLETTER_BOTO3=value)
    answer = json.loads(dlq("doctor orders --json").stdout)
    found = [each["subject"] for each in answer["findings"] if each["check"] == "by-boto3"]
    assert found == ["deadletter-orders-probe"]
