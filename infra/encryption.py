"""Encryption with customers' keys, if the settings name any; else with keys of AWS.

The app has one key, for everything that it makes. A queue of yours may have another.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from . import here
from .arn import Arn, is_token
from .keys import service_statements
from .permissions import Permissions
from .settings import AppDeployment

READ = ("kms:Decrypt", "kms:DescribeKey")

# The actions that SQS, DynamoDB and S3 use on behalf of a role that writes.
WRITE = (
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)

# The condition key: which service calls KMS.
VIA = "kms:ViaService"

# What SQS asks KMS for, in the name of a role that receives or sends.
TO_RECEIVE = ("kms:Decrypt",)
TO_SEND = ("kms:GenerateDataKey", "kms:Decrypt")


def customer_key(scope: Construct, app: AppDeployment) -> kms.IKey | None:
    """The customer's key; None if AWS keeps the keys.

    Its policy has to allow access by the account's IAM policies, and to name the services that
    use the key in their own name (see let_services_use).
    """
    if app.kms_key_arn is None:
        return None
    return kms.Key.from_key_arn(scope, "Key", app.kms_key_arn)


def let_services_use(scope: Construct, app: AppDeployment, key: kms.IKey | None) -> None:
    """Let the services that use the app's key in their own name do so.

    A `key` that is made in this CDK app gets the statements. The policy of one that is imported,
    or known by its ARN only, is the customer's to write: synth prints what it needs.
    """
    if app.kms_key_arn is None:
        return
    deployed = service_statements(
        app, partition=here.PARTITION, region=here.REGION, account=here.ACCOUNT_ID
    )
    is_ours = key is not None and all(
        key.add_to_resource_policy(iam.PolicyStatement.from_json(statement), True).statement_added
        for statement in deployed
    )
    if is_ours:
        return
    named = app.kms_key_arn
    home = {"partition": "PARTITION", "region": "REGION", "account": "ACCOUNT"}
    if is_token(named):
        named = "the key"
    else:
        arn = Arn.parse(named)
        home = {"partition": arn.partition, "region": arn.region, "account": arn.account}
    needed = json.dumps(service_statements(app, **home), indent=2)
    cdk.Annotations.of(scope).add_warning_v2(
        "deadletter:key-policy",
        f"App {app.app}: the policy of {named} is yours to write. Without these statements alarms"
        f" reach no one, and no error is shown, or the deployment fails:\n{needed}\n"
        "dlq doctor and dlq doctor --send-page say what it lacks.",
    )


def grant_key(
    permissions: Permissions, app: AppDeployment, *, services: tuple[str, ...], writes: bool
) -> None:
    """Use the customer's key through `services` only; without such a key, nothing."""
    if app.kms_key_arn is None:
        return
    permissions.allow(
        "Key", [*READ, *(WRITE if writes else ())], [app.kms_key_arn], _through(*services)
    )


def grant_queue_keys(
    permissions: Permissions, sid: str, keys: Sequence[str], *, sends: bool = False
) -> None:
    """Receive from queues under these keys, or if it `sends`, send to them; through SQS only."""
    permissions.allow(sid, TO_SEND if sends else TO_RECEIVE, keys, _through("sqs"))


def _through(*services: str) -> dict[str, dict[str, list[str]]]:
    """The condition that KMS is called by one of these services, for the role."""
    return {"StringEquals": {VIA: [calling(service) for service in services]}}


def calling(service: str) -> str:
    """The name that a service calls KMS by."""
    return f"{service}.{here.REGION}.{here.URL_SUFFIX}"
