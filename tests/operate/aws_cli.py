"""The AWS CLI as far as docs/operate.md types it, over boto3.

The project's environment has no AWS CLI. Names of services, operations and options, and the
values, are read from the models of botocore, as the AWS CLI reads them: a mistyped one is refused.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import boto3
import jmespath
from botocore import xform_name
from botocore.model import Shape

# Options of the AWS CLI itself.
OWN = ("query", "output")


def main(words: Sequence[str]) -> int:
    """Run a command and print its answer."""
    service, operation, *rest = words
    if (service, operation) == ("s3", "rm"):
        return empty_bucket(rest)
    # The AWS CLI calls the operations of S3 so, beside its own commands.
    client = boto3.client("s3" if service == "s3api" else service)  # type: ignore[call-overload]  # any
    if operation == "wait":
        waiter, *rest = rest
        options = values(rest, client.meta.service_model, None)
        config = {"Delay": 1, "MaxAttempts": 120}
        client.get_waiter(waiter.replace("-", "_")).wait(WaiterConfig=config, **options[0])
        return 0
    names = {xform_name(name, "-"): name for name in client.meta.service_model.operation_names}
    if operation not in names:
        raise SystemExit(f"aws {service}: no operation {operation}")
    request, own = values(rest, client.meta.service_model, names[operation])
    answer = getattr(client, operation.replace("-", "_"))(**request)
    answer.pop("ResponseMetadata")
    said = jmespath.search(own["query"], answer) if "query" in own else answer
    text = own.get("output") == "text"
    sys.stdout.write((as_text(said) if text else json.dumps(said, default=str, indent=2)) + "\n")
    return 0


def values(
    words: Sequence[str], model: Any, operation: str | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """The request that options stand for, and the options of the AWS CLI itself."""
    members: dict[str, Shape] = {}
    if operation:
        shape = model.operation_model(operation).input_shape
        members = dict(shape.members) if shape else {}
    by_option = {xform_name(name, "-"): name for name in members}
    request: dict[str, Any] = {}
    own: dict[str, str] = {}
    rest = list(words)
    while rest:
        option = rest.pop(0).removeprefix("--")
        if option in OWN:
            own[option] = rest.pop(0)
        elif option.removeprefix("no-") in by_option and is_flag(
            members[by_option[option.removeprefix("no-")]]
        ):
            request[by_option[option.removeprefix("no-")]] = not option.startswith("no-")
        elif option in by_option:
            request[by_option[option]] = value(rest.pop(0), members[by_option[option]])
        elif operation is None:
            # A waiter's options are those of the operation that it asks.
            request["".join(word.capitalize() for word in option.split("-"))] = rest.pop(0)
        else:
            raise SystemExit(f"aws: {operation} has no option --{option}")
    return request, own


def is_flag(shape: Shape) -> bool:
    """Whether an option has no value."""
    return shape.type_name == "boolean"


def value(word: str, shape: Shape) -> Any:
    """The value of an option: JSON, the short form of a structure, or a text or number."""
    match shape.type_name:
        case "structure" | "map" | "list" if word[:1] in "{[":
            return json.loads(word)
        case "map":
            parts = dict(part.split("=", 1) for part in word.split(","))
            return {name: value(part, shape.value) for name, part in parts.items()}  # type: ignore[attr-defined]
        case "structure":
            parts = dict(part.split("=", 1) for part in word.split(","))
            return {name: value(part, shape.members[name]) for name, part in parts.items()}  # type: ignore[attr-defined]
        case "integer" | "long":
            return int(word)
        case "boolean":
            return word == "true"
        case "list":
            return [word]
    return word


def as_text(said: Any) -> str:
    """An answer as `--output text` prints it."""
    if isinstance(said, list):
        rows = said if said and isinstance(said[0], list) else [said]
        return "\n".join("\t".join(map(str, row)) for row in rows)
    return str(said)


def empty_bucket(words: Sequence[str]) -> int:
    """`aws s3 rm --recursive s3://bucket`."""
    [address] = [word for word in words if word.startswith("s3://")]
    bucket = boto3.resource("s3").Bucket(address.removeprefix("s3://"))
    bucket.objects.all().delete()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
