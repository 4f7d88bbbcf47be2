"""Who holds the key: AWS, or the customer key that the settings name."""

from __future__ import annotations

from aws_cdk import Aws
from aws_cdk import aws_kms as kms
from constructs import Construct

from .permissions import Permissions
from .settings import AppSettings

READ = ("kms:Decrypt", "kms:DescribeKey")

# What SQS, DynamoDB and S3 between them ask of a key on behalf of a writer.
WRITE = (
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)


def customer_key(scope: Construct, app: AppSettings) -> kms.IKey | None:
    """The customer's key, None if AWS keeps the keys.

    Its policy is the customer's. It has to let the account's own policies decide
    and name the services that use the key in nobody's behalf: cloudwatch.amazonaws.com
    for the topic and logs.<region>.amazonaws.com for the log groups.
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
