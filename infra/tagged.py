"""What you bring, and people on call reach: queues, their keys, consumer functions and their logs.

Policies for people don't grow with the number of pipelines. What the app makes is one pattern of
names. What you bring has names of your own: the first few are named, and all are found by a tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import aws_cdk as cdk
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IConstruct

from . import here
from .arn import is_token, last_part
from .findings import acknowledge_patterns
from .keys import keys_beside, queue_keys
from .permissions import Permissions
from .settings import AppDeployment

# Its value is the app's name. Everything that the app makes carries it too.
TAG = "deadletter:app"

# A DLQ carries this one beside it: who may look at letters may look into no main queue.
HOLDS, MESSAGES = "deadletter:holds", "messages"

# Of each kind: a policy holds 6,144 characters, and a role takes ten policies.
NAMED = 10

# Everything of a service in the account and region: the tag chooses.
QUEUES, KEYS = "sqs:*", "kms:key/*"
FUNCTIONS, LOG_GROUPS = "lambda:function:*", "logs:log-group:*"


def tag_queue(queue: sqs.IQueue, app: AppDeployment, *, holds_messages: bool) -> None:
    """Tag a queue of yours and its key, if they are made in the same app; what is imported is
    yours to tag.
    """
    cdk.Tags.of(queue).add(TAG, app.app)
    if queue.encryption_master_key is not None:
        cdk.Tags.of(queue.encryption_master_key).add(TAG, app.app)
    if holds_messages:
        cdk.Tags.of(queue).add(HOLDS, MESSAGES)


def main_queues(app: AppDeployment) -> list[str]:
    """The ARNs of the main queues that the settings name."""
    return _once(pipeline.main_queue.arn for pipeline in app.pipelines)


def dead_letter_queues(app: AppDeployment) -> list[str]:
    """The ARNs of the DLQs that the settings name."""
    return _once(pipeline.dlq.arn for pipeline in app.pipelines)


def keys(app: AppDeployment) -> list[str]:
    """The ARNs of the keys of these queues, without the app's own."""
    return _once(keys_beside(app, queue_keys(*app.pipelines)))


def consumers(app: AppDeployment) -> list[str]:
    """The ARNs of the functions that the settings name as consumers."""
    return _once(pipeline.consumer.function_arn for pipeline in app.pipelines)


def allow_brought(
    permissions: Permissions,
    sid: str,
    actions: Iterable[str],
    arns: Iterable[str],
    *,
    kind: str,
    app: AppDeployment,
    tags: Mapping[str, str] | None = None,
    via: Mapping[str, str] | None = None,
    ours: Iterable[str] = (),
) -> None:
    """Allow `actions` on the first of `arns`, on `ours`, and on all of a kind that has the tag.

    `tags` are asked for beside it, and `via` (condition key and value) of both.
    """
    condition = dict(via or {})
    tagged = {
        f"aws:ResourceTag/{key}": value for key, value in {TAG: app.app, **(tags or {})}.items()
    }
    named = {"StringEquals": condition} if condition else {}
    permissions.allow(sid, list(actions), [*list(arns)[:NAMED], *ours], named)
    by_tag = {"StringEquals": {**tagged, **condition}}
    permissions.allow(f"{sid}ByTag", list(actions), [_all(kind)], by_tag)


def warn_of_unnamed(scope: Construct, app: AppDeployment) -> None:
    """Say at synth what no policy names, because it is one too many: that needs the tag."""
    for arns, tags in (
        (main_queues(app), f"{TAG}={app.app}"),
        (dead_letter_queues(app), f"{TAG}={app.app} and {HOLDS}={MESSAGES}"),
        (consumers(app), f"{TAG}={app.app}, as its log group"),
        (keys(app), f"{TAG}={app.app}"),
    ):
        for arn in arns[NAMED:]:
            cdk.Annotations.of(scope).add_warning_v2(
                f"deadletter:tag-{arn.rpartition(':')[2]}",
                f"The policies for people on call name {NAMED} of a kind, and not {arn}: "
                f"tag it {tags}.",
            )


def acknowledge_tagged(construct: IConstruct) -> None:
    """Say why a policy names everything of a service: a condition asks for the tag."""
    acknowledge_patterns(
        construct,
        *map(_all, (QUEUES, FUNCTIONS, LOG_GROUPS, KEYS)),
        because=f"only what has the tag {TAG} with the app's name: policies that name each queue"
        " grow with the pipelines, and a role takes ten",
    )


def _all(kind: str) -> str:
    service, _, resources = kind.partition(":")
    return here.arn(service, resources)


def _once(arns: Iterable[str | None]) -> list[str]:
    """Each ARN once. A name that only the deployment knows may stand in a stack that waits for
    this one: such a thing is found by its tag.
    """
    return list(dict.fromkeys(arn for arn in arns if arn and not is_token(last_part(arn))))
