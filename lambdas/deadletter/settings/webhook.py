"""The settings of the webhook dispatcher."""

from __future__ import annotations

from dataclasses import dataclass

from deadletter.contract import Variable
from deadletter.settings.json_fields import BadSettings, build, json_object


@dataclass(frozen=True, slots=True)
class Webhook:
    """How the webhook dispatcher posts.

    `timeout` is seconds for one POST in all; `ports` are the allowed https ports; the
    names of signing secrets start with `secret_prefix`. `allow_loopback` allows plain http
    on loopback, unsigned: for sandboxes only.
    """

    timeout: float = 5.0
    allow_loopback: bool = False
    ports: tuple[int, ...] = (443,)
    secret_prefix: str = ""


def webhook_from_json(text: str) -> Webhook:
    """The dispatcher's settings in the environment variable WEBHOOK; raises BadSettings."""
    data = json_object(Variable.WEBHOOK, text)
    if "ports" in data:
        ports = data["ports"]
        if not isinstance(ports, list) or not all(type(port) is int for port in ports):
            raise BadSettings(f"{Variable.WEBHOOK}: ports must be a JSON list of whole numbers")
        data["ports"] = tuple(ports)
    return build(Webhook, Variable.WEBHOOK, data)
