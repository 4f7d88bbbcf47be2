"""Mistakes in settings, and what is said of each: the same by cdk.json and by a construct."""

# ruff: noqa: E501 - a table is read by rows

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from infra.settings import NetworkVariable

ORDERS_DLQ = "arn:aws:sqs:eu-west-1:111122223333:orders-dlq"
ORDERS_MAIN = "arn:aws:sqs:eu-west-1:111122223333:orders"
THEIRS = "arn:aws:lambda:eu-west-1:111122223333:function:orders"
KEY = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd"

DURATION = "a duration{} from {}, in seconds or written like 90s, 15m, 4d"
WORDS = (
    "lower-case letters, digits and single hyphens, starting with a letter, at most {} characters"
)
A_QUEUE = "an ARN like arn:aws:sqs:eu-west-1:111122223333:orders"
A_PATH = "a JMESPath expression, such as body.tenant or json(body.Message).tenant"
FIXED = "its value is the same for all pipelines, or follows from other settings"
ONE_COPY = "a value that the producer wrote; {} is another one in each copy"

Mistake = tuple[Mapping[str, Any], str]

# What is typed beside the name of pipeline orders, and the sentence behind "Pipeline orders: ".
PIPELINE: list[Mistake] = [
    # Names of settings.
    ({"mesage_ttl": "4d"}, "there is no setting mesage_ttl; did you mean message_ttl?"),
    ({"retries": 3}, "there is no setting retries; docs/settings.md has a table of all."),
    ({"timeout": 30}, "there is no setting timeout; did you mean consumer.timeout?"),
    (
        {"redrive": {"evry": 60}},
        "there is no setting redrive.evry; did you mean redrive.every?",
    ),
    (
        {"policies": {"slow": {"attempts": 3}}},
        "there is no setting policies.slow.attempts; did you mean policies.slow.max_attempts?",
    ),
    ({"workers": 8}, f"there is no setting workers: {FIXED}."),
    ({"circuit": {"window": 60}}, f"there is no setting circuit.window: {FIXED}."),
    ({"tuning": {"workers": 8}}, 'tuning is {"workers": 8}; allowed: nothing unless the app is'
     " ephemeral."),
    # Durations and numbers.
    ({"message_ttl": "12 days"}, f'message_ttl is "12 days"; allowed: {DURATION.format("", "1m to 30d")}.'),
    ({"main_queue": {"retention": "15d"}}, f'main_queue.retention is "15d"; allowed: {DURATION.format("", "1m to 14d")}.'),
    ({"main_queue": {"retention": True}}, f"main_queue.retention is true; allowed: {DURATION.format('', '1m to 14d')}."),
    ({"redrive": {"every": 90}}, f"redrive.every is 90; allowed: {DURATION.format(' of whole minutes', '1m to 1d')}."),
    ({"main_queue": {"max_receive_count": 0}}, "main_queue.max_receive_count is 0; allowed: a whole number from 1 to 1000."),
    ({"poison_lives": "y" * 200}, f'poison_lives is "{"y" * 79}…; allowed: a whole number from 1 to 100.'),
    ({"policy": {"max_attempts": -1}}, "policy.max_attempts is -1; allowed: a whole number from 1 to 1000."),
    ({"circuit": {"failure_rate": 0}}, "circuit.failure_rate is 0; allowed: a number above 0, up to 1."),
    ({"alarms": {"depth": 0}}, "alarms.depth is 0; allowed: a whole number, at least 1."),
    ({"rate": 0}, "rate is 0; allowed: a number above 0, up to 10000."),
    # Words and shapes.
    ({"name": "Orders Inc"}, f'name is "Orders Inc"; allowed: {WORDS.format(28)}.'),
    ({"name": "shared"}, 'name is "shared"; allowed: any other name; the stack of that name is taken.'),
    ({"mode": "dry"}, 'mode is "dry"; allowed: enforce, observe.'),
    ({"fifo": "yes"}, 'fifo is "yes"; allowed: true or false.'),
    ({"owner": "two\nlines"}, 'owner is "two\\nlines"; allowed: text of at most 80 characters, without line breaks.'),
    ({"main_queue": []}, "main_queue is []; allowed: an object with the keys arn, kms_key_arn, retention, max_receive_count."),
    ({"policies": {"Slow": {}}}, f'policies has the key "Slow"; allowed: {WORDS.format(16)}.'),
    ({"trusted_senders": [7]}, "trusted_senders[0] is 7; allowed: text."),
    ({"context": {"tenantId": "body.["}}, f'context.tenantId is "body.["; allowed: {A_PATH}.'),
    ({"idempotency_key": "jsn(body.Message).orderId"}, f'idempotency_key is "jsn(body.Message).orderId"; allowed: {A_PATH}.'),
    # Queues.
    ({"main_queue": {"arn": "orders"}}, f'main_queue.arn is "orders"; allowed: {A_QUEUE}.'),
    ({"main_queue": {"arn": ORDERS_MAIN.replace("sqs", "sns")}}, f'main_queue.arn is "{ORDERS_MAIN.replace("sqs", "sns")}"; allowed: {A_QUEUE}.'),
    ({"main_queue": {"arn": ORDERS_DLQ}, "dlq": {"arn": ORDERS_DLQ}}, f'dlq.arn is "{ORDERS_DLQ}"; allowed: another queue than main_queue.arn.'),
    ({"fifo": True, "dlq": {"arn": ORDERS_DLQ}}, f'dlq.arn is "{ORDERS_DLQ}"; allowed: a FIFO queue, because fifo is true.'),
    ({"main_queue": {"arn": ORDERS_MAIN, "retention": 60}}, "main_queue.retention is 60; allowed: nothing beside arn: your queue is not changed."),
    ({"main_queue": {"retention": "14d"}}, 'main_queue.retention is "14d"; allowed: less than that of the DLQ, 14d.'),
    ({"main_queue": {"kms_key_arn": KEY}}, f'main_queue.kms_key_arn is "{KEY}"; allowed: nothing without arn: a queue that is made has the app\'s kms_key_arn.'),
    ({"dlq": {"arn": ORDERS_DLQ, "kms_key_arn": KEY}}, f'dlq.kms_key_arn is "{KEY}"; allowed: nothing while the app has no kms_key_arn, under which what comes out of this queue is kept while it waits or is parked.'),
    ({"dedicated": {"dlq": True}}, 'dedicated is {"dlq": true}; allowed: ids other than dlq, which is the DLQ itself.'),
    ({"parking": {"BORING": "default"}}, 'parking has the key "BORING"; allowed: QUARANTINED, MALFORMED, EXPIRED, PERMANENT, POISON, CRASH, RETRIES_EXHAUSTED, KEY_CONFLICT, RUN_FAILED, RUN_ABORTED, transient, schema, business, integration.'),
    ({"parking": {"POISON": "Later"}}, f'parking.POISON is "Later"; allowed: {WORDS.format(16)}.'),
    # The consumer.
    ({"consumer": {"kind": "cron"}}, 'consumer.kind is "cron"; allowed: webhook, function, none.'),
    ({"consumer": "cron"}, 'consumer is "cron"; allowed: an object of kind webhook, function (with its function_arn) or none, or just "none".'),
    ({"consumer": {"kind": "function"}}, "consumer.function_arn is null; allowed: the ARN of your function."),
    ({"consumer": {"function_arn": "orders"}}, 'consumer.function_arn is "orders"; allowed: an ARN like arn:aws:lambda:eu-west-1:111122223333:function:orders.'),
    ({"consumer": {"function_arn": THEIRS, "mapping_id": "orders"}}, 'consumer.mapping_id is "orders"; allowed: a UUID such as 1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f.'),
    ({"consumer": {"function_arn": THEIRS, "timeout": "16m"}}, 'consumer.timeout is "16m"; allowed: at most 15m, as Lambda allows.'),
    ({"consumer": {"kind": "none", "max_concurrency": 5}}, "consumer.max_concurrency is 5; allowed: nothing while consumer.kind is none."),
    ({"consumer": {"kind": "webhook", "timeout": 30, "request_timeout": 3}}, "consumer.request_timeout is 3; allowed: less than the timeout shared by a batch, 30 / 10 = 3 seconds."),
    ({"consumer_library": False}, "consumer_library is false; allowed: true, because the webhook writes failure records."),
    # What has to agree.
    ({"circuit": {"cooldown": "5m"}}, 'circuit.cooldown is "5m"; allowed: at most 1m.'),
    ({"circuit": {"health_url": "http://api.example/"}}, 'circuit.health_url is "http://api.example/"; allowed: an https URL on port 443, without query, such as https://api.example/health.'),
    ({"policy": {"backoff": {"cap": 59}}}, "policy.backoff.cap is 59; allowed: at least the base, 1m."),
    ({"message_ttl": "8d", "policies": {"slow": {"backoff": {"cap": "9d"}}}}, 'message_ttl is "8d"; allowed: at least the longest delay, policies.slow.backoff.cap = 9d.'),
    ({"idempotency_payload": "none"}, 'idempotency_payload is "none"; allowed: all, because without idempotency_key no two messages share a key.'),
    ({"idempotency_key": "body.id", "idempotency_payload": "everything("}, 'idempotency_payload is "everything("; allowed: all, none, or a JMESPath expression, such as body.order.'),
    ({"idempotency_key": "system.MessageDeduplicationId"}, f'idempotency_key is "system.MessageDeduplicationId"; allowed: {ONE_COPY.format("MessageDeduplicationId")}.'),
    ({"sequence": "system.SentTimestamp"}, f'sequence is "system.SentTimestamp"; allowed: {ONE_COPY.format("SentTimestamp")}.'),
    ({"expires": "system.SentTimestamp"}, f'expires is "system.SentTimestamp"; allowed: {ONE_COPY.format("SentTimestamp")}.'),
]  # fmt: skip

