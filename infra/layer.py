"""The consumer library as a Lambda layer, for functions of teams."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from . import asset, files

# What a team's function imports; the layer holds these and all that they import in turn.
ENTRIES = ("deadletter.consumer", "deadletter.consumer.powertools")

# The package that the library depends on.
DEPENDENCY = "jmespath"

# Lambda puts this folder of a layer on the path of any Python.
PREFIX = "python"

RUNTIMES = (
    lambda_.Runtime.PYTHON_3_11,
    lambda_.Runtime.PYTHON_3_12,
    lambda_.Runtime.PYTHON_3_13,
)


class ConsumerLayer(lambda_.LayerVersion):
    """The consumer library and jmespath, for the `layers` of a function of yours.

        lambda_.Function(..., layers=[ConsumerLayer(self, "Deadletter")])

    boto3 is the runtime's. `deadletter.consumer.powertools` needs Powertools, which is not in here:
    AWS has a layer of it.
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        bundled = cdk.Stack.of(scope).bundling_required
        listed = contents(files.LIBRARY)
        wheels = [asset.wheels()[DEPENDENCY]] if bundled else []
        super().__init__(
            scope,
            construct_id,
            description="deadletter: the consumer library",
            compatible_runtimes=list(RUNTIMES),
            code=lambda_.Code.from_asset(
                str(files.HANDLERS),
                asset_hash_type=cdk.AssetHashType.CUSTOM,
                asset_hash=asset.digest_of(listed),
                bundling=cdk.BundlingOptions(
                    image=asset.RUNTIME.bundling_image,
                    local=asset.Bundle(listed, wheels, PREFIX),
                ),
            ),
        )


@cache
def contents(library: Path) -> dict[str, Path]:
    """The modules of the library that a consumer needs, by their paths below the prefix."""
    found: dict[str, Path] = {}
    waiting = list(ENTRIES)
    while waiting:
        for name, file in _modules(library, waiting.pop()):
            path = file.relative_to(library.parent).as_posix()
            if path not in found:
                found[path] = file
                waiting += _imported(name, file)
    return found


def _modules(library: Path, name: str) -> Iterator[tuple[str, Path]]:
    """The module of this name and the packages around it; nothing for a name inside a module."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        place = library.parent.joinpath(*parts[:end])
        for file in (place / "__init__.py", place.with_suffix(".py")):
            if file.is_file():
                yield ".".join(parts[:end]), file


STORES = "deadletter.aws.wiring.stores"
"""The adapters of all functions: the layer has those that the library asks for."""

ASKS = "deadletter/aws/wiring/consuming.py"
"""What puts the library together, with `stores` as its name for them."""


def _imported(name: str, file: Path) -> Iterator[str]:
    """The names of the library that a module imports, at its top or later."""
    package = name.split(".")[: None if file.stem == "__init__" else -1]
    tree = ast.parse(file.read_bytes())
    asks = ast.parse((files.LIBRARY.parent / ASKS).read_bytes())
    for node in _made_for(asks, tree) if name == STORES else ast.walk(tree):
        match node:
            case ast.Import():
                origins = [alias.name for alias in node.names]
            case ast.ImportFrom():
                around = package[: len(package) - node.level + 1] if node.level else []
                origin = ".".join([*around, *filter(None, [node.module])])
                origins = [origin, *(f"{origin}.{alias.name}" for alias in node.names)]
            case _:
                continue
        yield from (each for each in origins if each.partition(".")[0] == "deadletter")


def _made_for(asks: ast.Module, stores: ast.Module) -> Iterator[ast.AST]:
    """The top of the stores, and the makers of what is asked for, and of what these ask for."""
    [made] = (node for node in stores.body if isinstance(node, ast.ClassDef))
    makers = {node.name: node for node in made.body if isinstance(node, ast.FunctionDef)}
    wanted = _taken(asks, "stores")
    yield from (node for node in stores.body if isinstance(node, ast.ImportFrom))
    while asked_for := wanted & makers.keys():
        for name in asked_for:
            maker = makers.pop(name)
            wanted |= _taken(maker, "self")
            yield from ast.walk(maker)


def _taken(tree: ast.AST, owner: str) -> set[str]:
    """The attributes that are taken from the variable of this name."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == owner
    }
