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

from ..operations.answer import Answer
from .command import SHARED_TITLE
from .main import app

# Columns of a help page: the smallest terminal in use.
_WIDTH = 80

_INTRODUCTION = """\
# The `dlq` command line

This page is generated from the `--help` of the commands:
`python -m console.cli.reference > docs/cli.md`.

`dlq` finds the app by the SSM parameters below `/<app>/`, which the stacks write. It never
moves or deletes a message itself. Every command needs `ssm:GetParametersByPath`, and:

| command | permissions |
|---|---|
| `status` | `sqs:GetQueueAttributes`, `dynamodb:GetItem`, `dynamodb:BatchGetItem`, \
`dynamodb:Query`, \
`cloudwatch:GetMetricData`, `cloudwatch:DescribeAlarms`; with `--flow` those of `circuit list` \
and `rules list` too |
| `show` | `dynamodb:BatchGetItem`, `dynamodb:Query`, `sqs:GetQueueAttributes`, \
`cloudwatch:DescribeAlarms`; for bodies in S3: `s3:GetObject`, `s3:ListBucket`; with `--look`: \
`sqs:ReceiveMessage`, `sqs:ChangeMessageVisibility`, `lambda:InvokeFunction` of the router; with \
`--logs`: `lambda:GetFunctionConfiguration`, `logs:StartQuery`, `logs:GetQueryResults`, \
`logs:StopQuery` |
| `groups` | `dynamodb:Query` of the table and its indexes, `dynamodb:BatchGetItem`, \
`sqs:GetQueueAttributes`; with `--look`: `sqs:ReceiveMessage`, \
`sqs:ChangeMessageVisibility`; at a queue of no app: `sqs:GetQueueUrl` |
| `init` | `sqs:ListQueues`, `sqs:GetQueueAttributes`, `cloudwatch:GetMetricData`; to add: \
`lambda:ListEventSourceMappings`, `lambda:GetFunctionConfiguration`; not \
`ssm:GetParametersByPath` |
| `doctor` | `sqs:GetQueueAttributes`, `sqs:GetQueueUrl`, `sqs:ListDeadLetterSourceQueues`, \
`lambda:ListEventSourceMappings`, `lambda:GetFunctionConfiguration`, `lambda:ListFunctions`, \
`lambda:ListFunctionEventInvokeConfigs`, `cloudwatch:DescribeAlarms`, `sns:ListSubscriptions`, \
`sns:GetSubscriptionAttributes`, `events:ListRules`, `events:ListTargetsByRule`, \
`kms:DescribeKey`, `kms:GetKeyPolicy`, `lambda:ListTags`; with an app `dynamodb:BatchGetItem` and \
`dynamodb:Query` too; what is refused is named, and the rest is checked. With `--removal` those \
of `status` and `circuit list`; with `--send-page` `sns:Publish` and \
`sns:ListSubscriptionsByTopic` |
| `list` | `dynamodb:Query`, `dynamodb:BatchGetItem`, `sqs:GetQueueAttributes`; with `--look`: \
`sqs:ReceiveMessage`, `sqs:ChangeMessageVisibility`; for bodies and runs: `s3:GetObject`, \
`s3:ListBucket`; at a queue of no app: `sqs:GetQueueUrl`, and not `ssm:GetParametersByPath` |
| `retry`, `discard`, `restore`, `forget` | to plan: those of `list --look`, \
`lambda:InvokeFunction` of the router, `lambda:GetFunctionConfiguration`, \
`cloudwatch:GetMetricStatistics`; to start: `dynamodb:PutItem`, `dynamodb:BatchWriteItem`, \
`states:StartExecution`; with `--auto`: `lambda:InvokeFunction` of the redriver function; to edit: \
`s3:PutObject` |
| `run` | `dynamodb:Query`, `states:ListExecutions`; to steer: `dynamodb:UpdateItem`, \
`states:SendTaskSuccess` |
| `circuit` | `dynamodb:BatchGetItem`, `dynamodb:Query`; to change: `dynamodb:UpdateItem`, \
and `dynamodb:PutItem` for a malformed record |
| `endpoint` | `dynamodb:Scan`, `dynamodb:GetItem`; to change: `dynamodb:PutItem`, \
`dynamodb:UpdateItem`; for `add --post`: `secretsmanager:GetSecretValue` |
| `rules` | `dynamodb:Scan`, `dynamodb:Query`; to change: `dynamodb:PutItem`, \
`dynamodb:UpdateItem`, `dynamodb:DeleteItem`; for `add` and `test`: those of `groups`; to try \
rules on messages: `sqs:ReceiveMessage`, `sqs:ChangeMessageVisibility`, `s3:GetObject` |
| `rules test --file` | none, not even `ssm:GetParametersByPath` |

The options under `dlq` may stand before or after every command, and `--pipeline` those of commands
about pipelines; the pages of the commands below leave them out.

The keys of its JSON follow each command, behind `account`, `region` and `app`, and `schema` is the
version of all answers: keys are only added, and if one ever changes its meaning, that number grows.
`--jsonl` prints the rows of the answer's first list, one a line. Times are ISO 8601 in UTC,
durations are seconds, sizes are bytes."""


