"""`dlq show`: the policy in force of a pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ..operations import show as operation
from ..operations.deployed_queue import DeployedQueue
from ..operations.session import Session
from ..operations.show import Attempts, Delays, ShownPipeline
from ..operations.words import count, duration
from .command import OnePipeline, PipelineArgument, command, one_pipeline, plain_typer
from .exit import Exit
from .output import Block, Line, Part, Reply, Styled, TextTable, line
from .progress import waiting

typer_app = plain_typer()

_SECONDS = {"message_ttl", "idempotency_keep"}
_OWN_LINES = {"circuit", "replay"}


@command(
    typer_app,
    "show",
    example=[
        "dlq show orders",
        "dlq show orders --json --query policy",
    ],
)
def show(
    session: Session, name: PipelineArgument = None, pipeline: OnePipeline = None
) -> Reply[ShownPipeline]:
    """The policy in force: attempts, delays, rate, time to live, alarms.

    Reads what is deployed: the pipeline's registration, its queues and its alarms. What `cdk.json`
    says counts after the next deployment. docs/settings.md explains each setting.

    The exit status is 1 if something could not be read.
    """
    chosen = one_pipeline(name, pipeline)
    with waiting(f"Asking AWS about app {session.app_name}"):
        answer = operation.show(session, chosen)
    return Reply(answer, _show, Exit.ATTENTION if answer.unread else Exit.DONE)


def _show(shown: ShownPipeline) -> Iterator[Block]:
    observe = " (decides and reports, moves nothing)" if shown.mode == "observe" else ""
    yield line(
        Styled(shown.pipeline, "strong"),
        f" of {shown.app} in account {shown.account}, {shown.region}: mode {shown.mode}{observe}",
    )
    for text in shown.unread:
        yield line(Styled(text, "alarm"))
    yield Line()
    yield line(f"Attempts: {_attempts(shown.policy)}")
    for id_, policy in shown.policies.items():
        yield line(f"Attempts under policy {id_}: {_attempts(policy)}")
    yield line(f"Between the receives of one life: {_delays(shown.receives)}")
    yield line(f"The consumer is given one message {_tries(shown)}")
    yield line(f"End of parked letters: {shown.parked_end}")
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
    yield line(f"What needs attention now: dlq status {shown.pipeline}")


def _tries(shown: ShownPipeline) -> str:
    """How often a message is tried at most, with the product that it is."""
    if shown.most_tries is None:
        return "an unknown number of times: the main queue's receives could not be read"
    lives = shown.policy.max_attempts + 1
    receives = shown.most_tries // lives
    each = f"{count(receives, 'receive')} in each of {count(lives, 'attempt')}"
    return f"{shown.most_tries} times at most: {each}, and anew once a person releases it"


def _attempts(policy: Attempts) -> str:
    ceilings = ", ".join(duration(seconds) for seconds in policy.ceilings)
    return (
        f"{policy.max_attempts}, after at most {ceilings} (drawn from "
        f"{duration(policy.backoff.floor)} up); then parked as EXHAUSTED"
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
