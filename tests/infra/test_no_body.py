"""Of all policies for people only BodyReader shows a byte of a letter's body.

The policies of the templates, judged by the evaluator of the sandbox's IAM before each call to an
AWS in memory. `tests/e2e/test_no_body.py` asks the embedded AWS the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from ministack.core.iam_evaluator import (
    EvalContext,
    ParsedStatement,
    evaluate,
    parse_policy_document,
)
from moto import mock_aws

from deadletter.contract import CAUSES, LANES, Partition
from infra.permissions import only_attributes, partitions
from sandbox.leading_keys import leading_keys, named_attributes
from tests.bodies import HOLD_LETTERS, HOLD_NONE, LETTER, SHOW_NONE, Planted, attempts
from tests.infra.templates import Synthesis, filled
from tests.infra.test_permissions import LETTERS_THEMSELVES, PEOPLE, listed, managed
from tests.tables import create_keyed_table

REGION, ACCOUNT = "eu-west-1", "111122223333"
TABLE, BUCKET = "deadletter-messages", f"deadletter-messages-{ACCOUNT}-{REGION}"
QUEUES = ("deadletter-orders-dlq", "deadletter-orders-parking", "deadletter-orders-main")

Statements = Sequence[ParsedStatement]


class Account:
    """An AWS in memory with bodies in it, whose every call is judged by a person's policy."""

    def __init__(self) -> None:
        session = boto3.Session(region_name=REGION)
        self._clients = {name: session.client(name) for name in ("dynamodb", "s3", "sqs")}
        self._policy: Statements | None = None
        self._was_allowed = False
        self._tables()
        sqs = self._clients["sqs"]
        urls = [sqs.create_queue(QueueName=name)["QueueUrl"] for name in QUEUES]
        self.planted = Planted(TABLE, BUCKET, "orders", urls)
        for url in urls:
            sqs.send_message(QueueUrl=url, MessageBody=LETTER.decode())

        for client in self._clients.values():
            client.meta.events.register("provide-client-params.*", self._judge)

    def _tables(self) -> None:
        indexes = {each.name: (each.partition, str(each.sort)) for each in (LANES, CAUSES)}
        included = {CAUSES.name: CAUSES.projected}
        dynamodb = self._clients["dynamodb"]
        create_keyed_table(dynamodb, TABLE, ("pk", "sk"), indexes, included=included)
        self._clients["s3"].create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
        )

    def seen_by(self, policy: Statements) -> Iterator[str]:
        """The attempts in which somebody with this policy sees a body."""
        allowed = {action for statement in policy for action in statement.actions}
        self._plant("dynamodb", "s3")
        for attempt in attempts(self.planted):
            # What is allowed nowhere need not be asked for.
            if not attempt.actions & allowed:
                continue
            with self._signed_in(policy):
                shows = attempt.shows(self._clients.__getitem__)
            if shows:
                yield attempt.says
            if self._was_allowed and not attempt.reads:
                self._plant(attempt.service)

    def finds(self, policy: Statements, *ways: str) -> bool:
        """Whether a body is seen in each of these ways; the rest is not tried."""
        missing = {*ways}
        for says in self.seen_by(policy):
            missing -= {way for way in missing if way in says}
            if not missing:
                return True
        return False

    @contextmanager
    def _signed_in(self, policy: Statements) -> Iterator[None]:
        self._policy = policy
        try:
            yield
        finally:
            self._policy = None

    def _plant(self, *services: str) -> None:
        """Plant anew what was in these services."""
        names = {"dynamodb", "s3"}.intersection(services)
        self.planted.plant(**{name: self._clients[name] for name in names})

    def _judge(self, params: Mapping[str, Any], model: Any, **_: Any) -> None:
        if self._policy is None:
            return
        self._was_allowed = False
        for action, resource, context in _asked(model, params):
            asked = EvalContext(
                principal_arn=f"arn:aws:sts::{ACCOUNT}:assumed-role/on-call/ann",
                principal_type="AssumedRole",
                principal_account=ACCOUNT,
                action=action,
                resource_arn=resource,
                region=REGION,
                service_context={key.lower(): value for key, value in context.items()},
            )
            if evaluate(asked, [list(self._policy)]).decision != "Allow":
                denied = {"Error": {"Code": "AccessDeniedException", "Message": action}}
                raise ClientError(denied, model.name)  # type: ignore[arg-type]
        self._was_allowed = True


