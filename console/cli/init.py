"""`dlq init`: the DLQs of an account, and their entries in `cdk.json`."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from ..operations.dlqs import VERB, Inventory
from ..operations.words import count, duration
from .output import Block, Line, Part, Styled, TextTable, line, typed
from .verb import VerbView


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
            yield from typed(f"dlq groups --look --in queue:{quote(dlq.name)}")
    free = next((dlq.name for dlq in found.dlqs if not dlq.pipelines), None)
    if found.added:
        names = ", ".join(entry["name"] for entry in found.added)
        sample = " The sample pipeline is gone." if found.sample_removed else ""
        yield line(Styled(f"Added to {found.file}: {names}.{sample}", "good"), " Next:")
        yield from typed("npx cdk deploy --all")
        if not found.validated:
            yield line(
                "The settings' schema is not installed (deadletter[cdk]): the synth checks it."
            )
    elif free is not None:
        yield line(f"Next: examine one, and add it to {found.file}.")
        yield from (*typed(f"dlq doctor queue:{quote(free)}"), *typed(f"dlq init {quote(free)}"))


def _encryption(encryption: str | None) -> Part:
    if encryption is None:
        return "?"
    return Styled("none", "alarm") if encryption == "none" else encryption


VIEWS = (VerbView(VERB, show, attention=lambda answer: answer.unread),)
