"""What may be wrong: the words of each trouble, and the command that ends it.

The watch, runs and `dlq` say which trouble they have seen and its facts; the words stand here
alone. A trouble of a page stands on the page's card, and one that explains others hides them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from string import Formatter
from typing import Any

from deadletter.contract import DAY, HOUR, MINUTE
from deadletter.signals.commands import TypedLine, known_parts, typed
from deadletter.signals.pages import Alarm

Fact = str | float


class TroubleKind(StrEnum):
    """The name of a trouble, as `--json` and the runbook have it; the most urgent first."""

    # SQS is about to delete messages
    EXPIRES = "expires"
    EXPIRES_UNMOVED = "expires-unmoved"
    EXPIRES_UNREAD = "expires-unread"

    # Nothing moves
    NOT_LET_RUN = "not-let-run"
    NOT_STARTED = "not-started"
    TABLE_THROTTLED = "table-throttled"
    FUNCTION_FAILS = "function-fails"
    NOT_RECORDED = "not-recorded"
    ROUTER_DOWN = "router-down"
    LEASE_UNREAD = "lease-unread"
    STEP_FAILED = "step-failed"
    NO_RUN_YET = "no-run-yet"
    RUNS_SILENT = "runs-silent"
    RUNS_FAIL = "runs-fail"
    ROOM_LATE = "room-late"
    WATCH_SILENT = "monitor-silent"
    WATCH_NEVER_RAN = "monitor-never-ran"
    RUN_FAILED = "run-failed"

    # The DLQ
    DEEP = "deep"
    NOT_EMPTIER = "not-emptier"
    EMPTY_LATE = "empty-late"

    # Circuits
    CIRCUIT_MALFORMED = "circuit-malformed"
    CONFIGURATION = "configuration"
    CAUSE_DOMINATES = "cause-dominates"
    CIRCUIT_HELD = "circuit-held"
    CIRCUIT_OPEN = "circuit-open"
    CIRCUIT_FLAPS = "circuit-flaps"
    MANY_CIRCUITS = "many-circuits"
    CIRCUIT_WAITS = "circuit-waits"
    CIRCUIT_TRIES = "circuit-tries"

    # Rules, and what all pipelines share
    RULE_INVALID = "rule-invalid"
    RULE_SPENT = "rule-spent"
    EDITS_LATE = "edits-late"
    EDITS_UNCHECKED = "edits-unchecked"
    CHECKER_UNREAD = "checker-unread"
    SHARED_THROTTLED = "shared-throttled"

    # The consumer
    CONSUMER_DISABLED = "consumer-disabled"

    # Messages that could not be moved, and rows that could not be read
    UNMOVED = "unmoved"
    RENAMED = "renamed"
    BAD_CIRCUIT = "bad-circuit"
    BAD_LEASE = "bad-lease"
    BAD_ROW = "bad-row"
    COUNTED = "counted"

    # Replay runs
    RUN_BROKEN = "run-broken"
    RUN_LOST = "run-lost"
    RUN_HELD = "run-held"
    RUN_WAITS = "run-waits"
    RUN_STOPPED = "run-stopped"

    # What needs no haste
    FOREIGN_ROWS = "foreign-rows"
    MANY_COLLIDE = "many-collide"
    UNREAD = "unread"
    UNATTENDED = "unattended"
    LOOKED_AT = "looked-at"
    OBSERVED = "observed"

    # Why no message goes back, beside circuits
    OBSERVES = "observes"
    NOTHING_MOVES = "nothing-moves"


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
        return worded(TROUBLES[self.kind].says, self.facts)

    def repair(self, **known: Fact) -> str | None:
        """What ends it, as it is typed; `known` are facts beside its own, such as its pipeline."""
        card = TROUBLES[self.kind]
        why = str(self.facts.get("why"))
        line = card.repair
        if card.throttled and is_throttled(why):
            line = card.throttled
        elif card.denied and any(name in why for name in _DENIED):
            line = card.denied
        return None if line is None else typed(line, {**known, **self.facts})

    def is_same(self, other: Seen) -> bool:
        """Whether another look has seen the same trouble, with more or fewer facts."""
        about = TROUBLES[self.kind].about
        differ = {each.facts[about] for each in (self, other) if about in each.facts}
        return self.kind is other.kind and len(differ) <= 1


_THROTTLED = ("Throttl", "ThroughputExceeded", "RequestLimitExceeded", "TooManyRequests")
"""What AWS calls a refusal that ends by itself."""


def is_throttled(why: str) -> bool:
    """Whether AWS refused because it was asked too often."""
    return any(name in why for name in _THROTTLED)


_DENIED = ("AccessDenied", "NotAuthorized", "UnauthorizedOperation")
"""What AWS calls a permission that is missing."""


@dataclass(frozen=True, slots=True)
class TroubleCard:
    """The words of a trouble.

    says        what is wrong, with facts in braces; in brackets, what is said if it is known
    repair      what to type; None if nothing helps
    page        the alarm that it rings; None if it rings none
    about       the fact that tells two troubles of this kind apart
    hides       what it explains: kinds that are not shown beside it
    throttled   what to type instead if AWS only throttles
    denied      what to type instead if a permission is missing
    by_itself   whether automation or a person has it in hand already
    """

    says: str
    repair: str | None = None
    page: Alarm | None = None
    about: str = ""
    hides: tuple[TroubleKind, ...] = ()
    throttled: str | None = None
    denied: str | None = None
    by_itself: bool = False


_expires = partial(
    TroubleCard,
    repair=TypedLine.RETAIN,
    page=Alarm.MESSAGE_EXPIRY,
    about="queue",
)
_stalled = partial(TroubleCard, page=Alarm.REDRIVE_STALLED, throttled=TypedLine.REDRIVE)
_LOST = "{function} has left no record for {ago}: "
# What a run could not move, the next one moves: it says nothing where none begins.
_silent = partial(_stalled, about="function", hides=(TroubleKind.UNMOVED,))
_RUNS = (
    *(TroubleKind.NO_RUN_YET, TroubleKind.RUNS_SILENT),
    *(TroubleKind.RUNS_FAIL, TroubleKind.ROOM_LATE, TroubleKind.RUN_FAILED),
)
_UNSEEN = "no age, no expiry and no stalled run is seen meanwhile"
_deep = partial(
    TroubleCard,
    repair=TypedLine.GROUPS,
    page=Alarm.DLQ_DEPTH,
)
_circuit = partial(TroubleCard, page=Alarm.CIRCUIT_TROUBLE, about="key")
_rule = partial(TroubleCard, page=Alarm.RULE_TROUBLE)
_shared = partial(TroubleCard, page=Alarm.SHARED_TROUBLE, throttled=TypedLine.STATUS)
_run = partial(TroubleCard, about="run")
_bad_row = partial(
    TroubleCard,
    "a row cannot be read[, {ago} ago]: {row}; it keeps nothing but its own",
    about="row",
)

TROUBLES: Mapping[TroubleKind, TroubleCard] = {
    TroubleKind.EXPIRES: _expires(
        "SQS deletes the oldest message in {queue} in {left}: it should have been saved, and"
        " the log of its function redrive says why it has not"
    ),
    TroubleKind.EXPIRES_UNMOVED: _expires(
        "SQS deletes the oldest message in {queue} in {left}: observe moves nothing"
    ),
    TroubleKind.EXPIRES_UNREAD: _expires(
        "SQS deletes the oldest message in {queue} in {left}: its consumer is paused or too slow,"
        " and nothing else moves it"
    ),
    TroubleKind.NOT_LET_RUN: _silent(
        _LOST + "Lambda throttles it ({times:time}); its reserved concurrency is 0 or too low, or"
        " the account's is used up",
        TypedLine.LET_RUN,
    ),
    TroubleKind.NOT_STARTED: _silent(
        _LOST + "it is not started; its schedule {schedule} is disabled or deleted, or may not"
        " start it",
        TypedLine.DEPLOY,
    ),
    TroubleKind.TABLE_THROTTLED: _silent(
        _LOST + "it runs, and DynamoDB throttles {table} (ThrottlingException, {times:request})",
        TypedLine.REDRIVE,
    ),
    TroubleKind.FUNCTION_FAILS: _silent(
        _LOST + "it fails ({times} of {starts:start}); its log says why", TypedLine.LOG
    ),
    TroubleKind.NOT_RECORDED: _silent(
        _LOST + "it runs without an error, and its record is not in {table}; its log says why",
        TypedLine.LOG,
    ),
    TroubleKind.ROUTER_DOWN: _stalled(
        "router: {why}", TypedLine.LET_ROUTER_RUN, hides=_RUNS, throttled=TypedLine.LET_ROUTER_RUN
    ),
    TroubleKind.LEASE_UNREAD: _stalled("lease: {why}", TypedLine.DEPLOY, hides=_RUNS),
    TroubleKind.STEP_FAILED: _stalled("{step}: {why}", TypedLine.DEPLOY, about="step", hides=_RUNS),
    TroubleKind.NO_RUN_YET: _stalled(
        "no run has ended well for {seconds:minute}; none has run yet",
        TypedLine.DEPLOY,
        hides=(TroubleKind.RUN_FAILED,),
    ),
    TroubleKind.RUNS_SILENT: _stalled(
        "no run has ended well for {seconds:minute}; none has left a record since: its schedule is"
        " off, Lambda throttles it, or it may not write to the messages table",
        TypedLine.DEPLOY,
    ),
    TroubleKind.RUNS_FAIL: _stalled(
        "no run has ended well for {seconds:minute}; the last one ended {ago:minute} ago: {why}",
        TypedLine.REDRIVE,
        hides=(TroubleKind.RUN_FAILED,),
        denied=TypedLine.DEPLOY,
    ),
    TroubleKind.ROOM_LATE: _stalled(
        "a message that waits has been due for {seconds:minute}", TypedLine.REDRIVE
    ),
    TroubleKind.WATCH_SILENT: _stalled(
        f"the monitor has left no record for {{ago}}: {_UNSEEN}", TypedLine.DEPLOY
    ),
    TroubleKind.WATCH_NEVER_RAN: _stalled(
        f"the monitor has never run: {_UNSEEN}; deploy again if it is not deployed",
        TypedLine.DEPLOY,
    ),
    TroubleKind.RUN_FAILED: _stalled(
        "the last run of {queue} did not end well: {why}[, {ago} ago]",
        TypedLine.REDRIVE,
        about="queue",
        denied=TypedLine.DEPLOY,
    ),
    TroubleKind.DEEP: _deep(
        "{messages:message} are in the DLQ, more than {most:,}",
        hides=(TroubleKind.NOT_EMPTIER, TroubleKind.EMPTY_LATE),
    ),
    TroubleKind.NOT_EMPTIER: _deep(
        "the DLQ has not become emptier in {looks} looks ({messages:message})"
    ),
    TroubleKind.EMPTY_LATE: _deep(
        "the DLQ will not be empty within 2 hours but in {seconds:hours} at the rate of"
        " {looks} looks ({messages:message})"
    ),
    TroubleKind.CIRCUIT_MALFORMED: _circuit(
        "the record of circuit {key} is malformed, and its messages are held", TypedLine.LET_GO
    ),
    TroubleKind.CONFIGURATION: _circuit(
        "circuit {key} waits until its configuration is repaired"
        "[ (a key, a permission, an endpoint): {why}]",
        TypedLine.CIRCUIT,
        hides=(TroubleKind.CIRCUIT_OPEN,),
    ),
    TroubleKind.CAUSE_DOMINATES: _circuit(
        "a cause of failure[, {cause}][ ({error}),] suddenly fails most messages[ since {began}]:"
        " none is parked for it",
        TypedLine.GROUPS,
        about="cause",
    ),
    TroubleKind.CIRCUIT_HELD: _circuit(
        "circuit {key} is held[ {state} by {by}][ since {began}][ until {until}]"
        "[ (for {seconds:minute} now, without an end)][: {why}]",
        TypedLine.LET_GO,
        hides=(TroubleKind.CIRCUIT_OPEN,),
        by_itself=True,
    ),
    TroubleKind.CIRCUIT_OPEN: _circuit(
        "circuit {key} has not been closed for {seconds:minute}",
        TypedLine.CLOSE,
        hides=(TroubleKind.CIRCUIT_FLAPS, TroubleKind.CIRCUIT_WAITS, TroubleKind.CIRCUIT_TRIES),
    ),
    TroubleKind.CIRCUIT_FLAPS: _circuit(
        "circuit {key} has opened {times} times within {within:minute}", TypedLine.CIRCUIT
    ),
    TroubleKind.MANY_CIRCUITS: _circuit(
        "{most} or more circuits of single keys have not been closed for {seconds:minute}",
        TypedLine.CIRCUITS,
    ),
    TroubleKind.CIRCUIT_WAITS: _circuit(
        "no message goes back until circuit {key} closes[; its next canary is due {due}]",
        TypedLine.CIRCUIT,
        by_itself=True,
    ),
    TroubleKind.CIRCUIT_TRIES: _circuit(
        "messages are tried one at a time; circuit {key} closes when its dependency works",
        TypedLine.CIRCUIT,
        by_itself=True,
    ),
    TroubleKind.RULE_INVALID: _rule("invalid, and matching nothing: {rules}", TypedLine.UNDO),
    TroubleKind.RULE_SPENT: _rule("stopped after max_matches messages: {rules}", TypedLine.DISABLE),
    TroubleKind.EDITS_LATE: _shared(
        "edits of rules may take 10 minutes: {why}", TypedLine.DEPLOY_SHARED
    ),
    TroubleKind.EDITS_UNCHECKED: _shared(
        "{edits:edit} of rules were not checked", TypedLine.CHECKER_LOG
    ),
    TroubleKind.CHECKER_UNREAD: _shared(
        "whether the rule checker works cannot be read: {why}", TypedLine.DEPLOY_SHARED
    ),
    TroubleKind.SHARED_THROTTLED: _shared(
        "a table of all pipelines is throttled: {why}", TypedLine.STATUS
    ),
    TroubleKind.CONSUMER_DISABLED: _stalled(
        "the consumer's mapping is disabled, not by us, and {messages:message} wait in the"
        " main queue",
        TypedLine.ENABLE,
    ),
    TroubleKind.UNMOVED: TroubleCard(
        "the last busy run could not move {messages:message}", TypedLine.DRY_RUN
    ),
    TroubleKind.RENAMED: TroubleCard(
        "the last busy run sent on {messages:message} whose own attribute {ours} is now {kept}:"
        " the name is reserved, so its producer needs another",
        TypedLine.LIST,
    ),
    TroubleKind.BAD_CIRCUIT: _bad_row(repair=TypedLine.LET_GO),
    TroubleKind.BAD_LEASE: _bad_row(repair=TypedLine.REDRIVE),
    TroubleKind.BAD_ROW: _bad_row(repair=TypedLine.ROW),
    TroubleKind.COUNTED: TroubleCard(
        "a run of {queue} counted {count} {ago} ago[: {means}]", TypedLine.GROUPS, about="count"
    ),
    TroubleKind.RUN_BROKEN: _run(
        "run {run} is BROKEN[: {why}]", TypedLine.RUN, page=Alarm.REPLAY_BROKEN
    ),
    TroubleKind.RUN_LOST: _run(
        "run {run} has lost {times} executions within {within:minute}",
        TypedLine.RESUME,
        page=Alarm.REPLAY_BROKEN,
    ),
    TroubleKind.RUN_HELD: _run("run {run} is HELD[: {why}]", TypedLine.RESUME),
    TroubleKind.RUN_WAITS: _run("run {run} waits for approval", TypedLine.RUN),
    TroubleKind.RUN_STOPPED: _run(
        "run {run} has no execution; the monitor starts the next one", TypedLine.RUN
    ),
    TroubleKind.FOREIGN_ROWS: TroubleCard(
        "{rows:row} in what waits or its causes that do not belong there, and are ignored:"
        " {keys}[ and {more} more]; a key begins with the pipeline whose role wrote it: see"
        " ForeignRow in docs/security.md"
    ),
    TroubleKind.MANY_COLLIDE: TroubleCard(
        "{collided:,} of {messages:message} of ten minutes have the idempotency key of a processed"
        " message[ and differ from it in {paths}]: they are processed and not parked; say in"
        " idempotency_payload what is to be compared",
        TypedLine.COLLISIONS,
    ),
    TroubleKind.UNREAD: TroubleCard("{what} could not be read: {why}", about="what"),
    TroubleKind.UNATTENDED: TroubleCard(
        "a person has to look at[ {least}] {messages:message} in {source}"
        "[: none has left for {seconds:days}]",
        TypedLine.RELEASE,
        page=Alarm.PARKED_UNATTENDED,
        about="source",
    ),
    TroubleKind.LOOKED_AT: TroubleCard(
        "{runs} received {messages:message} of {queue}; SQS leaves messages received three times"
        " out of its age metric; the alarm MessageAge goes on telling the truth",
        by_itself=True,
    ),
    TroubleKind.OBSERVED: TroubleCard(
        "mode observe moves nothing; of[ {least}] {messages:message}[ since {began}] it would have"
        " {would}",
        TypedLine.SHOW,
        by_itself=True,
    ),
    TroubleKind.OBSERVES: TroubleCard(
        "observe moves nothing: messages stay in the DLQ until the mode is enforce", by_itself=True
    ),
    TroubleKind.NOTHING_MOVES: TroubleCard(
        "no message goes back until runs can do their work again"
    ),
}


def known_names(app: str, pipeline: str) -> Mapping[str, Fact]:
    """What commands name beside the facts of a trouble."""
    stacks = {"stack": stack_of(app, pipeline), "shared": stack_of(app, "shared")}
    return {"app": app, "pipeline": pipeline, **stacks}


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


def worded(text: str, facts: Mapping[str, Fact]) -> str:
    """The sentence with these facts; numbers have their nouns: `{messages:message}`."""
    return _WORDS.vformat(known_parts(text, facts), (), facts)


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
