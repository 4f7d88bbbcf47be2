"""The customer keys that settings name: one of the app, and those of queues of yours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from deadletter.settings.setting import ValueKind

from .arn import is_token
from .checked import values_of
from .refusal import refused
from .settings import AppDeployment, PipelineDeployment


def check_keys(app: AppDeployment, settings: PipelineDeployment) -> None:
    """Refuse a queue with a customer key in an app without one.

    What leaves the queue waits in the tables, the bucket and the parking lot of the app: it
    came from under a customer's key, and must not lie under a key of AWS. Raises Refused.
    """
    if app.kms_key_arn is not None:
        return
    for key, arn in values_of(settings, ValueKind.KEY_ARN):
        allowed = (
            "nothing while the app has no kms_key_arn, under which what comes out of this"
            " queue is kept while it waits or is parked"
        )
        named = "the key of the queue" if is_token(arn) else arn
        raise refused(f"Pipeline {settings.name}", key, named, allowed)


def queue_keys(*pipelines: PipelineDeployment) -> list[str]:
    """The customer keys of the queues of these pipelines."""
    return [key for settings in pipelines for _, key in values_of(settings, ValueKind.KEY_ARN)]


def keys_beside(app: AppDeployment, keys: Iterable[str | None]) -> Sequence[str]:
    """Each of these keys once, without the app's, which all that the app makes is under."""
    return [key for key in dict.fromkeys(keys) if key and key != app.kms_key_arn]


def service_statements(
    app: AppDeployment, *, partition: str, region: str, account: str
) -> list[dict[str, Any]]:
    """What the policy of the app's key has to say for services that use it in their own name.

    Without the first two, alarms reach no one and no error is shown; without the last, the
    deployment fails. With a topic of yours the key has nothing to do with alarms.
    """
    logs = f"arn:{partition}:logs:{region}:{account}:log-group:"
    folders = ("/aws/lambda/", "/aws/vendedlogs/states/")
    groups = [f"{logs}{folder}{app.app}-*" for folder in folders]
    here = {"StringEquals": {"aws:SourceAccount": account}}
    publishing = ["kms:Decrypt", "kms:GenerateDataKey"]
    of_topic = [
        _statement("AlarmsReachTheTopic", "cloudwatch.amazonaws.com", publishing, here),
        # To a queue of yours that has subscribed, and is under this key.
        _statement("TheTopicReachesQueues", "sns.amazonaws.com", publishing, here),
    ]
    keeping = [
        *("kms:Encrypt", "kms:Decrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo"),
        *("kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext", "kms:DescribeKey"),
    ]
    of_groups = {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}}
    return [
        *([] if app.alarm_topic_arn else of_topic),
        _statement("LogGroups", f"logs.{region}.amazonaws.com", keeping, of_groups),
    ]


def _statement(
    sid: str, service: str, actions: Sequence[str], condition: dict[str, Any]
) -> dict[str, Any]:
    return {
        "Sid": sid,
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": list(actions),
        # In the policy of a key, the key itself.
        "Resource": "*",
        "Condition": condition,
    }
