"""The codes by which libraries name a failure, and which names are data of the letter."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from deadletter.failure.foreign import (
    answer,
    attribute,
    dbapi_names,
    error_words,
    http_status,
    names_of,
    text_of,
    within,
)
from deadletter.message.letter import Letter

LONGEST_NAME = 60
"""Characters of a name or a code: a longer one is data."""

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class OwnNames:
    """What is the program's own word: a literal of it, or a name that the letter does not have."""

    def __init__(self, letter: Letter | None, literals: frozenset[str]) -> None:
        self.literals = literals
        self._letter = letter
        self._text: str | None = None

    def owns(self, name: object) -> bool:
        """True for a literal, and for an identifier without digits that is not in the letter."""
        if not isinstance(name, str) or len(name) > LONGEST_NAME:
            return False
        if name in self.literals:
            return True
        is_name = IDENTIFIER.fullmatch(name) and not any(map(str.isdigit, name))
        return bool(is_name) and not self.in_letter(name)

    def quotes_letter(self, text: str) -> bool:
        """True if the letter has the text, as it is or escaped in JSON."""
        forms = (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
        return any(form.lower() in self._searched() for form in forms)

    def _searched(self) -> str:
        if self._text is None:
            self._text = "" if self._letter is None else _text_of_letter(self._letter)
        return self._text

    def in_letter(self, name: str) -> bool:
        """True if the letter has the name as a whole word that is no key of JSON."""
        # A key of a JSON document is chosen by the producer's program.
        pattern = rf'(?<![a-z0-9_]){re.escape(name.lower())}(?![a-z0-9_])(?!\\*"\s*:)'
        return re.search(pattern, self._searched()) is not None


def _text_of_letter(letter: Letter) -> str:
    values = (item.value for item in letter.attributes.values())
    texts = (value for value in values if isinstance(value, str))
    return "\n".join((letter.body, *letter.system.values(), *texts)).lower()


# Reasons of one transaction.
_REASONS = 100

_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*")

# Attributes in which libraries keep a code of their own.
_CODED = (
    *("code", "error_code", "codeName", "smtp_code", "reply_code", "sqlite_errorname"),
    "returncode",
)

# Errors whose texts say where or how data is malformed: each of them differs by the data.
_OF_DATA = frozenset(
    {
        *("JSONDecodeError", "ParseError", "RecursionError", "ExpatError", "ZeroDivisionError"),
        *("UnicodeDecodeError", "UnicodeEncodeError", "UnicodeTranslateError"),
    }
)
_OF_DATA_IN = frozenset({"binascii", "zlib", "struct"})


def codes_of(error: BaseException, names: OwnNames) -> list[str]:
    """What names the failure: status, AWS code, SQLSTATE, errno, an answer's word and so on."""
    if is_about_data(error):
        return []
    named = [str(status) if (status := http_status(error)) is not None else "", aws_code(error)]
    if named[1]:
        return [*named, name_of(attribute(error, "operation_name")), *_aws_reasons(error)]
    named += [_grpc_code(error), *_database_codes(error)]
    if isinstance(error, OSError) and error.errno is not None:
        # A name that does not resolve has several numbers.
        resolving = any(name in ("gaierror", "herror") for name, _ in names_of(error))
        named.append("dns" if resolving else str(error.errno))
    named += (_own_code(attribute(error, name), names) for name in _CODED)
    named += (_own_code(word, names) for word in error_words(error))
    return [code for code in dict.fromkeys(named) if code]


def _own_code(value: Any, names: OwnNames) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value)) if abs(value) < 100_000 else ""
    if not isinstance(value, str):
        value = attribute(value, "name")
    is_code = isinstance(value, str) and len(value) <= LONGEST_NAME and _CODE.fullmatch(value)
    if not is_code or sum(map(str.isdigit, value)) > 5:
        return ""
    return value if value in names.literals or not names.in_letter(value) else ""


def name_of(value: object) -> str:
    return value[:LONGEST_NAME] if isinstance(value, str) else ""


def aws_code(error: BaseException) -> str:
    response = attribute(error, "response")
    return name_of(within(response, "Error", "Code")) if isinstance(response, Mapping) else ""


def _aws_reasons(error: BaseException) -> list[str]:
    reasons = within(attribute(error, "response"), "CancellationReasons")
    reasons = reasons[:_REASONS] if isinstance(reasons, list) else []
    named = (name_of(within(reason, "Code")) for reason in reasons if isinstance(reason, Mapping))
    return sorted({code for code in named if code and code != "None"})


def _grpc_code(error: BaseException) -> str:
    for status in (answer(error, "code"), attribute(error, "grpc_status_code")):
        name = name_of(attribute(status, "name"))
        if name:
            return name
    return ""


def _database_codes(error: BaseException) -> list[str]:
    diagnostics = attribute(error, "diag")
    first = error.args[0] if error.args else None
    named = [name_of(attribute(error, name)) for name in ("sqlstate", "pgcode")]
    named += [name_of(attribute(diagnostics, name)) for name in ("constraint_name", "table_name")]
    named.append(name_of(attribute(error, "constraint_name")))
    if isinstance(first, int) and dbapi_names(error):
        named.append(str(first)[:LONGEST_NAME])
    if isinstance(first, Mapping):
        named += [name_of(first.get("C")), name_of(first.get("n"))]
    kafka = answer(first, "name") if callable(attribute(first, "code")) else None
    if next(names_of(error))[1] == "redis":
        # Redis begins the text of an error with its kind.
        kind = text_of(error)[:LONGEST_NAME].partition(" ")[0]
        named.append(kind if kind.isupper() else "")
    return [*named, name_of(kafka)]


def is_about_data(error: BaseException) -> bool:
    name, library = next(names_of(error))
    return name in _OF_DATA or library in _OF_DATA_IN
