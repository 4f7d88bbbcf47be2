"""A pipeline's settings in the environment, and the errors in them."""

from __future__ import annotations

import json
from operator import attrgetter
from random import Random
from typing import Any

import pytest

from deadletter.circuit.state import CircuitPolicy
from deadletter.contract import Body, LedgerKeeps, Mode
from deadletter.settings.backoff import Backoff
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline, ReplayPolicy, RetryPolicy, pipeline_from_json
from tests.each_row import each_row


def test_only_the_name_of_a_pipeline_is_required() -> None:
    assert pipeline_from_json('{"name": "orders"}') == Pipeline("orders")


def test_every_field_of_a_pipeline_can_be_set() -> None:
    pipeline = pipeline_from_json(
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
                "ledger": "hashed",
                "retry": {"cap": 60},
                "rate": 5.0,
                "ordering_key": "body.customer",
                "sequence": "body.version",
                "replay": {"approve_above": 2},
            }
        )
    )
    assert pipeline == Pipeline(
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
        ledger=LedgerKeeps.HASHED,
        retry=Backoff(base=10, factor=2, cap=60, floor=1),
        rate=5,
        ordering_key="body.customer",
        sequence="body.version",
        replay=ReplayPolicy(approve_above=2),
    )


@each_row(
    ("data", "why"),
    [
        ("", "PIPELINE is not JSON"),
        ("[]", "PIPELINE must be a JSON object"),
        ("{}", "PIPELINE: .*'name'"),
        ({"rates": 5}, "PIPELINE: unknown key 'rates'; known are .*rate"),
        ({"mode": "dry"}, "'dry' is not a valid Mode"),
        ({"mode": []}, r"\[\] is not a valid Mode"),
        ({"body": "xml"}, "'xml' is not a valid Body"),
        ({"ledger": "all"}, "'all' is not a valid LedgerKeeps"),
        ({"policy": 5}, "policy must be a JSON object"),
        ({"policy": {"attempts": 5}}, "policy: unknown key 'attempts'"),
        ({"policy": {"backoff": {"base_seconds": 5}}}, "policy.backoff: unknown key"),
        ({"policies": []}, "policies must be a JSON object"),
        (
            {"policies": {"gold": {"backoff": {"x": 1}}}},
            "PIPELINE.policies.gold.backoff: unknown key 'x'",
        ),
        ({"circuit": []}, "circuit must be a JSON object"),
        ({"circuit": {"windows": 5}}, "circuit: unknown key 'windows'"),
        ({"retry": 5}, "retry must be a JSON object"),
        ({"retry": {"jitter": 5}}, "retry: unknown key 'jitter'"),
        ({"policy": {"backoff": 5}}, "policy.backoff must be a JSON object"),
        ({"replay": []}, "replay must be a JSON object"),
        ({"replay": {"pace": 5}}, "replay: unknown key 'pace'"),
        ({"dedicated": "slow"}, "dedicated must be a JSON list of texts"),
        ({"dedicated": [5]}, "dedicated must be a JSON list of texts"),
    ],
)
def test_an_invalid_pipeline_is_refused_with_the_key(data: Any, why: str) -> None:
    text = data if isinstance(data, str) else json.dumps({"name": "orders", **data})
    with pytest.raises(BadSettings, match=why):
        pipeline_from_json(text)


@each_row(
    ("data", "first"), [({}, 50.0), ({"rate": 20}, 20.0), ({"rate": 800, "fixed_rate": 60}, 60.0)]
)
def test_a_run_begins_with_a_rate_that_most_consumers_bear(data: Any, first: float) -> None:
    assert pipeline_from_json(json.dumps({"name": "orders", **data})).first_rate == first


@each_row(
    ("field", "ceilings", "shortest"),
    [
        # One life: a minute's trouble is over within it, and no message hides for over 15 minutes.
        ("retry", [10, 20, 40, 80, 160, 320, 640, 900, 900], 1),
        # The lives of one letter: what lasts is asked less and less.
        ("policy.backoff", [60, 120, 240, 480, 960, 1_920, 3_840, 7_680, 15_360, 21_600], 5),
    ],
)
def test_a_pipeline_waits_twice_as_long_each_time(
    field: str, ceilings: list[float], shortest: float
) -> None:
    backoff: Backoff = attrgetter(field)(pipeline_from_json('{"name": "orders"}'))
    assert [backoff.ceiling(attempt + 1) for attempt in range(len(ceilings))] == ceilings
    assert min(backoff.delay(1, Random(seed)) for seed in range(1_000)) == shortest


@each_row(
    ("setting", "default"),
    [
        ("mode", Mode.ENFORCE),
        ("fifo", False),
        ("body", Body.JSON),
        ("policy.max_attempts", 6),
        ("message_ttl", 12 * 86_400),
        ("poison_lives", 3),
        ("consumer_library", False),
        ("idempotency_payload", "all"),
        ("ledger", LedgerKeeps.PLAIN),
        ("rate", 500),
        ("replay.approve_above", None),
        ("replay.outcome_timeout", 30 * 60),
    ],
)
def test_a_pipeline_has_the_defaults_that_its_owner_reads_about(
    setting: str, default: object
) -> None:
    """Pipelines that run change with a default: docs/settings.md has to say it too."""
    assert attrgetter(setting)(pipeline_from_json('{"name": "orders"}')) == default
