"""What our templates hand to CloudWatch, with every reference filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

Resource = tuple[str, Mapping[str, Any]]
"""A resource's logical id and its properties."""


# Node, which synthesizes, hears one thread only.
_SYNTHESIS = Lock()


def synthesized(region: str) -> list[Mapping[str, Any]]:
    """The templates of the app as it comes, and of one that uses every other setting."""
    with _SYNTHESIS:
        return _synthesized(region)


@cache
def _synthesized(region: str) -> list[Mapping[str, Any]]:
    # aws_cdk starts Node, which takes seconds: only the checks that need it wait for it.
    from tools.scan.apps import contexts, synthesize

    found = []
    with TemporaryDirectory() as folder:
        for name, context in contexts().items():
            out = Path(folder) / name
            synthesize(context, out)
            found += [json.loads(path.read_text()) for path in sorted(out.rglob("*.template.json"))]
    return [filled(template, region) for template in found]


def resources(templates: list[Mapping[str, Any]], kind: str) -> Iterator[Resource]:
    """All resources of a CloudFormation type."""
    for template in templates:
        for name, resource in template.get("Resources", {}).items():
            if resource["Type"] == kind:
                yield name, resource["Properties"]


def filled(template: Mapping[str, Any], region: str) -> Mapping[str, Any]:
    """A template without intrinsic functions: each becomes a text that has its form."""
    kinds = {name: each["Type"] for name, each in template.get("Resources", {}).items()}
    result: Mapping[str, Any] = _Filling(kinds, region).value(template)
    return result


@dataclass(frozen=True)
class _Filling:
    """Texts in place of references; `kinds` are the types of the template's resources."""

    kinds: Mapping[str, str]
    region: str

    def value(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.value(each) for each in node]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            (function, argument), *_ = node.items()
            if function == "Ref":
                return self._reference(argument)
            if function == "Fn::GetAtt":
                name = argument if isinstance(argument, str) else ".".join(argument)
                return self._reference(name)
            if function == "Fn::Join":
                separator, parts = argument
                return str(separator).join(str(self.value(part)) for part in parts)
            if function == "Fn::Sub":
                text, values = argument if isinstance(argument, list) else (argument, {})
                return re.sub(
                    r"\$\{([^}!]+)\}", lambda match: self._inserted(match[1], values), text
                )
            if function.startswith("Fn::"):
                return "value"
        return {key: self.value(each) for key, each in node.items()}

    def _inserted(self, name: str, values: Mapping[str, Any]) -> str:
        return str(self.value(values[name])) if name in values else self._reference(name)

    def _reference(self, name: str) -> str:
        """What a reference, or `name.attribute`, may look like."""
        owner, _, attribute = name.partition(".")
        if attribute.endswith("Arn"):
            service, kind = _ARNS.get(self.kinds.get(owner, ""), ("lambda", "function:"))
            return f"arn:aws:{service}:{self.region}:{_ACCOUNT}:{kind}{owner}"
        known = {
            "AWS::AccountId": _ACCOUNT,
            "AWS::Partition": "aws",
            "AWS::Region": self.region,
            "AWS::StackName": "Verify",
            "AWS::URLSuffix": "amazonaws.com",
        }
        return known.get(name, owner)


# An account number of AWS's documentation.
_ACCOUNT = "111122223333"

# How the ARN of a resource is written; CloudWatch reads those of alarms.
_ARNS = {
    "AWS::CloudWatch::Alarm": ("cloudwatch", "alarm:"),
    "AWS::SQS::Queue": ("sqs", ""),
    "AWS::SNS::Topic": ("sns", ""),
    "AWS::DynamoDB::Table": ("dynamodb", "table/"),
    "AWS::StepFunctions::StateMachine": ("states", "stateMachine:"),
}
