"""The settings of the webhook dispatcher."""

from __future__ import annotations

from dataclasses import dataclass

from deadletter.contract import WEBHOOK, Variable
from deadletter.settings.json_fields import BadSettings, build, json_object


@dataclass(frozen=True, slots=True)
class Webhook:
    """How the webhook dispatcher posts.

    `timeout` is seconds for one POST in all; `ports` are the allowed https ports; the
    names of signing secrets start with `secret_prefix`. `allow_loopback` allows plain http
    on loopback, unsigned: for sandboxes only.
    """

    timeout: float = WEBHOOK.request_timeout
    allow_loopback: bool = WEBHOOK.allow_loopback
    ports: tuple[int, ...] = WEBHOOK.ports
    secret_prefix: str = ""


def webhook_from_json(text: str) -> Webhook:
    """The dispatcher's settings in the environment variable WEBHOOK; raises BadSettings."""
    data = json_object(Variable.WEBHOOK, text)
    ports = data.get("ports", list(WEBHOOK.ports))
    if not isinstance(ports, list) or not all(type(port) is int for port in ports):
        raise BadSettings(f"{Variable.WEBHOOK}: ports must be a JSON list of whole numbers")
    return build(Webhook, Variable.WEBHOOK, {**data, "ports": tuple(ports)})
