"""Findings of the scanners, acknowledgements with their reasons, and the verdict on both."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

# A reason is a sentence about this project, which takes at least this many words.
MIN_REASON_WORDS = 5


class BadEntry(ValueError):
    """An entry with unknown or missing keys, or without a reason."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule of one scanner that one resource of one app breaks.

    `reason` is why that stays, where the scanner itself keeps the acknowledgement.
    """

    scanner: str
    app: str
    rule: str
    resource: str
    message: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A kind of finding that stays, and why. `resource` and `app` are shell patterns."""

    scanner: str
    rule: str
    resource: str
    reason: str
    app: str = "*"

    def covers(self, finding: Finding) -> bool:
        same_rule = (self.scanner, self.rule) == (finding.scanner, finding.rule)
        return (
            same_rule
            and fnmatchcase(finding.app, self.app)
            and fnmatchcase(finding.resource, self.resource)
        )


@dataclass(frozen=True, slots=True)
class ScanVerdict:
    """Open findings, accepted findings, and acknowledgements that no finding needs."""

    open: tuple[Finding, ...]
    stays: tuple[Finding, ...]
    unused: tuple[Acknowledgement, ...]

    @property
    def clean(self) -> bool:
        """True if every finding has a reason and every acknowledgement a finding."""
        return not self.open and not self.unused

    def to_json(self) -> dict[str, Any]:
        return {"clean": self.clean, **asdict(self)}


def read_acknowledgements(path: Path) -> list[Acknowledgement]:
    """The acknowledgements in a TOML file; raises BadEntry."""
    entries = []
    for row in tomllib.loads(path.read_text()).get("acknowledged", []):
        try:
            each = Acknowledgement(**row)
        except TypeError as error:
            raise BadEntry(f"{row}: {error}") from error
        if len(each.reason.split()) < MIN_REASON_WORDS:
            raise BadEntry(
                f"{row}: {each.reason!r} is no reason; allowed: a sentence of {MIN_REASON_WORDS}"
                " words or more"
            )
        entries.append(each)
    return entries


def judge(findings: Iterable[Finding], acknowledged: Sequence[Acknowledgement]) -> ScanVerdict:
    """Each finding with the reason of the first acknowledgement that covers it, if any does."""
    still_open: list[Finding] = []
    stays: list[Finding] = []
    used: set[Acknowledgement] = set()
    for finding in findings:
        cover = next((ack for ack in acknowledged if ack.covers(finding)), None)
        if cover is not None:
            used.add(cover)
        reason = cover.reason if cover is not None else finding.reason
        if reason is None:
            still_open.append(finding)
        else:
            stays.append(replace(finding, reason=reason))
    unused = tuple(ack for ack in acknowledged if ack not in used)
    return ScanVerdict(tuple(still_open), tuple(stays), unused)
