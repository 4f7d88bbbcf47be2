"""Letters, stamps and rows to draw or to take as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from deadletter.contract import Blame, Category, Reason
from deadletter.failure.failure import CONNECTION_REFUSED, TIMEOUT, Failure, blame_of_status
from deadletter.message.letter import Attribute, Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive
from deadletter.routing.router import Verdict
from deadletter.testing.clock import START

NOW = START
SENT_MS = "1789999000000"
REDRIVER = "AROAREDRIVER"

texts = st.text(max_size=20)
names = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=10)

attributes = st.dictionaries(
    names,
    st.builds(Attribute, st.sampled_from(["String", "Number", "String.x", "Number.int"]), texts)
    | st.builds(Attribute, st.sampled_from(["Binary", "Binary.gzip"]), st.binary(max_size=20)),
    max_size=10,
)

letters = st.builds(
    Letter,
    st.uuids().map(str),
    st.text(max_size=40),
    attributes,
    st.dictionaries(st.sampled_from(["SenderId", "SentTimestamp", "MessageGroupId"]), texts),
)

_epoch = st.integers(0, 2**40)
stamps = st.builds(
    Stamp,
    origin=st.text(min_size=1, max_size=20),
    attempt=st.integers(0, 1_000),
    first_sent=_epoch,
    sender=texts,
    rule=st.none() | names,
    run=st.none() | names,
    decision=st.none() | names,
    reason=st.none() | names,
    because=st.none() | st.text(min_size=1, max_size=200),
    at=st.none() | _epoch,
    base=st.integers(0, 3),
    spared=st.integers(0, 3),
    sequence=texts,
    key=st.sampled_from(["", "0123456789abcdef" * 4]),
).map(lambda s: replace(s, base=min(s.base, s.attempt), spared=min(s.spared, s.attempt + 1)))

decisions: st.SearchStrategy[Decision] = st.one_of(
    st.builds(Redrive, st.integers(0, 900), texts, st.none() | names),
    st.builds(
        Hold,
        st.text(min_size=1, max_size=10),
        st.floats(0, 1e11),
        texts,
        st.none() | names,
        st.none() | st.integers(0, 7),
        st.booleans(),
    ),
    st.builds(Divert, names, texts, st.none() | names),
    st.builds(
        Park,
        st.sampled_from(Reason),
        texts,
        st.none() | names,
        st.none() | st.sampled_from(Category),
    ),
)

# What JSON can say, odd or not.
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)


def letter(
    body: str = '{"tenantId": "a"}',
    message_id: str = "m1",
    attributes: dict[str, Attribute] | None = None,
    **system: str,
) -> Letter:
    """A letter as a producer sent it, a thousand seconds before NOW."""
    system = {"SentTimestamp": SENT_MS, "SenderId": "AIDAPRODUCER", **system}
    return Letter(message_id, body, attributes or {}, system)


def received(letter: Letter, home: str = "dlq") -> ReceivedLetter:
    return ReceivedLetter(letter, f"handle of {letter.message_id}", NOW + 100, home)


def verdict(message_id: str, decision: Decision, attempt: int = 1) -> Verdict:
    return Verdict(message_id, decision, Stamp(message_id, attempt, 1))


def failed(**changes: Any) -> Failure:
    """A failure that waiting might cure and that nobody but the letter explains."""
    kind: dict[str, Any] = {
        "at": NOW - 60,
        "attempt": 0,
        "category": Category.TRANSIENT,
        "error_type": "KeyError",
        "fingerprint": "f1",
    }
    facts = {**kind, **changes}
    facts["category"] = Category(facts["category"])
    return Failure(**{"blame": blame_for(facts), **facts})


def blame_for(facts: Mapping[str, Any]) -> Blame:
    """Who the library blames for a failure with this status or error type."""
    if facts["category"].course.is_permanent:
        return Blame.NEITHER
    if (status := facts.get("http_status")) is not None:
        return blame_of_status(status)
    no_answer = facts.get("error_type") in (TIMEOUT, CONNECTION_REFUSED)
    return Blame.DEPENDENCY if no_answer else Blame.NEITHER
