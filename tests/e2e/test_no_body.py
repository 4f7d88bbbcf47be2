"""Of the deployed policies for people only BodyReader shows a byte of a body, as IAM enforces it.

Bodies are planted in the table, the bucket and queues; each policy's every granted action is tried
with every return option. `tests/infra/test_no_body.py` asks the synthesized policies the same.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import boto3
import pytest
from botocore.config import Config

from sandbox.server import REGION, Sandbox
from tests.bodies import COPY, LETTER, RUN, Clients, Planted, attempts, holds
from tests.e2e.deployed import Deployed
from tests.e2e.test_on_call import POLICIES, OnCall
from tests.infra.test_permissions import LETTERS_THEMSELVES

QUEUES = ("deadletter-planted-dlq", "deadletter-planted-parking", "deadletter-planted-main")

OTHERS = tuple(name for name in POLICIES if name != "BodyReader")


@pytest.fixture(scope="module")
def people(sandbox: Sandbox, aws: Callable[[str], Any], outputs: Mapping[str, str]) -> OnCall:
    return OnCall(Deployed(sandbox, aws, outputs), "", {})


@pytest.fixture(scope="module")
def planted(people: OnCall) -> Iterator[Planted]:
    """Bodies in pipeline orders, and in queues whose names the policies' patterns take in."""
    orders = people.orders
    sqs, dynamodb, s3 = (orders.aws(name) for name in ("sqs", "dynamodb", "s3"))
    urls = [sqs.create_queue(QueueName=name)["QueueUrl"] for name in QUEUES]
    for url in urls:
        sqs.send_message(QueueUrl=url, MessageBody=LETTER.decode())
    table, bucket = orders.outputs["MessagesTableName"], orders.app["messages_bucket"]
    plants = Planted(table, bucket, "orders", urls)
    plants.plant(dynamodb, s3)
    yield plants
    for item in plants.items:
        key = {name: item[name] for name in ("pk", "sk")}
        dynamodb.delete_item(TableName=table, Key=key)
    for name in plants.objects:
        for each in (name, f"{name}.copy"):
            s3.delete_object(Bucket=bucket, Key=each)
    for url in urls:
        sqs.delete_queue(QueueUrl=url)


def signed_in(people: OnCall, policies: Sequence[str], session: str) -> Clients:
    """Makes clients of a person with these policies and no others."""
    found = people.credentials(policies, session)
    sandbox = people.orders.sandbox
    person = boto3.Session(
        aws_access_key_id=found["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=found["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=found["AWS_SESSION_TOKEN"],
        region_name=REGION,
    )
    once = Config(retries={"total_max_attempts": 1})

    @cache
    def client(service: str) -> Any:
        return person.client(  # type: ignore[call-overload]
            service,
            endpoint_url=sandbox.endpoint,
            verify=sandbox.environment["AWS_CA_BUNDLE"],
            config=once,
        )

    return client


def granted(people: OnCall, policies: Sequence[str]) -> set[str]:
    """The actions that the deployed policies allow on anything at all."""
    iam, actions = people.orders.aws("iam"), set()
    for output, arn in people.orders.outputs.items():
        if output.removesuffix("PolicyArn").rstrip("2") in policies:
            version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
            document = iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]
            for statement in document["Document"]["Statement"]:
                said = statement["Action"]
                actions |= {said} if isinstance(said, str) else set(said)
    return actions


def seen(planted: Planted, allowed: set[str], clients: Clients) -> list[str]:
    """The attempts in which this person sees a body."""
    return [
        attempt.says
        for attempt in attempts(planted)
        if attempt.actions & allowed and attempt.shows(clients)
    ]


def test_no_policy_but_bodyreader_shows_a_byte_of_a_body_nor_do_all_together(
    people: OnCall, planted: Planted
) -> None:
    for policies in (*([policy] for policy in OTHERS), OTHERS):
        clients = signed_in(people, policies, f"bodies-{'-'.join(policies)}"[:64])
        assert seen(planted, granted(people, policies), clients) == [], policies
        assert_planted(people, planted)


def assert_planted(people: OnCall, planted: Planted) -> None:
    """No attempt has changed or removed a letter: then the next would find nothing."""
    dynamodb, s3 = people.orders.aws("dynamodb"), people.orders.aws("s3")
    for item in planted.items:
        key = {name: item[name] for name in ("pk", "sk")}
        assert dynamodb.get_item(TableName=planted.table, Key=key)["Item"] == item
    for name in planted.objects:
        # Who may ask for edits may replace a record of one.
        assert holds(s3.get_object(Bucket=planted.bucket, Key=name))


def test_bodyreader_sees_each_letter(people: OnCall, planted: Planted) -> None:
    """The attempts can succeed."""
    policies = ["BodyReader"]
    clients = signed_in(people, policies, "bodies-BodyReader")
    found = " ".join(seen(planted, granted(people, policies), clients))
    for call in ("BatchGetItem", "Query", "GetObject", "ReceiveMessage"):
        assert call in found


def test_a_write_that_names_harmless_attributes_would_show_the_letter(
    people: OnCall, planted: Planted
) -> None:
    """As people held it before recall and edit went through the function."""
    clients = signed_in(people, [], "bodies-as-it-was")
    iam = people.orders.aws("iam")
    who = clients("sts").get_caller_identity()["Arn"].split("/")[1]
    statement = {
        "Effect": "Allow",
        "Action": "dynamodb:UpdateItem",
        "Resource": f"arn:aws:dynamodb:*:*:table/{planted.table}",
        "Condition": {
            "ForAllValues:StringLike": {"dynamodb:LeadingKeys": LETTERS_THEMSELVES},
            "ForAllValues:StringEquals": {"dynamodb:Attributes": ["pk", "sk", "lane", "due"]},
        },
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_role_policy(RoleName=who, PolicyName="recall", PolicyDocument=document)
    # An attempt of an update sets an attribute to what it is.
    found = " ".join(seen(planted, {"dynamodb:UpdateItem"}, clients))
    assert "ReturnValues=ALL_OLD" in found
    assert "ReturnValuesOnConditionCheckFailure=ALL_OLD" in found


PLACES = [
    json.dumps([item["pk"]["S"], item["sk"]["S"]]) for item in Planted("", "", "orders", []).items
]

EVENTS: list[dict[str, Any]] = [
    *({"recall": [[place, lane]]} for place in PLACES for lane in ("due", f"run:{RUN}")),
    {"recall": [[json.dumps(["orders#runs", RUN]), "due"]]},
    {"edit": {"run": RUN, "records": [f"edits/{COPY}-1.json"]}},
    {"edit": {"run": f"{RUN}/discarded", "records": [f"edits/{COPY}.json"]}},
    {"edit": "everything"},
]


def test_the_function_that_people_ask_answers_without_a_byte_of_a_body(
    people: OnCall, planted: Planted
) -> None:
    clients = signed_in(people, OTHERS, "bodies-asked")
    for event in EVENTS:
        answer = clients("lambda").invoke(
            FunctionName="deadletter-orders-redrive", Payload=json.dumps(event), LogType="Tail"
        )
        assert "FunctionError" not in answer, event
        assert not holds(answer["Payload"]), event
        # Who may invoke a function may ask for the end of its log.
        assert not holds(base64.b64decode(answer.get("LogResult", ""))), event
        assert_planted(people, planted)
