"""What became of each letter of a replay run: the account that was kept, or one as of now."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

from deadletter.replay.machine import UNACCOUNTED
from deadletter.replay.ticket import ReplayOutcome

from .errors import Cause, Problem, aws_errors
from .replay_census import letters_of
from .replay_runs import FAILED, ReplayRow, RunSwitch, missed_says, row
from .session import Answer
from .words import count, moment

REPORT = "report.json"
"""The object with the account that the run itself has added up at its end."""


_MOST_ROWS = 20

_UNSETTLED = {ReplayOutcome.OPEN, ReplayOutcome.SENT, ReplayOutcome.MISSING}

MEANING: Mapping[str, str] = {
    "RECOVERED": "processed by the consumer",
    "DUPLICATE": "skipped: processed before",
    "SUPERSEDED": "skipped: a later one of its key was processed",
    "DELIVERED": "accepted; no outcome is known there",
    "PARKED": "failed again, parked by the consumer",
    "QUARANTINED": "failed again or stopped, parked by the run",
    "STOPPED": "set aside by a rule or an open circuit",
    "EXPIRED": "too old",
    "UNKNOWN": "sent, and no outcome in time",
    "DISCARDED": "discarded as planned",
    "RESTORED": "parked again",
    "LEFT": "left over when the run ended early",
    "SENT": "sent, its outcome is awaited",
    "OPEN": "not sent yet",
    "MISSING": "neither sent nor kept: a person has to look",
    # `deadletter.replay.reconcile` names it so; loading that would make every call slower.
    "RETURNED": "came back to the run, and was tried again",
    UNACCOUNTED: "without any outcome: must be 0",
}
"""What each outcome means, in the order in which people read them."""


@dataclass(frozen=True, slots=True)
class GroupAccount:
    """The outcomes of letters that have something in common."""

    name: Annotated[str, "the cause, the tenant, or the ordering key's hash"]
    category: Annotated[str, "the cause's kind of failure; empty for others"]
    messages: Annotated[int, "messages of the run"]
    counts: Annotated[Mapping[str, int], "messages by outcome"]


@dataclass(frozen=True, slots=True)
class RunMinute:
    """What ended in one minute of a run."""

    at: Annotated[datetime | None, "when the minute began"]
    counts: Annotated[Mapping[str, int], "messages by outcome"]


@dataclass(frozen=True, slots=True)
class RunAccount(Answer):
    """What became of each message of a run."""

    run: Annotated[ReplayRow, "the run"]
    final: Annotated[bool, "whether the run itself added it up at its end; else as of now"]
    source: Annotated[str, "where its messages came from"]
    destination: Annotated[str, "where they went"]
    who: Annotated[str, "who planned it"]
    why: Annotated[str, "the reason given"]
    messages: Annotated[int, "messages of the run"]
    counts: Annotated[Mapping[str, int], "messages by outcome; their sum is all of the run"]
    unaccounted: Annotated[int, "messages of the run without any outcome: must be 0"]
    missing: Annotated[Sequence[str], f"ids of the first {_MOST_ROWS} messages without any outcome"]
    returned: Annotated[int, "tries after which a message came back to the run"]
    causes: Annotated[Sequence[GroupAccount], f"outcomes of the {_MOST_ROWS} largest causes"]
    tenants: Annotated[Sequence[GroupAccount], f"outcomes of the {_MOST_ROWS} largest tenants"]
    keys: Annotated[Sequence[GroupAccount], f"the {_MOST_ROWS} ordering keys that failed most"]
    minutes: Annotated[Sequence[RunMinute], "outcomes minute by minute; empty if not kept"]
    says: Annotated[str, "the account in a sentence"]
    missed: Annotated[str, "counted messages that did not join, and what to type; else empty"]
    file: Annotated[str | None, "the page that --html wrote"] = None


def report(switch: RunSwitch) -> RunAccount:
    """The account of a run: the one that is kept in the bucket, else one of what is known now."""
    with aws_errors():
        text = switch.objects.get(REPORT)
    data = _added_up(switch) if text is None else _kept(text, switch.id)
    plan, run, session = switch.plan, switch.read(), switch.session
    counts = {name: int(number) for name, number in data["counts"].items() if number}
    letters = int(data["messages"])
    unaccounted = int(data.get("unaccounted", 0))
    return RunAccount(
        **session.place,
        run=row(run, plan=plan),
        final=text is not None,
        source=plan.source,
        destination=plan.destination,
        who=plan.who,
        why=plan.why,
        messages=letters,
        counts=_ordered(counts),
        unaccounted=unaccounted,
        missing=_missing(switch) if unaccounted else (),
        returned=int(data.get("returned", 0)),
        causes=_groups(data.get("causes", ()), "cause"),
        tenants=_groups(data.get("tenants", ()), "tenant"),
        keys=_groups(data.get("keys", ()), "key"),
        minutes=tuple(_minutes(data.get("minutes", {}))),
        says=_says(letters, counts, unaccounted),
        missed=missed_says(switch, row(run)),
    )


def _missing(switch: RunSwitch) -> Sequence[str]:
    """The letters of an ended run that have no outcome, by the ids of their first lives.

    Empty if its manifest is gone: that may be why it is broken.
    """
    lost = (letter.name.origin for letter in letters_of(switch) if letter.outcome in _UNSETTLED)
    try:
        return tuple(islice(lost, _MOST_ROWS))
    except Problem:
        return ()


def _kept(text: bytes, run: str) -> Mapping[str, Any]:
    try:
        data = json.loads(text)
        if not isinstance(data["counts"], dict) or not isinstance(data["messages"], int):
            raise ValueError("it has no counts")
    except (ValueError, KeyError, TypeError) as error:
        raise Problem(
            f"The report of run {run} is not what this dlq expects: "
            "use the dlq of the version that is deployed.",
            Cause.FAILED,
        ) from error
    return dict(data)


def _added_up(switch: RunSwitch) -> Mapping[str, Any]:
    """The account as of now, from the manifest and the status of its letters."""
    counts: Counter[str] = Counter()
    by_cause: defaultdict[str, Counter[str]] = defaultdict(Counter)
    by_key: defaultdict[str, Counter[str]] = defaultdict(Counter)
    by_tenant: defaultdict[str, Counter[str]] = defaultdict(Counter)
    categories: dict[str, str] = {}
    returned = 0
    for letter in letters_of(switch):
        outcome, name = letter.outcome.name, letter.name
        counts[outcome] += 1
        returned += letter.returned
        by_cause[name.cause][outcome] += 1
        by_tenant[name.tenant][outcome] += 1
        categories[name.cause] = name.category
        if name.is_ordered:
            by_key[name.key][outcome] += 1

    def rows(of: str, groups: Mapping[str, Counter[str]]) -> Sequence[dict[str, Any]]:
        made = [
            {of: name, "messages": group.total(), "counts": group} for name, group in groups.items()
        ]
        return sorted(made, key=lambda row: -row["messages"])

    return {
        "messages": counts.total(),
        "counts": counts,
        "returned": returned,
        "causes": [
            {**row, "category": categories[row["cause"]]} for row in rows("cause", by_cause)
        ],
        "tenants": rows("tenant", by_tenant),
        "keys": sorted(rows("key", by_key), key=lambda row: -failed(row["counts"])),
    }


def failed(counts: Mapping[str, int]) -> int:
    """Letters that were tried and not processed, as far as anything is known."""
    return sum(counts.get(outcome.name, 0) for outcome in FAILED)


def _ordered(counts: Mapping[str, int]) -> dict[str, int]:
    known = [name for name in MEANING if name in counts]
    return {name: counts[name] for name in [*known, *(set(counts) - set(known))]}


def _groups(data: Sequence[Mapping[str, Any]], name: str) -> Sequence[GroupAccount]:
    return tuple(_group(group, name) for group in data[:_MOST_ROWS])


def _group(data: Mapping[str, Any], name: str) -> GroupAccount:
    return GroupAccount(
        str(data.get(name, "")),
        str(data.get("category", "")),
        int(data.get("messages", 0)),
        _ordered({key: int(number) for key, number in data.get("counts", {}).items() if number}),
    )


def _minutes(data: Mapping[str, Any]) -> Iterator[RunMinute]:
    for at, counts in sorted(data.items(), key=lambda entry: float(entry[0])):
        yield RunMinute(moment(float(at)), {name: int(number) for name, number in counts.items()})


_DONE = ("RECOVERED", "DUPLICATE", "DELIVERED", "DISCARDED", "RESTORED")

_PARTS = {
    "failed again": ("PARKED",),
    "parked by the run (failed again, or stopped by a rule)": ("QUARANTINED",),
    "sent, with no known outcome": ("UNKNOWN",),
    "still on the way": ("OPEN", "SENT"),
    "skipped for later ones of their keys": ("SUPERSEDED",),
}
"""What became of the messages that are not done, in words, and the outcomes that these sum up."""


def _says(letters: int, counts: Mapping[str, int], unaccounted: int) -> str:
    """The account in a sentence."""
    missing = unaccounted or letters - sum(counts.values())
    if missing:
        return (
            f"{missing:,} of {count(letters, 'message')} are unaccounted for: "
            "the run is BROKEN, and a person has to look."
        )
    left = Counter(counts)
    good = sum(left.pop(name, 0) for name in _DONE)
    told = [(words, sum(left.pop(name, 0) for name in names)) for words, names in _PARTS.items()]
    told.append(("set aside or left over", left.total()))
    parts = [f"{number:,} {words}" for words, number in told if number]
    says = ", ".join([f"{good:,} of {count(letters, 'message')} are done", *parts])
    return f"{says}. All of them are accounted for."
