"""The policies in CloudFormation templates, with ARNs as IAM would see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

ACCOUNT = "111122223333"
REGION = "eu-west-1"

PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Region": REGION,
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
}

# The ARNs that GetAtt Arn, or Ref if that is an ARN, stands for: scanners check their form.
_HERE = f"{REGION}:{ACCOUNT}"
ARNS = {
    "AWS::DynamoDB::Table": f"arn:aws:dynamodb:{_HERE}:table/{{}}",
    "AWS::IAM::ManagedPolicy": f"arn:aws:iam::{ACCOUNT}:policy/{{}}",
    "AWS::IAM::Role": f"arn:aws:iam::{ACCOUNT}:role/{{}}",
    "AWS::KMS::Key": f"arn:aws:kms:{_HERE}:key/{{}}",
    "AWS::Lambda::Function": f"arn:aws:lambda:{_HERE}:function:{{}}",
    "AWS::Logs::LogGroup": f"arn:aws:logs:{_HERE}:log-group:{{}}:*",
    "AWS::S3::Bucket": "arn:aws:s3:::{}",
    "AWS::SNS::Topic": f"arn:aws:sns:{_HERE}:{{}}",
    "AWS::SQS::Queue": f"arn:aws:sqs:{_HERE}:{{}}",
    "AWS::SecretsManager::Secret": f"arn:aws:secretsmanager:{_HERE}:secret:{{}}",
    "AWS::StepFunctions::StateMachine": f"arn:aws:states:{_HERE}:stateMachine:{{}}",
}
REF_IS_ARN = {
    "AWS::IAM::ManagedPolicy",
    "AWS::SNS::Topic",
    "AWS::SecretsManager::Secret",
    "AWS::StepFunctions::StateMachine",
}

# A trust policy is no list of actions on resources; tests/infra checks it.
_TRUST = "AssumeRolePolicyDocument"


class UnknownReference(ValueError):
    """A policy refers to a kind of resource whose ARN this module does not know."""


@dataclass(frozen=True, slots=True)
class IamPolicy:
    """One policy document, and the resource it stands in (`stack/logical id`)."""

    where: str
    document: Mapping[str, Any]


def policies(templates: Mapping[str, Mapping[str, Any]]) -> Iterator[IamPolicy]:
    """Every policy document in the templates (by stack name), filled in."""
    exports = {
        output["Export"]["Name"]: (stack, output["Value"])
        for stack, template in templates.items()
        for output in template.get("Outputs", {}).values()
        if "Export" in output
    }
    for stack, template in templates.items():
        for logical_id, resource in template["Resources"].items():
            for document in _documents(resource.get("Properties", {})):
                filled = _filled(document, stack, templates, exports)
                if resource["Type"] == "AWS::KMS::Key":
                    filled = _of_this_key(filled, _arn("AWS::KMS::Key", logical_id))
                yield IamPolicy(f"{stack}/{logical_id}", filled)


def _of_this_key(document: Mapping[str, Any], arn: str) -> Mapping[str, Any]:
    """A key's own policy with the ARN of the key: there "*" means this key only."""
    statements = [
        {**statement, "Resource": arn} if statement["Resource"] == "*" else statement
        for statement in document["Statement"]
    ]
    return {**document, "Statement": statements}


def _documents(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, dict):
        if "Statement" in value:
            yield value
        else:
            for key, inner in value.items():
                if key != _TRUST:
                    yield from _documents(inner)
    elif isinstance(value, list):
        for item in value:
            yield from _documents(item)


def _filled(
    value: Any,
    stack: str,
    templates: Mapping[str, Mapping[str, Any]],
    exports: Mapping[str, tuple[str, Any]],
) -> Any:
    def fill(inner: Any) -> Any:
        return _filled(inner, stack, templates, exports)

    match value:
        case {"Fn::Join": [separator, parts]}:
            return separator.join(fill(part) for part in parts)
        case {"Fn::ImportValue": name}:
            owner, exported = exports[name]
            return _filled(exported, owner, templates, exports)
        case {"Ref": name} if name in PSEUDO:
            return PSEUDO[name]
        case {"Ref": name}:
            kind = templates[stack]["Resources"][name]["Type"]
            return _arn(kind, name) if kind in REF_IS_ARN else name
        case {"Fn::GetAtt": [name, "Arn" | "TopicArn"]}:
            return _arn(templates[stack]["Resources"][name]["Type"], name)
        case {"Fn::GetAtt": [name, "StreamArn"]}:
            kind = templates[stack]["Resources"][name]["Type"]
            return f"{_arn(kind, name)}/stream/2026-01-01"
        case {"Fn::GetAtt": [name, attribute]}:
            raise UnknownReference(f"{stack}: {name}.{attribute}")
        case dict():
            return {key: fill(inner) for key, inner in value.items()}
        case list():
            return [fill(item) for item in value]
    return value


def _arn(kind: str, name: str) -> str:
    if kind not in ARNS:
        raise UnknownReference(f"the ARN of {name}, which is {kind}")
    return ARNS[kind].format(name)
