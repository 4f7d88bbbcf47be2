"""EventBridge and its Scheduler: patterns mean there what they mean here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deadletter.rules.pattern import compile_pattern
from tools.verify_aws.account import AskedAccount, expect
from tools.verify_aws.check import check

ENVELOPE: Mapping[str, Any] = {
    "id": "7bf73129-1428-4cd3-a780-95db273d1602",
    "account": "111122223333",
    "source": "verify",
    "time": "2026-01-01T00:00:00Z",
    "region": "us-east-1",
    "resources": [],
    "detail-type": "letter",
}

# Every operator, on values where implementations are known to differ.
CASES: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]] = (
    ({"a": ["x"]}, {"a": "x"}),
    ({"a": ["x"]}, {"a": ["y", "x"]}),
    ({"a": ["x"]}, {}),
    ({"a": [1]}, {"a": 1.0}),
    ({"a": [None]}, {"a": None}),
    ({"a": [None]}, {"a": ""}),
    ({"a": [True]}, {"a": "true"}),
    ({"a": [{"prefix": "x"}]}, {"a": "xy"}),
    ({"a": [{"prefix": {"equals-ignore-case": "X"}}]}, {"a": "xy"}),
    ({"a": [{"suffix": "y"}]}, {"a": "xy"}),
    ({"a": [{"equals-ignore-case": "XY"}]}, {"a": "xy"}),
    ({"a": [{"wildcard": "x*z"}]}, {"a": "xyz"}),
    ({"a": [{"wildcard": "x*z"}]}, {"a": "xyzy"}),
    ({"a": [{"exists": True}]}, {"a": None}),
    ({"a": [{"exists": False}]}, {"b": 1}),
    ({"a": [{"exists": True}]}, {"a": {"b": 1}}),
    ({"a": [{"numeric": [">", 0, "<=", 5]}]}, {"a": 5}),
    ({"a": [{"numeric": ["=", 3]}]}, {"a": "3"}),
    ({"a": [{"cidr": "10.0.0.0/24"}]}, {"a": "10.0.0.255"}),
    ({"a": [{"cidr": "10.0.0.0/24"}]}, {"a": "10.0.1.0"}),
    ({"a": [{"anything-but": ["x"]}]}, {"a": "y"}),
    ({"a": [{"anything-but": ["x"]}]}, {"a": ["x", "y"]}),
    ({"a": [{"anything-but": ["x"]}]}, {}),
    ({"a": [{"anything-but": {"prefix": "x"}}]}, {"a": "yx"}),
    ({"a": [{"anything-but": {"wildcard": "*x*"}}]}, {"a": "axb"}),
    ({"$or": [{"a": ["x"]}, {"b": ["y"]}]}, {"b": "y"}),
    ({"a": {"b": ["x"], "c": ["y"]}}, {"a": [{"b": "x"}, {"c": "y"}]}),
    ({"a": {"b": ["x"], "c": ["y"]}}, {"a": [{"b": "x", "c": "y"}]}),
)


@check("events-patterns", creates="nothing", seconds=30)
def patterns(account: AskedAccount) -> str:
    """Does TestEventPattern agree with our rules in every operator?"""
    events = account.client("events")
    wrong = []
    for pattern, document in CASES:
        wanted, event = {"detail": pattern}, {**ENVELOPE, "detail": document}
        theirs = events.test_event_pattern(
            EventPattern=json.dumps(wanted), Event=json.dumps(event)
        )["Result"]
        if theirs is not compile_pattern(wanted).matches(event):
            wrong.append(f"{json.dumps(pattern)} on {json.dumps(document)}: {theirs} there")
    expect(not wrong, "; ".join(wrong))
    return f"the same answer in {len(CASES)} cases"


@check("scheduler-no-retries", creates="a role and a disabled schedule", seconds=90)
def schedule_without_retries(account: AskedAccount) -> str:
    """Is a schedule of a minute taken that retries nothing?"""
    scheduler, name = account.client("scheduler"), account.name("schedule")
    role = account.role("scheduler.amazonaws.com", [])
    account.remove(f"schedule {name}", lambda: scheduler.delete_schedule(Name=name))

    account.created(
        "the schedule",
        scheduler.create_schedule,
        *("assume", "role"),
        Name=name,
        State="DISABLED",
        ScheduleExpression="rate(1 minute)",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={
            "Arn": f"arn:aws:lambda:{account.region}:{role.split(':')[4]}:function:{name}",
            "RoleArn": role,
            "RetryPolicy": {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60},
        },
    )
    seen = scheduler.get_schedule(Name=name)["Target"]["RetryPolicy"]
    expect(seen["MaximumRetryAttempts"] == 0, f"its retry policy is {seen}")
    return f"taken, with {seen['MaximumRetryAttempts']} retries"
