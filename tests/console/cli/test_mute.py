"""`dlq mute`: the exact calls to CloudWatch, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.stub import Stubber

from console.cli.exit import Exit
from console.operations import aws
from console.operations.errors import Cause, Problem
from console.operations.mutes import Mutes, iso_duration, length_of
from console.operations.session import Session
from tests.console.conftest import ACCOUNT, REGION, Cloud, Dlq
from tests.each_row import each_row

NOW = datetime(2026, 11, 23, 2, 10, 30, tzinfo=UTC)
CALLER = f"arn:aws:sts::{ACCOUNT}:user/moto"
ASKED = {"AlarmNamePrefix": "deadletter-orders-", "AlarmTypes": ["MetricAlarm", "CompositeAlarm"]}
RULE = {"AlarmMuteRuleName": "deadletter-orders-mute"}
GIVEN = ("--for", "2h", "--reason", "the bank moves")


def alarms(*names: str) -> dict[str, Any]:
    return {"MetricAlarms": [{"AlarmName": name} for name in names]}


NINE = alarms("deadletter-orders-DlqAge", "deadletter-orders-RedriveStalled")
MUTED: dict[str, Any] = {
    "Name": "deadletter-orders-mute",
    "Description": f"the bank moves (dlq mute, by {CALLER})",
    "Rule": {"Schedule": {"Expression": "at(2026-11-23T02:11)", "Duration": "PT2H"}},
    "MuteTargets": {"AlarmNames": ["deadletter-orders-DlqAge"]},
    "ExpireDate": datetime(2026, 11, 23, 4, 11, tzinfo=UTC),
    "Status": "ACTIVE",
}


@pytest.fixture
def cloudwatch(cloud: Cloud) -> Iterator[Stubber]:
    """CloudWatch that takes the calls of a test, in their order, and no other."""
    cloud.deploy("orders")
    with Stubber(aws.connect(None, REGION).cloudwatch) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def no_rule(cloudwatch: Stubber) -> None:
    cloudwatch.add_client_error(
        "get_alarm_mute_rule", "ResourceNotFoundException", "no such rule", 404, None, RULE
    )


def begins(cloudwatch: Stubber, alarms: Any, put: Any = None, *, before: Any = None) -> None:
    """The calls of a mute of these alarms, which a rule mutes already or none."""
    cloudwatch.add_response("describe_alarms", alarms, ASKED)
    if before is None:
        no_rule(cloudwatch)
    else:
        cloudwatch.add_response("get_alarm_mute_rule", before, RULE)
    cloudwatch.add_response("put_alarm_mute_rule", {}, put)


def mutes(pipeline: str = "orders") -> Mutes:
    return Mutes(Session(lambda: aws.connect(None, REGION), "deadletter", NOW.timestamp), pipeline)


def test_the_alarms_that_exist_are_muted_from_the_next_minute_by_one_rule(
    cloudwatch: Stubber,
) -> None:
    put = {
        "Name": MUTED["Name"], "Description": MUTED["Description"],
        "Rule": {"Schedule": {**MUTED["Rule"]["Schedule"], "Timezone": "UTC"}},
        "MuteTargets": {
            "AlarmNames": ["deadletter-orders-DlqAge", "deadletter-orders-RedriveStalled"]
        },
        "ExpireDate": MUTED["ExpireDate"],
    }  # fmt: skip
    begins(cloudwatch, NINE, put)
    answer = mutes().begin(timedelta(hours=2), "the bank moves")
    assert answer.before is None
    assert answer.mute is not None
    assert answer.mute.until == datetime(2026, 11, 23, 4, 11, tzinfo=UTC)


def test_the_alarms_of_a_pipeline_whose_name_goes_on_are_not_muted(
    cloudwatch: Stubber, cloud: Cloud
) -> None:
    cloud.deploy("orders-eu")
    others = alarms("deadletter-orders-eu-DlqAge", "deadletter-orders-DlqAge")
    begins(cloudwatch, others)
    answer = mutes().begin(timedelta(hours=2), "the bank moves")
    assert answer.mute is not None
    assert answer.mute.alarms == ("deadletter-orders-DlqAge",)


def test_a_second_mute_replaces_the_first_and_says_what_was(cloudwatch: Stubber) -> None:
    begins(cloudwatch, NINE, before=MUTED)
    answer = mutes().begin(timedelta(days=3), "it takes longer")
    assert answer.before is not None
    assert answer.mute is not None
    assert answer.before.begins == datetime(2026, 11, 23, 2, 11, tzinfo=UTC)
    assert answer.mute.until == answer.before.begins + timedelta(days=3)


def test_a_mute_is_shown_with_its_end_its_reason_and_its_alarms(
    cloudwatch: Stubber, dlq: Dlq
) -> None:
    for _ in range(2):
        cloudwatch.add_response("get_alarm_mute_rule", MUTED, RULE)
    says = ("1 alarm muted until", "the bank moves", "DlqAge", "dlq mute orders --end")
    dlq("mute orders", ends=Exit.DONE, says=says)
    mute = json.loads(dlq("mute orders --json").stdout)["mute"]
    assert (mute["until"], mute["rule"]) == ("2026-11-23T04:11:00Z", "deadletter-orders-mute")
    no_rule(cloudwatch)
    dlq("mute orders", says="its alarms are not muted")


def test_ending_deletes_the_rule_and_only_where_there_is_one(cloudwatch: Stubber, dlq: Dlq) -> None:
    cloudwatch.add_response("get_alarm_mute_rule", MUTED, RULE)
    cloudwatch.add_response("delete_alarm_mute_rule", {}, RULE)
    dlq("mute orders --end", says="the mute is over")
    no_rule(cloudwatch)
    dlq("mute orders --end", says="are not muted")


@each_row(
    ("code", "status"),
    [
        ("InvalidAction", 400), ("UnknownOperation", 400), ("UnknownOperationException", 404),
        ("UnsupportedOperation", 400), ("InternalFailure", 501),
    ],
)  # fmt: skip
@pytest.mark.parametrize("words", [(), GIVEN, ("--end",)], ids=["show", "begin", "end"])
def test_a_service_that_does_not_know_mute_rules_is_named_and_nothing_else_is_done(
    cloudwatch: Stubber, dlq: Dlq, code: str, status: int, words: Sequence[str]
) -> None:
    if words == GIVEN:
        cloudwatch.add_response("describe_alarms", NINE, ASKED)
    cloudwatch.add_client_error("get_alarm_mute_rule", code, "?", status)
    unknown = "Nothing is muted: CloudWatch at this endpoint does not know"
    refuses = (unknown, "does not disable alarm actions instead")
    dlq("mute orders", *words, ends=Exit.ATTENTION, refuses=refuses)


def test_a_refused_permission_is_no_unknown_call(cloudwatch: Stubber, dlq: Dlq) -> None:
    cloudwatch.add_client_error("get_alarm_mute_rule", "AccessDenied", "not allowed", 403)
    refuses = ("AWS refuses GetAlarmMuteRule", "deadletter-CircuitOperator-")
    dlq("mute orders", ends=Exit.UNREACHABLE, refuses=refuses)


@each_row("length", ["0m", "59s", "90s", "16d", "15d1m", "soon", "-2h"])
def test_a_length_that_cloudwatch_does_not_take_is_refused_with_what_is_allowed(
    cloudwatch: Stubber, dlq: Dlq, length: str
) -> None:
    dlq("mute orders --for", length, "--reason", "x", ends=Exit.USAGE, refuses="write")


@each_row(
    ("text", "written"),
    [("1m", "PT1M"), ("90m", "PT1H30M"), ("2h", "PT2H"), ("15d", "P15D"), ("36h", "P1DT12H")],
)
def test_a_length_is_written_as_iso_8601(text: str, written: str) -> None:
    assert iso_duration(length_of(text)) == written


@each_row(
    ("words", "says"),
    [
        ("--for 2h", "A mute needs a reason"),
        ("--reason x", "add --for 2h"),
        ("--end --for 2h --reason x", "--end takes no --for"),
    ],
)
def test_a_mute_without_a_reason_or_without_a_length_is_refused(
    cloudwatch: Stubber, dlq: Dlq, words: str, says: str
) -> None:
    dlq(f"mute orders {words}", ends=Exit.USAGE, refuses=says)


def test_a_person_is_asked_why(cloudwatch: Stubber, dlq: Dlq, at_a_terminal: None) -> None:
    begins(cloudwatch, NINE)
    muted = dlq("mute orders --for 2h", answers="the bank moves\n")
    assert "Why: the bank moves (dlq mute, by" in muted.stdout


def test_a_reason_that_does_not_fit_is_refused_and_not_cut(cloudwatch: Stubber) -> None:
    with pytest.raises(Problem, match="characters shorter") as refused:
        mutes().begin(timedelta(hours=2), "x" * 1_000)
    assert refused.value.cause is Cause.INPUT


@pytest.mark.parametrize(("number", "says"), [(0, "no alarm to mute"), (101, "takes 100")])
def test_no_alarm_and_too_many_alarms_are_refused(
    cloudwatch: Stubber, number: int, says: str
) -> None:
    names = alarms(*(f"deadletter-orders-{number}" for number in range(number)))
    cloudwatch.add_response("describe_alarms", names, ASKED)
    with pytest.raises(Problem, match=says):
        mutes().begin(timedelta(hours=2), "x")
