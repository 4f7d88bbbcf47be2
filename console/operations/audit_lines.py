"""Rows of the audit table as lines: one for each change, whoever made it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from deadletter.contract import AUDIT, CHANGED_BY, CHANGES

from .audit import END
from .rule_table import canonical, target
from .words import moment

Row = Mapping[str, Any]

WITHIN = 300.0
"""Seconds between the record of a change by `dlq` and the stream's row of the same change: the
stream cuts its time to a second, and the clock of a person's machine may be wrong."""

BY_DLQ, BY_PAGE, OUTSIDE = "dlq", "dlq ui", "outside dlq"

RULE_EDIT, ENDPOINT_EDIT = "rules edit", "endpoint edit"
"""What stands for a command where a rule or an endpoint was changed without `dlq`."""

UNKNOWN = "unknown"

# Why an endpoint is disabled: `dlq` records its reason beside what it changes.
_BECAUSE = "because"


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One change: who made it, when, what, why, and what it did."""

    at: Annotated[datetime, "when"]
    pipeline: Annotated[str, "name of the pipeline; `*` for what belongs to all of them or to none"]
    command: Annotated[
        str,
        f"words of the command after `dlq`; `{RULE_EDIT}` or `{ENDPOINT_EDIT}` outside dlq",
    ]
    target: Annotated[str, "what was changed, such as `circuit orders` or `rule r1`"]
    via: Annotated[
        str, f"`{BY_DLQ}`, `{BY_PAGE}`, or `{OUTSIDE}`: the console, an API, or another program"
    ]
    who: Annotated[str | None, "ARN of the caller, with the session; null outside dlq"]
    user_id: Annotated[str | None, "the caller's UserId, which IAM has checked; null outside dlq"]
    why: Annotated[str, "the reason given; empty without one"]
    outcome: Annotated[str, f"`done`, `failed`, or `{UNKNOWN}`: it was stopped before it could say"]
    error: Annotated[str | None, "name of the error that it failed with"]
    before: Annotated[Mapping[str, Any] | None, "what it was; null if it is new or not on record"]
    after: Annotated[Mapping[str, Any] | None, "what it became; null if it is gone or unknown"]
    ended: Annotated[datetime | None, "when it was done or had failed; null if unknown"]


def lines(rows: Sequence[Row]) -> list[AuditLine]:
    """One line for each change, the newest first.

    An end is put to its beginning, and the history's row of a rule to the change by `dlq` that
    made it: the same rule, the same difference, within WITHIN. Each row is used once.
    """
    ends = {_name(row).removesuffix(END): row for row in rows if is_end(row)}
    begun = [row for row in rows if not is_end(row) and not is_history(row)]
    left = [row for row in rows if is_history(row)]
    changes = []
    for row in sorted(begun, key=happened):
        end = ends.get(_name(row))
        if end is None or end.get("outcome") != "failed":
            _take_out(left, row)
        changes.append(_by_dlq(row, end))
    changes += map(_outside, left)
    return sorted(changes, key=lambda change: change.at, reverse=True)


def happened(row: Row) -> float:
    """When, in epoch seconds."""
    return float(row[str(CHANGES.sort)])


def is_end(row: Row) -> bool:
    """Whether the row says how a change ended."""
    return str(row[AUDIT.sort]).endswith(END)


def is_history(row: Row) -> bool:
    """Whether the row is from the stream of the rules or of the endpoints table."""
    return "event_id" in row


def _name(row: Row) -> str:
    return f"{row[AUDIT.partition]}\n{row[AUDIT.sort]}"


def _take_out(history: list[Row], row: Row) -> None:
    """Removes the row of the history that a change by `dlq` has made, the nearest in time."""
    if not _is_of_rule(row) and not _is_of_endpoint(row):
        return
    difference = _difference(row.get("before"), row.get("after"))
    same = [
        other
        for other in history
        if other[CHANGES.partition] == row[CHANGES.partition]
        and _target(other) == row["target"]
        and abs(happened(other) - happened(row)) <= WITHIN
        and _difference(*_images(other)) == difference
    ]
    if same:
        history.remove(min(same, key=lambda other: abs(happened(other) - happened(row))))


def _images(row: Row) -> Iterator[Mapping[str, Any] | None]:
    """The rule before and after, without its verdict; of an endpoint what the audit keeps."""
    for image in (row.get("old"), row.get("new")):
        if not isinstance(image, Mapping):
            yield None
        else:
            yield dict(sorted(image.items())) if "endpoint" in row else canonical(image)


def _target(row: Row) -> str:
    """What a row of the history is about, as `dlq` names it."""
    if "endpoint" in row:
        from . import endpoints

        return endpoints.target(str(row["endpoint"]))
    return target(str(row["rule_id"]))


def _difference(before: Row | None, after: Row | None) -> tuple[bool, bool, dict[str, Any]]:
    """Whether there was a rule, whether there is one, and the columns that have changed.

    Not the images: `dlq rules disable` also disables a rule that another person has just edited.
    """
    old, new = before or {}, after or {}
    names = {*old, *new} - {_BECAUSE}
    columns = {name: new.get(name) for name in names if old.get(name) != new.get(name)}
    return before is not None, after is not None, columns


def _by_dlq(row: Row, end: Row | None) -> AuditLine:
    ended = end or {}
    user_id = str(row[AUDIT.partition]).removeprefix(CHANGED_BY)
    return AuditLine(
        at=_time(row),
        pipeline=str(row[CHANGES.partition]),
        command=str(row["command"]),
        target=str(row["target"]),
        via=str(row.get("via", BY_DLQ)),
        who=_who(str(row["who"]), user_id),
        user_id=user_id,
        why=str(row.get("why", "")),
        outcome=str(ended.get("outcome", UNKNOWN)),
        error=ended.get("error"),
        before=_in_order(row, row.get("before")),
        after=_in_order(row, ended.get("after", row.get("after"))),
        ended=_time(end) if end else None,
    )


def _is_of_endpoint(row: Row) -> bool:
    return str(row["command"]).startswith("endpoint ")


def _is_of_rule(row: Row) -> bool:
    return str(row["command"]).startswith("rules ")


def _in_order(row: Row, facts: Row | None) -> Row | None:
    """The facts in a fixed order: DynamoDB keeps none."""
    if facts is None:
        return None
    return canonical(facts) if _is_of_rule(row) else dict(sorted(facts.items()))


def _who(says: str, user_id: str) -> str:
    """The ARN that a row says, or the UserId if the session is another: then the ARN is forged.

    The UserId stands in the key, and IAM lets each caller write below the own one only.
    """
    _, colon, session = user_id.partition(":")
    forged = colon and not says.endswith(f"/{session}")
    return f"{user_id}, who calls itself {says}" if forged else says


def _outside(row: Row) -> AuditLine:
    before, after = _images(row)
    return AuditLine(
        at=_time(row),
        pipeline=str(row[CHANGES.partition]),
        command=ENDPOINT_EDIT if "endpoint" in row else RULE_EDIT,
        target=_target(row),
        via=OUTSIDE,
        who=None,
        user_id=None,
        why="",
        outcome="done",
        error=None,
        before=before,
        after=after,
        ended=_time(row),
    )


def _time(row: Row) -> datetime:
    at = moment(happened(row))
    assert at is not None, "the index holds numbers"
    return at
