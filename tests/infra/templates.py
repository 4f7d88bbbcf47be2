"""Templates as data: what a synthesis wrote, and the text its tokens would become."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What CloudFormation would fill in.
PSEUDO = {
    "AWS::AccountId": "111122223333",
    "AWS::Region": "eu-west-1",
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
}


@dataclass(frozen=True)
class Stack:
    """One synthesized stack; `outputs`, `resources` as in the template."""

    name: str
    template: Mapping[str, Any]
    termination_protection: bool
    waits_for: frozenset[str]

    @property
    def outputs(self) -> dict[str, Any]:
        return {key: filled(output["Value"]) for key, output in self.template["Outputs"].items()}

    @property
    def resources(self) -> dict[str, dict[str, Any]]:
        return dict(self.template["Resources"])

    def of(self, kind: str) -> dict[str, dict[str, Any]]:
        """The resources of one kind, by logical id."""
        return {
            key: resource for key, resource in self.resources.items() if resource["Type"] == kind
        }

    def named(self, kind: str, key: str, name: str) -> dict[str, Any]:
        """The properties of the only resource of a kind with this name."""
        [resource] = [
            resource
            for resource in self.of(kind).values()
            if key in resource["Properties"] and filled(resource["Properties"][key]) == name
        ]
        return dict(resource["Properties"])


@dataclass(frozen=True)
class Synthesis:
    """All stacks of one app, and the report of the scanners if they looked."""

    stacks: Mapping[str, Stack]
    report: Mapping[str, Any]

    def __getitem__(self, name: str) -> Stack:
        return self.stacks[name]

    def of(self, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """All resources of one kind, with `stack/logical id`."""
        for stack in self.stacks.values():
            for key, resource in stack.of(kind).items():
                yield f"{stack.name}/{key}", resource

    def function(self, name: str) -> dict[str, Any]:
        """The properties of the function with this name."""
        [properties] = [
            function["Properties"]
            for _, function in self.of("AWS::Lambda::Function")
            if function["Properties"].get("FunctionName") == name
        ]
        return dict(properties)

    def environment(self, name: str) -> dict[str, str]:
        """What the function with this name will find in its environment."""
        variables = self.function(name)["Environment"]["Variables"]
        return {key: filled(value) for key, value in variables.items()}


def read(folder: Path) -> dict[str, Stack]:
    """The stacks in the cloud assembly in `folder`."""
    manifest = json.loads((folder / "manifest.json").read_text())
    return {
        name: Stack(
            name=name,
            template=json.loads((folder / artifact["properties"]["templateFile"]).read_text()),
            termination_protection=artifact["properties"].get("terminationProtection", False),
            waits_for=frozenset(artifact["dependencies"]),
        )
        for name, artifact in manifest["artifacts"].items()
        if artifact["type"] == "aws:cloudformation:stack"
    }


def filled(value: Any) -> Any:
    """`value` with pseudo parameters filled in and references as `<logical id>`."""
    match value:
        case {"Fn::Join": [separator, parts]}:
            return separator.join(filled(part) for part in parts)
        case {"Fn::Sub": [text, variables]}:
            known = {name: filled(value) for name, value in variables.items()}
            text = re.sub(r"\$\{(\w+)\}", lambda name: known.get(name[1], name[0]), text)
            return filled({"Fn::Sub": text})
        case {"Fn::Sub": text}:
            return re.sub(r"\$\{([^!}]+)\}", lambda name: PSEUDO.get(name[1], f"<{name[1]}>"), text)
        case {"Ref": name}:
            return PSEUDO.get(name, f"<{name}>")
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::ImportValue": name}:
            return f"<{name}>"
        case dict():
            return {key: filled(item) for key, item in value.items()}
        case list():
            return [filled(item) for item in value]
    return value


def parameter(synthesis: Synthesis, name: str) -> dict[str, Any]:
    """What stands in an SSM parameter."""
    [properties] = [
        parameter["Properties"]
        for _, parameter in synthesis.of("AWS::SSM::Parameter")
        if parameter["Properties"]["Name"] == name
    ]
    found: dict[str, Any] = json.loads(filled(properties["Value"]))
    return found


def state_machine(stack: Stack, role: str) -> dict[str, Any]:
    """The resource of the pipeline's state machine that plays `role`."""
    return next(
        resource
        for resource in stack.of("AWS::StepFunctions::StateMachine").values()
        if resource["Properties"]["StateMachineName"].endswith(f"-{role}")
    )
