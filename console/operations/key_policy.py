"""Whether a KMS key lets AWS services use it in their own name.

An alarm whose topic is under a key that CloudWatch may not use rings, and reaches no one: neither
CloudWatch nor SNS shows an error. The judgement is pure; `read_key` and `read_topic_key` read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from shlex import quote
from typing import Any

# Its policy can't be changed, and names no service.
_MANAGED_KEY = "alias/aws/sns"

_PUBLISH = ("kms:Decrypt", "kms:GenerateDataKey")
_KEEP = (
    *("kms:Encrypt", "kms:Decrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo"),
    *("kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext", "kms:DescribeKey"),
)

_ACCOUNT, _SOURCE, _LOG_GROUP = (
    "aws:sourceaccount",
    "aws:sourcearn",
    "kms:encryptioncontext:aws:logs:arn",
)


@dataclass(frozen=True, slots=True)
class EncryptionKey:
    """A customer's KMS key. `policy` is None if it could not be read; `arn` is empty for a key of
    AWS, which needs no grant.
    """

    id: str
    enabled: bool
    policy: Mapping[str, Any] | None = None
    arn: str = ""


@dataclass(frozen=True, slots=True)
class KeyTrouble:
    """What keeps a service from using a key, and the command that repairs it.

    It is not `sure` if the policy says something that dlq does not check.
    """

    says: str
    fix: str | None
    sure: bool = True


@dataclass(frozen=True, slots=True)
class KeyUse:
    """The use of a key by a service in its own name.

    `statement` allows it. `context` is what a condition may ask of the call, by lower-case keys.
    """

    service: str
    statement: Mapping[str, Any]
    context: Mapping[str, str]

    @property
    def actions(self) -> Sequence[str]:
        found: Sequence[str] = self.statement["Action"]
        return found


def key_uses(app: str, *, partition: str, region: str, account: str) -> Mapping[str, KeyUse]:
    """Who uses the key of an app: CloudWatch and SNS for its topic, and CloudWatch Logs."""
    home = f"{region}:{account}"
    groups = [
        f"arn:{partition}:logs:{home}:log-group:{folder}/{app}-*"
        for folder in ("/aws/lambda", "/aws/vendedlogs/states")
    ]
    here = {"StringEquals": {"aws:SourceAccount": account}}
    of_groups = {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}}
    alarm = f"arn:{partition}:cloudwatch:{home}:alarm:{app}-any"
    topic = f"arn:{partition}:sns:{home}:{app}-alarms"
    group = groups[0].replace("*", "any")
    rows: Sequence[tuple[str, str, str, Sequence[str], Mapping[str, Any], Mapping[str, str]]] = (
        ("cloudwatch", "AlarmsReachTheTopic", "cloudwatch", _PUBLISH, here, {_SOURCE: alarm}),
        ("sns", "TheTopicReachesQueues", "sns", _PUBLISH, here, {_SOURCE: topic}),
        ("logs", "LogGroups", f"logs.{region}", _KEEP, of_groups, {_LOG_GROUP: group}),
    )
    uses = {}
    for name, sid, host, actions, condition, context in rows:
        service = f"{host}.amazonaws.com"
        statement = {
            "Sid": sid,
            "Effect": "Allow",
            "Principal": {"Service": service},
            "Action": list(actions),
            "Resource": "*",
            "Condition": condition,
        }
        uses[name] = KeyUse(service, statement, {_ACCOUNT: account, **context})
    return uses


def troubles(key: EncryptionKey, use: KeyUse, region: str) -> Iterator[KeyTrouble]:
    """What keeps a service from using a key in its own name."""
    if key.id == _MANAGED_KEY:
        yield KeyTrouble(f"{key.id} lets no other service use it, and can't be changed", None)
        return
    if not key.enabled:
        enable = f"aws kms enable-key --key-id {quote(key.id)} --region {region}"
        yield KeyTrouble(f"the key {key.id} is disabled", enable)
    if key.policy is None:
        return
    missing, unsure = lacking(key.policy, use)
    if missing:
        policy = quote(json.dumps(with_statement(key.policy, use)))
        yield KeyTrouble(
            f"the policy of the key {key.id} does not let {use.service} use it "
            f"({', '.join(missing)}). It needs this statement: {json.dumps(use.statement)}",
            f"aws kms put-key-policy --key-id {quote(key.id)} --policy-name default "
            f"--region {region} --policy {policy}",
        )
    elif unsure:
        yield KeyTrouble(
            f"whether the policy of the key {key.id} lets {use.service} use it "
            f"({', '.join(unsure)}) depends on a condition, or on a statement with NotAction or "
            "NotPrincipal, that dlq does not check",
            None,
            sure=False,
        )


def read_key(kms: Any, key: str) -> EncryptionKey:
    """A key by its id, alias or ARN, with its policy."""
    about = kms.describe_key(KeyId=key)["KeyMetadata"]
    if about.get("KeyManager") == "AWS":
        return EncryptionKey(key, enabled=True)
    text = kms.get_key_policy(KeyId=about["KeyId"], PolicyName="default")["Policy"]
    return EncryptionKey(
        key, bool(about.get("Enabled", True)), json.loads(text), str(about.get("Arn", ""))
    )


def read_topic_key(sns: Any, kms: Any, topic: str) -> EncryptionKey | None:
    """The key that a topic is under; None if it is not encrypted."""
    attributes: Mapping[str, str] = sns.get_topic_attributes(TopicArn=topic)["Attributes"]
    key = attributes.get("KmsMasterKeyId")
    if not key or key.endswith(_MANAGED_KEY):
        return EncryptionKey(_MANAGED_KEY, enabled=True) if key else None
    return read_key(kms, key)


def lacking(policy: Mapping[str, Any], use: KeyUse) -> tuple[Sequence[str], Sequence[str]]:
    """The actions that a policy does not allow; then those that can't be judged.

    What dlq does not judge, such as a condition on another key, may go either way.
    """
    answers = {action: _allows(policy, use, action) for action in use.actions}
    return (
        [action for action, allows in answers.items() if allows is False],
        [action for action, allows in answers.items() if allows is None],
    )


def with_statement(policy: Mapping[str, Any], use: KeyUse) -> Mapping[str, Any]:
    """The policy with the statement that allows the use."""
    sid = use.statement["Sid"]
    others = [statement for statement in statements(policy) if statement.get("Sid") != sid]
    return {"Version": "2012-10-17", **policy, "Statement": [*others, use.statement]}


def _allows(policy: Mapping[str, Any], use: KeyUse, action: str) -> bool | None:
    """Whether a policy allows an action; None if that cannot be said."""
    allowed: bool | None = False
    is_sure = True
    for statement in statements(policy):
        holds = _all_of(_parts(statement, use, action))
        if holds is False:
            continue
        if statement.get("Effect") == "Deny":
            if holds:
                return False
            is_sure = False
        elif holds or allowed is False:
            allowed = holds
    return allowed if is_sure or allowed is False else None


def _parts(statement: Mapping[str, Any], use: KeyUse, action: str) -> Iterator[bool | None]:
    """Whether each part of a statement fits a call; None where that cannot be said."""
    if "NotPrincipal" in statement or "NotAction" in statement:
        yield None
    if "NotPrincipal" not in statement:
        yield _names(statement.get("Principal"), use.service)
    if "NotAction" not in statement:
        # The names of actions have no case.
        patterns = [pattern.lower() for pattern in _texts(statement.get("Action"))]
        yield any(fnmatchcase(action.lower(), pattern) for pattern in patterns)
    conditions = statement.get("Condition", {})
    for operator, asked in conditions.items() if isinstance(conditions, dict) else ():
        for key, values in asked.items() if isinstance(asked, dict) else ():
            yield _holds(operator, key.lower(), _texts(values), use)


def _holds(operator: str, key: str, values: Sequence[str], use: KeyUse) -> bool | None:
    known = use.context.get(key)
    if known is None:
        return None
    match operator.removesuffix("IfExists"):
        case "StringEquals":
            fits = known in values
        case "StringLike" | "ArnLike" | "ArnEquals":
            fits = any(fnmatchcase(known, value) for value in values)
        case _:
            return None
    # Of other keys the call is only an example.
    return fits if fits or key == _ACCOUNT else None


def _names(principal: object, service: str) -> bool:
    if isinstance(principal, dict):
        return service in _texts(principal.get("Service")) or "*" in _texts(principal.get("AWS"))
    return principal == "*"


def _all_of(parts: Iterator[bool | None]) -> bool | None:
    found = list(parts)
    return False if False in found else None if None in found else True


def _texts(value: object) -> Sequence[str]:
    return [text for text in listed(value) if isinstance(text, str)]


def listed(value: object) -> Sequence[Any]:
    """A value of a policy as a list: IAM takes one, or a list of them."""
    return value if isinstance(value, list) else [value]


def statements(policy: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The statements of a policy that are understood."""
    return [each for each in listed(policy.get("Statement", [])) if isinstance(each, dict)]
