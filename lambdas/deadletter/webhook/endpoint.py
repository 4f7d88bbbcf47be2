"""One row of the endpoint registry: where a tenant receives its events; and a change of it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from deadletter.contract import HOUR, MINUTE
from deadletter.webhook.signing import Secret
from deadletter.webhook.url_guard import public_part

DEFAULT_ENDPOINT = "default"
"""The endpoint of a message that names none (context `endpointId`)."""

NO_SUCH_ENDPOINT = "the tenant has no such endpoint"
DISABLED = "the endpoint is disabled"
"""Why a message is not posted whose endpoint the registry does not have, or has switched off."""

LONGEST_PAUSE_SECONDS = 1.0 * HOUR
"""An endpoint that asks for a longer pause is called again after this."""

PAUSES_END = LONGEST_PAUSE_SECONDS + MINUTE
"""Seconds from now after which no pause ends that a worker has written; clocks may differ. A later
end is in another unit, or an enemy's."""

# The most secrets that sign one message: old and new, with room for slow rotations.
_MOST_SECRETS = 4

# Characters of a secret's name, after its prefix; Secrets Manager allows these.
_SECRET_NAME = re.compile(r"[A-Za-z0-9/_+=.@-]{1,256}")


class BadEndpoint(ValueError):
    """The row does not describe an endpoint; the message names the column."""


class RegistryUnavailable(Exception):
    """The endpoint registry gave no answer."""


class SecretsUnavailable(Exception):
    """The store of secrets gave no answer."""


class SecretUnusable(Exception):
    """The secret is missing, unreadable or malformed; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a tenant receives its events.

    `secrets` names the secrets that sign each message. `disabled_because` is the reason if
    the dispatcher disabled it. Until `throttled_until` (epoch seconds) nothing is posted to
    it, because it answered with status `throttled_by`.
    """

    tenant: str
    endpoint: str
    url: str
    enabled: bool = True
    secrets: tuple[str, ...] = ()
    disabled_because: str = ""
    throttled_until: float = 0.0
    throttled_by: int | None = None


class Registry(Protocol):
    """Stores the endpoints; raises RegistryUnavailable if it gives no answer."""

    def find(self, tenant: str, endpoint: str) -> Endpoint | None:
        """The endpoint, or None without its row. Raises BadEndpoint if the row is invalid."""

    def disable(self, endpoint: Endpoint, because: str, at: float) -> bool:
        """Disable it at `at` (epoch seconds).

        Returns False if it was disabled already, or has another URL by now.
        """

    def throttle(self, endpoint: Endpoint, until: float, status: int, at: float) -> bool:
        """Pause it until `until`. Returns False if it is already paused for longer."""


class Secrets(Protocol):
    """Stores the signing secrets."""

    def read(self, name: str) -> Secret:
        """The secret; raises SecretUnusable or SecretsUnavailable."""


def read_row(row: Mapping[str, Any]) -> Endpoint:
    """The endpoint in a row of the registry; numbers may come as Decimal. Raises BadEndpoint.

    A row whose `enabled` is anything but true is disabled.
    """
    url = row.get("url")
    if not isinstance(url, str):
        raise BadEndpoint("url must be text")
    secrets = row.get("secrets", ())
    secrets = sorted(secrets) if isinstance(secrets, set) else secrets
    if not isinstance(secrets, list | tuple) or not all(isinstance(name, str) for name in secrets):
        raise BadEndpoint("secrets must be a list of names of secrets")
    if len(secrets) > _MOST_SECRETS:
        raise BadEndpoint(f"secrets may name {_MOST_SECRETS} at most")
    status = _number(row, "throttled_by")
    return Endpoint(
        tenant=str(row["tenant"]),
        endpoint=str(row["endpoint"]),
        url=url,
        enabled=row.get("enabled", True) is True,
        secrets=tuple(secrets),
        disabled_because=str(row.get("disabled_because", "")),
        throttled_until=_number(row, "throttled_until") or 0.0,
        throttled_by=None if status is None else int(status),
    )


def refuse_secret_name(name: str, prefix: str) -> None:
    """Raise SecretUnusable for a name outside the secrets of the endpoints.

    The dispatcher's role can read only those; a row must not name any other.
    """
    inside = bool(prefix) and name.startswith(prefix)
    if not inside or _SECRET_NAME.fullmatch(name.removeprefix(prefix)) is None:
        allowed = f"{prefix or '(none)'} and 1 to 256 characters of A-Za-z0-9/_+=.@-"
        raise SecretUnusable(f"the name of an endpoint's secret must be {allowed}")


def _number(row: Mapping[str, Any], column: str) -> float | None:
    """A number, or None if invalid: a bad pause must not block deliveries."""
    try:
        number = float(row[column])
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return None
    return number if math.isfinite(number) else None


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
