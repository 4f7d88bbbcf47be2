"""What may be wrong: the words of each trouble, and the command that ends it.

The watch, runs and `dlq doctor` say which trouble they have seen and its facts; the words stand
here alone. A trouble of a page stands on the page's card, and one that explains others hides them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from string import Formatter
from typing import Any

from deadletter.contract import DAY, HOUR, MINUTE
from deadletter.signals.commands import TypedLine, typed
from deadletter.signals.pages import Alarm

Fact = str | float


class TroubleKind(StrEnum):
    """The name of a trouble, as `--json` and the runbook have it."""

    # Nothing moves
    ROUTER_DOWN = "router-down"
    LEASE_UNREAD = "lease-unread"
    STEP_FAILED = "step-failed"
    NO_RUN_YET = "no-run-yet"
    RUNS_SILENT = "runs-silent"
    RUNS_FAIL = "runs-fail"
    ROOM_LATE = "room-late"

    # The DLQ
    DEEP = "deep"
    NOT_EMPTIER = "not-emptier"
    EMPTY_LATE = "empty-late"

    # Circuits
    CIRCUIT_MALFORMED = "circuit-malformed"
    CONFIGURATION = "configuration"
    CAUSE_DOMINATES = "cause-dominates"
    CIRCUIT_OPEN = "circuit-open"
    CIRCUIT_HELD = "circuit-held"
    CIRCUIT_FLAPS = "circuit-flaps"
    MANY_CIRCUITS = "many-circuits"

    # Messages and rules that wait for a person
    UNATTENDED = "unattended"
    RULE_INVALID = "rule-invalid"
    RULE_SPENT = "rule-spent"

    # What all pipelines share
    EDITS_LATE = "edits-late"
    EDITS_UNCHECKED = "edits-unchecked"
    CHECKER_UNREAD = "checker-unread"

    # The consumer
    CONSUMER_DISABLED = "consumer-disabled"

    # Replay runs
    RUN_BROKEN = "run-broken"
    RUN_LOST = "run-lost"


@dataclass(frozen=True, slots=True)
class Seen:
    """A trouble that was seen: since when (epoch seconds), and what is known of it."""

    kind: TroubleKind
    facts: Mapping[str, Fact] = field(default_factory=dict)
    since: float = 0.0

    @property
    def page(self) -> Alarm | None:
        """The alarm that it rings, if it rings one."""
        return TROUBLES[self.kind].page

    def says(self) -> str:
        """What is wrong, as a sentence without its full stop."""
        return _WORDS.vformat(TROUBLES[self.kind].says, (), self.facts)

    def repair(self, **known: Fact) -> str:
        """What ends it, as it is typed; `known` are facts beside its own, such as its pipeline."""
        return typed(TROUBLES[self.kind].repair, {**known, **self.facts})

    def is_same(self, other: Seen) -> bool:
        """Whether another look has seen the same trouble."""
        about = TROUBLES[self.kind].about
        same = self.facts.get(about) == other.facts.get(about)
        return self.kind is other.kind and same


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubleCard:
    """The words of a trouble.

    page     the alarm that it rings; None if it rings none
    says     what is wrong, with facts in braces
    repair   what to type
    until    what ends it, for the runbook
    example  facts as they may be, for tests and the runbook
    about    the fact that tells two troubles of this kind apart
    hides    what it explains: kinds that are not shown beside it
    """

    page: Alarm | None
    says: str
    repair: str
    until: str
    example: Mapping[str, Fact] = field(default_factory=dict)
    about: str = ""
    hides: tuple[TroubleKind, ...] = ()


_STALLED: dict[str, Any] = {"page": Alarm.REDRIVE_STALLED, "until": "a run ends well"}
_RUNS = (
    *(TroubleKind.NO_RUN_YET, TroubleKind.RUNS_SILENT),
    *(TroubleKind.RUNS_FAIL, TroubleKind.ROOM_LATE),
)
_DEPTH: dict[str, Any] = {
    "page": Alarm.DLQ_DEPTH,
    "until": "the DLQ holds few enough, or becomes emptier in time",
}
_CIRCUIT: dict[str, Any] = {"page": Alarm.CIRCUIT_TROUBLE, "about": "key"}
_RULES: dict[str, Any] = {"page": Alarm.RULE_TROUBLE}
_REPLAY: dict[str, Any] = {"page": Alarm.REPLAY_BROKEN, "about": "run"}

TROUBLES: Mapping[TroubleKind, TroubleCard] = {
    TroubleKind.ROUTER_DOWN: TroubleCard(
        **_STALLED,
        says="router: {why}",
        repair="aws lambda delete-function-concurrency --function-name {app}-{pipeline}-route",
        example={"why": "TooManyRequestsException for lambda:Invoke"},
        hides=_RUNS,
    ),
    TroubleKind.LEASE_UNREAD: TroubleCard(
        **_STALLED,
        says="lease: {why}",
        repair="cdk deploy {stack}",
        example={"why": "AccessDeniedException for dynamodb:Query"},
        hides=_RUNS,
    ),
    TroubleKind.STEP_FAILED: TroubleCard(
        **_STALLED,
        says="{step}: {why}",
        repair="cdk deploy {stack}",
        example={"step": "queue dlq", "why": "AccessDenied for sqs:GetQueueAttributes"},
        about="step",
        hides=_RUNS,
    ),
    TroubleKind.NO_RUN_YET: TroubleCard(
        **_STALLED,
        says="no run has ended well for {seconds:minute}; none has run yet",
        repair="cdk deploy {stack}",
        example={"seconds": 480},
    ),
    TroubleKind.RUNS_SILENT: TroubleCard(
        **_STALLED,
        says="no run has ended well for {seconds:minute}; none has left a record since: its"
        " schedule is off, Lambda throttles it, or it may not write to the letters table",
        repair="cdk deploy {stack}",
        example={"seconds": 480},
    ),
    TroubleKind.RUNS_FAIL: TroubleCard(
        **_STALLED,
        says="no run has ended well for {seconds:minute}; the last one ended {ago:minute} ago:"
        " {why}",
        repair=TypedLine.REDRIVE,
        example={"seconds": 480, "ago": 60, "why": "AccessDenied for sqs:ReceiveMessage"},
    ),
    TroubleKind.ROOM_LATE: TroubleCard(
        **_STALLED,
        says="a message of the waiting room has been due for {seconds:minute}",
        repair=TypedLine.REDRIVE,
        example={"seconds": 1200},
    ),
    TroubleKind.DEEP: TroubleCard(
        **_DEPTH,
        says="{messages:message} are in the DLQ, more than {most:,}",
        repair=TypedLine.GROUPS,
        example={"messages": 140, "most": 100},
        hides=(TroubleKind.NOT_EMPTIER, TroubleKind.EMPTY_LATE),
    ),
    TroubleKind.NOT_EMPTIER: TroubleCard(
        **_DEPTH,
        says="the DLQ has not become emptier in {looks} looks ({messages:message})",
        repair=TypedLine.GROUPS,
        example={"looks": 10, "messages": 90},
    ),
    TroubleKind.EMPTY_LATE: TroubleCard(
        **_DEPTH,
        says="the DLQ will not be empty within 2 hours but in {seconds:hours} at the rate of"
        " {looks} looks ({messages:message})",
        repair=TypedLine.GROUPS,
        example={"looks": 10, "messages": 90, "seconds": 15_000},
    ),
    TroubleKind.CIRCUIT_MALFORMED: TroubleCard(
        **_CIRCUIT,
        says="the record of circuit {key} is malformed, and its messages are held",
        repair=TypedLine.AUTO,
        until="the record can be read",
        example={"key": "orders"},
    ),
    TroubleKind.CONFIGURATION: TroubleCard(
        **_CIRCUIT,
        says="circuit {key} waits until its configuration is repaired",
        repair=TypedLine.CIRCUIT,
        until="a canary succeeds, within a minute of the repair",
        example={"key": "orders#config"},
        hides=(TroubleKind.CIRCUIT_OPEN,),
    ),
    TroubleKind.CAUSE_DOMINATES: TroubleCard(
        **_CIRCUIT,
        says="a cause of failure suddenly fails most messages: none is parked for it",
        repair=TypedLine.CAUSES,
        until="the cause fails no messages any more, or a person accepts it",
    ),
    TroubleKind.CIRCUIT_OPEN: TroubleCard(
        **_CIRCUIT,
        says="circuit {key} has not been closed for {seconds:minute}",
        repair=TypedLine.CLOSE,
        until="two canaries succeed",
        example={"key": "orders", "seconds": 1800},
        hides=(TroubleKind.CIRCUIT_FLAPS,),
    ),
    TroubleKind.CIRCUIT_HELD: TroubleCard(
        **_CIRCUIT,
        says="circuit {key} has been held without an end for {seconds:minute}",
        repair=TypedLine.AUTO,
        until="the hold ends",
        example={"key": "orders", "seconds": 86_400},
        hides=(TroubleKind.CIRCUIT_OPEN,),
    ),
    TroubleKind.CIRCUIT_FLAPS: TroubleCard(
        **_CIRCUIT,
        says="circuit {key} has opened {times} times within {within:minute}",
        repair=TypedLine.CIRCUIT,
        until="the first of its outages is as old as the time in which they count",
        example={"key": "orders", "times": 3, "within": 3600},
    ),
    TroubleKind.MANY_CIRCUITS: TroubleCard(
        **_CIRCUIT,
        says="{most} or more circuits of single keys have not been closed for {seconds:minute}",
        repair=TypedLine.CIRCUITS,
        until="fewer are open",
        example={"most": 10, "seconds": 300},
    ),
    TroubleKind.UNATTENDED: TroubleCard(
        page=Alarm.PARKED_UNATTENDED,
        says="{messages:message} in {source} wait for a person, and none has left for"
        " {seconds:days}",
        repair=TypedLine.PARKED,
        until="a message leaves",
        example={"messages": 5, "source": "parking:default", "seconds": 7 * DAY},
        about="source",
    ),
    TroubleKind.RULE_INVALID: TroubleCard(
        **_RULES,
        says="invalid, and matching nothing: {rules}",
        repair=TypedLine.UNDO,
        until="the rule is valid or gone",
        example={"rules": "stop-acme", "rule": "stop-acme"},
    ),
    TroubleKind.RULE_SPENT: TroubleCard(
        **_RULES,
        says="stopped after max_matches messages: {rules}",
        repair=TypedLine.DISABLE,
        until="the rule is raised, disabled or gone",
        example={"rules": "stop-acme", "rule": "stop-acme"},
    ),
    TroubleKind.EDITS_LATE: TroubleCard(
        page=Alarm.SHARED_TROUBLE,
        says="edits of rules may take 10 minutes: {why}",
        repair="cdk deploy {shared}",
        until="the rule checker sees edits",
        example={"why": "no event source mapping feeds deadletter-check-rules"},
    ),
    TroubleKind.EDITS_UNCHECKED: TroubleCard(
        page=Alarm.SHARED_TROUBLE,
        says="{edits:edit} of rules were not checked",
        repair="aws logs tail /aws/lambda/{app}-check-rules --since 1d",
        until="the queue of the checker's failures is empty",
        example={"edits": 2},
    ),
    TroubleKind.CHECKER_UNREAD: TroubleCard(
        page=Alarm.SHARED_TROUBLE,
        says="whether the rule checker works cannot be read: {why}",
        repair="cdk deploy {shared}",
        until="it can be read",
        example={"why": "TooManyRequestsException for lambda:ListEventSourceMappings"},
    ),
    TroubleKind.CONSUMER_DISABLED: TroubleCard(
        page=None,
        says="the consumer's mapping is disabled, not by us, and {messages:message} wait in the"
        " main queue",
        repair=TypedLine.ENABLE,
        until="the mapping is enabled",
        example={"uuid": "1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f", "messages": 5},
    ),
    TroubleKind.RUN_BROKEN: TroubleCard(
        **_REPLAY,
        says="run {run} is BROKEN",
        repair=TypedLine.RERUN,
        until="the run is no longer BROKEN, or forgotten",
        example={"run": "r1"},
    ),
    TroubleKind.RUN_LOST: TroubleCard(
        **_REPLAY,
        says="run {run} has lost {times} executions within {within:minute}",
        repair=TypedLine.RESUME,
        until="a quarter of an hour passes without a loss",
        example={"run": "r1", "times": 2, "within": 900},
    ),
}


def stack_of(app: str, part: str) -> str:
    """The name of a stack of the app: of a pipeline, or `shared`."""
    return "-".join(name.title().replace("-", "") for name in (app, part))


class _Words(Formatter):
    """Numbers as people read them: `{seconds:minute}`, `{seconds:days}`, `{messages:message}`."""

    def format_field(self, value: Any, format_spec: str) -> str:
        match format_spec:
            case "minute":
                return _counted(int(value // MINUTE), "minute")
            case "hours":
                return f"{value / HOUR:.1f}"
            case "days":
                return f"{value / DAY:.1f} days".replace(".0 ", " ")
            case noun if noun.isalpha():
                return _counted(int(value), noun)
        return str(format(value, format_spec))


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


_WORDS = _Words()


def since_before(seen: Iterable[Seen], before: Iterable[Seen], now: float) -> Iterator[Seen]:
    """What was seen now, since the look that saw it first."""
    known = tuple(before)
    for each in seen:
        since = next((old.since for old in known if each.is_same(old)), now)
        yield replace(each, since=since)


def shown(seen: Iterable[Seen]) -> list[Seen]:
    """Troubles without those that another one explains; the most specific of a page first."""
    all_of_them = list(seen)
    hidden = {kind for each in all_of_them for kind in TROUBLES[each.kind].hides}
    order = list(TROUBLES)
    kept = [each for each in all_of_them if each.kind not in hidden]
    return sorted(kept, key=lambda each: order.index(each.kind))


def why(seen: Iterable[Seen]) -> str:
    """All that was seen, in one sentence; empty if it was nothing."""
    return "; ".join(each.says() for each in seen)
