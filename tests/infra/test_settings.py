"""Settings are taken as meant or refused in one sentence; nothing here starts the CDK."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from itertools import pairwise
from typing import Any, get_args, get_type_hints

import pytest

from deadletter.settings.setting import Fixed
from infra.context import read
from infra.kinds import says
from infra.reference import APP, PIPELINE, declarations
from infra.refusal import Refused
from infra.settings import AppDeployment, PipelineDeployment
from tests.each_row import each_row
from tests.infra.conftest import ROOT
from tests.infra.mistakes import KEY, ORDERS_DLQ, ORDERS_MAIN, WORDS

ABROAD = "arn:aws:sqs:us-east-1:111122223333:orders-dlq"
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
        " kms_key_arn, under which what comes out of this queue is kept while it waits or is"
        " parked."
    )
    # Another account may lend its key; another region can't.
    lent = KEY.replace("111122223333", "444455556666")
    theirs["dlq"] = {"arn": ORDERS_DLQ, "kms_key_arn": lent}
    assert read({"pipelines": [theirs], "kms_key_arn": KEY})
    theirs["dlq"] = {"arn": ORDERS_DLQ, "kms_key_arn": KEY.replace("eu-west-1", "us-east-1")}
    with pytest.raises(Refused, match=r"dlq\.kms_key_arn is .*an ARN in region eu-west-1"):
        read({"pipelines": [theirs], "kms_key_arn": KEY})


def test_two_pipelines_may_share_a_dlq() -> None:
    shared = {"dlq": {"arn": ORDERS_DLQ}}
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
    def pipeline(**typed: Any) -> PipelineDeployment:
        return read({"pipelines": [{"name": "orders", **typed}]}).pipelines[0]

    slow = pipeline(consumer={"kind": "webhook", "timeout": 90})
    assert slow.main_queue.visibility == 540
    assert slow.circuit.lease == 180
    assert slow.alarms.letter_expiry == 12 * 3600
    assert slow.alarms.room_late == 900
    assert pipeline(redrive={"every": 3600}).alarms.room_late == 3 * 3600
    assert pipeline(mode="observe").alarms.letter_expiry == 2 * 86400
    assert pipeline(consumer="none").consumer.timeout == 30


def test_what_lies_in_a_queue_of_yours_stays_there_until_a_person_writes_enforce() -> None:
    for key, arn in (("main_queue", ORDERS_MAIN), ("dlq", ORDERS_DLQ)):
        [brought] = read({"pipelines": [{"name": "orders", key: {"arn": arn}}]}).pipelines
        assert brought.mode == "observe"
    [told] = read(
        {"pipelines": [{"name": "orders", "dlq": {"arn": ORDERS_DLQ}, "mode": "enforce"}]}
    ).pipelines
    assert told.mode == "enforce"


def test_a_sandbox_may_set_any_value_by_its_path() -> None:
    tuning = {"circuit.window": 12, "consumer.ports": [8443], "workers": 2}
    [tuned] = read(
        {"ephemeral": True, "pipelines": [{"name": "orders", "tuning": tuning}]}
    ).pipelines
    assert (tuned.circuit.window, tuned.consumer.ports, tuned.workers) == (12, (8443,), 2)
    with pytest.raises(Refused, match=r"tuning\.circuit\.windw is 3; allowed: a path"):
        read({"ephemeral": True, "pipelines": [{"name": "a", "tuning": {"circuit.windw": 3}}]})


def test_every_field_is_explained_or_a_constant_with_its_reason_above() -> None:
    for kind in declarations(AppDeployment):
        source = inspect.getsource(kind).splitlines()
        for above, line in pairwise(source):
            if ": Constant[" in line:
                assert "#" in above or ": Constant[" in above, f"{kind.__name__}: {line}"
        for name, hint in get_type_hints(kind, include_extras=True).items():
            fixed = any(isinstance(mark, Fixed) for mark in get_args(hint))
            assert fixed or says(kind).get(name), f"{kind.__name__}.{name}"


def test_few_settings_are_named_first() -> None:
    assert sum(row.mark.first for row in (*APP, *PIPELINE)) <= 15


def test_reading_settings_starts_no_cdk() -> None:
    code = "import infra.context, sys; sys.exit('aws_cdk' in sys.modules)"
    path = os.pathsep.join([str(ROOT), str(ROOT / "lambdas")])
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": path})
