"""The customer keys that settings name: one of the app, and those of queues of yours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .arn import is_token
from .refusal import Refused, value_refused
from .settings import AppSettings, PipelineSettings


def check_keys(app: AppSettings, settings: PipelineSettings) -> None:
    """Refuse a queue with a customer key in an app without one.

    What leaves the queue waits in the tables, the bucket and the parking lot of the app: it
    came from under a customer's key, and must not lie under a key of AWS. Raises Refused.
    """
    if app.kms_key_arn is not None:
        return
    for key, arn in settings.key_arns:
        allowed = (
            "nothing while the app has no kms_key_arn, under which the waiting room and the"
            " parking lot keep what comes out of this queue"
        )
        named = "the key of the queue" if is_token(arn) else arn
        raise Refused(f"Pipeline {settings.name}: {value_refused(key, named, allowed)}.")


def keys_beside(app: AppSettings, keys: Iterable[str | None]) -> Sequence[str]:
    """Each of these keys once, without the app's, which all that the app makes is under."""
    return [key for key in dict.fromkeys(keys) if key and key != app.kms_key_arn]
