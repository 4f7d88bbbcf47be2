"""Writes docs/commands.md, words.md and answers.schema.json: `python -m tools.commands_page`."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup

from console.cli.commands import BESIDE_READER, COMMANDS, policies_of
from console.cli.help import TERMS
from console.cli.main import app
from console.cli.output import SCHEMA
from console.operations.verbs import Planned

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
ANSWERS = PAGE.parent / "answers.schema.json"
WORDS = PAGE.parent / "words.md"

# Columns of a help page: the smallest terminal in use.
_WIDTH = 80

_INTRODUCTION = """\
# The commands

`make docs` writes this page. `dlq COMMAND --help` prints a command's options and examples;
`dlq help` prints what holds for all: words, exit statuses, variables of the environment, JSON,
policies.

`dlq` finds the app by the SSM parameters below `/<app>/`, which the stacks write. It never moves
or deletes a message itself. The options of every command may stand before or after its name, and
`--pipeline` where a command is about pipelines.

`--json` prints the answer; [answers.schema.json](answers.schema.json) is the JSON Schema of every
answer. `schema` is the version of all answers: keys are only added, and if one ever changes its
meaning, that number grows. `--jsonl` prints the rows of the answer's first list, one a line. Times
are ISO 8601 in UTC, durations are seconds, sizes are bytes.

