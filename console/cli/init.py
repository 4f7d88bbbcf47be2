"""`dlq init`: the DLQs of an account, and their entries in `cdk.json`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..operations import dlqs as operation
from ..operations.dlqs import Account, CdkJson, Inventory
from ..operations.problem import Cause, Problem
from ..operations.session import Session
from ..operations.words import count, duration
from . import asking
from .asking import Yes
from .command import command, plain_typer
from .exit import Exit
from .output import Block, Line, Part, Reply, Styled, TextTable, line
from .progress import waiting

typer_app = plain_typer()

Chosen = Annotated[
    list[str] | None,
    typer.Argument(metavar="[DLQ]...", help="The DLQs to add, by name; else only a list."),
]
File = Annotated[
    Path, typer.Option("--file", metavar="PATH", help="The file of settings; made if missing.")
]


@command(
    typer_app,
    "init",
    example=[
        "dlq init",
        "dlq init orders-dlq",
        "dlq init orders-dlq invoices-dlq --file cdk.json --yes",
    ],
)
def init(
    session: Session, dlqs: Chosen = None, file: File = Path("cdk.json"), yes: Yes = False
) -> Reply[Inventory]:
    """List the account's DLQs, and add chosen ones to cdk.json.

    A chosen DLQ becomes a pipeline for each queue that it serves, in mode observe, which moves
    nothing. Its consumer is the function that an event source mapping names, if there is one.
    What the file holds already is never changed, but for a fresh clone's sample pipeline, whose
    place it takes; and the settings' schema checks the result before
    it is written (with the extra `cdk` installed). dlq asks before it writes.

    Nothing has to be deployed; no policy of the app allows sqs:ListQueues, so use a profile of
    yours. The exit status is 1 if something could not be read.
    """
    settings = CdkJson(file)
    with waiting("Looking for DLQs"):
        account = operation.read(session)
    validated, added = None, list[Mapping[str, Any]]()
    if dlqs:
        added = _entries(session, account, settings, dlqs)
        content = settings.with_pipelines(added, session.app_name)
        validated = operation.validate(content, file)
        if not yes:
            instead = ", in place of the sample pipeline" if settings.has_sample else ""
            asking.confirm(
                session,
                f"Add {count(len(added), 'pipeline')} to {file}{instead}:",
                *json.dumps(added, indent=2).splitlines(),
            )
        settings.write(content)
    answer = operation.inventory(session, account, settings, added, validated)
    return Reply(answer, show, Exit.ATTENTION if answer.unread else Exit.DONE)


def _entries(
    session: Session, account: Account, settings: CdkJson, names: Sequence[str]
) -> list[Mapping[str, Any]]:
    known = {arn.rpartition(":")[2]: arn for arn in account.dlq_arns}
    entries: list[Mapping[str, Any]] = []
    for name in dict.fromkeys(names):
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise Problem(
                f"{name} is no DLQ of this account and region: it has {listed}.", Cause.ABSENT
            )
        for entry in operation.entries(session.aws, account, known[name]):
            settings.check(entry)
            entries.append(entry)
    return entries


def show(found: Inventory) -> Iterator[Block]:
    """The DLQs for a person, those with most messages first."""
    dlqs = count(len(found.dlqs), "DLQ")
    at_least = "" if found.is_whole else "at least "
    yield line(
        Styled(f"{at_least}{dlqs}", "strong"), f" in account {found.account}, {found.region}"
    )
    if found.dlqs:
        yield Line()
        yield TextTable(
            ("DLQ", ">MESSAGES", ">OLDEST", ">KEEPS FOR", "ENCRYPTION", "PIPELINE", "SOURCES"),
            [
                (
                    dlq.name,
                    "?" if dlq.messages is None else f"{dlq.messages:,}",
                    "" if dlq.oldest_seconds is None else duration(dlq.oldest_seconds),
                    "?" if dlq.retention is None else duration(dlq.retention),
                    _encryption(dlq.encryption),
                    ", ".join(dlq.pipelines) or Styled("none", "faint"),
                    ", ".join(dlq.sources),
                )
                for dlq in found.dlqs
            ],
        )
    for text in found.unread:
        yield line(Styled(text, "alarm"))
    yield Line()
    # Of all of them only the table says how deep they are.
    new = {entry["dlq"]["arn"] for entry in found.added}
    for dlq in found.dlqs:
        if dlq.arn in new and dlq.backlog is not None:
            yield line(Styled(f"{dlq.name}:", "strong"), f" {dlq.backlog}:")
            yield line(f"dlq groups --look --in queue:{dlq.name}", indent=2)
    free = next((dlq.name for dlq in found.dlqs if not dlq.pipelines), None)
    if found.added:
        names = ", ".join(entry["name"] for entry in found.added)
        sample = " The sample pipeline is gone." if found.sample_removed else ""
        yield line(
            Styled(f"Added to {found.file}: {names}.{sample}", "good"), " Next: cdk deploy --all"
        )
        if not found.validated:
            yield line(
                "The settings' schema is not installed (deadletter[cdk]): cdk synth checks it."
            )
    elif free is not None:
        yield line(f"Next: dlq doctor queue:{free}; dlq init {free} adds it to {found.file}.")


def _encryption(encryption: str | None) -> Part:
    if encryption is None:
        return "?"
    return Styled("none", "alarm") if encryption == "none" else encryption
