"""`dlq list`: which messages there are, where they lie, and why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from deadletter.message.letter import to_json

from .matching import FoundMessage, Matcher
from .places import Places, SearchedPlace, UnsearchedPlace, Walk, place, search
from .private_file import new_private_file
from .queue import LOOKS_COUNT
from .selection import Ids, Pipelines, Terms, choice
from .session import Answer, Session
from .verbs import Asked, Verb
from .words import moment


@dataclass(frozen=True, kw_only=True)
class ListRequest:
    """Which messages there are, where they lie, and why.

    Failure records, what waits, and what a run took are read: that costs no receive. A
    queue is received from with --look alone, and all is given back: each place that was
    not searched is named, with what it costs.

    Of `--in queue:NAME` nothing but the queue has to exist, and it needs --look.

    The exit status is 1 if a search ended early, or if nothing was found and a place was
    not searched.
    """

    ids: Ids = ()
    pipelines: Pipelines = ()
    places: Places = ()
    terms: Terms = ()
    body: Annotated[bool, Asked("Bodies and attributes too, escaped.", ("--body",))] = False
    look: Annotated[
        bool, Asked("Receive from queues too, and give back; SQS counts it.", ("--look",))
    ] = False
    limit: Annotated[int, Asked("List so many.", ("--limit",), "N", least=1, most=10_000)] = 20
    out: Annotated[
        str | None,
        Asked("Write all that match, whole, to a new file: a line of JSON each.", ("--out",),
              "FILE"),
    ] = None  # fmt: skip


@dataclass(frozen=True, slots=True)
class ListedMessage:
    """One message, as far as it is known where it was found."""

    pipeline: Annotated[str, "name of the pipeline; empty for a queue of none"]
    place: Annotated[
        str, "where it is, as --in takes it; `main or dlq` if only its failure record is known"
    ]
    message_id: Annotated[str, "its first MessageId, which it keeps"]
    current_id: Annotated[str | None, "its current MessageId; null if it is not known"]
    business_id: Annotated[str | None, "your own id of it; null if its content was not read"]
    tenant: Annotated[
        str, "its tenant as `ledger` says: plain, hashed or left out; empty without one"
    ]
    first_sent: Annotated[datetime | None, "when its producer sent it; null if not known"]
    since: Annotated[datetime | None, "when it was put there, or failed last"]
    due: Annotated[datetime | None, "when it is decided about again; null if no time says so"]
    attempts: Annotated[int | None, "how often it was sent back; null if it is not known"]
    reason: Annotated[str, "why it is parked; empty elsewhere"]
    rule: Annotated[str, "the rule that holds or parked it; empty without one"]
    outcome: Annotated[str, "what became of it in its run; empty elsewhere"]
    because: Annotated[str, "why it is there, in a sentence"]
    cause: Annotated[str, "cause of its last failure; empty if it is not on record"]
    category: Annotated[str, "what kind of failure"]
    error_type: Annotated[str, "the error"]
    http_status: Annotated[int | None, "status of the answer; null without one"]
    text: Annotated[str, "that error's text without data; empty if it is not kept"]
    size: Annotated[int | None, "bytes of body and attributes; null if it is not known"]
    received: Annotated[int | None, "how often it was received under this id, looks included"]
    body: Annotated[str | None, "the body; null if it was not read"]
    attributes: Annotated[Mapping[str, Any] | None, "its attributes, as the body"]


@dataclass(frozen=True, slots=True)
class MessageList(Answer):
    """What `dlq list` answers."""

    messages: Annotated[Sequence[ListedMessage], "the messages, at most --limit"]
    pipelines: Annotated[Sequence[str], "the pipelines that were searched"]
    matching: Annotated[int, "messages that there are, of all that were searched"]
    is_at_least: Annotated[bool, "whether there are more, because not all were counted"]
    searched: Annotated[Sequence[SearchedPlace], "the places that were searched"]
    not_searched: Annotated[Sequence[UnsearchedPlace], "those that were not, and the cost"]
    did_you_mean: Annotated[Sequence[str], "near values, if a value of the choice is nowhere"]
    is_sure: Annotated[
        bool, "false if a search ended early, or nothing was found and a place was not searched"
    ]
    received: Annotated[int, "messages that were received to answer this, and given back"]
    not_given_back: Annotated[int, "of them still hidden, for two minutes at most"]
    file: Annotated[str | None, "the file of --out; null without one"]
    written: Annotated[int, "messages in the file"]
    notes: Annotated[Sequence[str], "warnings, and what was left out"]


def read(session: Session, request: ListRequest) -> MessageList:
    """The messages of a choice. Without `look` none is received."""
    chosen = choice(request.ids, map(place, request.places), request.terms)
    listed: list[ListedMessage] = []
    matching = written = 0
    with new_private_file(Path(request.out)) if request.out else nullcontext() as file:

        def see(found: FoundMessage, matcher: Matcher) -> None:
            nonlocal matching, written
            matching += 1
            if len(listed) < request.limit:
                listed.append(_listed(found, matcher, body=request.body))
            if file is not None and found.letter is not None:
                file.write(json.dumps(written_message(found), separators=(",", ":")) + "\n")
                written += 1

        walk = Walk(
            session,
            chosen,
            see,
            look=request.look,
            few=None if request.out else request.limit,
            read_letters=request.body or request.out is not None,
        )
        app = session.app() if chosen.is_of_app else None
        names = search(walk, app, request.pipelines)
    is_at_least = not walk.is_complete
    if walk.few is not None:
        # Of each place but a few were read.
        is_at_least = is_at_least or None in walk.counts
        matching = max(matching, sum(count or 0 for count in walk.counts))
    notes = [*walk.notes, *([LOOKS_COUNT] if walk.received else [])]
    if not matching and chosen.is_narrow and not chosen.places:
        notes.append("What is over is searched by --in run:ID and by --in discarded.")
    if file is not None and (unwritten := matching - written):
        notes.append(f"Not in the file, as only a record of it was read: {unwritten:,}.")
    return MessageList(
        **session.place,
        pipelines=tuple(names), messages=tuple(listed), matching=matching, is_at_least=is_at_least,
        searched=tuple(walk.searched), not_searched=tuple(walk.unsearched),
        did_you_mean=() if matching else _near(walk),
        is_sure=walk.is_complete and bool(matching or not walk.unsearched),
        received=walk.received, not_given_back=walk.not_given_back,
        file=request.out, written=written, notes=tuple(dict.fromkeys(notes)),
    )  # fmt: skip


def _near(walk: Walk) -> Sequence[str]:
    return tuple(dict.fromkeys(near for matcher in walk.matchers for near in matcher.meant()))


def _listed(found: FoundMessage, matcher: Matcher, *, body: bool) -> ListedMessage:
    stamp, letter, entry = found.stamp, found.letter, found.entry
    # What the shape of a body says is no error.
    has_error = entry is not None and not entry.error_type.startswith("body: ")
    shown = letter if body else None
    since = stamp.at if stamp and stamp.at else entry.seen if entry else None
    received = letter.system.get("ApproximateReceiveCount", "") if letter else ""
    return ListedMessage(
        pipeline=found.pipeline, place=found.place,
        message_id=found.origin, current_id=found.copy, business_id=matcher.business_id(found),
        tenant=matcher.tenant(found),
        first_sent=moment(found.sent),
        since=moment(since), due=moment(found.due),
        attempts=stamp.attempt if stamp else entry.attempt if entry else None,
        reason=found.reason, rule=found.rule, outcome=found.outcome, because=found.because,
        cause=found.cause, category=entry.category if entry else "",
        error_type=entry.error_type if entry and has_error else "",
        http_status=entry.http_status if entry else None, text=entry.words if entry else "",
        size=letter.size if letter else found.size,
        received=int(received) if received.isdigit() else None,
        body=shown.body if shown else None, attributes=attributes_of(shown) if shown else None,
    )  # fmt: skip


def attributes_of(letter: Any) -> Mapping[str, Any]:
    """A message's attributes, as an answer has them."""
    return {
        name: "binary" if isinstance(attribute.value, bytes) else attribute.value
        for name, attribute in letter.attributes.items()
    }


def written_message(found: FoundMessage) -> Mapping[str, Any]:
    """A message as a line of a file: all of it, where it was, and why."""
    assert found.letter is not None
    why = {"origin": found.origin, "reason": found.reason, "because": found.because}
    return {"place": found.place, **why, **to_json(found.letter)}


VERB = Verb(
    name="list",
    request=ListRequest,
    examples=[
        "dlq list",
        "dlq list A-4711",
        "dlq list --in parked -f reason=POISON --look",
        "dlq list --in rule:stop-acme --body",
        "dlq list -f tenant=acme -f 'error~Timeout' --look --jsonl > found.jsonl",
        "dlq list --in parked --look --out parked.jsonl",
        "dlq list --in queue:billing-dlq --look --limit 5",
    ],
    read=read,
)
"""Lists messages."""
