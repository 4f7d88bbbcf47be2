"""Circles in templates: CloudFormation refuses resources, and the CDK stacks, that wait in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def resource_graph(template: Mapping[str, Any]) -> dict[str, set[str]]:
    """Which resources each resource waits for, as CloudFormation finds it."""
    resources = template.get("Resources", {})
    return {
        key: {name for name in references(resource) if name in resources}
        for key, resource in resources.items()
    }


def references(value: Any) -> Iterator[str]:
    """The logical ids that a part of a template names."""
    match value:
        case {"Ref": str(name)}:
            yield name
        case {"Fn::GetAtt": [str(name), *_]}:
            yield name
        case {"Fn::Sub": str(text)}:
            yield from (part.partition("}")[0].partition(".")[0] for part in text.split("${")[1:])
        case Mapping():
            waits = value.get("DependsOn", [])
            yield from [waits] if isinstance(waits, str) else waits
            for each in value.values():
                yield from references(each)
        case list():
            for each in value:
                yield from references(each)


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """The nodes that are left when each that waits for none of the others is taken away."""
    left = dict(graph)
    while free := [node for node, waits in left.items() if not waits & left.keys()]:
        for node in free:
            del left[node]
    return sorted(left)
