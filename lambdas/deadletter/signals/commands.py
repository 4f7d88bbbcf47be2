"""What a person types, with facts in braces: a command that is renamed is renamed here.

A part in square brackets is left out where a fact of it is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from shlex import quote

from deadletter.contract import DEFAULT_APP

_PART = re.compile(r"\[([^]]*)]")
_FACT = re.compile(r"{(\w+)")


class TypedLine(StrEnum):
    """A command that repairs something, or that shows what does."""

    # They only read.
    STATUS = "dlq status"
    SHOW = "dlq show {pipeline}"
    GROUPS = "dlq groups {pipeline}"
    GROUPS_BY_TENANT = "dlq groups {pipeline} --by tenant"
    MESSAGE = "dlq show {id} --pipeline {pipeline}"
    MESSAGE_LOGS = "dlq show {id} --logs --pipeline {pipeline}"
    ENDPOINT = "dlq endpoint add {tenant} --dry-run"
    DOCTOR = "dlq doctor {pipeline}"
    CIRCUITS = "dlq circuit list --pipeline {pipeline}"
    CIRCUIT = "dlq show circuit:{key} --pipeline {pipeline}"
    RULES = "dlq rules list --pipeline {pipeline}"
    COLLISIONS = "dlq list --in parked -f reason=KEY_CONFLICT --look --pipeline {pipeline}"
    LIST = "dlq list --pipeline {pipeline}"
    DRY_RUN = "dlq retry --auto -p {pipeline} --dry-run"
    RUNS = "dlq run list {pipeline}"
    RUN = "dlq show {run}"
    LOG = "aws logs tail /aws/lambda/{function} --since 15m"
    CHECKER_LOG = "aws logs tail /aws/lambda/{app}-check-rules --since 1d"
    ROW = "aws dynamodb get-item --table-name {table} --key {item}"

    # They repair.
    REDRIVE = 'dlq retry --auto[ --in dedicated:{source}] -p {pipeline} --reason "repaired"'
    CLOSE = 'dlq circuit close {key} --pipeline {pipeline} --expires 10m --reason "it answers"'
    OPEN = 'dlq circuit open --pipeline {pipeline} --expires 2h --reason "rolling back"'
    LET_GO = 'dlq circuit release {key} --pipeline {pipeline} --reason "it answers"'
    RELEASE = 'dlq retry --in parked --all -p {pipeline} --reason "fixed"'
    UNDO = 'dlq rules undo {rule} --pipeline {pipeline} --reason "a slip"'
    DISABLE = 'dlq rules disable {rule} --pipeline {pipeline} --reason "it is spent"'
    RESUME = 'dlq run resume {run} --reason "repaired"'
    DEPLOY = "npx cdk deploy {stack} --revert-drift"
    DEPLOY_SHARED = "npx cdk deploy {shared} --revert-drift"
    LET_RUN = "aws lambda delete-function-concurrency --function-name {function}"
    LET_ROUTER_RUN = "aws lambda delete-function-concurrency --function-name {app}-{pipeline}-route"
    ENABLE = "aws lambda update-event-source-mapping --enabled \\\n  --uuid {uuid}"
    RETAIN = (
        "aws sqs set-queue-attributes --queue-url {url} \\\n"
        "  --attributes MessageRetentionPeriod=1209600"
    )


def typed(command: str, facts: Mapping[str, object]) -> str:
    """The command as it is typed; what a shell would take for something else is quoted.

    The circuit with the pipeline's name is the one that is meant where none is named.
    """
    if facts.get("key") == facts.get("pipeline"):
        command = command.replace(" {key} ", " ")
    quoted = {name: quote(str(value)) for name, value in facts.items()}
    return in_app(known_parts(command, facts).format_map(quoted), facts.get("app"))


def in_app(command: str, app: object) -> str:
    """The command of `dlq` with the name of its app, unless it is the default one."""
    return with_options(command, app=None if app in (None, "", DEFAULT_APP) else str(app))


_TAKE = {
    "dlq ": ("profile", "region", "app"),
    "aws ": ("profile", "region"),
    "npx cdk ": ("profile",),
}


def with_options(command: str, **options: str | None) -> str:
    """The command with those of these options that it takes, and does not have yet."""
    tool = next(filter(command.startswith, _TAKE), "")
    new = (
        f"--{name} {quote(value)} "
        for name in _TAKE.get(tool, ())
        if (value := options.get(name)) and f" --{name} " not in command
    )
    return f"{tool}{''.join(new)}{command.removeprefix(tool)}"


def known_parts(text: str, facts: Mapping[str, object]) -> str:
    """The text without its brackets, and without those parts of which a fact is unknown."""

    def part(match: re.Match[str]) -> str:
        return match[1] if all(facts.get(name) for name in _FACT.findall(match[1])) else ""

    return _PART.sub(part, text)
