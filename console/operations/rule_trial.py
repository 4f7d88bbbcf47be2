"""A rule tried on messages, without effect."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from deadletter.contract import EVERY_PIPELINE
from deadletter.message.letter import Letter, NotALetter, from_api, from_event
from deadletter.message.stamp import initial_stamp
from deadletter.message.strict_json import Unreadable, read_json
from deadletter.rules.pattern import compile_pattern
from deadletter.rules.rule import Action, Rule, RuleRefused, read_rule

from . import rule_table
from .app import App, DeployedPipeline
from .errors import Cause, Problem
from .letter_walk import FoundLetter, believed
from .matching import FoundMessage, Matcher
from .places import HELD_BY_US, UnsearchedPlace, Walk, forged, received
from .rule_file import RuleFiles, checked
from .rule_on_ledger import RuleMatches, matches_on_record
from .rules import columns_of
from .selection import Choice, ChosenPlace, RuleTerms
from .selection import Pipeline as OfPipeline
from .session import Answer, Session
from .verbs import Asked, TextFile, Verb

SAMPLE = 100
"""Messages of each place that a rule is tried on."""

PASTED = "pasted"
"""The place, and the id, of a message that was never sent."""

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
    rule = _rule(session, app, chosen, request)
    settings, pattern = chosen.settings(), compile_pattern(rule.pattern)
    trial = RuleTrial(
        **session.place,
        pipeline=chosen.name,
        rule_id=request.rule,
        pattern=rule.pattern,
    )
    tried: Counter[str] = Counter()
    missed: Counter[tuple[str, str, str]] = Counter()
    matching: list[FoundMessage] = []

    def see(found: FoundMessage, matcher: Matcher) -> None:
        """Try the rule on a message; its record alone is not enough."""
        if found.letter is None:
            return
        tried[found.place] += 1
        document = matcher.document(found)
        if pattern.matches(document):
            matching.append(found)
            return
        findings = [each for each in pattern.explain(document) if not each.matched]
        missed.update({(each.path, each.expected, each.found) for each in findings})

    if request.body is not None:
        matcher, untrusted = Matcher(Choice(), settings, session.now), 0
        for letter in pasted(request.body, session.clock()):
            stamp = believed(letter, chosen.trusted_senders)
            found = received(chosen.name, PASTED, FoundLetter(letter, PASTED, stamp=stamp))
            see(found, matcher)
            untrusted += found.is_forged
        trial = replace(trial, notes=tuple(forged(untrusted, PASTED)))
    else:
        on_record, ids = matches_on_record(session, app, chosen, rule.pattern)
        trial = replace(trial, on_record=on_record, matching=ids)
        if not request.look:
            return Tested(trial=trial)
        choice = Choice(places=tuple(map(ChosenPlace, HELD_BY_US)))
        walk = Walk(session, choice, see, look=True, few=SAMPLE, read_letters=True)
        walk.pipeline(app, chosen)
        unseen, notes = tuple(walk.unsearched), tuple(walk.notes)
        trial = replace(trial, not_searched=unseen, notes=notes)
    matched = Counter(found.place for found in matching)
    trial = replace(
        trial,
        tried=tuple(TriedPlace(place, number, matched[place]) for place, number in tried.items()),
        matching=tuple(found.copy or found.origin for found in matching),
        missed=tuple(MissedPatternField(*field, n) for field, n in missed.most_common()),
    )
    if rule.rate is None:
        return Tested(trial=trial)
    # The oldest goes first.
    stamps = [found.stamp or initial_stamp(found.letter) for found in matching if found.letter]
    sent = sorted(stamp.first_sent / 1000 for stamp in stamps)
    ends = [(at, session.clock() + turn / rule.rate) for turn, at in enumerate(sent, 1)]
    late = sum(bool(at) and at + settings.message_ttl <= end for at, end in ends)
    return Tested(trial=replace(trial, takes_seconds=len(sent) / rule.rate, expire=late))


def _rule(session: Session, app: App, chosen: DeployedPipeline, request: TrialRequest) -> Rule:
    """The rule of the table, or of the terms that were typed; Problem if it is INVALID."""
    if request.rule is None:
        about = columns_of(request.terms, session.now)
        columns: Mapping[str, Any] = {"rule_id": _UNNAMED, "action": Action.DEFAULT, **about}
    else:
        # The pipeline's own rule, else that of all pipelines.
        keys = (chosen.name, EVERY_PIPELINE)
        stored = rule_table.table(session.aws, app.rules_table).of_id(request.rule, keys)
        if not stored:
            why = f"There is no rule {request.rule!r} for {chosen.name}: see\ndlq rules list"
            raise Problem(why, Cause.ABSENT)
        columns = stored[0].columns
    try:
        return read_rule(columns, chosen.rule_terms())
    except RuleRefused as error:
        raise Problem(f"INVALID in {chosen.name}: {error}.", Cause.FAILED) from error


# Pasted messages.


def pasted(text: str, now: float) -> list[Letter]:
    """The messages in a text: a body, or the output of `aws sqs receive-message`."""
    unsent = Letter(PASTED, text.rstrip("\r\n"), {}, {"SentTimestamp": str(int(now * 1000))})
    return _messages(text) or [unsent]


def _messages(text: str) -> list[Letter]:
    """The messages in the output of `aws sqs receive-message` or a Lambda event; else none.

    Problem if only some of them are messages.
    """
    try:
        data = read_json(text)
    except Unreadable:
        return []
    read: Callable[[Any], Letter] = from_event
    match data:
        case {"Messages": [*messages]}:
            read = _from_cli
        case {"Records": [*messages]}:
            pass
        case {"MessageId": str(), "Body": str()}:
            messages, read = [data], _from_cli
        case _:
            return []
    letters, others = [], []
    for number, message in enumerate(messages, start=1):
        try:
            letters.append(read(message))
        except (NotALetter, ValueError, TypeError, AttributeError):
            others.append(number)
    if letters and others:
        says = f"Message {others[0]} of {len(messages)} is not as SQS gives it: no rule was tried."
        raise Problem(says, Cause.INPUT)
    return letters


def _from_cli(message: Any) -> Letter:
    """A message as the AWS CLI prints it: bytes are base64."""
    attributes = {
        name: {**attribute, "BinaryValue": base64.b64decode(attribute["BinaryValue"])}
        if "BinaryValue" in attribute
        else attribute
        for name, attribute in message.get("MessageAttributes", {}).items()
    }
    return from_api({**message, "MessageAttributes": attributes})


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
