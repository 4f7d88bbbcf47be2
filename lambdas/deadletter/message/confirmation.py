"""Proof that a letter is stored elsewhere: nothing is deleted without it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Confirmation that a copy is stored in another durable place, or was processed.

    `copy` is the id of the copy that may be deleted; `place` names the place. Only the
    code that received the confirmation makes one: a queue that answered with the
    message's new id and the digest of its body, the waiting room that read its item
    back, the journal in which the confirmed send is marked, the consumer that processed
    it. The architecture test holds the list.
    """

    copy: str
    place: str
    new_id: str | None = None
