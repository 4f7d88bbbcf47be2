"""Signing secrets in AWS Secrets Manager."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deadletter.aws.errors import AWS_ERRORS, code
from deadletter.webhook.endpoint import SecretsUnavailable, SecretUnusable, refuse_secret_name
from deadletter.webhook.signing import BadSecret, Secret, read_secret

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

REMEMBERED = 300.0
"""Seconds that a secret is used before it is read anew: a call a message would cost more
than the message, and a rotation has both secrets in the row for longer than this."""

RETRIED = 30.0
"""Seconds that a secret, or the news that there is none, is used before the next try after
a failure: a store that is down isn't asked for every message."""

# Codes by which Secrets Manager says no, and will go on saying it until somebody acts.
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
class _Remembered:
    """What was read, a secret or why there is none, and until when it is used (epoch seconds)."""

    found: Secret | SecretUnusable
    until: float


class SecretsManagerSecrets:
    """The secrets whose names start with `prefix`, each read once in five minutes.

    When Secrets Manager gives no answer, what it said last still counts: its outage must
    not stop messages whose secret is known. `client` is asked for only then; `clock` is in
    epoch seconds.
    """

    def __init__(
        self, client: Callable[[], SecretsManagerClient], prefix: str, clock: Callable[[], float]
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._clock = clock
        self._known: dict[str, _Remembered] = {}

    def read(self, name: str) -> Secret:
        """The secret; raises SecretUnusable, or SecretsUnavailable if it was never read."""
        refuse_secret_name(name, self._prefix)
        known, now = self._known.get(name), self._clock()
        if known is None or now >= known.until:
            known = self._known[name] = self._ask(name, known, now)
        if isinstance(known.found, SecretUnusable):
            raise SecretUnusable(*known.found.args)
        return known.found

    def _ask(self, name: str, known: _Remembered | None, now: float) -> _Remembered:
        try:
            text = self._client().get_secret_value(SecretId=name).get("SecretString", "")
        except AWS_ERRORS as error:
            if code(error) in _REFUSALS:
                why = f"Secrets Manager answers {code(error)}"
                return _Remembered(SecretUnusable(why), now + RETRIED)
            if known is None or isinstance(known.found, SecretUnusable):
                raise SecretsUnavailable(code(error)) from error
            return _Remembered(known.found, now + RETRIED)
        try:
            return _Remembered(read_secret(text), now + REMEMBERED)
        except BadSecret as error:
            return _Remembered(SecretUnusable(str(error)), now + RETRIED)
