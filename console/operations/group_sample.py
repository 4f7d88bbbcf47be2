"""Letters of a queue as far as they tell by themselves what failed: nothing of ours is needed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter, utf8

from .grouping import CONTEXT_NAMES

if TYPE_CHECKING:
    from deadletter.failure.cause_index import CauseEntry
    from deadletter.settings.pipeline import Pipeline

# Attributes by which AWS itself says why a message is in a DLQ: of asynchronous invocations of
# Lambda and of SNS, and of EventBridge's rules and schedules.
_ERROR_CODES = ("ErrorCode", "ERROR_CODE")
_ERROR_MESSAGES = ("ErrorMessage", "ERROR_MESSAGE")

# Where messages mostly name their tenant and their type, in the body or in an attribute.
_USUAL_NAMES: Mapping[str, Sequence[str]] = {
    "tenantId": ("tenantId", "tenant_id", "tenant"),
    "messageType": ("messageType", "message_type", "type", "eventType", "event_type",
                    "detail-type"),
}  # fmt: skip

_MOST_KEYS = 8
"""Keys of a body that the name of its shape holds."""


class PipelineContext:
    """The context of letters by a pipeline's settings, as its ledger would keep it."""

    def __init__(self, settings: Pipeline) -> None:
        from deadletter.rules.document import DocumentBuilder

        self._settings = settings
        self._documents = DocumentBuilder(settings)

    def of(self, letter: Letter, now: float) -> dict[str, str]:
        """The values: plain, hashed, or none of them."""
        from deadletter.failure.about_letter import kept_values

        settings = self._settings
        document = self._documents.build(letter, stamp_of(letter), None, now).value
        return kept_values(document["context"], settings.ledger, settings.name)


def entry_of(letter: Letter, pipeline: PipelineContext | None, now: float) -> CauseEntry:
    """What is known of a letter without a record: by AWS's attributes, or by its shape alone.

    `pipeline` finds its context; without a pipeline usual names are tried.
    """
    from deadletter.failure.cause_index import CauseEntry
    from deadletter.failure.ledger import AboutLetter

    stamp, sent = stamp_of(letter), (letter.sent_ms or now * 1000) / 1000
    size = len(utf8(letter.body))
    code, words = said_by_aws(letter)
    return CauseEntry(
        origin=stamp.origin,
        fingerprint="",
        seen=sent,
        first_at=sent,
        error_type=code or f"body: {shape(letter.body)}",
        words=words,
        attempt=stamp.attempt,
        about=AboutLetter(_context(letter, pipeline, now), "", size),
    )


def stamp_of(letter: Letter) -> stamps.Stamp:
    """The stamp that a letter carries, whoever wrote it; one without is its own origin."""
    attribute = letter.attributes.get(stamps.NAME)
    parsed = None if attribute is None else stamps.parse(attribute.value)
    return parsed or stamps.initial_stamp(letter)


def shape(body: str) -> str:
    """What kind of text a body is, without any of its values."""
    value = _read(body)
    match value:
        case dict():
            names = sorted(map(str, value))
            more = ", …" if len(names) > _MOST_KEYS else ""
            return f"object with {', '.join(names[:_MOST_KEYS])}{more}" if names else "object {}"
        case list():
            return "JSON list"
        case None if body.strip() != "null":
            return "text" if body.strip() else "empty"
    return "JSON value"


def _read(body: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def said_by_aws(letter: Letter) -> tuple[str, str]:
    """The error's code, and its text without data, if the DLQ's owner is an AWS service."""
    from deadletter.failure.redaction import redact

    code, text = _first(letter, _ERROR_CODES), _first(letter, _ERROR_MESSAGES)
    return (code or ("error" if text else "")), redact(text, None) if text else ""


def _first(letter: Letter, names: Sequence[str]) -> str:
    found = (letter.attributes.get(name) for name in names)
    return next((str(attribute.value) for attribute in found if attribute is not None), "")


def _context(letter: Letter, pipeline: PipelineContext | None, now: float) -> dict[str, str]:
    if pipeline is not None:
        return pipeline.of(letter, now)
    body = _read(letter.body)
    values = body if isinstance(body, dict) else {}
    found: dict[str, str] = {}
    for name in CONTEXT_NAMES.values():
        for usual in _USUAL_NAMES[name]:
            value = values.get(usual) or _first(letter, [usual])
            if value and isinstance(value, str | int):
                found[name] = str(value)
                break
    return found
