"""`make policy`: the least IAM policy by which CloudFormation deploys what was synthesized.

CloudFormation acts with its execution role, which `cdk bootstrap` makes an administrator unless it
is given policies. What each type of resource takes is what its resource schema says
(`deploy_actions.json`, from the schemas of 7 August 2026), and what one property takes is in the
policy only if a template sets it. Roles and policies are those of these stacks alone, and roles
are passed to the services of ours alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deadletter.contract import DEFAULT_APP

ACTIONS: Mapping[str, Any] = json.loads(
    Path(__file__).with_name("deploy_actions.json").read_text(encoding="utf-8")
)

FOR_ANY = frozenset({"s3:GetObject", "ssm:GetParameters"})
"""Of every deployment: the code in the CDK's bucket, and the version of its bootstrap."""

LARGEST = 6_144
"""Characters of a managed policy, white space apart."""

PASSED_TO = ("lambda", "scheduler", "states")

_NAMED = ("role", "policy")

# CloudFormation shortens the name of a stack in those that it makes of it.
_OF_STACK = 16


class UnknownType(ValueError):
    """A type of resource of which it is not known what it takes."""


def actions_of(resources: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The actions that it takes to make, change and delete these resources of a template."""
    for resource in resources.values():
        kind, properties = resource["Type"], resource.get("Properties", {})
        if kind.startswith("Custom::"):
            yield "lambda:InvokeFunction"
            continue
        if kind not in ACTIONS:
            raise UnknownType(f"{kind} is not in tools/deploy_actions.json: add what it takes")
        yield from ACTIONS[kind]["always"]
        for name, actions in ACTIONS[kind].get("with", {}).items():
            if name in properties:
                yield from actions


def policy(stacks: Mapping[str, Mapping[str, Any]], app: str) -> dict[str, Any]:
    """The policy for the templates of these stacks, by their names. Raises UnknownType."""
    needed = FOR_ANY.union(*(actions_of(template["Resources"]) for template in stacks.values()))
    of_iam = {action for action in needed if action.startswith("iam:")}
    ours = [f"{app}-*", *sorted({f"{stack[:_OF_STACK]}*" for stack in stacks})]
    roles, policies = ([f"arn:*:iam::*:{kind}/{name}" for name in ours] for kind in _NAMED)
    passed = [f"{service}.amazonaws.com" for service in PASSED_TO]
    return {
        "Version": "2012-10-17",
        "Statement": [
            _allow(needed - of_iam, ["*"]),
            _allow(of_iam - {"iam:PassRole"}, [*roles, *policies]),
            {
                **_allow({"iam:PassRole"}, roles),
                "Condition": {"StringEquals": {"iam:PassedToService": passed}},
            },
        ],
    }


def _allow(actions: set[str] | frozenset[str], resources: list[str]) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": sorted(actions), "Resource": resources}


def size(document: Mapping[str, Any]) -> int:
    """Characters of a policy as IAM counts them."""
    return len(json.dumps(document, separators=(",", ":")))


def main(assembly: Path, file: Path) -> None:
    """Write the policy of a synthesized app, and print what to type."""
    stacks = {
        template.name.removesuffix(".template.json"): json.loads(template.read_text())
        for template in sorted(assembly.glob("*.template.json"))
    }
    if not stacks:
        sys.exit(f"{assembly} has no template: `make synth` writes them.")
    app = json.loads(Path("cdk.json").read_text())["context"].get("app") or DEFAULT_APP
    document = policy(stacks, app)
    if (length := size(document)) > LARGEST:
        sys.exit(f"The policy has {length:,} characters, and IAM takes {LARGEST:,} at most.")
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{file} has what CloudFormation takes for {len(stacks)} stacks. Give it to its role:")
    print(f"aws iam create-policy --policy-name {app}-deploy --policy-document file://{file}")
    print("npx cdk bootstrap --cloudformation-execution-policies ARN")


if __name__ == "__main__":
    main(Path("cdk.out"), Path("build/deploy-policy.json"))
