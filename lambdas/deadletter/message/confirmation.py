"""Evidence that a letter is safe elsewhere: without it nothing is ever deleted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Somebody who keeps letters has confirmed that he has this one.

    `copy` is the id of the copy that may go; `place` says who confirmed. Only those
    who got the confirmation make one: a queue that answered with the message's new
    id and the digest of its body, the waiting room that read its item back, the
    journal in which the confirmed send is marked, the consumer that processed it.
    The architecture test holds the list.
    """

    copy: str
    place: str
    new_id: str | None = None
