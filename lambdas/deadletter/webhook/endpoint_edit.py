"""A change of the endpoint registry, whoever made it, as the audit keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deadletter.webhook.endpoint import BadEndpoint, SecretUnusable, read_row, refuse_secret_name
from deadletter.webhook.url_guard import public_part

OTHER_PATH = " with another path"
"""Behind the host of a changed URL whose host is the same: a path may hold a token."""

# Characters of a text that is kept.
_MOST_TEXT = 500

# What the dispatcher writes while it waits for an endpoint that is busy.
_PAUSES = frozenset({"throttled_until", "throttled_by"})


@dataclass(frozen=True, slots=True)
class EndpointEdit:
    """One change of one endpoint. `at` is epoch seconds. The stream does not name its author.

    `old` and `new` are the facts before and after; None if it was added or removed.
    """

    tenant: str
    endpoint: str
    at: float
    sequence: str
    event_id: str
    old: Mapping[str, Any] | None
    new: Mapping[str, Any] | None


def edit_facts(
    old: Mapping[str, Any] | None, new: Mapping[str, Any] | None, secrets: str
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None] | None:
    """What the audit keeps of an endpoint before and after a change; None for a mere pause.

    Of the URL the scheme, host and port; of the secrets the names, if they begin with `secrets`.
    """
    if _without_pauses(old) == _without_pauses(new):
        return None
    was, becomes = (None if row is None else _facts(row, secrets) for row in (old, new))
    if old is not None and new is not None and becomes is not None and was is not None:
        is_same_host = was["url"] == becomes["url"]
        if is_same_host and old.get("url") != new.get("url"):
            becomes = {**becomes, "url": f"{becomes['url']}{OTHER_PATH}"}
    return was, becomes


def _without_pauses(row: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if row is None:
        return None
    return {name: value for name, value in row.items() if name not in _PAUSES}


def _facts(row: Mapping[str, Any], secrets: str) -> dict[str, Any]:
    url = row.get("url")
    facts = {"url": public_part(url) if isinstance(url, str) else "?"}
    try:
        endpoint = read_row(row)
    except BadEndpoint as error:
        return {**facts, "standing": "invalid", "because": str(error)}
    because = endpoint.disabled_because[:_MOST_TEXT]
    return {
        **facts,
        "standing": "enabled" if endpoint.enabled else "disabled",
        "secrets": [_secret(name, secrets) for name in endpoint.secrets],
        **({"because": because} if because and not endpoint.enabled else {}),
    }


def _secret(name: str, secrets: str) -> str:
    """A secret's name; not the secret itself, which a slip may have put in its place."""
    try:
        refuse_secret_name(name, secrets)
    except SecretUnusable:
        return "?"
    return name
