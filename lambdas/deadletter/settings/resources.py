"""The names of what a pipeline's functions talk to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from deadletter.contract import Variable
from deadletter.settings.json_fields import BadSettings, json_object, json_value, texts


@dataclass(frozen=True, slots=True)
class Resources:
    """The names of what a pipeline's functions talk to.

    `parking` maps a parking queue's id to its URL and always holds "default";
    `dedicated` maps a dedicated DLQ's id to its URL. `trusted_senders` are the
    unique ids of the roles whose `Redrive` attribute is believed. `registrations` is
    the folder of SSM parameters with one parameter for each pipeline, and `audit_days` how
    long a change of a rule is kept. `redrive_function` is what the watch starts to rescue
    letters, and `redrive_every` how often the schedule starts it, in seconds.
    `circuit_machine` is the ARN of the state machine that runs outages, `replay_machine` of
    the one that runs replays, `consumer_function` the consumer's ARN if it is a Lambda
    function, `consumer_mapping` the id of its event source mapping if the app made it, and
    `consumer_timeout` its timeout in seconds. `health_url` is requested before a letter is
    tried on a dependency. `replay_days` is how long letters are kept as replay runs took them (0:
    not at all). `replay_schema` is the packed JSON Schema of a body that a replay run
    may send. `app` is the name of the app, which events carry, and `watch` when the watch calls a
    person, as JSON. A field that a function does not need is empty: its construct in `infra` sets
    the variables that it needs.
    """

    main_url: str = ""
    main_arn: str = ""
    dlq_url: str = ""
    parking: Mapping[str, str] = field(default_factory=dict)
    dedicated: Mapping[str, str] = field(default_factory=dict)
    messages_table: str = ""
    messages_bucket: str = ""
    rules_table: str = ""
    circuits_table: str = ""
    endpoints_table: str = ""
    router_function: str = ""
    redrive_function: str = ""
    trusted_senders: tuple[str, ...] = ()
    audit_table: str = ""
    audit_days: int = 0
    registrations: str = ""
    dlq_arn: str = ""
    circuit_machine: str = ""
    replay_machine: str = ""
    consumer_function: str = ""
    consumer_mapping: str = ""
    consumer_timeout: int = 0
    health_url: str = ""
    redrive_every: int = 0
    replay_days: int = 0
    replay_schema: str = ""
    watch: str = ""
    app: str = ""


_NOTHING = Resources()


def resources_from_environment(environment: Mapping[str, str]) -> Resources:
    """The resources in a function's environment: one upper-case variable for each field.

    Maps and tuples are JSON; raises BadSettings for an invalid value. Without its variable
    a field stays empty.
    """
    values = {}
    for name in (item.name for item in fields(Resources)):
        variable = Variable[name.upper()]
        if variable in environment:
            values[name] = _value(variable, environment[variable], getattr(_NOTHING, name))
    return Resources(**values)


def _value(where: str, text: str, default: object) -> Any:
    """The value in a text; the default of its field says what it has to be."""
    if isinstance(default, dict):
        return json_object(where, text)
    if isinstance(default, tuple):
        return texts(where, json_value(where, text))
    if not isinstance(default, int):
        return text
    if not text.isdecimal():
        raise BadSettings(f"{where} must be a whole number")
    return int(text)
