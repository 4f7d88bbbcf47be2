"""What all pipelines of an app share, looked at by one watch for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deadletter.contract import MINUTE
from deadletter.signals.troubles import Seen, TroubleKind

TURN = 60.0
"""Seconds for which one watch has the look: its answer holds for all watches."""

MAPPING_EVERY = 5.0 * MINUTE
"""Seconds between two questions to Lambda, whose control plane answers the whole account 15 times a
second."""

FAILURES_THAT_CALL = 3
"""Looks in a row that fail until a person is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLook:
    """What is known of the rule checker.

    turn_ends    until when the answer holds
    mapping_at   when Lambda was last asked
    late         why edits of rules are noticed late; empty if they are not
    undelivered  edits that the checker could not handle
    failed       looks in a row that failed, the last one for the reason `why`
    """

    turn_ends: float = 0.0
    mapping_at: float = 0.0
    late: str = ""
    undelivered: int = 0
    failed: int = 0
    why: str = ""


def shared_troubles(look: SharedLook) -> Iterator[Seen]:
    """What of it calls the app's owner."""
    if look.late:
        yield Seen(TroubleKind.EDITS_LATE, {"why": look.late})
    if look.undelivered:
        yield Seen(TroubleKind.EDITS_UNCHECKED, {"edits": look.undelivered})
    if look.failed >= FAILURES_THAT_CALL:
        yield Seen(TroubleKind.CHECKER_UNREAD, {"why": look.why})