Policies are the app's managed ones. What a command takes beside `DlqReader` is for bodies, or to
change something; [each policy's permissions](security.md#what-each-role-can-do).

| command | what it does | policies |
|---|---|---|
"""

_WITHOUT_APP = """
## Without an app

The app's policies are about the app alone: what follows takes permissions of your own.

| command | permissions |
|---|---|
| `dlq init` | `sqs:ListQueues`, `sqs:GetQueueAttributes`, `cloudwatch:GetMetricData`; to add: \
`lambda:ListEventSourceMappings`, `lambda:GetFunctionConfiguration` |
| `dlq doctor --account` | `lambda:GetAccountSettings`, `iam:GetAccountSummary`, \
`iam:SimulatePrincipalPolicy`, `cloudwatch:DescribeAlarms`, `states:ListStateMachines`, \
`ssm:GetParameters`; with a VPC or key of yours `ec2:DescribeSubnets`, `ec2:DescribeRouteTables`, \
`ec2:DescribeVpcEndpoints`, `kms:DescribeKey`, `kms:GetKeyPolicy` |
| `dlq rules test --file` | none |
"""

_DOCTOR_READS = """
To receive from a queue with a KMS key of yours takes `kms:Decrypt` of it.

`doctor` reads these too where it may, also about the app's own pipelines:
`sqs:ListDeadLetterSourceQueues`, `lambda:ListEventSourceMappings`,
`lambda:GetFunctionConfiguration`, `lambda:ListFunctions`, `lambda:ListFunctionEventInvokeConfigs`,
`lambda:ListTags`, `cloudwatch:DescribeAlarms`, `sns:ListSubscriptions`,
`sns:GetSubscriptionAttributes`, `events:ListRules`, `events:ListTargetsByRule`, `kms:DescribeKey`,
`kms:GetKeyPolicy`. What is refused is named, and the rest is checked.
"""


def page() -> str:
    """docs/commands.md: each command with its line and its policies."""
    rows = [_row(words, each.says, policies_of(words)) for words, each in COMMANDS.items()]
    # What takes more with an option stands below its command.
    for words in BESIDE_READER.keys() - COMMANDS.keys():
        below = list(COMMANDS).index(words.partition(" --")[0]) + 1
        rows.insert(below, _row(words, "The same, with this option.", policies_of(words)))
    queues = [
        f"| `dlq {words}{'' if words == 'doctor' else ' --in'} queue:NAME`"
        f" | {_code(each.at_queue)} |"
        for words, each in COMMANDS.items()
        if each.at_queue
    ]
    tables = (_INTRODUCTION, "\n".join(rows), "\n", _WITHOUT_APP, "\n".join(queues), "\n")
    return "".join([*tables, _DOCTOR_READS])


def words_page() -> str:
    """docs/words.md: what each word means."""
    head = "# The words\n\n`dlq help words` prints this list: `console/cli/help.py` holds it.\n\n"
    return head + "".join(f"- **{term}**: {says}\n" for term, says in TERMS.items())


def _row(words: str, says: str, policies: Sequence[str]) -> str:
    return f"| `dlq {words}` | {says} | {_code(policies) or 'none'} |"


def _code(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def commands() -> dict[str, Any]:
    """Each command by its words on the command line, groups left out."""
    return {path: entry for path, entry, _ in _walk() if not isinstance(entry, TyperGroup)}


def help_pages() -> Iterator[str]:
    """What `--help` prints of each command and group."""
    return (entry.get_help(context) for _, entry, context in _walk())


def _walk() -> Iterator[tuple[str, Any, Any]]:
    """Words, command or group, and context: each group before its commands."""
    return _walk_below(typer.main.get_command(app), None, "dlq")


def _walk_below(entry: Any, parent: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    context = typer.Context(entry, info_name=name, parent=parent, terminal_width=_WIDTH)
    yield context.command_path, entry, context
    if isinstance(entry, TyperGroup):
        for command in entry.list_commands(context):
            yield from _walk_below(entry.get_command(context, command), context, command)


def answers() -> dict[str, Any]:
    """docs/answers.schema.json: a property for each command, and a definition for each object."""
    definitions: dict[type, Any] = {}
    properties = {}
    for path, entry in commands().items():
        kinds = [answer_of(entry)]
        if any(option.name == "dry_run" for option in entry.params):
            kinds.append(Planned)
        shapes = [_shape(kind, definitions) for kind in kinds]
        properties[path.removeprefix("dlq ")] = shapes[0] if len(shapes) == 1 else {"anyOf": shapes}
    named = {kind.__name__: shape for kind, shape in definitions.items()}
    assert len(named) == len(definitions), "two answers have one name"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The answers of dlq --json: a property for each command, by its words",
        "description": f"Each answer has the key schema too, which is {SCHEMA}.",
        "properties": properties,
        "$defs": dict(sorted(named.items())),
    }


def answer_of(command: Any) -> type:
    """The dataclass whose fields are the JSON keys of a command."""
    return command.callback.__wrapped__.__wrapped__.view.verb.answer  # type: ignore[no-any-return]


_TYPES: Mapping[Any, Mapping[str, str]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    datetime: {"type": "string", "format": "date-time"},
    Any: {},
}


def _shape(hint: Any, definitions: dict[type, Any]) -> dict[str, Any]:
    """The schema of a type; `definitions` takes those of the dataclasses in it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, Union):
        kinds = [_shape(kind, definitions) for kind in arguments if kind is not type(None)]
        return {"anyOf": [*kinds, {"type": "null"}]}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _shape(arguments[1], definitions)}
    if origin is not None and issubclass(origin, Sequence):
        return {"type": "array", "items": _shape(arguments[0], definitions)}
    if not (isinstance(hint, type) and is_dataclass(hint)):
        return {**_TYPES[hint]}
    if hint not in definitions:
        definitions[hint] = {}
        definitions[hint] = _object(hint, definitions)
    return {"$ref": f"#/$defs/{hint.__name__}"}


def _object(answer: Any, definitions: dict[type, Any]) -> dict[str, Any]:
    hints = get_type_hints(answer, include_extras=True)
    properties = {}
    for field in fields(answer):
        hint, says = get_args(hints[field.name])
        properties[field.name] = {**_shape(hint, definitions), "description": says}
    return {"type": "object", "properties": properties, "required": list(properties)}


def answers_text() -> str:
    """The text of docs/answers.schema.json: each property in one line."""
    return _text(answers(), 0) + "\n"


def _text(value: Any, depth: int) -> str:
    nested = isinstance(value, dict) and any(isinstance(each, dict) for each in value.values())
    if depth == _DEEPEST or not nested:
        return json.dumps(value)
    rows = [f'{" " * (depth + 1)}"{key}": {_text(each, depth + 1)}' for key, each in value.items()]
    return "{\n" + ",\n".join(rows) + "\n" + " " * depth + "}"


# A property of a definition.
_DEEPEST = 4


if __name__ == "__main__":
    PAGE.write_text(page())
    ANSWERS.write_text(answers_text())
    WORDS.write_text(words_page())