def reference() -> str:
    """The whole page."""
    return "\n\n".join([_INTRODUCTION, *_pages()]) + "\n"


def commands() -> dict[str, Any]:
    """Each command by its words on the command line, groups left out."""
    return {path: entry for path, entry, _ in _walk() if not _is_group(entry)}


def _is_group(entry: Any) -> bool:
    return isinstance(entry, TyperGroup)


def _walk() -> Iterator[tuple[str, Any, Any]]:
    """Words, command or group, and context: each group before its commands."""
    return _walk_below(typer.main.get_command(app), None, "dlq")


def _walk_below(entry: Any, parent: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    context = typer.Context(entry, info_name=name, parent=parent, terminal_width=_WIDTH)
    yield context.command_path, entry, context
    if _is_group(entry):
        for command in entry.list_commands(context):
            yield from _walk_below(entry.get_command(context, command), context, command)


def _pages() -> Iterator[str]:
    for path, entry, context in _walk():
        yield f"{'#' * (2 + path.count(' '))} `{path}`"
        page = _stripped(entry.get_help(context))
        yield f"```text\n{page if path == 'dlq' else _without_shared_options(page)}\n```"
        if not _is_group(entry):
            yield "\n".join(_keys_table(answer_of(entry)))


def _without_shared_options(page: str) -> str:
    """A help page without the options of every command: the page says them once, under `dlq`."""
    before, title, after = page.partition(f"{SHARED_TITLE}:\n")
    return before + after.partition("\n\n")[2] if title else page


def _stripped(text: str) -> str:
    return "\n".join(row.rstrip() for row in text.splitlines())


def answer_of(command: Any) -> type:
    """The dataclass whose fields are the JSON keys of a command."""
    run = command.callback.__wrapped__.__wrapped__
    if (verb := getattr(run, "verb", None)) is not None:
        return get_type_hints(verb.read or verb.commit)["return"]  # type: ignore[no-any-return]
    (answer,) = get_args(get_type_hints(run)["return"])
    return answer  # type: ignore[no-any-return]


def _keys_table(answer: type) -> Iterator[str]:
    yield "| JSON key | type | meaning |"
    yield "|---|---|---|"
    for path, kind, says in keys(answer):
        yield f"| `{path}` | {kind} | {says} |"


def keys(answer: type, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Path, type and meaning of each key below a dataclass, but where the answer was read."""
    hints = get_type_hints(answer, include_extras=True)
    where = {key.name for key in fields(Answer)} if issubclass(answer, Answer) else set[str]()
    for key in fields(answer):
        if key.name in where:
            continue
        hint, says = get_args(hints[key.name])
        path, kind, below = _shape(hint)
        full = f"{prefix}{key.name}{path}"
        yield full, kind, says
        if below is not None:
            yield from keys(below, f"{full}.")


_NAMES: Mapping[Any, str] = {
    str: "text", int: "number", float: "number", bool: "true or false", datetime: "time",
    Any: "anything",
}  # fmt: skip


def _shape(hint: Any) -> tuple[str, str, type | None]:
    """The suffix of the key in a path, the type in words, and the dataclass below it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, Union):
        (only,) = (kind for kind in arguments if kind is not type(None))
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
