"""The business key of a message: the same for the consumer library and for the redriver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from deadletter.message.letter import digest, utf8
from deadletter.message.wrappers import Opened, opened
from deadletter.rules.document import attribute_value
from deadletter.rules.paths import Path, value_at


@dataclass(frozen=True, slots=True)
class FoundKey:
    """What the path of the setting `idempotency_key` finds in a message.

    `text` may be personal data; without it `missing` says why, and quotes no message.
    `documents` are those in which it was looked for.
    """

    documents: tuple[Mapping[str, Any], ...] = field(repr=False)
    text: str | None = field(default=None, repr=False)
    missing: str = ""


def find_key(path: Path, document: Mapping[str, Any], body: str) -> FoundKey:
    """The key in a message, given as the rules' document and as its body. Never raises.

    If the path finds nothing in the document, it is tried on the documents of the wrapped messages:
    one path serves a message that comes raw, by SNS or by EventBridge.
    """
    documents = tuple(_documents(document, opened(body)))
    values = [value_at(path, each) for each in documents]
    text = next(filter(None, map(_text, values)), None)
    return FoundKey(documents, text, "" if text is not None else _why_missing(values))


def digest_of(text: str) -> str:
    """A key's text, with its prefixes, as it is stored and sent: 64 hexadecimal digits."""
    return digest(utf8(text))


def _documents(document: Mapping[str, Any], message: Opened) -> Iterator[Mapping[str, Any]]:
    """The document as it is, then as it would be without its wrappers, one after the other."""
    yield document
    attributes = {
        **{
            name: attribute_value(attribute)
            for name, attribute in message.attributes.items()
            if not isinstance(attribute.value, bytes)
        },
        **document.get("attributes", {}),
    }
    for body in message.bodies[1:]:
        yield {**document, "body": body, "attributes": attributes}


def _why_missing(values: Iterable[Any]) -> str:
    if all(value is None for value in values):
        return "idempotency_key finds nothing in the message"
    return "what idempotency_key finds is neither a text nor a number, or empty"


def _text(value: Any) -> str | None:
    # A boolean identifies no message: the path is wrong.
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value)
    return text if text.strip() else None
