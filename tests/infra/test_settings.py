"""Settings are taken as meant or refused in one sentence; nothing here starts the CDK."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from deadletter.contract import ROWS_KEPT
from infra import settings as said
from infra.context import read
from infra.refusal import Refused
from tests.each_row import each_row
from tests.infra.conftest import ROOT

ORDERS_DLQ = "arn:aws:sqs:eu-west-1:111122223333:orders-dlq"
ORDERS_MAIN = "arn:aws:sqs:eu-west-1:111122223333:orders"
THEIRS = "arn:aws:lambda:eu-west-1:111122223333:function:orders"
KEY = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd"
ABROAD = "arn:aws:sqs:us-east-1:111122223333:orders-dlq"
WORDS = (
    "lower-case letters, digits and single hyphens, starting with a letter, at most {} characters"
)
DURATION = "a duration from {}, in seconds or written like 90s, 15m, 4d"
A_QUEUE = "an ARN like arn:aws:sqs:eu-west-1:111122223333:orders"

# What is said about a pipeline called orders, and the rest of the sentence.
SHARDS = 'a whole number from 1 to 8, or "auto"'

REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"redrive": {"evry": 60}},
        "redrive.evry is 60, but there is no such key; allowed: every, memory,"
        " reserved_concurrency, timeout",
    ),
    (
        {"consumer": {"kind": "webhook", "retries": 3}},
        "consumer.retries is 3, but there is no such key; allowed: allow_loopback, batch_size,"
        " kind, max_concurrency, ports, request_timeout, timeout",
    ),
    (
        {"main_queue": {"retention": -5}},
        f"main_queue.retention is -5; allowed: {DURATION.format('1m to 14d')}",
    ),
    (
        {"main_queue": {"retention": "15d"}},
        f'main_queue.retention is "15d"; allowed: {DURATION.format("1m to 14d")}',
    ),
    (
        {"main_queue": {"retention": "soon"}},
        f'main_queue.retention is "soon"; allowed: {DURATION.format("1m to 14d")}',
    ),
    (
        {"main_queue": {"retention": True}},
        f"main_queue.retention is true; allowed: {DURATION.format('1m to 14d')}",
    ),
    (
        {"main_queue": {"visibility": -1}},
        f"main_queue.visibility is -1; allowed: {DURATION.format('0s to 12h')}",
    ),
    (
        {"main_queue": {"visibility": "5m"}, "consumer": {"kind": "webhook", "timeout": 60}},
        'main_queue.visibility is "5m"; allowed: at least 6 times consumer.timeout, 6m',
    ),
    (
        {"main_queue": {"max_receive_count": 0}},
        "main_queue.max_receive_count is 0; allowed: a whole number from 1 to 1000",
    ),
    (
        {"main_queue": {"retention": "4d"}, "dlq": {"retention": "4d"}},
        'dlq.retention is "4d"; allowed: more than main_queue.retention, 4d',
    ),
    (
        {"main_queue": {"arn": ORDERS_MAIN, "visibility": 60}},
        "main_queue.visibility is 60; allowed: nothing beside arn: your queue is not changed",
    ),
    (
        {"dlq": {"arn": ORDERS_DLQ, "retention": 60}},
        "dlq.retention is 60; allowed: nothing beside arn: your queue is not changed",
    ),
    (
        {"main_queue": {"kms_key_arn": KEY}},
        f'main_queue.kms_key_arn is "{KEY}"; allowed: nothing without arn: a queue that is made'
        " has the app's kms_key_arn",
    ),
    (
        {"dlq": {"arn": ORDERS_DLQ, "kms_key_arn": "alias/orders"}},
        'dlq.kms_key_arn is "alias/orders"; allowed: an ARN like'
        " arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd",
    ),
    ({"main_queue": {"arn": "orders"}}, f'main_queue.arn is "orders"; allowed: {A_QUEUE}'),
    (
        {"main_queue": {"arn": ORDERS_MAIN.replace("sqs", "sns")}},
        f'main_queue.arn is "{ORDERS_MAIN.replace("sqs", "sns")}"; allowed: {A_QUEUE}',
    ),
    (
        {"main_queue": {"arn": ORDERS_DLQ}, "dlq": {"arn": ORDERS_DLQ}},
        f'dlq.arn is "{ORDERS_DLQ}"; allowed: another queue than main_queue.arn',
    ),
    (
        {"fifo": True, "dlq": {"arn": ORDERS_DLQ}},
        f'dlq.arn is "{ORDERS_DLQ}"; allowed: a FIFO queue, because fifo is true',
    ),
    (
        {"main_queue": {"arn": f"{ORDERS_MAIN}.fifo"}},
        f'main_queue.arn is "{ORDERS_MAIN}.fifo"; allowed: a standard queue, because fifo is false',
    ),
    (
        {"consumer": {"function_arn": "orders"}},
        'consumer.function_arn is "orders"; allowed: an ARN like'
        " arn:aws:lambda:eu-west-1:111122223333:function:orders",
    ),
    (
        {"consumer": {"kind": "cron"}},
        'consumer is {"kind": "cron"}; allowed: an object of kind webhook, function (with its'
        ' function_arn) or none, or just "none"',
    ),
    (
        {"consumer": {"kind": "webhook", "ports": [443, 0]}},
        "consumer.ports[1] is 0; allowed: a whole number from 1 to 65535",
    ),
    (
        {"consumer": {"kind": "webhook", "max_concurrency": 1}},
        "consumer.max_concurrency is 1; allowed: a whole number from 2 to 1000",
    ),
    (
        {"consumer": {"kind": "webhook", "timeout": 30, "request_timeout": 3}},
        "consumer.request_timeout is 3; allowed: less than the timeout shared by a batch,"
        " 30 / 10 = 3 seconds",
    ),
    (
        {"policy": {"backoff": {"cap": 59}}},
        "policy.backoff.cap is 59; allowed: at least the base, 1m",
    ),
    (
        {"policies": {"slow": {"backoff": {"base": 10, "cap": 20, "floor": 21}}}},
        "policies.slow.backoff.floor is 21; allowed: at most the cap, 20s",
    ),
    (
        {"policies": {"Slow": {}}},
        f'policies has the key "Slow"; allowed: {WORDS.format(16)}',
    ),
    (
        {"policy": {"max_attempts": -1}},
        "policy.max_attempts is -1; allowed: a whole number from 1 to 1000",
    ),
    (
        {"message_ttl": "6d", "max_delay": "7d"},
        'message_ttl is "6d"; allowed: at least the longest delay, max_delay = 7d',
    ),
    (
        {"message_ttl": "8d", "policies": {"slow": {"backoff": {"cap": "9d"}}}},
        'message_ttl is "8d"; allowed: at least the longest delay, policies.slow.backoff.cap = 9d',
    ),
    (
        {"consumer_library": False},
        "consumer_library is false; allowed: true, because the webhook writes the ledger",
    ),
    (
        {"idempotency_keep": "31d"},
        'idempotency_keep is "31d"; allowed: at least the retentions of the main queue and the DLQ'
        " and the parking lot's 14d, 32d",
    ),
    (
        {"dlq": {"arn": ORDERS_DLQ}, "main_queue": {"arn": ORDERS_MAIN}, "idempotency_keep": 41},
        "idempotency_keep is 41; allowed: a duration from 1m to 365d, in seconds or written like"
        " 90s, 15m, 4d",
    ),
    (
        {"dlq": {"arn": ORDERS_DLQ}, "main_queue": {"arn": ORDERS_MAIN}, "idempotency_keep": "41d"},
        'idempotency_keep is "41d"; allowed: at least the retentions of the main queue and the DLQ'
        " and the parking lot's 14d, 42d",
    ),
    (
        {"message_ttl": "20d", "idempotency_keep": "33d"},
        'idempotency_keep is "33d"; allowed: at least message_ttl and the parking lot\'s 14d, 34d',
    ),
    (
        {"circuit": {"cooldown": "5m", "cooldown_cap": "4m"}},
        'circuit.cooldown_cap is "4m"; allowed: at least the cooldown, 5m',
    ),
    (
        {"idempotency_key": "system.MessageDeduplicationId"},
        'idempotency_key is "system.MessageDeduplicationId"; allowed: a value that the producer'
        " wrote; MessageDeduplicationId is another one in each copy",
    ),
    (
        {"idempotency_key": 'system."SentTimestamp" || body.id'},
        'idempotency_key is "system.\\"SentTimestamp\\" || body.id"; allowed: a value that the'
        " producer wrote; SentTimestamp is another one in each copy",
    ),
    (
        {"circuit": {"lease": 60}},
        "circuit.lease is 60; allowed: at least 30s more than consumer.timeout, 90s",
    ),
    (
        {"circuit": {"pause_consumer": True}, "consumer": "none"},
        "circuit.pause_consumer is true; allowed: false, because there is no consumer"
        " function to pause (consumer is none)",
    ),
    (
        {"circuit": {"pause_consumer": True}, "consumer": {"function_arn": THEIRS}},
        "circuit.pause_consumer is true; allowed: false, unless consumer.mapping_id says which"
        " mapping is paused",
    ),
    (
        {"consumer": {"function_arn": THEIRS, "mapping_id": "orders"}},
        'consumer.mapping_id is "orders"; allowed: a UUID such as'
        " 1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f",
    ),
    (
        {"circuit": {"health_url": "http://api.example/"}},
        'circuit.health_url is "http://api.example/"; allowed: an https URL on port 443, without'
        " query, such as https://api.example/health",
    ),
    ({"retry": {"cap": "13h"}}, f'retry.cap is "13h"; allowed: {DURATION.format("1s to 12h")}'),
    ({"retry": {"cap": 9}}, "retry.cap is 9; allowed: at least the base, 10s"),
    (
        {"idempotency_key": "body.["},
        'idempotency_key is "body.["; allowed: a JMESPath expression, such as body.tenant'
        " or json(body.Message).tenant",
    ),
    (
        {"idempotency_key": "jsn(body.Message).orderId"},
        'idempotency_key is "jsn(body.Message).orderId"; allowed: a JMESPath expression, such as'
        " body.tenant or json(body.Message).tenant",
    ),
    (
        {"idempotency_key": "body.id", "idempotency_payload": "everything("},
        'idempotency_payload is "everything("; allowed: all, none, or a JMESPath expression, such'
        " as body.order",
    ),
    (
        {"idempotency_key": "body.id", "idempotency_payload": "system.SentTimestamp"},
        'idempotency_payload is "system.SentTimestamp"; allowed: a value that the producer wrote;'
        " SentTimestamp is another one in each copy",
    ),
    (
        {"idempotency_payload": "none"},
        'idempotency_payload is "none"; allowed: all, because without idempotency_key no two'
        " messages share a key",
    ),
    (
        {"collision": "skip"},
        'collision is "skip"; allowed: park, count',
    ),
    (
        {"redrive": {"timeout": 10}},
        f"redrive.timeout is 10; allowed: {DURATION.format('20s to 14m')}",
    ),
    (
        {"redrive": {"timeout": 60}},
        "redrive.timeout is 60; allowed: less than redrive.every, 1m",
    ),
    (
        {"redrive": {"every": 90}},
        "redrive.every is 90; allowed: a duration of whole minutes from 1m to 1d, in seconds or"
        " written like 90s, 15m, 4d",
    ),
    (
        {"dedicated": {"dlq": {}}},
        'dedicated is {"dlq": {}}; allowed: ids other than dlq, which is the DLQ itself',
    ),
    (
        {"redrive": {"every": "10m", "timeout": "5m"}, "dedicated": {"vip": {"every": "5m"}}},
        'dedicated.vip.every is "5m"; allowed: more than redrive.timeout, 5m',
    ),
    (
        {"alarms": {"parked": {"after": "15d"}}},
        'alarms.parked.after is "15d"; allowed: a duration from 1h to 14d, in seconds or written'
        " like 90s, 15m, 4d",
    ),
    (
        {"owner": "two\nlines"},
        'owner is "two\\nlines"; allowed: text of at most 80 characters, without line breaks',
    ),
    *(
        (
            {"alarms": {"dlq_age": {"period": period}}},
            f"alarms.dlq_age.period is {json.dumps(period)}; allowed: a duration of whole minutes"
            " from 1m to 1d, because no metric that the alarms watch is published more than once"
            " a minute",
        )
        for period in (10, "30s", 90)
    ),
    (
        {"alarms": {"dlq_age": {"period": "12h", "periods": 3}}},
        "alarms.dlq_age.periods is 3; allowed: at most 2, a day in all",
    ),
    (
        {"context": {"tenantId": "body.["}},
        'context.tenantId is "body.["; allowed: a JMESPath expression, such as body.tenant'
        " or json(body.Message).tenant",
    ),
    (
        {"circuit_key": "]"},
        'circuit_key is "]"; allowed: a JMESPath expression, such as body.tenant'
        " or json(body.Message).tenant",
    ),
    (
        {"parking_for": {"BORING": "default"}},
        'parking_for has the key "BORING"; allowed: QUARANTINED, MALFORMED, EXPIRED, PERMANENT,'
        " POISON, SILENT, EXHAUSTED, COLLISION, REPLAY_FAILED, REPLAY_ABORTED, transient,"
        " schema, business, integration",
    ),
    (
        {"parking": ["later"], "parking_for": {"POISON": "lator"}},
        'parking_for.POISON is "lator"; allowed: default, later (see parking)',
    ),
    (
        {"parking": ["default"]},
        'parking is ["default"]; allowed: ids other than default, which is always there',
    ),
    (
        {"sequence": "system.SentTimestamp"},
        'sequence is "system.SentTimestamp"; allowed: a value that the producer wrote;'
        " SentTimestamp is another one in each copy",
    ),
    (
        {"ordering_key": "system.SequenceNumber"},
        'ordering_key is "system.SequenceNumber"; allowed: a value that the producer wrote;'
        " SequenceNumber is another one in each copy",
    ),
    (
        {"expires": "system.SentTimestamp"},
        'expires is "system.SentTimestamp"; allowed: a value that the producer wrote;'
        " SentTimestamp is another one in each copy",
    ),
    (
        {"replay": {"on_failure": "wait"}},
        'replay.on_failure is "wait"; allowed: go, stop',
    ),
    (
        {"replay": {"error_rate": 0}},
        "replay.error_rate is 0; allowed: a number above 0, up to 1",
    ),
    ({"parking": ["a", "a"]}, 'parking is ["a", "a"]; allowed: each id once'),
    ({"parking": ["a", "B"]}, f'parking[1] is "B"; allowed: {WORDS.format(16)}'),
    ({"mode": "dry"}, 'mode is "dry"; allowed: enforce, observe'),
    ({"fifo": "yes"}, 'fifo is "yes"; allowed: true or false'),
    *(
        ({"drain": {"shards": shards}}, f"drain.shards is {json.dumps(shards)}; allowed: {SHARDS}")
        for shards in (0, 9, "many", "4", True, 2.5)
    ),
    ({"rate": 0}, 'rate is 0; allowed: a number above 0, up to 10000, or "auto"'),
    ({"rate": float("nan")}, 'rate is NaN; allowed: a number above 0, up to 10000, or "auto"'),
    ({"workers": "many"}, 'workers is "many"; allowed: a whole number from 1 to 32'),
    ({"backlog_limit": 0}, "backlog_limit is 0; allowed: a whole number, at least 1"),
    (
        {"main_queue": []},
        "main_queue is []; allowed: an object with the keys arn, kms_key_arn, retention,"
        " visibility, max_receive_count",
    ),
    ({"trusted_senders": [7]}, "trusted_senders[0] is 7; allowed: text"),
    (
        {"context": {"note": "x" * 200}, "poison_lives": "y" * 200},
        f'poison_lives is "{"y" * 79}…; allowed: a whole number from 1 to 100',
    ),
]


@each_row(("given", "sentence"), REFUSED, ids=[case[1][:40] for case in REFUSED])
def test_a_wrong_setting_is_refused_in_one_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        read({"pipelines": [{"name": "orders", **given}]})
    assert str(refused.value) == f"Pipeline orders: {sentence}."


# The whole context, and the whole sentence.
REFUSED_APPS: list[tuple[dict[str, Any], str]] = [
    (
        {},
        "App deadletter: pipelines is null; allowed: a list of pipelines, each an object with at"
        " least a name.",
    ),
    (
        {"pipelines": "[{"},
        'App deadletter: pipelines is "[{"; allowed: a list of pipelines, each an object with at'
        " least a name.",
    ),
    (
        {"pipelines": [{}]},
        f"Pipeline number 1: name is missing; allowed: {WORDS.format(28)}.",
    ),
    (
        {"pipelines": [{"name": "orders"}, {"name": "Orders Inc"}]},
        f'Pipeline Orders Inc: name is "Orders Inc"; allowed: {WORDS.format(28)}.',
    ),
    (
        {"pipelines": [{"name": "shared"}]},
        'Pipeline shared: name is "shared"; allowed: any other name; the stack of that name is'
        " taken.",
    ),
    (
        {"pipelines": [{"name": "orders"}, {"name": "orders"}]},
        'Pipeline orders: name is "orders"; allowed: a name that differs from that of pipeline'
        " orders.",
    ),
    (
        {"pipelines": [{"name": "a-1b"}, {"name": "a1b"}]},
        'Pipeline a1b: name is "a1b"; allowed: a name that differs from that of pipeline a-1b.',
    ),
    (
        {
            "pipelines": [
                {"name": "orders", "dlq": {"arn": ORDERS_DLQ}, "shared_dlq": True},
                {"name": "refunds", "dlq": {"arn": ORDERS_DLQ}},
            ]
        },
        f'Pipeline refunds: dlq.arn is "{ORDERS_DLQ}"; allowed: a queue that pipeline orders does'
        " not name, unless both say shared_dlq: true.",
    ),
    (
        {
            "pipelines": [
                {"name": "orders", "main_queue": {"arn": ORDERS_MAIN}},
                {"name": "refunds", "main_queue": {"arn": ORDERS_MAIN}},
            ]
        },
        f'Pipeline refunds: main_queue.arn is "{ORDERS_MAIN}"; allowed: a queue that pipeline'
        " orders does not name.",
    ),
    (
        {
            "pipelines": [
                {"name": "orders", "main_queue": {"arn": ORDERS_MAIN}, "dlq": {"arn": ABROAD}}
            ]
        },
        f'Pipeline orders: dlq.arn is "{ABROAD}"; allowed: an ARN in account 111122223333, region'
        " eu-west-1.",
    ),
    (
        {"pipelines": [{"name": "orders"}], "app": "My App"},
        f'App My App: app is "My App"; allowed: {WORDS.format(24)}.',
    ),
    (
        {"pipelines": [{"name": "orders"}], "ephemeral": "maybe"},
        'App deadletter: ephemeral is "maybe"; allowed: true or false.',
    ),
    (
        {"pipelines": [{"name": "orders"}], "alarm_topic": "x"},
        'App deadletter: alarm_topic is "x", but there is no such key; allowed: alarm_topic_arn,'
        " app, audit_days, dashboard, ephemeral, kms_key_arn, log_retention_days, owner,"
        " pipelines, replay_days, runbook, tags, vpc.",
    ),
]


@each_row(("context", "sentence"), REFUSED_APPS, ids=[case[1][:50] for case in REFUSED_APPS])
def test_a_wrong_app_is_refused_in_one_sentence(context: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        read(context)
    assert str(refused.value) == sentence


def test_a_queue_elsewhere_than_the_app_goes_is_refused() -> None:
    theirs = {"pipelines": [{"name": "orders", "dlq": {"arn": ORDERS_DLQ}}]}
    assert read(theirs, account="111122223333", region="eu-west-1")
    with pytest.raises(Refused, match="an ARN in account 444455556666, region eu-west-1"):
        read(theirs, account="444455556666", region="eu-west-1")


def test_a_key_or_a_topic_in_another_region_is_refused() -> None:
    key = "arn:aws:kms:us-east-1:444455556666:key/1234abcd"
    # Another account may lend its key.
    assert read({"pipelines": [{"name": "orders"}], "kms_key_arn": key}, region="us-east-1")
    for elsewhere in ({"region": "eu-west-1"}, {}):
        theirs = {"name": "orders", "dlq": {"arn": ORDERS_DLQ}}
        with pytest.raises(Refused) as refused:
            read({"pipelines": [theirs], "kms_key_arn": key}, **elsewhere)
        assert str(refused.value) == (
            f'App deadletter: kms_key_arn is "{key}"; allowed: an ARN in region eu-west-1.'
        )
    topic = "arn:aws:sns:us-east-1:111122223333:pager"
    with pytest.raises(Refused, match="allowed: an ARN in region eu-west-1"):
        read({"pipelines": [{"name": "a"}], "alarm_topic_arn": topic}, region="eu-west-1")


def test_the_key_of_a_queue_needs_a_key_of_the_app_in_its_region() -> None:
    theirs = {"name": "orders", "dlq": {"arn": ORDERS_DLQ, "kms_key_arn": KEY}}
    assert read({"pipelines": [theirs], "kms_key_arn": KEY})
    with pytest.raises(Refused) as refused:
        read({"pipelines": [theirs]})
    assert str(refused.value) == (
        f'Pipeline orders: dlq.kms_key_arn is "{KEY}"; allowed: nothing while the app has no'
        " kms_key_arn, under which the waiting room and the parking lot keep what comes out of"
        " this queue."
    )
    # Another account may lend its key; another region can't.
    lent = KEY.replace("111122223333", "444455556666")
    theirs["dlq"] = {"arn": ORDERS_DLQ, "kms_key_arn": lent}
    assert read({"pipelines": [theirs], "kms_key_arn": KEY})
    theirs["dlq"] = {"arn": ORDERS_DLQ, "kms_key_arn": KEY.replace("eu-west-1", "us-east-1")}
    with pytest.raises(Refused, match=r"dlq\.kms_key_arn is .*an ARN in region eu-west-1"):
        read({"pipelines": [theirs], "kms_key_arn": KEY})


def test_two_pipelines_may_share_a_dlq_if_both_say_so() -> None:
    shared = {"dlq": {"arn": ORDERS_DLQ}, "shared_dlq": True}
    app = read({"pipelines": [{"name": "orders", **shared}, {"name": "refunds", **shared}]})
    assert [pipeline.dlq.arn for pipeline in app.pipelines] == [ORDERS_DLQ, ORDERS_DLQ]


def test_pipelines_may_come_as_text_and_keys_of_the_cdk_are_left_alone() -> None:
    app = read(
        {
            "pipelines": '[{"name": "orders", "message_ttl": "10d"}]',
            "ephemeral": "true",
            "aws:cdk:enable-path-metadata": True,
            "@aws-cdk/core:some-flag": True,
            "cli-telemetry": False,
        }
    )
    assert app.ephemeral
    assert app.pipelines[0].message_ttl == 864_000


def test_visibility_lease_and_thresholds_follow_what_they_depend_on() -> None:
    pipeline = said.PipelineSettings(
        name="orders",
        consumer=said.WebhookConsumer(timeout=90),
        redrive=said.ScheduleSettings(every=120, timeout=55),
    )
    assert pipeline.visibility == 540
    assert pipeline.lease == 180
    assert pipeline.expiry_warning == 12 * 3600
    assert pipeline.room_late == 900
    hourly = said.PipelineSettings(name="orders", redrive=said.ScheduleSettings(every=3600))
    assert hourly.room_late == 3 * 3600
    observed = said.PipelineSettings(name="orders", mode="observe")
    assert observed.expiry_warning == 2 * 86400


def test_rows_of_letters_outlast_every_copy_whatever_the_settings() -> None:
    longest = {
        "dlq": {"arn": ORDERS_DLQ},
        "main_queue": {"arn": ORDERS_MAIN},
        "message_ttl": "30d",
        "idempotency_keep": ROWS_KEPT,
    }
    assert read({"pipelines": [{"name": "orders", **longest}]})


def test_reading_settings_starts_no_cdk() -> None:
    code = "import infra.context, sys; sys.exit('aws_cdk' in sys.modules)"
    path = os.pathsep.join([str(ROOT), str(ROOT / "lambdas")])
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": path})
