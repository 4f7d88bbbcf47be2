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
    the folder of parameters with one a pipeline, and `audit_days` how long a change of
    a rule is kept. `circuit_machine` is the ARN of the state machine that runs outages,
    `consumer_function` the consumer's, if it is a Lambda function, `consumer_mapping` the
    id of its mapping, if the app made it, and `consumer_timeout` how many seconds it may
    take. `health_url` is asked where there is no letter to probe a dependency with. A
    field that a function has no business with is empty in its environment.
    """

    main_url: str = ""
    main_arn: str = ""
    dlq_url: str = ""
    parking: Mapping[str, str] = field(default_factory=dict)
    dedicated: Mapping[str, str] = field(default_factory=dict)
    letters_table: str = ""
    letters_bucket: str = ""
    rules_table: str = ""
    circuits_table: str = ""
    endpoints_table: str = ""
    router_function: str = ""
    trusted_senders: tuple[str, ...] = ()
    audit_table: str = ""
    audit_days: int = 0
    registrations: str = ""
    dlq_arn: str = ""
    circuit_machine: str = ""
    consumer_function: str = ""
    consumer_mapping: str = ""
    consumer_timeout: int = 0
    health_url: str = ""


# Fields of the resources that are whole numbers, with their units.
_NUMBERS = {"audit_days": "days", "consumer_timeout": "seconds"}


def resources_from_environment(environment: Mapping[str, str]) -> Resources:
    """The resources as the function's environment gives it: one upper-case variable a field.

    Maps and tuples are JSON; raises BadSettings for what is not. A variable that is
    not there leaves the field empty.
    """
    found: dict[str, Any] = {}
    for one in fields(Resources):
        variable = Variable[one.name.upper()]
        if variable not in environment:
            continue
        text = environment[variable]
        if one.name in ("parking", "dedicated"):
            found[one.name] = json_object(variable, text)
        elif one.name == "trusted_senders":
            found[one.name] = texts(variable, json_value(variable, text))
        elif one.name in _NUMBERS:
            found[one.name] = _whole(variable, text, _NUMBERS[one.name])
        else:
            found[one.name] = text
    return Resources(**found)


def _whole(where: str, text: str, unit: str) -> int:
    if not text.isdecimal():
        raise BadSettings(f"{where} must be a number of {unit}")
    return int(text)