def _asked(model: Any, params: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """What IAM is asked for a call: the action, the resource and what the request touches."""
    service, operation = model.service_model.service_name, model.name
    home = f"{REGION}:{ACCOUNT}"
    if service == "sqs":
        queue = params["QueueUrl"].rpartition("/")[2]
        yield f"sqs:{operation}", f"arn:aws:sqs:{home}:{queue}", {}
        return
    if service == "s3":
        here = f"arn:aws:s3:::{params['Bucket']}"
        if operation == "CopyObject":
            yield "s3:GetObject", f"arn:aws:s3:::{params['CopySource']}", {}
        action = "PutObject" if operation == "CopyObject" else operation
        yield f"s3:{action}", f"{here}/{params['Key']}" if "Key" in params else here, {}
        return
    table = f"arn:aws:dynamodb:{home}:table/{TABLE}"
    if operation.endswith("Statement"):
        statement = params.get("Statement") or params["Statements"][0]["Statement"]
        yield f"dynamodb:PartiQL{statement.split()[0].capitalize()}", table, {}
        return
    action = f"dynamodb:{operation}"

    def partition_key(_table: str, index: str | None) -> str:
        named = {LANES.name: LANES.partition, CAUSES.name: CAUSES.partition}
        return named.get(index or "", "pk")

    keys, names = leading_keys(action, params, partition_key), named_attributes(action, params)
    touched = sorted({*keys, *names}) or [(action, TABLE)]
    if index := params.get("IndexName"):
        table = f"{table}/index/{index}"
    for asked, name in touched:
        context: dict[str, Any] = {}
        if values := keys.get((asked, name)):
            context["dynamodb:LeadingKeys"] = values
        if attributes := names.get((asked, name)):
            context["dynamodb:Attributes"] = attributes
            context["dynamodb:Select"] = "SPECIFIC_ATTRIBUTES"
        yield asked, table, context


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        yield Account()


def policy(app: Synthesis, *names: str) -> Statements:
    """The statements of these policies together, as a role has them that they are attached to."""
    said = [statement for name in names for statement in managed(app)[name]]
    return parse_policy_document(filled({"Version": "2012-10-17", "Statement": said}))


@pytest.mark.parametrize("name", sorted(PEOPLE.keys() - {"BodyReader"}))
def test_no_policy_but_bodyreader_shows_a_byte_of_a_body(
    app: Synthesis, account: Account, name: str
) -> None:
    assert list(account.seen_by(policy(app, name))) == []


def test_all_policies_but_bodyreader_together_show_no_byte_of_a_body(
    app: Synthesis, account: Account
) -> None:
    others = sorted(PEOPLE.keys() - {"BodyReader"})
    assert list(account.seen_by(policy(app, *others))) == []


def test_bodyreader_sees_each_letter(app: Synthesis, account: Account) -> None:
    """The attempts can succeed."""
    calls = ("BatchGetItem", "Query", "GetObject", "ReceiveMessage")
    assert account.finds(policy(app, "BodyReader"), *calls)


def grant(action: str, **condition: Mapping[str, Any]) -> Statements:
    resource = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{TABLE}"
    statement = {
        "Effect": "Allow",
        "Action": action,
        "Resource": resource,
        **({"Condition": condition} if condition else {}),
    }
    return parse_policy_document({"Version": "2012-10-17", "Statement": [statement]})


WRITES = {
    "dynamodb:UpdateItem": "ReturnValues=ALL_OLD",
    "dynamodb:PutItem": "ReturnValues=ALL_OLD",
    "dynamodb:DeleteItem": "ReturnValues=ALL_OLD",
    "dynamodb:ConditionCheckItem": "ReturnValuesOnConditionCheckFailure",
}


@pytest.mark.parametrize("action", WRITES)
def test_a_write_on_a_letters_item_would_show_its_body(account: Account, action: str) -> None:
    """However its partitions are kept apart. The attempts find both ways."""
    granted = grant(action, **partitions(*LETTERS_THEMSELVES))
    assert account.finds(granted, WRITES[action], "ReturnValuesOnConditionCheckFailure")


def test_a_write_that_names_harmless_attributes_shows_the_others(account: Account) -> None:
    """As people held it before recall and edit went through the function."""
    recall = {
        **partitions(*LETTERS_THEMSELVES),
        **only_attributes("pk", "sk", "lane", "due", reads=False),
    }
    granted = grant("dynamodb:UpdateItem", **recall)
    ways = ("ReturnValues=ALL_OLD", "ReturnValuesOnConditionCheckFailure")
    assert account.finds(granted, *ways)


READS = {"dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"}


@pytest.mark.parametrize("name", PEOPLE)
def test_no_person_may_write_an_item_that_holds_a_letter(app: Synthesis, name: str) -> None:
    """Not by any action, whether it is among the attempts or not."""
    table = f":table/{TABLE}"
    for statement in managed(app)[name]:
        on_items = [each for each in listed(statement["Resource"]) if filled(each).endswith(table)]
        actions = {each for each in listed(statement["Action"]) if each.startswith("dynamodb:")}
        if not on_items or actions <= {*READS, "dynamodb:DescribeContinuousBackups"}:
            continue
        patterns = statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
        for kind in HOLD_LETTERS:
            written = [each for each in patterns if fnmatchcase(kind.of("orders", "id"), each)]
            assert written == [], (name, actions)


def test_each_action_of_a_person_is_tried_or_has_a_reason_why_it_shows_none(
    app: Synthesis, sandboxed: Synthesis, account: Account
) -> None:
    tried = {action for each in attempts(account.planted) for action in each.actions}
    granted = {
        action
        for synthesis in (app, sandboxed)
        for name in PEOPLE
        for statement in managed(synthesis)[name]
        for action in listed(statement["Action"])
    }
    assert granted - tried == SHOW_NONE.keys() - {"s3:PutObject"}
    assert "s3:PutObject" in granted


def test_each_kind_of_row_holds_a_letter_or_never_does() -> None:
    assert set(Partition) == HOLD_LETTERS | HOLD_NONE
