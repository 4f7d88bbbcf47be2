"""A pipeline on queues under customers' keys heals its letters, and loses none without a key.

It has a sandbox of its own, in which SQS asks IAM for the keys (`sandbox.queue_keys`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandbox.deploy import deploy
from sandbox.progress import until
from sandbox.server import ACCOUNT, REGION, Sandbox

PIPELINE = "orders"

REDRIVE = f"deadletter-{PIPELINE}-redrive"

BODIES = {json.dumps({"order": number}) for number in range(3)}

# A letter comes back within a second, and is parked when it dies for the third time.
SETTINGS = {
    "name": PIPELINE,
    "consumer": "none",
    "policy": {"max_attempts": 2, "backoff": {"base": 1, "cap": 1}},
    "tuning": {"policy.backoff.floor": 0},
}


@dataclass(frozen=True)
class Keyed:
    """The app over queues of a team whose keys let IAM decide."""

    sandbox: Sandbox
    keys: dict[str, str]

    def queue(self, name: str) -> str:
        return str(self.sandbox.client("sqs").get_queue_url(QueueName=name)["QueueUrl"])

    def held(self, name: str) -> set[str]:
        """The bodies in a queue, seen without receiving them."""
        return {message["Body"] for message in self.sandbox.queues().get(name, [])}

    def fail(self) -> None:
        """Receive each message of the main queue once too often: SQS moves it into the DLQ."""
        sqs, url = self.sandbox.client("sqs"), self.queue("their-main")

        def moved() -> bool:
            sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
            return self.held("their-dlq") == BODIES

        until(moved, "the messages are letters", marks=lambda: self.held("their-dlq"))

    def redrive(self) -> dict[str, Any]:
        answer = self.sandbox.client("lambda").invoke(
            FunctionName=REDRIVE, Payload=json.dumps({"source": "dlq", "asked": True})
        )
        report: dict[str, Any] = json.loads(answer["Payload"].read())
        return report

    def redrive_until(self, queue: str) -> None:
        """Run after run, until all letters are in this queue and in no other."""

        def there() -> bool:
            self.redrive()
            return self.held(queue) == BODIES and not self.held("their-dlq")

        until(there, f"the letters are in {queue}", marks=lambda: self.held(queue))

    def role(self) -> str:
        function = self.sandbox.client("lambda").get_function_configuration(FunctionName=REDRIVE)
        return str(function["Role"].rpartition("/")[2])

    def permissions(self) -> dict[str, Any]:
        """The policy of the redriver's role."""
        found = self.sandbox.client("iam").get_role_policy(
            RoleName=self.role(), PolicyName="Permissions"
        )
        document: dict[str, Any] = found["PolicyDocument"]
        return document

    def permit(self, document: dict[str, Any]) -> None:
        self.sandbox.client("iam").put_role_policy(
            RoleName=self.role(), PolicyName="Permissions", PolicyDocument=json.dumps(document)
        )


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    folder: Path = tmp_path_factory.mktemp("keyed")
    with Sandbox(folder) as sandbox:
        kms, sqs = sandbox.client("kms"), sandbox.client("sqs")
        root = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
        decide = {"Effect": "Allow", "Principal": root, "Action": "kms:*", "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [decide]})
        keys = {
            name: kms.create_key(Policy=policy)["KeyMetadata"]["Arn"]
            for name in ("app", "main", "dlq")
        }
        home = f"arn:aws:sqs:{REGION}:{ACCOUNT}:their"
        sqs.create_queue(QueueName="their-dlq", Attributes={"KmsMasterKeyId": keys["dlq"]})
        redrive = {"deadLetterTargetArn": f"{home}-dlq", "maxReceiveCount": 1}
        attributes = {"KmsMasterKeyId": keys["main"], "RedrivePolicy": json.dumps(redrive)}
        sqs.create_queue(QueueName="their-main", Attributes=attributes)
        brought = {
            f"{queue}_queue" if queue == "main" else queue: {
                "arn": f"{home}-{queue}",
                "kms_key_arn": keys[queue],
            }
            for queue in ("main", "dlq")
        }
        pipelines = json.dumps([{**SETTINGS, **brought, "mode": "enforce"}])
        deploy(sandbox, context={"pipelines": pipelines, "kms_key_arn": keys["app"]}, show=print)
        # A run beside those of the test would take its letters away.
        schedules = sandbox.client("scheduler")
        found = schedules.get_schedule(Name=f"deadletter-{PIPELINE}-dlq")
        kept = ("Name", "FlexibleTimeWindow", "ScheduleExpression", "Target")
        schedules.update_schedule(**{name: found[name] for name in kept}, State="DISABLED")
        yield Keyed(sandbox, keys)


def test_letters_under_customers_keys_are_healed_and_parked(keyed: Keyed) -> None:
    sqs = keyed.sandbox.client("sqs")
    for body in BODIES:
        sqs.send_message(QueueUrl=keyed.queue("their-main"), MessageBody=body)
    keyed.fail()

    # The statements about keys, each taken away once: no letter moves, and none is lost.
    whole = keyed.permissions()
    for sid in ("LetterKeys", "MainKey"):
        rest = [statement for statement in whole["Statement"] if statement["Sid"] != sid]
        assert len(rest) == len(whole["Statement"]) - 1
        keyed.permit({**whole, "Statement": rest})
        report = keyed.redrive()
        assert keyed.held("their-dlq") == BODIES, sid
        assert not keyed.held("their-main"), sid
        assert "KMS.AccessDenied" in json.dumps(report), sid
    keyed.permit(whole)

    keyed.redrive_until("their-main")
    keyed.fail()
    keyed.redrive_until("their-main")
    keyed.fail()
    keyed.redrive_until(f"deadletter-{PIPELINE}-parking")
    used = {
        (call.action, call.resource)
        for call in keyed.sandbox.calls()
        if call.caller == REDRIVE and call.action.startswith("kms:") and call.allowed
    }
    assert used == {
        ("kms:Decrypt", keyed.keys["main"]),
        ("kms:GenerateDataKey", keyed.keys["main"]),
        ("kms:Decrypt", keyed.keys["dlq"]),
        ("kms:Decrypt", keyed.keys["app"]),
        ("kms:GenerateDataKey", keyed.keys["app"]),
    }


def test_the_parked_letters_are_under_the_key_of_the_app(keyed: Keyed) -> None:
    url = keyed.queue(f"deadletter-{PIPELINE}-parking")
    said = keyed.sandbox.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    assert said["Attributes"]["KmsMasterKeyId"] == keyed.keys["app"]


def test_the_doctor_knows_which_keys_the_pipeline_may_use(keyed: Keyed) -> None:
    def unknown_keys() -> set[str]:
        answer = keyed.sandbox.dlq(["doctor", "--pipeline", PIPELINE, "--json"])
        found = json.loads(answer.stdout)["findings"]
        return {fault["subject"] for fault in found if "does not know its key" in fault["says"]}

    assert unknown_keys() == set()
    # Its team has put the queue under another key.
    other = keyed.sandbox.client("kms").create_key()["KeyMetadata"]["KeyId"]
    keyed.sandbox.client("sqs").set_queue_attributes(
        QueueUrl=keyed.queue("their-dlq"), Attributes={"KmsMasterKeyId": other}
    )
    assert unknown_keys() == {"their-dlq"}
