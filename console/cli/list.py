"""`dlq list`: which messages there are, where they lie, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Any

from ..operations.list import VERB, ListedMessage, MessageList
from ..operations.places import SearchedPlace, UnsearchedPlace
from ..operations.words import clock, count, duration, size, some
from .output import Block, Line, Styled, line, said, typed
from .verb import VerbView

# Characters of a body that a terminal is given; JSON has all of it.
_MAX_BODY = 2_000

# Places that a screen names; JSON has all of them.
_MAX_PLACES = 12


def show(answer: MessageList) -> Iterator[Block]:
    """The messages for a person: where they are, each of them, and what was not searched."""
    at_least = "at least " if answer.is_at_least else ""
    found = f"{at_least}{count(answer.matching, 'message')}"
    yield line(Styled(found, "strong"), f" found{_of(answer)}")
    filled = [place for place in answer.searched if place.messages != 0]
    for place in filled[:_MAX_PLACES]:
        yield from _place(place, answer)
    if len(filled) > _MAX_PLACES:
        yield line(f"and {count(len(filled) - _MAX_PLACES, 'more place')}: --json names all")
    for message in answer.messages:
        yield Line()
        yield from _message(message, answer)
    yield Line()
    if (more := answer.matching - len(answer.messages)) > 0:
        yield line(f"{count(more, 'more message')}: --limit lists more")
    for near in answer.did_you_mean:
        yield line(Styled(f"Did you mean {near}?", "alarm"))
    for note in answer.notes:
        yield from said(note)
    if answer.file is not None:
        yield line(f"{count(answer.written, 'message')} written to {answer.file}")
    several = len(answer.pipelines) > 1
    yield from not_searched(answer.not_searched, is_found=bool(answer.messages), several=several)
    if answer.messages:
        first = answer.messages[0]
        here = f" --pipeline {quote(first.pipeline)}" if first.pipeline else ""
        if first.pipeline:
            yield line("The story of one:")
            yield from typed(f"dlq show {quote(first.message_id)}{here}")


def _of(answer: MessageList) -> str:
    where = f" in {some(answer.pipelines, 3)}" if answer.pipelines else ""
    return f"{where}; account {answer.account}, {answer.region}"


def _place(place: SearchedPlace, answer: MessageList) -> Iterator[Block]:
    messages = "more than are listed" if place.messages is None else f"{place.messages:,}"
    if place.messages not in (None, place.matching):
        messages = f"{place.matching:,} of {messages}"
    of = f" of {place.pipeline}" if len(answer.pipelines) > 1 else ""
    wait = f": for {place.waits_for}" if place.waits_for else ""
    due = f", the first at {clock(place.first_due, answer.at)}" if place.first_due else ""
    yield line(f"{messages}  {place.place}{of}{wait}{due}", indent=2)


def _message(message: ListedMessage, answer: MessageList) -> Iterator[Block]:
    now = answer.at
    of = f" of {message.pipeline}" if len(answer.pipelines) > 1 else ""
    state = f"  {message.reason or message.outcome}" if message.reason or message.outcome else ""
    yield line(Styled(message.message_id, "strong"), f"  {message.place}{of}{state}")
    facts = [
        f"yours {message.business_id}" if message.business_id else "",
        f"tenant {message.tenant}" if message.tenant else "",
        f"cause {message.cause[:8]}" if message.cause else "",
        f"for {duration(now - message.since)}" if message.since else "",
        f"due {clock(message.due, now)}" if message.due else "",
        f"sent back {count(message.attempts, 'time')}" if message.attempts else "",
        f"rule {message.rule}" if message.rule else "",
        f"received {count(message.received, 'time')}" if message.received else "",
        size(message.size) if message.size is not None else "",
    ]
    yield line(", ".join(filter(None, facts)), indent=4)
    error = ": ".join(filter(None, (message.error_type, message.text)))
    status = f" ({message.http_status})" if message.http_status else ""
    for text in dict.fromkeys((f"{error}{status}", message.because)):
        if text:
            yield line(text, indent=4)
    if message.current_id not in (None, message.message_id):
        yield line(Styled(f"current ID {message.current_id}", "faint"), indent=4)
    if message.body is not None:
        yield from content(message.body, message.attributes or {}, indent=4)


def content(body: str, attributes: Mapping[str, Any], indent: int = 0) -> Iterator[Block]:
    """What a message holds, so far as a terminal is given it."""
    yield line(body[:_MAX_BODY], indent=indent)
    if (more := len(body) - _MAX_BODY) > 0:
        yield line(Styled(f"{count(more, 'more character')}: see --json", "faint"), indent=indent)
    yield from (line(f"{name} = {value}", indent=indent) for name, value in attributes.items())


def not_searched(
    unsearched: Sequence[UnsearchedPlace], *, is_found: bool, several: bool = False
) -> Iterator[Block]:
    """The places that were not searched, by the reason; `several` says that pipelines differ."""
    by_reason: dict[str, list[str]] = {}
    for place in unsearched:
        of = f" of {place.pipeline}" if several else ""
        holds = "" if place.messages is None else f" ({place.messages:,})"
        by_reason.setdefault(place.why, []).append(f"{place.place}{of}{holds}")
    for why, places in by_reason.items():
        says = Styled("Not searched: ", "strong" if is_found else "alarm")
        yield line(says, some(places, _MAX_PLACES))
        yield line(why, indent=2)


VIEWS = (VerbView(VERB, show, attention=lambda answer: not answer.is_sure),)
