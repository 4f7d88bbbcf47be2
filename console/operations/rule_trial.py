"""A rule tried on messages, without effect."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

from deadletter.contract import EVERY_PIPELINE
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter, NotALetter, from_api, from_event
from deadletter.message.stamp import Stamp, initial_stamp
from deadletter.message.strict_json import Unreadable, read_json
from deadletter.rules.pattern import Pattern, compile_pattern
from deadletter.rules.rule import Action, Rule, RuleRefused, read_rule

from . import deployed, rule_table
from .answer import Answer
from .app import App, DeployedPipeline
from .letter_walk import FoundLetter
from .matching import FoundMessage, Matcher
from .places import UnsearchedPlace, Walk, received
from .problem import Cause, Problem
from .rule_file import RuleFiles, checked
from .rule_on_ledger import RuleMatches, matches_on_record
from .rules import columns_of
from .selection import Choice, ChosenPlace, PlaceKind, RuleTerms
from .selection import Pipeline as OfPipeline
from .session import Session
from .verbs import Asked, TextFile, Verb
from .words import count

SAMPLE = 100
"""Messages of each place that a rule is tried on."""

PASTED = "pasted"
"""The place, and the id, of a message that was never sent."""

_PLACES = tuple(
    map(ChosenPlace, (PlaceKind.DLQ, PlaceKind.DEDICATED, PlaceKind.WAITING, PlaceKind.PARKED))
)

# The id of a rule that is in no table.
_UNNAMED = "this rule"


@dataclass(frozen=True, kw_only=True)
class TrialRequest:
    """Which rule to try, and on what."""

    rule: Annotated[
        str | None, Asked("A rule that is in the table; else -f.", metavar="RULE_ID")
    ] = None
    pipeline: OfPipeline = None
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


class Sample:
    """Messages that a pattern was tried on, by the place where they were found."""

    def __init__(self, pattern: Pattern, senders: Sequence[str]) -> None:
        self._pattern, self._senders = pattern, frozenset(senders)
        self._forged = 0
        self._tried: Counter[str] = Counter()
        self._matched: Counter[str] = Counter()
        self._missed: Counter[tuple[str, str, str]] = Counter()
        self.matching: list[FoundMessage] = []

    def see(self, found: FoundMessage, matcher: Matcher) -> None:
        """Try it on a message. A record alone is none."""
        if found.letter is None:
            return
        self._tried[found.place] += 1
        found = self._as_routed(found)
        document = matcher.document(found)
        if self._pattern.matches(document):
            self._matched[found.place] += 1
            self.matching.append(found)
            return
        findings = [each for each in self._pattern.explain(document) if not each.matched]
        self._missed.update({(each.path, each.expected, each.found) for each in findings})

    def _as_routed(self, found: FoundMessage) -> FoundMessage:
        """The message as the router reads it: what others wrote into its stamp is ignored."""
        assert found.letter is not None
        # What waits and what is parked has a stamp that we, or the consumer, have put there.
        is_ours = found.lane or found.place.startswith(PlaceKind.PARKED)
        if is_ours or not stamps.read(found.letter, self._senders).forged:
            return found
        self._forged += 1
        return replace(found, stamp=None)

    @property
    def stamps(self) -> Iterator[Stamp]:
        """The stamps of the messages that it matches."""
        for found in self.matching:
            assert found.letter is not None
            yield found.stamp or initial_stamp(found.letter)

    def added_to(self, trial: RuleTrial) -> RuleTrial:
        """The trial with the outcome."""
        forged = f"{count(self._forged, 'message')} with an attribute Redrive of another sender"
        ignored = f"{forged}: the automatic retry ignores it, and so does this trial."
        return replace(
            trial,
            notes=(*trial.notes, *([ignored] if self._forged else ())),
            tried=tuple(
                TriedPlace(place, number, self._matched[place])
                for place, number in self._tried.items()
            ),
            matching=tuple(found.copy or found.origin for found in self.matching),
            missed=tuple(
                MissedPatternField(*field, number) for field, number in self._missed.most_common()
            ),
        )


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
    settings = deployed.settings(chosen)
    sample = Sample(compile_pattern(rule.pattern), chosen.trusted_senders)
    if request.body is not None:
        matcher = Matcher(Choice(), settings, session.now)
        for letter in pasted(request.body, session.clock()):
            sample.see(received(chosen.name, PASTED, FoundLetter(letter, PASTED)), matcher)
    else:
        on_record, matching = matches_on_record(session, app, chosen, rule.pattern)
        trial = replace(trial, on_record=on_record, matching=matching)
        if not request.look:
            return Tested(trial=trial)
        choice = Choice(places=_PLACES)
        walk = Walk(session, choice, sample.see, look=True, few=SAMPLE, read_letters=True)
        walk.pipeline(app, chosen)
        unseen, notes = tuple(walk.unsearched), tuple(walk.notes)
        trial = replace(trial, not_searched=unseen, notes=notes)
    trial = sample.added_to(trial)
    if rule.rate is None:
        return Tested(trial=trial)
    # The oldest goes first.
    sent = sorted(stamp.first_sent / 1000 for stamp in sample.stamps)
    ends = [(at, session.clock() + turn / rule.rate) for turn, at in enumerate(sent, 1)]
    late = sum(bool(at) and at + settings.message_ttl <= end for at, end in ends)
    return Tested(trial=replace(trial, takes_seconds=len(sent) / rule.rate, expire=late))


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
        f"There is no rule {request.rule!r} for {chosen.name}: see\ndlq rules list", Cause.ABSENT
    )


def _valid(columns: Mapping[str, Any], chosen: DeployedPipeline) -> Rule:
    try:
        return read_rule(columns, deployed.terms(chosen))
    except RuleRefused as error:
        raise Problem(f"INVALID in {chosen.name}: {error}.", Cause.FAILED) from error


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
