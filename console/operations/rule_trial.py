"""A rule tried on messages by the router itself, without effect."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import EVERY_PIPELINE, MAIN_DLQ
from deadletter.message.letter import Letter, NotALetter, from_api, from_event
from deadletter.message.strict_json import Unreadable, read_json
from deadletter.rules.rule import Action, Rule, RuleMode, RuleRefused, read_rule

from . import deployed, rule_table
from .adapter_errors import aws_errors
from .answer import Answer
from .app import App, DeployedPipeline
from .matching import FoundMessage, Matcher
from .places import UnsearchedPlace, Walk
from .problem import Cause, Problem
from .rule_file import RuleFiles, checked
from .rule_on_ledger import RuleMatches, matches_on_record
from .rules import columns_of
from .selection import Choice, ChosenPlace, Pipeline, PlaceKind, RuleTerms
from .session import Session
from .verbs import Asked, TextFile, Verb

if TYPE_CHECKING:
    from deadletter.circuit.state import Circuit
    from deadletter.failure.ledger import Ledger, LedgerRow

SAMPLE = 100
"""Messages of each place that a rule is tried on."""

PASTED = "pasted"
"""The place, and the id, of a message that was never sent."""

_PLACES = tuple(
    map(ChosenPlace, (PlaceKind.DLQ, PlaceKind.DEDICATED, PlaceKind.WAITING, PlaceKind.PARKED))
)

# Columns that decide whether a rule is tried at all. Here it always is.
_WHEN = ("enabled", "mode", "expires_at", "max_matches")

# The id of a rule that is in no table.
_UNNAMED = "this rule"


@dataclass(frozen=True, kw_only=True)
class TrialRequest:
    """Which rule to try, and on what."""

    rule: Annotated[
        str | None, Asked("A rule that is in the table; else -f.", metavar="RULE_ID")
    ] = None
    pipeline: Pipeline = None
    terms: RuleTerms = ()
    look: Annotated[
        bool,
        Asked("Try it on up to 100 messages of each DLQ and parking queue, and of those that wait;"
              " SQS counts a receive.", ("--look",)),
    ] = False  # fmt: skip
    body: Annotated[
        str | None,
        Asked("Try it on a body, or on what `aws sqs receive-message` printed; - is stdin.",
              ("--body",), "FILE", reads=True),
    ] = None  # fmt: skip
    files: Annotated[
        tuple[TextFile, ...],
        Asked("Check a file of rules, and a cdk.json that names the pipelines, without AWS;"
              " repeatable.", ("--file",), "FILE", reads=True),
    ] = ()  # fmt: skip


@dataclass(frozen=True, slots=True)
class MissedPatternField:
    """A field of the pattern that messages did not match."""

    path: Annotated[str, "where it stands in the pattern"]
    expected: Annotated[str, "what the pattern accepts there, in words"]
    found: Annotated[str, "the kind of the messages' values there, never the values"]
    messages: Annotated[int, "how many of the messages that it does not match"]


@dataclass(frozen=True, slots=True)
class TriedPlace:
    """Messages of one place that a rule was tried on."""

    place: Annotated[str, f"the place, as --in takes it; `{PASTED}` for those of --body"]
    messages: Annotated[int, "messages that it was tried on"]
    matched: Annotated[int, "of them, those it would match"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTrial(Answer):
    """What a rule matches."""

    at: Annotated[datetime, "when it was tried"]
    pipeline: Annotated[str, "the pipeline whose settings it was tried with"]
    rule_id: Annotated[str | None, "the rule; null if it is in no table"]
    pattern: Annotated[Mapping[str, Any], "its event pattern, shorthand included"]
    on_record: Annotated[
        RuleMatches | None, "what it matches by the failure records; null with --body"
    ] = None
    tried: Annotated[Sequence[TriedPlace], "with --look or --body: where it was tried"] = ()
    matching: Annotated[
        Sequence[str], "IDs of the messages it would match: current ones of those it was tried on"
    ] = ()
    missed: Annotated[
        Sequence[MissedPatternField], "what the others lack, the most frequent first"
    ] = ()
    takes_seconds: Annotated[
        float | None, "how long a THROTTLE takes to let the matching go; null for other rules"
    ] = None
    expire: Annotated[int | None, "of the matching, those that are too old before their turn"] = (
        None
    )
    not_searched: Annotated[Sequence[UnsearchedPlace], "places of --look that were not seen"] = ()
    notes: Annotated[Sequence[str], "what is to be known of the look"] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """What `dlq rules test` answers."""

    trial: Annotated[RuleTrial | None, "what a rule matches; null with --file"] = None
    files: Annotated[RuleFiles | None, "what is wrong with files of rules; else null"] = None


@dataclass(slots=True)
class Sample:
    """Messages to try a rule on, by the place where they were found."""

    found: dict[str, list[Letter]] = field(default_factory=dict)
    not_searched: Sequence[UnsearchedPlace] = ()
    notes: Sequence[str] = ()


def read(session: Session, request: TrialRequest) -> Tested:
    """What a rule matches, or what is wrong with files of rules."""
    if request.files:
        if request.rule or request.terms or request.look or request.body is not None:
            raise Problem("--file checks files alone: leave out the rest.", Cause.INPUT)
        return Tested(files=checked(request.files))
    if (request.rule is None) == (not request.terms):
        raise Problem("Name a rule, or say what it is about: -f KEY=VALUE.", Cause.INPUT)
    if request.look and request.body is not None:
        raise Problem("--body and --look exclude each other.", Cause.INPUT)
    app = session.app()
    chosen = app.pipeline(request.pipeline)
    columns = _columns(session, app, chosen, request)
    rule = _valid(columns, chosen)
    trial = RuleTrial(
        **session.place,
        at=session.now,
        pipeline=chosen.name,
        rule_id=request.rule,
        pattern=rule.pattern,
    )
    if request.body is None:
        on_record, matching = matches_on_record(session, app, chosen, rule.pattern)
        trial = replace(trial, on_record=on_record, matching=matching)
        if not request.look:
            return Tested(trial=trial)
        sample = _looked_at(session, app, chosen)
    else:
        sample = Sample({PASTED: pasted(request.body, session.clock())})
    return Tested(trial=_tried(session, app, chosen, columns, sample, rule, trial))


def _columns(
    session: Session, app: App, chosen: DeployedPipeline, request: TrialRequest
) -> Mapping[str, Any]:
    """The columns of the rule: those of the table, or of the terms that were typed."""
    if request.rule is None:
        about = columns_of(request.terms, session.now)
        return {"rule_id": _UNNAMED, "action": Action.DEFAULT, **about}
    keys = (chosen.name, EVERY_PIPELINE)
    stored = rule_table.table(session.aws, app.rules_table).of_id(request.rule, keys)
    for key in keys:
        for row in stored:
            if row.pipeline == key:
                return row.columns
    raise Problem(
        f"There is no rule {request.rule!r} for {chosen.name}: see dlq rules list.", Cause.ABSENT
    )


def _valid(columns: Mapping[str, Any], chosen: DeployedPipeline) -> Rule:
    try:
        return read_rule(columns, deployed.terms(chosen))
    except RuleRefused as error:
        raise Problem(f"INVALID in {chosen.name}: {error}.", Cause.FAILED) from error


def _looked_at(session: Session, app: App, chosen: DeployedPipeline) -> Sample:
    """Messages of the DLQs, the waiting and the parked. Nothing is moved, and all is given back."""
    sample = Sample()

    def see(found: FoundMessage, _: Matcher) -> None:
        # A record alone is no message to try a rule on.
        if found.letter is not None:
            sample.found.setdefault(found.place, []).append(found.letter)

    walk = Walk(session, Choice(places=_PLACES), see, look=True, few=SAMPLE, read_letters=True)
    walk.pipeline(app, chosen)
    sample.not_searched, sample.notes = tuple(walk.unsearched), tuple(walk.notes)
    return sample


def _tried(
    session: Session,
    app: App,
    chosen: DeployedPipeline,
    columns: Mapping[str, Any],
    sample: Sample,
    rule: Rule,
    trial: RuleTrial,
) -> RuleTrial:
    """The trial with the outcome on the messages of a sample."""
    from deadletter.message import stamp as stamps
    from deadletter.routing.router import Question

    judge = deployed.judge(session.aws, chosen)
    router = _router(session, app, chosen, columns, judge)
    questions = {
        place: [Question(letter, home=_home(place)) for letter in letters]
        for place, letters in sample.found.items()
    }
    matching: list[Letter] = []
    missed: Counter[tuple[str, str, str]] = Counter()
    places = []
    with aws_errors():
        # This reads the failure records of all messages at once; after that they are cached.
        router.decide([each for asked in questions.values() for each in asked])
        for place, asked in questions.items():
            # A shadow rule counts exactly what it would have acted on.
            hits = [bool(router.decide([each]).shadow_matches) for each in asked]
            places.append(TriedPlace(place, len(asked), sum(hits)))
            for each, is_hit in zip(asked, hits, strict=True):
                if is_hit:
                    matching.append(each.letter)
                    continue
                _, trials = router.explain(each)
                fields = [one for tried in trials for one in tried.missed]
                missed.update({(one.path, one.expected, one.found) for one in fields})
    trial = replace(
        trial,
        tried=tuple(places),
        matching=tuple(letter.message_id for letter in matching),
        missed=tuple(MissedPatternField(*one, number) for one, number in missed.most_common()),
        not_searched=sample.not_searched,
        notes=sample.notes,
    )
    if rule.rate is None:
        return trial
    # The oldest goes first.
    trusted = judge.trusted_senders
    sent = sorted(stamps.read(letter, trusted).stamp.first_sent / 1000 for letter in matching)
    now, lives = session.clock(), judge.settings.message_ttl
    late = sum(bool(at) and at + lives <= now + (n + 1) / rule.rate for n, at in enumerate(sent))
    return replace(trial, takes_seconds=len(sent) / rule.rate, expire=late)


def _home(place: str) -> str:
    """The DLQ that messages of a place count as being in: a trial asks what a rule matches."""
    kind, _, name = place.partition(":")
    return name if kind == PlaceKind.DEDICATED else MAIN_DLQ


def _router(
    session: Session,
    app: App,
    chosen: DeployedPipeline,
    columns: Mapping[str, Any],
    judge: deployed.Judge,
) -> Any:
    """A router with no other rule than this one."""
    from random import SystemRandom

    from deadletter.aws.ledger import DynamoDBLedger
    from deadletter.routing.direct_router import DirectRouter

    client, table = session.aws.dynamodb, app.letters_table
    ledger = DynamoDBLedger(client, table, chosen.name, session.clock, keep_seconds=0)
    return DirectRouter(
        pipeline=judge.settings,
        rules=SingleRule(columns),
        ledger=CachedLedger(ledger),
        circuits=NoCircuits(),
        trusted_senders=judge.trusted_senders,
        clock=session.clock,
        random=SystemRandom(),
    )


class SingleRule:
    """A rules table with a single rule, as a shadow that is always tried."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        always = {name: value for name, value in columns.items() if name not in _WHEN}
        self._items = [{**always, "mode": RuleMode.SHADOW}]

    def items(self, pipeline: str) -> Sequence[Mapping[str, Any]]:
        return self._items


