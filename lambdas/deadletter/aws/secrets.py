"""Signing secrets in AWS Secrets Manager."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from deadletter.aws.errors import AWS_ERRORS, code
from deadletter.webhook.endpoint import SecretsUnavailable, SecretUnusable, refuse_secret_name
from deadletter.webhook.signing import BadSecret, Secret, read_secret

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

REMEMBERED = 300.0
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
            return _CachedSecret(read_secret(text), now + REMEMBERED)
        except BadSecret as error:
            return _CachedSecret(SecretUnusable(str(error)), now + RETRIED)

    def _made_client(self) -> SecretsManagerClient:
        # boto3's default session is not safe to make two clients of at once.
        with self._lock:
            return self._client()
