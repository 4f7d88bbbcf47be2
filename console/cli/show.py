"""`dlq show`: one message, run, rule, circuit or pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from shlex import quote

from deadletter.contract import Mode

from ..operations.audit_trail import AuditLine
from ..operations.errors import Cause, Problem
from ..operations.grouping import By
from ..operations.life_decision import TriedRule
from ..operations.life_logs import FOUND, ReceiveLog
from ..operations.life_place import Where
from ..operations.message import ShownMessage
from ..operations.observed import ObservedPipeline, where_to
from ..operations.pipeline_settings import Attempts, Delays, SettingsInForce
from ..operations.private_file import new_private_file
from ..operations.queue import DeployedQueue
from ..operations.replay_report import MEANING
from ..operations.replay_runs import IN_TROUBLE
from ..operations.rules import ShownRule, matches_of
from ..operations.session import Session
from ..operations.show import VERB, Shown, ShownCause, ShowRequest
from ..operations.show import read as shown
from ..operations.words import clock, count, duration, size
from .audit import show_change
from .circuit import show_circuit
from .exit import PAGE_NEEDS
from .groups import in_versions, marked, table
from .list import content
from .output import Block, Line, Part, Styled, TextTable, line, said, typed
from .rules import show_rules
from .run import show_account, show_details
from .verb import VerbView

_SECONDS = {"message_ttl", "idempotency_keep"}
_OWN_LINES = {"circuit", "replay"}


def show(answer: Shown) -> Iterator[Block]:
    """What was found, for a person."""
    if answer.message is not None:
        yield from _message(answer.message, answer.at)
    if answer.run is not None:
        yield from show_details(answer.run)
    if answer.outcomes is not None:
        yield from show_account(answer.outcomes)
    if answer.unread:
        yield from said(f"! {answer.unread}")
    if answer.rule is not None:
        yield from _rule(answer.rule, answer.at)
    for circuit in answer.circuits or ():
        yield from show_circuit(circuit, answer.at)
    for cause in answer.causes or ():
        yield from _cause(cause, answer)
    if answer.pipeline is not None:
        yield from _pipeline(answer, answer.pipeline)


def _rule(found: ShownRule, now: datetime) -> Iterator[Block]:
    for pipeline in found.pipelines:
        yield from show_rules(pipeline, now)
    for text in matches_of(found.matches, now):
        yield from said(text)
    yield from _changes(found.changes, now)


def _cause(found: ShownCause, answer: Shown) -> Iterator[Block]:
    now = answer.at
    yield line(Styled(f"Cause {found.cause}", "strong"), f" of {found.pipeline}")
    if found.state is not None:
        yield marked(found.state, now)
    if found.group is None:
        which = "that was read" if answer.unread else "on record"
        yield line(f"No message {which} fails for it now.")
    else:
        yield table([found.group], By.CAUSE, now)
        yield line(found.group.next.effect, in_versions(found.group))
        yield from typed(found.group.next.command)
    yield from _changes(found.changes, now)


def _changes(changes: Sequence[AuditLine], now: datetime) -> Iterator[Block]:
    yield line("Its last changes:" if changes else "No change of it is on record.")
    for change in changes:
        yield from show_change(change, now)


def _attention(answer: Shown) -> bool:
    """Whether something could not be read, or needs a person."""
    unread = answer.unread or (answer.pipeline is not None and answer.pipeline.unread)
    unsearched = answer.message is not None and not answer.message.is_whole
    run, account = answer.run, answer.outcomes
    trouble = run and (run.run.state in IN_TROUBLE or run.run.lost or run.missed)
    wrong = account and (account.unaccounted or account.missed)
    return bool(unread or unsearched or trouble or wrong)


def _read(session: Session, request: ShowRequest) -> Shown:
    """What the name stands for. --html writes the page too, which needs more packages."""
    if request.html is None:
        return shown(session, request)
    try:
        from ..web.page import render
    except ImportError as error:
        raise Problem(PAGE_NEEDS, Cause.INPUT) from error
    answer = shown(session, request)
    account = answer.outcomes
    if account is None:
        raise Problem(f"Only a run has a page: {answer.name} is a {answer.kind}.", Cause.INPUT)
    with new_private_file(Path(request.html)) as file:
        file.write(render("report.html", account=account, meaning=MEANING))
    return replace(answer, outcomes=replace(account, file=request.html))


VIEWS = (VerbView(replace(VERB, read=_read), show, attention=_attention),)


# A message.

_STYLES = {Where.PARKED: "alarm", Where.PROCESSED: "good", Where.DISCARDED: "alarm"}


def _message(found: ShownMessage, now: datetime) -> Iterator[Block]:
    place = found.places[0]
    yield line(
        Styled(found.id, "strong"),
        "  ",
        Styled(place.where, _STYLES.get(Where(place.where), "strong")),
        f"  {found.pipeline}",
    )
    if found.message_id != found.id:
        yield line(f"message {found.message_id or 'ID not on record'}")
    if found.acts:
        yield TextTable(("UTC", ""), [(_at(act.at, now), act.says) for act in found.acts])
    else:
        yield line("Nothing that happened to it is on record.")
    yield Line()
    yield TextTable((), [(name, fact) for name, fact in _facts(found, now) if fact])
    for note in found.notes:
        yield from said(f"Note: {note}")
    yield from _extras(found)
    for place_ in found.not_searched:
        yield line(f"not searched: {place_}")
    for step in found.steps:
        yield line(Styled(step.effect, "faint"))
        yield from typed(step.command)


def _facts(found: ShownMessage, now: datetime) -> Iterator[tuple[str, str]]:
    for place in found.places:
        yield "where", " ".join(filter(None, (place.says, place.because and f"({place.because})")))
        yield "due", f"{clock(place.due, now)} at the latest" if place.due else ""
    processed = found.processed
    yield "processed", f"{processed.answer}: {processed.says}"
    yield "next", found.next
    yield "retries", str(found.attempts) if found.attempts else ""
    yield "fields", ", ".join(f"{name} = {value}" for name, value in found.fields.items())
    yield "endpoint", found.endpoint
    yield "size", size(found.size) if found.size is not None else ""
    yield "trace", found.trace


def _extras(found: ShownMessage) -> Iterator[Block]:
    """The rules, the logs and the body, as far as they were asked for."""
    if found.rules is not None:
        yield Line()
        none = "No rule was tried; --look tries them on the message itself."
        yield line("Rules, in the order they are tried:" if found.rules else none)
        for rule in found.rules:
            yield from _rule_tried(rule)
    if found.logs is not None:
        for receive in found.logs:
            yield Line()
            yield from _receive(receive)
    if found.body_unread:
        yield line(Styled("! ", "alarm"), found.body_unread)
    if found.body is not None:
        yield Line()
        yield from content(found.body, found.attributes or {})


def _rule_tried(rule: TriedRule) -> Iterator[Block]:
    style = {"matches and speaks": "good", "matches": "good"}.get(rule.outcome, "")
    style = "alarm" if rule.outcome.startswith("INVALID") else style
    yield line(Styled(rule.rule_id, "strong"), "  ", Styled(rule.outcome, style), indent=2)
    for field in rule.missed:
        yield line(f"{field.path}: expected {field.expected}; found {field.found}", indent=6)


def _receive(receive: ReceiveLog) -> Iterator[Block]:
    request = f", request {receive.request_id}" if receive.request_id else ""
    yield line(
        Styled(f"Attempt {receive.attempt}, receive {receive.receive}", "strong"),
        f"{request}: {count(len(receive.lines), 'line')}, times in UTC",
    )
    if receive.note:
        yield line(Styled(receive.note, "faint" if receive.state == FOUND else "alarm"), indent=2)
    for each in receive.lines:
        at = f"{each.at:%H:%M:%S.%f}"[:-3] if each.at else "?"
        yield line(f"{at}  {each.message}", indent=2)


def _at(at: datetime | None, now: datetime) -> str:
    if at is None:
        return ""
    day = "" if at.date() == now.date() else f"{at:%d %b} "
    return f"{day}{at:%H:%M:%S}"


# A pipeline.

_MOST_CAUSES = 12
"""Groups of what mode observe has seen on a screen; JSON has all."""


def _pipeline(answer: Shown, shown: SettingsInForce) -> Iterator[Block]:
    observe = " (decides and reports, moves nothing)" if shown.mode == "observe" else ""
    yield line(
        Styled(answer.name, "strong"),
        f" of {answer.app} in account {answer.account}, {answer.region}: "
        f"mode {shown.mode}{observe}",
    )
    for text in shown.unread:
        yield line(Styled(text, "alarm"))
    if shown.observed is not None:
        yield Line()
        yield from _observed(shown.observed, shown.mode, answer.at)
    yield Line()
    yield line(f"Attempts: {_attempts(shown.policy)}")
    for id_, policy in shown.policies.items():
        yield line(f"Attempts under policy {id_}: {_attempts(policy)}")
    yield line(f"Between the receives of one attempt: {_delays(shown.receives)}")
    yield line(f"The consumer is given one message {_tries(shown)}")
    yield line(f"End of parked messages: {shown.parked_end}")
    yield Line()
    settings = shown.settings
    rows = [
        (name, _value(name, value))
        for name, value in settings.items()
        if name not in _OWN_LINES and value not in ({}, (), [])
    ]
    yield TextTable(("SETTING", "VALUE"), rows)
    for name in sorted(_OWN_LINES & settings.keys()):
        yield Line()
        inner = [(key, _value(key, value)) for key, value in settings[name].items()]
        yield TextTable((name.upper(), "VALUE"), inner)
    yield Line()
    yield TextTable(
        ("QUEUE", "NAME", ">KEEPS FOR", ">HIDES FOR", ">RECEIVES", "ENCRYPTION"),
        [_queue(id_, queue) for id_, queue in shown.queues.items()],
    )
    yield Line()
    if shown.alarms:
        yield TextTable(
            ("ALARM", "STATE", "RINGS WHEN"),
            [(alarm.name, _state(alarm.state), alarm.when) for alarm in shown.alarms],
        )
    elif shown.alarms is not None:
        yield line(Styled("It has no alarm: no person is called.", "alarm"))
    yield Line()
    yield line("What needs attention now:")
    yield from typed(f"dlq status {quote(answer.name)}")


def _observed(found: ObservedPipeline, mode: str, now: datetime) -> Iterator[Block]:
    """What mode observe would have done: the largest group of messages first."""
    counts = found.counts
    least = "at least " if counts.at_least else ""
    since = "" if counts.since is None else f" since {clock(counts.since, now)}"
    yield line(
        Styled("What would have been done", "strong"),
        f" with {least}{count(counts.messages, 'message')}{since}:",
    )
    if mode != Mode.OBSERVE:
        yield line("It does not observe any more: this is what it saw until then.", indent=2)
    for note in found.notes:
        yield line(Styled(note, "alarm"), indent=2)
    for each in found.causes[:_MOST_CAUSES]:
        by_rule = f" by rule {each.rule}" if each.rule else ""
        done = f", {each.processed:,} processed since" if each.processed else ""
        number = Styled(count(each.messages, "message"), "strong")
        yield line(number, f" {where_to(each)}{by_rule}{done}", indent=2)
        error = ": ".join(text for text in (each.error_type, each.words) if text)
        category = f" [{each.category}]" if each.category else ""
        yield line(f"failed with {error}{category}" if error else "no failure on record", indent=4)
        yield line(f"because: {each.because}; for example {each.sample}", indent=4)
    if (more := len(found.causes) - _MOST_CAUSES) > 0:
        yield line(f"and {count(more, 'more group')}: --json names all", indent=2)


def _tries(shown: SettingsInForce) -> str:
    """How often a message is tried at most, with the product that it is."""
    if shown.most_tries is None:
        return "an unknown number of times: the main queue's receives could not be read"
    attempts = shown.policy.max_attempts + 1
    receives = shown.most_tries // attempts
    each = f"{count(receives, 'receive')} in each of {count(attempts, 'attempt')}"
    return f"{shown.most_tries} times at most: {each}, and anew once a person retries it"


def _attempts(policy: Attempts) -> str:
    ceilings = ", ".join(duration(seconds) for seconds in policy.ceilings)
    return (
        f"{policy.max_attempts}, after at most {ceilings} (drawn from "
        f"{duration(policy.backoff.floor)} up); then parked as RETRIES_EXHAUSTED"
    )


def _delays(delays: Delays) -> str:
    return (
        f"at most {duration(delays.base)}, {delays.factor:g} times as long each time up to "
        f"{duration(delays.cap)}, at least {duration(delays.floor)}"
    )


def _queue(id_: str, queue: DeployedQueue | None) -> tuple[Part, ...]:
    if queue is None:
        return (id_, "?", "?", "?", "?", "?")
    receives = "" if queue.max_receive_count is None else str(queue.max_receive_count)
    return (
        id_,
        queue.name,
        duration(queue.retention),
        duration(queue.visibility),
        receives,
        queue.encryption,
    )


def _value(name: str, value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case None:
            return "not set"
        case int() | float() if name in _SECONDS:
            return duration(value)
        case float():
            return f"{value:g}"
        case dict() | list() | tuple():
            return json.dumps(value, default=str)
        case _:
            return str(value)


def _state(state: str) -> Part:
    return Styled(state, {"ALARM": "alarm", "OK": "good"}.get(state, "faint"))
