"""What scanners find, which findings stay and why, and what the two come to."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

# A reason is a sentence about this app; fewer words are a sigh.
MIN_REASON_WORDS = 5


class BadAcknowledgement(ValueError):
    """An acknowledgement that cannot be understood, or gives no reason."""


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

    def covers(self, found: Finding) -> bool:
        same_rule = (self.scanner, self.rule) == (found.scanner, found.rule)
        return (
            same_rule
            and fnmatchcase(found.app, self.app)
            and fnmatchcase(found.resource, self.resource)
        )


@dataclass(frozen=True, slots=True)
class ScanVerdict:
    """What remains to be done, and what was looked at and stays as it is."""

    open: tuple[Finding, ...]
    stays: tuple[Finding, ...]
    unused: tuple[Acknowledgement, ...]

    @property
    def clean(self) -> bool:
        """Nothing without a reason, and no reason without a finding."""
        return not self.open and not self.unused

    def to_json(self) -> dict[str, Any]:
        return {"clean": self.clean, **asdict(self)}


def read_acknowledgements(path: Path) -> list[Acknowledgement]:
    """The acknowledgements in a TOML file; raises BadAcknowledgement."""
    found = []
    for row in tomllib.loads(path.read_text())["acknowledged"]:
        try:
            one = Acknowledgement(**row)
        except TypeError as error:
            raise BadAcknowledgement(f"{row}: {error}") from error
        if len(one.reason.split()) < MIN_REASON_WORDS:
            raise BadAcknowledgement(f"{one.scanner} {one.rule}: {one.reason!r} is no reason")
        found.append(one)
    return found


def judge(findings: Iterable[Finding], acknowledged: Sequence[Acknowledgement]) -> ScanVerdict:
    """Each finding with the reason of the first acknowledgement that covers it, if any does."""
    still_open: list[Finding] = []
    stays: list[Finding] = []
    used: set[Acknowledgement] = set()
    for one in findings:
        cover = next((each for each in acknowledged if each.covers(one)), None)
        if cover is not None:
            used.add(cover)
        reason = cover.reason if cover is not None else one.reason
        if reason is None:
            still_open.append(one)
        else:
            stays.append(Finding(one.scanner, one.app, one.rule, one.resource, one.message, reason))
    unused = tuple(one for one in acknowledged if one not in used)
    return ScanVerdict(tuple(still_open), tuple(stays), unused)
