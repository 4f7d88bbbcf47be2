"""What a function's environment may say, and what stops it from running at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deadletter.circuit.state import CircuitPolicy
from deadletter.contract import Body, Mode
from deadletter.settings.backoff import Backoff
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline, RetryPolicy, pipeline_from_json
from deadletter.settings.resources import Resources, resources_from_environment
from deadletter.settings.webhook import Webhook, webhook_from_json


def test_a_name_is_all_that_a_pipeline_needs() -> None:
    assert pipeline_from_json('{"name": "orders"}') == Pipeline("orders")


def test_a_pipeline_says_everything() -> None:
    found = pipeline_from_json(
        json.dumps(
            {
                "name": "orders",
                "mode": "observe",
                "fifo": True,
                "body": "opaque",
                "context": {"tenantId": "body.tenantId"},
                "policy": {"backoff": {"base": 1, "cap": 2}, "max_attempts": 3},
                "policies": {"gold": {"max_attempts": 9}, "plain": {}},
                "dedicated": ["slow"],
                "circuit_key": "body.endpoint",
                "circuit": {"window": 60},
                "idempotency_key": "body.orderId",
                "idempotency_keep": 60,
                "park_permanent": False,
                "retry": {"cap": 60},
                "refuse_when_open": True,
                "rate": 5,
            }
        )
    )
    assert found == Pipeline(
        "orders",
        mode=Mode.OBSERVE,
        fifo=True,
        body=Body.OPAQUE,
        context={"tenantId": "body.tenantId"},
        policy=RetryPolicy(Backoff(base=1, cap=2), 3),
        policies={"gold": RetryPolicy(max_attempts=9), "plain": RetryPolicy()},
        dedicated=("slow",),
        circuit_key="body.endpoint",
        circuit=CircuitPolicy(window=60),
        idempotency_key="body.orderId",
        idempotency_keep=60,
        park_permanent=False,
        retry=Backoff(base=10, factor=2, cap=60, floor=1),
        refuse_when_open=True,
        rate=5,
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "PIPELINE is not JSON"),
        ("[]", "PIPELINE must be a JSON object"),
        ("{}", "PIPELINE: .*'name'"),
        ({"rates": 5}, "PIPELINE: unknown key 'rates'; known are .*rate"),
        ({"mode": "dry"}, "PIPELINE: 'dry' is not a valid Mode"),
        ({"mode": []}, r"PIPELINE: \[\] is not a valid Mode"),
        ({"body": "xml"}, "PIPELINE: 'xml' is not a valid Body"),
        ({"policy": 5}, "policy must be a JSON object"),
        ({"policy": {"attempts": 5}}, "policy: unknown key 'attempts'"),
        ({"policy": {"backoff": {"base_seconds": 5}}}, "policy.backoff: unknown key"),
        ({"policies": []}, "policies must be a JSON object"),
        ({"policies": {"gold": {"backoff": {"x": 1}}}}, "policies.gold.backoff: unknown key 'x'"),
        ({"circuit": []}, "circuit must be a JSON object"),
        ({"circuit": {"windows": 5}}, "circuit: unknown key 'windows'"),
        ({"retry": 5}, "retry must be a JSON object"),
        ({"retry": {"jitter": 5}}, "retry: unknown key 'jitter'"),
        ({"policy": {"backoff": 5}}, "policy.backoff must be a JSON object"),
        ({"dedicated": "slow"}, "dedicated must be a JSON list of texts"),
        ({"dedicated": [5]}, "dedicated must be a JSON list of texts"),
    ],
)
def test_a_pipeline_that_is_none_says_what_is_wrong(data: Any, why: str) -> None:
    text = data if isinstance(data, str) else json.dumps({"name": "orders", **data})
    with pytest.raises(BadSettings, match=why):
        pipeline_from_json(text)


def test_the_dispatchers_settings() -> None:
    assert webhook_from_json("{}") == Webhook()
    assert webhook_from_json('{"timeout": 2, "ports": [8443]}') == Webhook(2, ports=(8443,))
    with pytest.raises(BadSettings, match="ports must be a JSON list of whole numbers"):
        webhook_from_json('{"ports": [true]}')
    with pytest.raises(BadSettings, match="unknown key 'url'"):
        webhook_from_json('{"url": "x"}')


def test_the_wiring_is_one_variable_a_field() -> None:
    environment = {
        "MAIN_URL": "https://sqs/orders",
        "PARKING": '{"default": "https://sqs/parking"}',
        "TRUSTED_SENDERS": '["AROA1", "AROA2"]',
        "AUDIT_DAYS": "400",
        "PATH": "/usr/bin",
    }
    assert resources_from_environment(environment) == Resources(
        main_url="https://sqs/orders",
        parking={"default": "https://sqs/parking"},
        trusted_senders=("AROA1", "AROA2"),
        audit_days=400,
    )
    assert resources_from_environment({}) == Resources()


@pytest.mark.parametrize(
    ("variable", "text", "why"),
    [
        ("PARKING", "https://sqs/parking", "PARKING is not JSON"),
        ("DEDICATED", "[]", "DEDICATED must be a JSON object"),
        ("TRUSTED_SENDERS", "AROA1", "TRUSTED_SENDERS is not JSON"),
        # Read as a list of characters, it would make every sender called A one of ours.
        ("TRUSTED_SENDERS", '"AROA1"', "TRUSTED_SENDERS must be a JSON list of texts"),
        ("AUDIT_DAYS", "-1", "AUDIT_DAYS must be a number of days"),
        ("CONSUMER_TIMEOUT", "1.5", "CONSUMER_TIMEOUT must be a number of seconds"),
        ("TRUSTED_SENDERS", "[null]", "TRUSTED_SENDERS must be a JSON list of texts"),
    ],
)
def test_a_wiring_that_is_none_says_what_is_wrong(variable: str, text: str, why: str) -> None:
    with pytest.raises(BadSettings, match=why):
        resources_from_environment({variable: text})
