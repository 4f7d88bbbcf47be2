"""What CloudFormation would say to a deployment over another one, by the templates of both.

`cdk deploy --all` changes one stack after another and deletes no stack. Within a stack,
CloudFormation creates and changes first and deletes last: a name is free only after the
deployment that gives it up. A replacement creates the new resource before the old one goes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.infra.templates import Stack, filled


@dataclass(frozen=True)
class Kind:
    """What CloudFormation does with a kind of resource.

    Two resources can't have the same values of the properties in `identity`. A change of one in
    `fixed` makes a new resource; the schemas of cfn-lint say which those are.
    """

    identity: tuple[str, ...]
    fixed: tuple[str, ...]


KINDS = {
    "AWS::CloudWatch::Alarm": Kind(("AlarmName",), ("AlarmName",)),
    "AWS::CloudWatch::Dashboard": Kind(("DashboardName",), ("DashboardName",)),
    "AWS::DynamoDB::Table": Kind(
        ("TableName",), ("TableName", "ImportSourceSpecification", "KeySchema")
    ),
    "AWS::IAM::ManagedPolicy": Kind(
        ("ManagedPolicyName",), ("ManagedPolicyName", "Description", "Path")
    ),
    # Its name is one within the role.
    "AWS::IAM::Policy": Kind(("PolicyName", "Roles"), ()),
    "AWS::IAM::Role": Kind(("RoleName",), ("Path", "RoleName")),
    "AWS::KMS::Key": Kind((), ()),
    "AWS::Lambda::EventInvokeConfig": Kind(
        ("FunctionName", "Qualifier"), ("FunctionName", "Qualifier")
    ),
    "AWS::Lambda::EventSourceMapping": Kind(
        ("EventSourceArn", "FunctionName"),
        (
            *("EventSourceArn", "StartingPosition", "StartingPositionTimestamp"),
            "SelfManagedEventSource",
        ),
    ),
    "AWS::Lambda::Function": Kind(
        ("FunctionName",), ("FunctionName", "PackageType", "TenancyConfig", "DurableConfig")
    ),
    "AWS::Logs::LogGroup": Kind(("LogGroupName",), ("LogGroupName",)),
    "AWS::Logs::QueryDefinition": Kind(("Name",), ()),
    "AWS::S3::Bucket": Kind(("BucketName",), ("BucketName", "BucketNamePrefix", "BucketNamespace")),
    # The first of two policies of a bucket, queue or topic takes the second with it when it goes.
    "AWS::S3::BucketPolicy": Kind(("Bucket",), ("Bucket",)),
    "AWS::SNS::Topic": Kind(("TopicName",), ("TopicName", "FifoTopic")),
    "AWS::SNS::TopicPolicy": Kind(("Topics",), ()),
    "AWS::SQS::Queue": Kind(("QueueName",), ("FifoQueue", "QueueName")),
    "AWS::SQS::QueuePolicy": Kind(("Queues",), ()),
    "AWS::SSM::Parameter": Kind(("Name",), ("Name",)),
    "AWS::Scheduler::Schedule": Kind(("Name",), ("Name",)),
    "AWS::StepFunctions::StateMachine": Kind(
        ("StateMachineName",), ("StateMachineName", "StateMachineType")
    ),
}

# What can't be made again from the settings.
STATEFUL = frozenset(
    {
        "AWS::DynamoDB::Table",
        "AWS::KMS::Key",
        "AWS::Logs::LogGroup",
        "AWS::S3::Bucket",
        "AWS::SNS::Topic",
        "AWS::SQS::Queue",
    }
)

# The indexes of a table that one deployment may add or remove.
MOST_INDEXES = 1


@dataclass(frozen=True)
class Place:
    """One resource of a deployment; `identity` is empty if the service makes up its name."""

    stack: str
    key: str
    kind: str
    identity: tuple[str, ...]
    resource: Mapping[str, Any]

    @property
    def properties(self) -> Mapping[str, Any]:
        return dict(self.resource.get("Properties", {}))

    @property
    def called(self) -> str:
        """What a person calls it."""
        name = " of ".join(reversed(self.identity)) or f"{self.stack}/{self.key}"
        return f"{self.kind} {name}"

    @property
    def kept(self) -> bool:
        """Whether it stays when its stack gives it up."""
        return str(self.resource.get("DeletionPolicy", "Delete")).startswith("Retain")


def refusals(before: Mapping[str, Stack], after: Mapping[str, Stack]) -> list[str]:
    """Why CloudFormation would refuse `after` over `before`, or end with less than it has."""
    old, new = dict(_places(before)), dict(_places(after))
    return [
        *_exports(before, after),
        *_parameters(before, after),
        *_replacements(old, new),
        *_collisions(old, new),
        *_indexes(old, new),
    ]


def left(before: Mapping[str, Stack], after: Mapping[str, Stack]) -> list[str]:
    """The resources with data that are in no template any more and stay in the account."""
    return sorted(place.called for place in _given_up(before, after) if place.kept)


def lost(before: Mapping[str, Stack], after: Mapping[str, Stack]) -> list[str]:
    """The resources with data that a deployment deletes; stacks are never deleted by one."""
    return sorted(place.called for place in _given_up(before, after) if not place.kept)


def _given_up(before: Mapping[str, Stack], after: Mapping[str, Stack]) -> Iterator[Place]:
    new = dict(_places(after))
    for at, place in _places(before):
        same = new.get(at)
        replaced = same is not None and _replaced(place, same)
        gone = same is None and (place.stack in after or place.kept)
        if place.kind in STATEFUL and (gone or replaced):
            yield place


def _places(stacks: Mapping[str, Stack]) -> Iterator[tuple[tuple[str, str], Place]]:
    for stack in stacks.values():
        for key, resource in stack.resources.items():
            kind = resource["Type"]
            names = () if kind.startswith("Custom::") else KINDS[kind].identity
            properties = resource.get("Properties", {})
            values = tuple(_text(properties[name]) for name in names if name in properties)
            # Named by its stack, a reference is another one in each.
            own = any("<" in value for value in values)
            identity = (*values, stack.name) if own else values
            yield (stack.name, key), Place(stack.name, key, kind, identity, resource)


def _exports(before: Mapping[str, Stack], after: Mapping[str, Stack]) -> Iterator[str]:
    """Exports that a deployed stack imports must stay as they are."""
    old, new = _exported(before), _exported(after)
    for stack in before.values():
        for name in sorted(_imports(stack.template)):
            if new.get(name) != old.get(name):
                yield f"export {name} is gone or changed, and the deployed {stack.name} imports it"


def _parameters(before: Mapping[str, Stack], after: Mapping[str, Stack]) -> Iterator[str]:
    """A parameter that a template reads at its deployment must be made before.

    Those that no stack made or makes are somebody else's.
    """
    ours, made = dict(_made_parameters(before)), dict(_made_parameters(after))
    for stack in after.values():
        for parameter in stack.template.get("Parameters", {}).values():
            name = str(parameter.get("Default"))
            if not str(parameter["Type"]).startswith("AWS::SSM::Parameter::Value"):
                continue
            if (name in ours or name in made) and made.get(name) not in stack.waits_for:
                yield f"parameter {name} is not made before {stack.name}, which reads it"


def _made_parameters(stacks: Mapping[str, Stack]) -> Iterator[tuple[str, str]]:
    """The names of parameters, and the stack that makes each."""
    for stack in stacks.values():
        for parameter in stack.of("AWS::SSM::Parameter").values():
            yield _text(parameter["Properties"]["Name"]), stack.name


def _exported(stacks: Mapping[str, Stack]) -> dict[str, str]:
    return {
        _text(output["Export"]["Name"]): _text(output["Value"])
        for stack in stacks.values()
        for output in stack.template.get("Outputs", {}).values()
        if "Export" in output
    }


def _imports(value: Any) -> set[str]:
    match value:
        case {"Fn::ImportValue": name}:
            return {_text(name)}
        case dict():
            return set().union(*map(_imports, value.values()))
        case list():
            return set().union(*map(_imports, value))
    return set()


def _replacements(
    old: Mapping[tuple[str, str], Place], new: Mapping[tuple[str, str], Place]
) -> Iterator[str]:
    for at, place in old.items():
        same = new.get(at)
        if same is None:
            continue
        if place.kind != same.kind:
            yield f"{place.called} becomes a {same.kind} under one logical id"
        elif _changed(place, same, "ServiceToken") and place.kind.startswith("Custom::"):
            yield f"{place.called} can't get another ServiceToken"
        elif changed := _replaced(place, same):
            if place.identity and place.identity == same.identity:
                yield f"{place.called} is replaced under its own name: {', '.join(changed)}"
            elif place.kind in STATEFUL and not place.identity:
                yield f"{place.called} is replaced by an empty one: {', '.join(changed)}"


def _replaced(place: Place, same: Place) -> list[str]:
    """The properties for which CloudFormation makes a new resource."""
    if place.resource == same.resource or place.kind.startswith("Custom::"):
        return []
    if place.kind != same.kind:
        return []
    return [name for name in KINDS[place.kind].fixed if _changed(place, same, name)]


def _changed(place: Place, same: Place, name: str) -> bool:
    return _text(place.properties.get(name)) != _text(same.properties.get(name))


def _collisions(
    old: Mapping[tuple[str, str], Place], new: Mapping[tuple[str, str], Place]
) -> Iterator[str]:
    """Names that are made while a resource has them: of the old deployment, or of the new one."""
    taken = {(place.kind, place.identity): at for at, place in old.items() if place.identity}
    made: dict[tuple[str, tuple[str, ...]], tuple[str, str]] = {}
    for at, place in new.items():
        name = place.kind, place.identity
        if not place.identity:
            continue
        first = made.setdefault(name, at)
        if first != at:
            yield f"{place.called} is in {'/'.join(first)} and in {'/'.join(at)}"
        elif taken.get(name, at) != at:
            yield f"{place.called} moves from {'/'.join(taken[name])} to {'/'.join(at)}"


def _indexes(
    old: Mapping[tuple[str, str], Place], new: Mapping[tuple[str, str], Place]
) -> Iterator[str]:
    for at, place in old.items():
        if place.kind != "AWS::DynamoDB::Table" or at not in new:
            continue
        changed = _index_names(place) ^ _index_names(new[at])
        if len(changed) > MOST_INDEXES:
            yield f"{place.called} changes {len(changed)} indexes at once: {sorted(changed)}"


def _index_names(place: Place) -> set[str]:
    return {item["IndexName"] for item in place.properties.get("GlobalSecondaryIndexes", [])}


def _text(value: Any) -> str:
    plain = filled(value)
    return plain if isinstance(plain, str) else json.dumps(plain, sort_keys=True)
