"""Encryption with the customer's key, if the settings name one; else with keys of AWS."""

from __future__ import annotations

from aws_cdk import Aws
from aws_cdk import aws_kms as kms
from constructs import Construct

from .permissions import Permissions
from .settings import AppSettings

READ = ("kms:Decrypt", "kms:DescribeKey")

# The actions that SQS, DynamoDB and S3 use on behalf of a role that writes.
WRITE = (
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)


def customer_key(scope: Construct, app: AppSettings) -> kms.IKey | None:
    """The customer's key; None if AWS keeps the keys.

    The customer writes its policy. The policy has to allow access by the account's IAM
    policies, and to name the services that use the key in their own name:
    cloudwatch.amazonaws.com for the topic and logs.<region>.amazonaws.com for the log groups.
    """
    if app.kms_key_arn is None:
        return None
    return kms.Key.from_key_arn(scope, "Key", app.kms_key_arn)


def grant_key(
    permissions: Permissions, app: AppSettings, *, services: tuple[str, ...], writes: bool
) -> None:
    """Use the customer's key through `services` only; without such a key, nothing."""
    if app.kms_key_arn is None:
        return
    via = [f"{service}.{Aws.REGION}.{Aws.URL_SUFFIX}" for service in services]
    permissions.allow(
        "Key",
        [*READ, *(WRITE if writes else ())],
        [app.kms_key_arn],
        {"StringEquals": {"kms:ViaService": via}},
    )
