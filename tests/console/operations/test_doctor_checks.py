"""Each check of `dlq doctor` finds its fault, and only that."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest

from console.operations.doctor_checks import (
    Examined,
    QueueAlarm,
    QueueConsumer,
    QueueMapping,
    findings,
)
from console.operations.key_policy import EncryptionKey, key_uses, with_statement
from console.operations.queue import DeployedQueue
from tests.each_row import each_row

TLS = {
    "Statement": [
        {"Effect": "Deny", "Condition": {"Bool": {"aws:SecureTransport": "false"}}, "Action": "*"}
    ]
}
DAY = 86_400


def queue(name: str, **settings: Any) -> DeployedQueue:
    return replace(
        DeployedQueue(
            name=name, url=f"https://sqs.eu-west-1.amazonaws.com/1/{name}", policy=TLS,
            arn=f"arn:aws:sqs:eu-west-1:1:{name}", messages=0, retention=4 * DAY, visibility=180,
            dlq_arn=None, max_receive_count=None, allowed_sources=None, encryption="SSE-SQS",
            fifo=False,
        ), **settings,
    )  # fmt: skip


DLQ = queue("orders-dlq", retention=14 * DAY)
MAIN = queue("orders", dlq_arn=DLQ.arn, max_receive_count=5)
MAPPING = QueueMapping(
    "uuid-1", "consumer", 10, reports_failures=True, enabled=True, concurrency=10
)
HEALTHY = Examined(
    mains=(MAIN,),
    dlq=DLQ,
    region="eu-west-1",
    mappings={MAIN.arn: (MAPPING,)},
    consumers={"consumer": QueueConsumer("consumer", 30)},
    alarms=(QueueAlarm("deep", "ApproximateNumberOfMessagesVisible", DLQ.name, ("arn:topic",)),),
    keys={},
)

OWN_KEY = {"Statement": [{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::1:root"},
                          "Action": "kms:*"}]}  # fmt: skip
CLOSED_KEY = {"Statement": [{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::1:role/x"},
                             "Action": "kms:*"}]}  # fmt: skip


def main(**settings: Any) -> dict[str, Any]:
    return {"mains": (replace(MAIN, **settings),)}


def dlq(**settings: Any) -> dict[str, Any]:
    return {"dlq": replace(DLQ, **settings)}


def mapped(**settings: Any) -> dict[str, Any]:
    return {"mappings": {MAIN.arn: (replace(MAPPING, **settings),)}}


def alarm(**settings: Any) -> dict[str, Any]:
    return {"alarms": (replace(HEALTHY.alarms[0], **settings),)}


PAGER = key_uses("deadletter", partition="aws", region="eu-west-1", account="1")
ALL_USES = OWN_KEY
for _use in PAGER.values():
    ALL_USES = dict(with_statement(ALL_USES, _use))


def keyed(topic: EncryptionKey | None, app: EncryptionKey | None = None) -> dict[str, Any]:
    """An app whose topic is under one key, and all that it makes under another."""
    return {
        "topic": "arn:aws:sns:eu-west-1:1:deadletter-alarms",
        "key_uses": PAGER,
        "topic_key": topic,
        "app_key": app,
    }


FAULTS: list[tuple[str, str, dict[str, Any]]] = [
    ("ERROR", "no-dlq", main(dlq_arn=None)),
    ("ERROR", "dlq-missing", {"dlq": None}),
    ("ERROR", "not-allowed", dlq(allowed_sources=("arn:other",))),
    ("ERROR", "another-dlq", {"drained": "orders-dead"}),
    ("ERROR", "few-receives", main(max_receive_count=1)),
    ("WARNING", "few-receives", main(max_receive_count=2)),
    ("ERROR", "short-retention", dlq(retention=4 * DAY)),
    ("ERROR", "whole-batches", mapped(reports_failures=False)),
    ("WARNING", "disabled", mapped(enabled=False)),
    ("WARNING", "perhaps-paused", mapped(enabled=False, is_paused=None)),
    ("WARNING", "paused", mapped(enabled=False, is_paused=True)),
    ("NOTE", "provisioned", mapped(pollers=2, concurrency=None)),
    ("NOTE", "no-concurrency", mapped(concurrency=None)),
    ("WARNING", "short-visibility", main(visibility=179)),
    ("ERROR", "short-visibility", main(visibility=29)),
    ("ERROR", "isolated", {"consumers": {"f": QueueConsumer("f", 30, isolated=True)}}),
    ("ERROR", "dlq-of-dlq", dlq(dlq_arn="arn:another", max_receive_count=3)),
    ("WARNING", "shared-dlq", {"mains": (MAIN, queue("b", dlq_arn=DLQ.arn, max_receive_count=5))}),
    ("WARNING", "consumed", {"mappings": {DLQ.arn: (MAPPING,)}}),
    ("WARNING", "other-kind", {"uses": ("the DLQ of a subscription of SNS topic t",)}),
    ("NOTE", "no-source", {"mains": ()}),
    ("WARNING", "unencrypted", dlq(encryption="none")),
    ("WARNING", "no-tls", main(policy={})),
    ("WARNING", "managed-key", dlq(encryption="alias/aws/sqs")),
    ("ERROR", "key-disabled",
     {**dlq(encryption="k"), "keys": {"k": EncryptionKey("k", False, OWN_KEY)}}),
    ("WARNING", "key-closed",
     {**dlq(encryption="k"), "keys": {"k": EncryptionKey("k", True, CLOSED_KEY)}}),
    ("ERROR", "key-unknown",
     {**dlq(encryption="k"), "keys": {"k": EncryptionKey("k", True, OWN_KEY, "arn:k")},
      "granted": ["arn:other"]}),
    ("WARNING", "no-action", alarm(actions=())),
    ("WARNING", "actions-off", alarm(enabled=False)),
    ("WARNING", "no-alarm", {"alarms": ()}),
    ("ERROR", "pager-key", keyed(EncryptionKey("alias/aws/sns", True))),
    ("ERROR", "pager-key", keyed(EncryptionKey("k", False, ALL_USES, "arn:k"))),
    ("ERROR", "pager-key", keyed(EncryptionKey("k", True, OWN_KEY, "arn:k"))),
    ("WARNING", "pager-key", keyed(EncryptionKey("k", True, {"Statement": {
        **PAGER["cloudwatch"].statement,
        "Condition": {"StringEquals": {"aws:PrincipalOrgID": "o-1"}}}}, "arn:k"))),
    ("ERROR", "logs-key",
     keyed(None, EncryptionKey("k", True, OWN_KEY, "arn:k"))),
    ("NOTE", "topic-key",
     keyed(EncryptionKey("t", True, ALL_USES, "arn:t"),
           EncryptionKey("k", True, with_statement(OWN_KEY, PAGER["logs"]), "arn:k"))),
    ("NOTE", "by-boto3", {"consumers": {"f": QueueConsumer("f", 30, by_boto3=True)}}),
    ("NOTE", "deep-dlq", dlq(messages=101)),
    ("NOTE", "deep-dlq", {**dlq(messages=101), "mode": "observe"}),
]  # fmt: skip


def test_healthy_queues_have_no_finding() -> None:
    assert findings(HEALTHY) == []
    own_key = {"keys": {"k": EncryptionKey("k", True, OWN_KEY)}}
    assert findings(replace(HEALTHY, **dlq(encryption="k"), **own_key)) == []
    known = {"keys": {"k": EncryptionKey("k", True, OWN_KEY, "arn:k")}}
    for granted in (None, ["arn:k"]):
        keyed = replace(HEALTHY, **dlq(encryption="k"), **known, granted=granted)
        assert findings(keyed) == []


def test_few_letters_are_no_finding_and_many_are_none_where_they_are_moved() -> None:
    assert findings(replace(HEALTHY, **dlq(messages=100))) == []
    assert findings(replace(HEALTHY, **dlq(messages=9_000), mode="enforce")) == []


def test_a_deep_dlq_says_how_old_it_is_and_what_each_mode_does_with_it() -> None:
    (finding,) = findings(replace(HEALTHY, **dlq(messages=5_210), oldest=6 * DAY + 7_300))
    assert finding.says.startswith("it holds about 5,210 messages, the oldest 6 d 2 h old.")
    assert "In mode observe they stay." in finding.says
    assert "1, 2, 5, 20 of them in the first runs" in finding.says
    assert finding.fix == "dlq groups --look --in queue:orders-dlq --region eu-west-1"


def test_keys_whose_policies_name_the_services_are_no_finding() -> None:
    key = EncryptionKey("k", True, ALL_USES, "arn:k")
    assert findings(replace(HEALTHY, **keyed(key, key))) == []
    # A key of AWS that lets CloudWatch publish does not exist, but a topic without one does.
    assert findings(replace(HEALTHY, **keyed(None, key))) == []


def test_the_fix_of_a_key_adds_the_statement_and_keeps_the_others() -> None:
    key = EncryptionKey("k", True, OWN_KEY, "arn:k")
    (finding,) = findings(replace(HEALTHY, **keyed(key)))
    assert "alarms reach no one, and no error is shown" in finding.says
    words = shlex.split(finding.fix or "")
    policy = json.loads(words[words.index("--policy") + 1])
    assert policy["Statement"] == [*OWN_KEY["Statement"], PAGER["cloudwatch"].statement]
    mended = EncryptionKey("k", True, policy, "arn:k")
    assert findings(replace(HEALTHY, **keyed(mended))) == []


def test_a_key_that_the_pipeline_does_not_know_is_named_with_its_remedy() -> None:
    other = queue("b", dlq_arn=DLQ.arn, max_receive_count=5, encryption="k")
    known = {"keys": {"k": EncryptionKey("k", True, OWN_KEY, "arn:k")}, "granted": []}
    for mains, remedy in (
        ((replace(MAIN, encryption="k"),), "name it in the settings (main_queue.kms_key_arn)"),
        ((MAIN, other), "give this queue a DLQ of its own"),
    ):
        said = [each.says for each in findings(replace(HEALTHY, mains=mains, **known))]
        assert any(remedy in text for text in said)


@each_row(("level", "check", "fault"), FAULTS)
def test_a_fault_is_found_alone_and_its_fix_is_a_command_line_for_the_region(
    level: str, check: str, fault: dict[str, Any]
) -> None:
    (finding,) = findings(replace(HEALTHY, **fault))
    assert (finding.level, finding.check) == (level, check)
    for command in finding.fix.split(" && ") if finding.fix else ():
        words = shlex.split(command)
        assert words[0] in ("aws", "dlq")
        assert words[words.index("--region") + 1] == "eu-west-1"
        if "--attributes" in words:
            json.loads(words[words.index("--attributes") + 1])


@pytest.mark.parametrize("is_paused", [False, None, True])
def test_only_a_mapping_that_no_circuit_has_paused_is_to_be_enabled(is_paused: bool | None) -> None:
    (finding,) = findings(replace(HEALTHY, **mapped(enabled=False, is_paused=is_paused)))
    assert bool(finding.fix and "--enabled" in finding.fix) is (is_paused is False)
    assert "list of circuits" in " ".join(finding.says.split()) or is_paused is False


def test_an_alarm_on_messages_sent_is_put_anew_with_its_actions() -> None:
    blind = alarm(metric="NumberOfMessagesSent", actions=("arn:aws:sns:eu-west-1:1:page",))
    wrong, none = findings(replace(HEALTHY, **blind))
    assert (wrong.check, none.check) == ("blind-alarm", "no-alarm")
    assert wrong.fix is not None
    assert "--metric-name ApproximateNumberOfMessagesVisible" in wrong.fix
    assert wrong.fix.endswith("--alarm-actions arn:aws:sns:eu-west-1:1:page")


def test_the_policy_with_tls_keeps_what_the_policy_allowed() -> None:
    allowed = {"Sid": "Topic", "Effect": "Allow", "Action": "sqs:SendMessage"}
    (finding,) = findings(replace(HEALTHY, **main(policy={"Statement": allowed})))
    assert finding.fix is not None
    words = shlex.split(finding.fix)
    policy = json.loads(json.loads(words[words.index("--attributes") + 1])["Policy"])
    assert [statement["Sid"] for statement in policy["Statement"]] == ["Topic", "OnlyWithTls"]


@each_row(
    ("condition", "demands"),
    [
        ({"Bool": {"aws:SecureTransport": ["false"]}}, True),
        ({"Bool": {"aws:SecureTransport": False}}, True),
        ({"Bool": {"AWS:SecureTransport": "false"}}, True),
        ({"BoolIfExists": {"aws:securetransport": "false"}}, True),
        ({"Bool": {"aws:SecureTransport": ["true"]}}, False),
        ({"StringEquals": {"aws:SecureTransport": "false"}}, False),
        (None, False),
    ],
)
def test_tls_is_demanded_in_every_form_that_iam_takes(condition: object, demands: bool) -> None:
    policy = {"Statement": {"Effect": "Deny", "Condition": condition, "Action": "sqs:*"}}
    faults = findings(replace(HEALTHY, **main(policy=policy)))
    assert [fault.check for fault in faults] == ([] if demands else ["no-tls"])


def test_a_fifo_dlq_counts_its_retention_anew() -> None:
    assert findings(replace(HEALTHY, **dlq(retention=4 * DAY, fifo=True))) == []


@pytest.mark.parametrize(
    "fault", [main(dlq_arn=None), main(dlq_arn="arn:aws:sqs:eu-west-1:1:gone")]
)
def test_a_main_queue_that_lost_its_dlq_gets_the_one_that_its_pipeline_drains(
    fault: dict[str, Any],
) -> None:
    (finding,) = findings(replace(HEALTHY, dlq=None, drained="orders-letters", **fault))
    assert _redrive_target(finding.fix) == "arn:aws:sqs:eu-west-1:1:orders-letters"
    assert "create-queue" not in str(finding.fix)


def test_a_drained_dlq_that_is_missing_leaves_the_choice_to_a_person() -> None:
    (finding,) = findings(replace(HEALTHY, dlq=None, drained=DLQ.name))
    assert (finding.check, finding.fix) == ("dlq-missing", None)


def test_a_fix_that_deletes_messages_says_which_before_it_is_typed() -> None:
    both = {**main(retention=14 * DAY, messages=1_200), **dlq(retention=14 * DAY)}
    (finding,) = findings(replace(HEALTHY, **both))
    assert finding.before is not None
    assert "deletes the messages of orders that are older than 4 d 0 h" in finding.before
    assert "about 1,200 messages" in finding.before
    (longer,) = findings(replace(HEALTHY, **dlq(retention=4 * DAY)))
    assert longer.before is None


def test_the_queue_that_a_shared_dlq_is_named_after_keeps_it() -> None:
    invoices = queue("invoices", dlq_arn=DLQ.arn, max_receive_count=5)
    (finding,) = findings(replace(HEALTHY, mains=(invoices, MAIN)))
    assert finding.fix is not None
    assert "--queue-name invoices-dlq " in finding.fix
    assert "--queue-name orders-dlq " not in finding.fix
    assert finding.before is not None
    assert "a pipeline of invoices re-drives none from a new DLQ" in finding.before


def test_no_fix_undoes_another_and_none_touches_the_queue_of_another_pipeline() -> None:
    mains = (replace(MAIN, max_receive_count=1), queue("b", dlq_arn=DLQ.arn, max_receive_count=2))
    faults = findings(replace(HEALTHY, mains=mains, drained="orders-letters"))
    own = [fault for fault in faults if fault.subject == "orders"]
    assert [fault.check for fault in own] == ["another-dlq", "few-receives"]
    for fault in own:
        assert _redrive_target(fault.fix) == "arn:aws:sqs:eu-west-1:1:orders-letters"
        assert '"maxReceiveCount\\": 5' in str(fault.fix)
    others = [fault.check for fault in faults if fault.subject == "b"]
    assert others == ["few-receives"]
    (shared,) = [fault for fault in faults if fault.check == "shared-dlq"]
    assert '"maxReceiveCount\\": 5' in str(shared.fix)


def _redrive_target(fix: str | None) -> str:
    words = shlex.split(fix or "")
    attributes = json.loads(words[words.index("--attributes") + 1])
    return str(json.loads(attributes["RedrivePolicy"])["deadLetterTargetArn"])