# What is typed of the app, and the sentence behind "App deadletter: ".
APP: list[Mistake] = [
    ({"app": "My App"}, f'app is "My App"; allowed: {WORDS.format(24)}.'),
    ({"ephemeral": "maybe"}, 'ephemeral is "maybe"; allowed: true or false.'),
    ({"alarm_topic": "x"}, "there is no setting alarm_topic; did you mean alarm_topic_arn?"),
    ({"architecture": "x86"}, 'architecture is "x86"; allowed: arm64, x86_64.'),
    ({"environment": {"PATH": "/bin"}}, f'environment has the key "PATH"; allowed: {", ".join(get_args(NetworkVariable))}.'),
    ({"environment": {"HTTPS_PROXY": 3128}}, "environment.HTTPS_PROXY is 3128; allowed: text."),
    ({"log_retention_days": 8}, "log_retention_days is 8; allowed: 1, 7, 14, 30, 90, 180, 365, 731, 1827, 3653."),
    ({"runbook": "x" * 501}, f'runbook is "{"x" * 79}…; allowed: text of at most 500 characters.'),
    ({"vpc": {"subnet_ids": ["a"], "security_group_ids": []}}, 'vpc.subnet_ids[0] is "a"; allowed: an id such as subnet-0123456789abcdef0.'),
    ({"vpc": {"subnet_ids": [], "security_group_ids": ["sg-1"]}}, "vpc.subnet_ids is []; allowed: a list, at least one, each item an id such as subnet-0123456789abcdef0."),
    ({"vpc": {"subnet_ids": ["subnet-1"]}}, "vpc.security_group_ids is missing; allowed: a list, at least one, each item an id such as sg-0123456789abcdef0."),
    ({"kms_key_arn": "alias/mine"}, 'kms_key_arn is "alias/mine"; allowed: an ARN like arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd.'),
]  # fmt: skip
