"""What to do with a letter now: a value that can be printed, compared and refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deadletter.contract import DUE_LANE, Reason

LONGEST_DELAY = 900
"""Seconds that SQS can delay a message; a longer delay is spent in the waiting room."""

DUE = DUE_LANE
"""The lane of letters that wait for a delay to pass."""

SHARDS = 8
"""Shards of a lane: one DynamoDB partition takes about 1,000 writes a second."""

# Epoch seconds, some 30,000 years from now: a letter due then, or at NaN, would be lost.
_NEVER = 1e12


@dataclass(frozen=True, slots=True)
class Redrive:
    """The letter goes back to the main queue, after `delay` seconds (whole, 0 to 900)."""

    delay: int
    because: str
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """The letter waits outside SQS in `lane`, at the latest until `due` (epoch seconds).

    `shard` is its shard of the lane where the lane's order says so: in the lane of a replay
    run. None: by its id, or by its FIFO group. What is `left` of a wait that began with the
    letter's death is less at each look, wherever the letter is.
    """

    lane: str
    due: float
    because: str
    rule: str | None = None
    shard: int | None = None
    left: bool = False


@dataclass(frozen=True, slots=True)
class Divert:
    """The letter goes to the dedicated DLQ with the id `queue`."""

    queue: str
    because: str
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class Park:
    """The letter goes to the parking lot, where automation ends and a person begins.

    `category` is that of the failure for which it is parked: each may have a queue of its own.
    """

    reason: Reason
    because: str
    rule: str | None = None
    category: str | None = None


Decision = Redrive | Hold | Divert | Park


class NotADecision(ValueError):
    """The data is not one of the four decisions."""


def encode(decision: Decision) -> dict[str, Any]:
    """The decision as JSON-ready data; `decode` is its inverse."""
    grounds: dict[str, Any] = {"because": decision.because}
    if decision.rule is not None:
        grounds["rule"] = decision.rule
    match decision:
        case Redrive(delay=delay):
            return {"action": "REDRIVE", "delay": delay, **grounds}
        case Hold(lane=lane, due=due, shard=shard, left=left):
            place = {
                **({} if shard is None else {"shard": shard}),
                **({"left": True} if left else {}),
            }
            return {"action": "HOLD", "lane": lane, "due": due, **place, **grounds}
        case Divert(queue=queue):
            return {"action": "DIVERT", "queue": queue, **grounds}
        case Park(reason=reason, category=category):
            kind = {} if category is None else {"category": str(category)}
            return {"action": "PARK", "reason": str(reason), **kind, **grounds}


def decode(data: object) -> Decision:
    """The decision that `encode` wrote.

    Raises NotADecision for anything else: the redriver then leaves the letter where it
    is, and decides nothing itself.
    """
    if not isinstance(data, dict):
        raise NotADecision("a decision is a JSON object")
    rule = _rule(data)
    # Most letters go back, and a pattern takes four times as long to match.
    if data.get("action") == "REDRIVE":
        delay, because = data.get("delay"), data.get("because")
        if type(delay) is int and 0 <= delay <= LONGEST_DELAY and isinstance(because, str):
            return Redrive(delay, because, rule)
    match data:
        case {
            "action": "HOLD",
            "lane": str(lane),
            "due": int() | float() as due,
            "because": str(why),
        } if lane and not isinstance(due, bool) and 0 <= due < _NEVER:
            return Hold(lane, float(due), why, rule, _shard(data), data.get("left") is True)
        case {"action": "DIVERT", "queue": str(queue), "because": str(because)}:
            return Divert(queue, because, rule)
        case {"action": "PARK", "reason": str(reason), "because": str(because)}:
            if reason not in set(Reason):
                raise NotADecision(
                    f"unknown reason to park a message; allowed: {', '.join(Reason)}"
                )
            return Park(Reason(reason), because, rule, _category(data))
    raise NotADecision("not one of REDRIVE, HOLD, DIVERT, PARK with their fields")


def _rule(data: Mapping[str, Any]) -> str | None:
    rule = data.get("rule")
    if rule is None or isinstance(rule, str):
        return rule
    raise NotADecision("the id of a rule is text")


def _category(data: Mapping[str, Any]) -> str | None:
    category = data.get("category")
    if category is None or isinstance(category, str):
        return category
    raise NotADecision("the category of a failure is text")


def _shard(data: Mapping[str, Any]) -> int | None:
    shard = data.get("shard")
    if shard is None or (isinstance(shard, int) and not isinstance(shard, bool) and shard >= 0):
        return shard
    raise NotADecision("the shard of a lane is a whole number")
