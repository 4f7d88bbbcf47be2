"""Writes docs/cli.md from the commands: `python -m console.cli.reference > docs/cli.md`."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup

from .main import app

# Columns: what a help page is on the smallest terminal people still have.
_WIDTH = 80

_INTRODUCTION = """\
# The `dlq` command line

This page is made from the commands' own `--help`; `python -m console.cli.reference >
docs/cli.md` writes it again.

It finds the app by the SSM parameters below `/<app>/`, which the stacks write, and needs
these permissions: `ssm:GetParametersByPath`; for `status` also `sqs:GetQueueAttributes`,
`dynamodb:GetItem`, `dynamodb:Query`, `cloudwatch:GetMetricData` and
`cloudwatch:DescribeAlarms`; for `redrive` also `sqs:GetQueueAttributes` and
`lambda:InvokeFunction`; for `parked` also `sqs:GetQueueAttributes`, `sqs:ReceiveMessage`
and `sqs:ChangeMessageVisibility`; for `circuit` also `dynamodb:BatchGetItem` and
`dynamodb:Query`, to change one `dynamodb:UpdateItem`; for `endpoint` also `dynamodb:Scan` and
`dynamodb:GetItem`, to change one `dynamodb:PutItem` and `dynamodb:UpdateItem`, to check one
with --post `secretsmanager:GetSecretValue`; for `rules` also `dynamodb:Scan`,
to list them `dynamodb:Query`, to change them `dynamodb:PutItem`, `dynamodb:UpdateItem` and
`dynamodb:DeleteItem`, to try them on letters `sqs:ReceiveMessage`,
`sqs:ChangeMessageVisibility`, `dynamodb:BatchGetItem` and `lambda:GetFunctionConfiguration`,
to explain `lambda:InvokeFunction`; `rules lint` needs none. It never moves or deletes a
message itself.

After each command stand the keys of its JSON. Keys are only ever added. Times are ISO
8601 in UTC, durations are seconds, sizes are bytes."""


def reference() -> str:
    """The whole page."""
    return "\n\n".join([_INTRODUCTION, *_pages()]) + "\n"


def commands() -> dict[str, Any]:
    """Each command by what is typed for it, groups left out."""
    return {path: found for path, found, _ in _walk() if not _is_group(found)}


def _is_group(found: Any) -> bool:
    return isinstance(found, TyperGroup)


def _walk() -> Iterator[tuple[str, Any, Any]]:
    """What is typed, the command or group, and its context: each group before its commands."""
    return _walk_below(typer.main.get_command(app), None, "dlq")


def _walk_below(found: Any, parent: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    context = typer.Context(found, info_name=name, parent=parent, terminal_width=_WIDTH)
    yield context.command_path, found, context
    if _is_group(found):
        for one in found.list_commands(context):
            yield from _walk_below(found.get_command(context, one), context, one)


def _pages() -> Iterator[str]:
    for path, one, context in _walk():
        yield f"{'#' * (2 + path.count(' '))} `{path}`"
        yield f"```text\n{_stripped(one.get_help(context))}\n```"
        if not _is_group(one):
            yield "\n".join(_keys_table(answer_of(one)))


def _stripped(text: str) -> str:
    return "\n".join(one.rstrip() for one in text.splitlines())


def answer_of(found: Any) -> type:
    """The dataclass whose fields are the JSON keys of a command."""
    run = found.callback.__wrapped__.__wrapped__
    (answer,) = get_args(get_type_hints(run)["return"])
    return answer  # type: ignore[no-any-return]


def _keys_table(answer: type) -> Iterator[str]:
    yield "| JSON key | type | meaning |"
    yield "|---|---|---|"
    for path, kind, says in keys(answer):
        yield f"| `{path}` | {kind} | {says} |"


def keys(answer: type, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Path, type and meaning of each key below a dataclass."""
    hints = get_type_hints(answer, include_extras=True)
    for one in fields(answer):
        hint, says = get_args(hints[one.name])
        path, kind, below = _shape(hint)
        full = f"{prefix}{one.name}{path}"
        yield full, kind, says
        if below is not None:
            yield from keys(below, f"{full}.")


_NAMES: Mapping[Any, str] = {
    str: "text", int: "number", float: "number", bool: "true or false", datetime: "time",
    Any: "anything",
}  # fmt: skip


def _shape(hint: Any) -> tuple[str, str, type | None]:
    """What follows the key in a path, the type in words, and the dataclass below it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, Union):
        (only,) = (one for one in arguments if one is not type(None))
        path, kind, below = _shape(only)
        return path, f"{kind} or null", below
    if origin is not None and issubclass(origin, Mapping):
        path, kind, below = _shape(arguments[1])
        return (f".<id>{path}", kind, below) if below else (path, "object", None)
    if origin is not None and issubclass(origin, Sequence):
        path, _, below = _shape(arguments[0])
        return f"[]{path}", "list", below
    if is_dataclass(hint):
        return "", "object", hint if isinstance(hint, type) else None
    return "", _NAMES[hint], None


if __name__ == "__main__":
    sys.stdout.write(reference())