class CachedLedger:
    """A ledger that reads each row once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._rows: dict[str, LedgerRow] = {}
        self._asked: set[str] = set()

    def rows(self, origins: Sequence[str]) -> Mapping[str, LedgerRow]:
        new = [origin for origin in origins if origin not in self._asked]
        if new:
            self._rows.update(self._ledger.rows(new))
            self._asked.update(new)
        return {origin: self._rows[origin] for origin in origins if origin in self._rows}

    def matches(self, rules: Sequence[str]) -> Mapping[str, int]:
        return {}


class NoCircuits:
    """No circuits: they do not decide what a rule matches."""

    def read(self, keys: Sequence[str]) -> Mapping[str, Circuit]:
        return {}


# Pasted messages.


def pasted(text: str, now: float) -> list[Letter]:
    """The messages in a text: a body, or the output of `aws sqs receive-message`."""
    unsent = Letter(PASTED, text.rstrip("\r\n"), {}, {"SentTimestamp": str(int(now * 1000))})
    return _messages(text) or [unsent]


def _messages(text: str) -> list[Letter]:
    """The messages in the output of `aws sqs receive-message` or a Lambda event; else none."""
    try:
        data = read_json(text)
        match data:
            case {"Messages": [*messages]}:
                return [from_api(_decoded(message)) for message in messages]
            case {"Records": [*records]}:
                return [from_event(record) for record in records]
            case {"MessageId": str(), "Body": str()}:
                return [from_api(_decoded(data))]
    except (Unreadable, NotALetter, ValueError, TypeError, AttributeError):
        pass
    return []


def _decoded(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with bytes in place of the base64 of the AWS CLI."""
    attributes = {
        name: {**attribute, "BinaryValue": base64.b64decode(attribute["BinaryValue"])}
        if "BinaryValue" in attribute
        else attribute
        for name, attribute in message.get("MessageAttributes", {}).items()
    }
    return {**message, "MessageAttributes": attributes}


TEST = Verb(
    name="test",
    says="""What a rule would match, without effect; or check files of rules.

    Name a rule of the table, or give its conditions. It is tried without other rules, also if it is
    disabled or expired, by the failure records: nothing is received. With --look it is tried on
    messages too, which are given back at once, and --body tries it on one of yours. It names what
    the others lack; of bodies no value is shown, only its kind.

    With --file it asks nothing of AWS. Without a cdk.json beside them, each unknown column counts
    as the name of a field, and is listed as unchecked. The exit status is 1 if there is a mistake.
    """,
    request=TrialRequest,
    examples=(
        "dlq rules test stop-acme -p orders",
        "dlq rules test -f tenant=acme --look",
        "dlq rules test -f match=@pattern.json --body message.json",
        "dlq rules test --file rules.yaml --file cdk.json",
    ),
    read=read,
)
