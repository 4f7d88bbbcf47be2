"""The endpoint registry in DynamoDB, and the secrets of its endpoints in Secrets Manager."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import DynamoDBClient, DynamoDBTable
from deadletter.aws.errors import AWS_ERRORS, Conflict, code, ours
from deadletter.aws.table import Condition, above, absent, at_most, equals
from deadletter.contract import ENDPOINTS
from deadletter.message.letter import utf8
from deadletter.webhook.endpoint import (
    PAUSES_END,
    Endpoint,
    RegistryUnavailable,
    SecretsUnavailable,
    SecretUnusable,
    read_row,
    refuse_secret_name,
)
from deadletter.webhook.signing import BadSecret, Secret, read_secret

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

REMEMBERED = 5.0
"""Seconds that a row is used: a batch to one endpoint reads it once, and edits apply soon."""

# Bytes that DynamoDB accepts as a partition key and as a sort key.
_LONGEST_TENANT, _LONGEST_ENDPOINT = 2048, 1024

# Rows in the cache; beyond that it is emptied.
_MOST_ROWS = 1000


class DynamoDBEndpoints:
    """The registry's table, keyed by `tenant` and `endpoint`. `clock` returns epoch seconds.

    Threads may share it.
    """

    def __init__(self, client: DynamoDBClient, table: str, clock: Callable[[], float]) -> None:
        self._table = DynamoDBTable(client, table, ENDPOINTS)
        self._clock = clock
        self._rows: dict[tuple[str, str], tuple[Endpoint, float]] = {}
        self._lock = Lock()

    def find(self, tenant: str, endpoint: str) -> Endpoint | None:
        if not 0 < len(utf8(tenant)) <= _LONGEST_TENANT:
            return None
        if not 0 < len(utf8(endpoint)) <= _LONGEST_ENDPOINT:
            return None
        now = self._clock()
        cached = self._rows.get((tenant, endpoint))
        if cached is not None and now < cached[1]:
            return cached[0]
        with ours(RegistryUnavailable):
            item = self._table.get((tenant, endpoint), lagging=True)
        if item is None:
            return None
        row = read_row(item)
        with self._lock:
            # Another thread may have changed the row since it was read.
            if self._rows.get((tenant, endpoint)) is cached:
                self._remember(row, now + REMEMBERED)
        return row

    def disable(self, endpoint: Endpoint, because: str, at: float) -> bool:
        return self._write(
            replace(endpoint, enabled=False, disabled_because=because),
            {"enabled": False, "disabled_because": because, "disabled_at": int(at)},
            absent("enabled") | equals("enabled", True),
        )

    def throttle(self, endpoint: Endpoint, until: float, status: int, at: float) -> bool:
        # Of many workers that get the same answer, one writes. The others would lengthen the
        # pause by a few seconds at most.
        return self._write(
            replace(endpoint, throttled_until=until, throttled_by=status),
            {"throttled_until": int(until), "throttled_by": status},
            absent("throttled_until")
            | at_most("throttled_until", int(at))
            | above("throttled_until", int(at + PAUSES_END)),
        )

    @ours(RegistryUnavailable)
    def _write(self, after: Endpoint, sets: dict[str, Any], when: Condition) -> bool:
        """Change the row if it meets the condition, and update or drop the cached row.

        Its URL is still the same: a new one was registered, and has answered nothing yet.
        """
        try:
            self._table.change(
                (after.tenant, after.endpoint), sets, when=equals("url", after.url) & when
            )
        except Conflict:
            with self._lock:
                self._rows.pop((after.tenant, after.endpoint), None)
            return False
        with self._lock:
            self._remember(after, self._clock() + REMEMBERED)
        return True

    def _remember(self, endpoint: Endpoint, until: float) -> None:
        if len(self._rows) >= _MOST_ROWS:
            self._rows.clear()
        self._rows[endpoint.tenant, endpoint.endpoint] = endpoint, until


SECRET_REMEMBERED = 300.0
"""Seconds that a secret is used before it is read again. A call per message would cost more
than the message, and during a rotation the row holds both secrets for longer than this."""

RETRIED = 30.0
"""Seconds after a failed read before the next one: a store that is down is not asked for
every message."""

# Codes of Secrets Manager that stay until a person changes the secret or its permissions.
_REFUSALS = frozenset(
    {
        "AccessDeniedException",
        "DecryptionFailure",
        "InvalidParameterException",
        "InvalidRequestException",
        "ResourceNotFoundException",
        "ValidationException",
    }
)


@dataclass(frozen=True, slots=True)
class _CachedSecret:
    """The result of a read: the secret, or why it is unusable. Valid `until` (epoch seconds)."""

    result: Secret | SecretUnusable
    until: float


class SecretsManagerSecrets:
    """The secrets whose names start with `prefix`, each read once in five minutes.

    While Secrets Manager gives no answer, the last secret stays valid: its outage must not
    stop messages whose secret is known. `client` is called when a secret is read, and not
    before. `clock` returns epoch seconds. Threads may share it: one of them reads a secret that
    several need, and the others wait for it.
    """

    def __init__(
        self, client: Callable[[], SecretsManagerClient], prefix: str, clock: Callable[[], float]
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._clock = clock
        self._cache: dict[str, _CachedSecret] = {}
        self._lock = Lock()
        self._reading: dict[str, Lock] = {}

    def read(self, name: str) -> Secret:
        """The secret. Raises SecretUnusable, or SecretsUnavailable if it was never read."""
        refuse_secret_name(name, self._prefix)
        cached = self._valid(name) or self._read_or_wait(name)
        if isinstance(cached.result, SecretUnusable):
            raise SecretUnusable(*cached.result.args)
        return cached.result

    def _valid(self, name: str) -> _CachedSecret | None:
        cached = self._cache.get(name)
        return cached if cached is not None and self._clock() < cached.until else None

    def _read_or_wait(self, name: str) -> _CachedSecret:
        with self._lock:
            reading = self._reading.setdefault(name, Lock())
        with reading:
            cached = self._valid(name)
            if cached is None:
                cached = self._read_again(name, self._cache.get(name), self._clock())
                self._cache[name] = cached
            return cached

    def _read_again(self, name: str, cached: _CachedSecret | None, now: float) -> _CachedSecret:
        try:
            text = self._made_client().get_secret_value(SecretId=name).get("SecretString", "")
        except AWS_ERRORS as error:
            if code(error) in _REFUSALS:
                why = f"Secrets Manager answers {code(error)}"
                return _CachedSecret(SecretUnusable(why), now + RETRIED)
            if cached is None or isinstance(cached.result, SecretUnusable):
                raise SecretsUnavailable(code(error)) from error
            return _CachedSecret(cached.result, now + RETRIED)
        try:
            return _CachedSecret(read_secret(text), now + SECRET_REMEMBERED)
        except BadSecret as error:
            return _CachedSecret(SecretUnusable(str(error)), now + RETRIED)

    def _made_client(self) -> SecretsManagerClient:
        # boto3's default session is not safe to make two clients of at once.
        with self._lock:
            return self._client()
