"""What a person types, with facts in braces: a command that is renamed is renamed here."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from shlex import quote


class TypedLine(StrEnum):
    """A command that repairs something, or that shows what does."""

    # They only read.
    STATUS = "dlq status --pipeline {pipeline}"
    SHOW = "dlq show {pipeline}"
    GROUPS = "dlq groups {pipeline}"
    DOCTOR = "dlq doctor {pipeline}"
    CAUSES = "dlq cause list --pipeline {pipeline}"
    CIRCUITS = "dlq circuit list --pipeline {pipeline}"
    CIRCUIT = "dlq circuit show {key} --pipeline {pipeline}"
    RULES = "dlq rules list --pipeline {pipeline}"
    PARKED = "dlq parked list --pipeline {pipeline}"
    COLLISIONS = "dlq parked list {pipeline} --reason COLLISION"
    PEEK = "dlq peek --pipeline {pipeline}"
    DRY_RUN = "dlq redrive now --pipeline {pipeline} --dry-run"
    RUN = "dlq replay show {run} --pipeline {pipeline}"
    REPORT = "dlq replay report {run} --pipeline {pipeline}"

    # They repair.
    REDRIVE = "dlq redrive now --pipeline {pipeline}"
    REDRIVE_FROM = "dlq redrive now --pipeline {pipeline} --source {source}"
    CLOSE = 'dlq circuit close {key} --pipeline {pipeline} --expires 10m --reason "it answers"'
    AUTO = "dlq circuit auto {key} --pipeline {pipeline}"
    UNDO = "dlq rules undo {rule} --pipeline {pipeline}"
    DISABLE = 'dlq rules disable {rule} --pipeline {pipeline} --reason "it is spent"'
    RESUME = "dlq replay resume {run} --pipeline {pipeline}"
    RERUN = "dlq replay rerun {run} --pipeline {pipeline} --only failed"
    LOG = "aws logs tail /aws/lambda/{function} --since 15m"
    DEPLOY = "cdk deploy {stack}"
    LET_RUN = "aws lambda delete-function-concurrency --function-name {function}"
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
        command = command.replace("{key} ", "")
    return command.format_map({name: quote(str(value)) for name, value in facts.items()})
