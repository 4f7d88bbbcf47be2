"""The fingerprint of a failure: equal for failures of one cause, whatever their messages hold.

It is made of the error's type, the codes by which libraries name a failure, the template of its
text, the place in the team's own code, and the dependency that was called. What differs from
letter to letter (ids, names, amounts, positions, retries) is no part of it, nor are paths and
line numbers: a deployment does not change it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any

from deadletter.failure import codes
from deadletter.failure.called import DETAILS, called_by
from deadletter.failure.failure import CONNECTION_REFUSED, TIMEOUT
from deadletter.failure.foreign import (
    Link,
    answer,
    attribute,
    dbapi_names,
    names_of,
    text_of,
    within,
    wrapped_in,
)
from deadletter.failure.naming import (
    IDENTIFIER,
    LONGEST_NAME,
    OwnNames,
    aws_code,
    codes_of,
    is_about_data,
    name_of,
)
from deadletter.failure.place import frames_of, place_of, written_name
from deadletter.failure.template import LONGEST_TEXT, Kind, Piece, pieces
from deadletter.failure.vocabulary import words
from deadletter.message.letter import Letter

# Bytes of hash: a pipeline has a few hundred kinds of failure, not billions.
_BYTES = 8

# Fields of one validation, and steps behind an error to the cause of all.
_FIELDS = 8
_BEHIND = 20

# Characters of a text inside another one; a shorter one is there by chance.
_SHORTEST_QUOTE = 4

# Known words of a text that the letter has too, and not by chance.
_QUOTATION = 2

# Words of a first line that says what failed; the lines behind it are details.
_HEADLINE = 3

# Words of one template.
_MOST_WORDS = 60

# Types of data, in Python's own texts.
_TYPES = frozenset(
    {"bool", "bytes", "decimal", "dict", "float", "int", "integer", "list", "nonetype"}
    | {"set", "str", "string", "tuple"}
)

# One failure of Python that has several texts.
_SAME = (
    (
        re.compile(
            r"(?i)^(invalid isoformat|time data|unconverted data|"
            r"(month|hour|minute|second|microsecond|day|year) [\w -]{0,20}?"
            r"(must be|is out of)|day is out of|year is out of|offset must be|.{0,40}isoformat)"
        ),
        "a date that is none",
    ),
    (
        re.compile(r"^(could not convert string to float|invalid literal for|Exceeds the limit)"),
        "a number that is none",
    ),
)

# Characters of a text whose lists are looked for; they have any length, in SQL and in Python.
_LONGEST_READ = 20_000
_ROWS = re.compile(r"\b(?:VALUES|IN) ?\(")
_ITEM = r"(?:'[^'\\]*'|\"[^\"\\]*\"|-?[\d.]+)"
_LIST = re.compile(rf"\[{_ITEM}(?:, {_ITEM})*\]")

# The part of a statement that a database shows.
_NEAR = re.compile(r"\bnear '.*", re.DOTALL)

# The values that a driver shows, between brackets; Oracle puts the name of a constraint there.
_BRACKETS = re.compile(r"\((?=[^()]{0,500}[ ,])[^()]{0,500}\)")

# Oracle names a column by all that it is in.
_COLUMN = re.compile(r'(?:"\w{1,128}"\.)+("\w{1,128}")')

# The value in botocore's error about a parameter.
_VALUE = re.compile(r"value: .{0,500}?, type: .{0,100}?, valid types: [^\n]{0,200}")

# Types of pydantic's errors that only say how a value is not of a type.
_REFUSED_TYPE = re.compile(r"_(type|parsing|parsing_size|from_float|unicode|inexact)$")

# Types of pydantic's errors about a key that no field has.
_OF_KEYS = frozenset({"extra_forbidden", "invalid_key", "unexpected_keyword_argument"})

# Known words that are names too: alone at the beginning of a text they may be one.
_NAMES_TOO = frozenset({"grant", "max", "may", "page", "will"})

# A name after one of these is the program's own: of a column, a parameter and so on.
_NAMES = words(
    """
    CONSTRAINT argument attribute column constraint field function index key method module operator
    option parameter property relation sequence table variable view
    """
)

# Where a value stands in a document of JSON.
_JSON_PATH = re.compile(r"\$[.\[][A-Za-z0-9_.\[\]'\"*$-]{0,100}")
_INDEX = re.compile(r"\[\d+\]")
_LETTERS = re.compile(r"[^\W\d_]+")

# The ends of file names and host names, which are no fields of a document or a table.
_NO_FIELD = words(
    """
    com csv de dev eu example gz html internal io jpg json local log net org parquet pdf png py txt
    uk xml yaml zip
    """
)

# Words that change with a number.
_ALIKE = {"are": "is", "were": "was", "have": "has", "an": "a"}


def fingerprint_of(
    chain: Sequence[Link],
    *,
    error_type: str,
    speaker: BaseException | None,
    letter: Letter | None,
    literals: frozenset[str],
    dependency: str = "",
) -> str:
    """The fingerprint of the first error of a chain, 16 hexadecimal digits.

    `error_type` is what the diagnosis calls it; `speaker` is the error that says who is to
    blame, if one does; `literals` are the program's; `dependency` is the named dependency's
    circuit, if the failure is one of its calls. Never raises.
    """
    try:
        parts = _identity(chain, error_type, speaker, OwnNames(letter, literals), dependency)
    except Exception:  # code of a foreign class
        parts = [error_type]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[: 2 * _BYTES]


def _identity(
    chain: Sequence[Link],
    error_type: str,
    speaker: BaseException | None,
    names: OwnNames,
    dependency: str,
) -> list[Any]:
    error = chain[0].error
    errors = _distinct((error, speaker, _root(error)))
    target = called_by(chain, names)
    no_answer = error_type in (TIMEOUT, CONNECTION_REFUSED)
    # The texts of broken connections differ, and say no more than the error's class.
    silent = no_answer and bool(dependency or target)
    texts = [_text(item) for item in errors]
    for item, text in zip(errors[1:], texts[1:], strict=True):
        # Wrappers quote what they wrap, which is described by itself.
        for inner in (text_of(item), text):
            if len(inner) > _SHORTEST_QUOTE and inner != texts[0]:
                texts[0] = texts[0].replace(inner, "")
    described = [
        [
            _type(item, error_type),
            codes_of(item, names),
            [] if silent else _template(item, text, names),
            place_of(item, only_own=item is not error),
        ]
        for item, text in zip(errors, texts, strict=True)
    ]
    return [error_type, dependency, target, *described]


def _distinct(errors: Sequence[BaseException | None]) -> list[BaseException]:
    return list({id(error): error for error in errors if error is not None}.values())


def _root(error: BaseException) -> BaseException:
    """The innermost cause, by the nearest of: the cause, what is wrapped, what was handled."""
    seen = {id(error)}
    for _ in range(_BEHIND):
        source = next((item for item in _behind(error) if id(item) not in seen), None)
        if source is None:
            break
        seen.add(id(source))
        error = source
    return error


def _behind(error: BaseException) -> Iterator[BaseException]:
    if error.__cause__ is not None:
        yield error.__cause__
    yield from wrapped_in(error)
    if isinstance(error, BaseExceptionGroup):
        yield error.exceptions[0]
    context = error.__context__
    if context is not None and not error.__suppress_context__ and _replaces(error, context):
        yield context


def _replaces(error: BaseException, context: BaseException) -> bool:
    """True if the error was raised by the function that handled the context.

    Else that function went on to do something else, which failed for a reason of its own.
    """
    frames = frames_of(error)
    handler = context.__traceback__
    return bool(frames) and handler is not None and frames[-1] is handler.tb_frame


def _type(error: BaseException, error_type: str) -> str:
    """The class's name, the same for all classes of a call without an answer."""
    names = [name for name, _ in names_of(error)]
    if error_type == TIMEOUT and any(codes.TIMEOUT_NAME.search(name) for name in names):
        return "ConnectTimeout" if "connect" in names[0].lower() else TIMEOUT
    if isinstance(attribute(error, "response"), Mapping) and aws_code(error):
        return "ClientError"
    return written_name(type(error))[:LONGEST_NAME]


# Texts.


def _text(error: BaseException) -> str:
    """The part of the error's text that says what failed, and not with which data."""
    response = attribute(error, "response")
    if isinstance(response, Mapping) and aws_code(error):
        # The reasons are codes, one for each item of a transaction.
        is_listed = "CancellationReasons" in response
        return "" if is_listed else _words_of(within(response, "Error", "Message"))
    details = answer(error, "details") if callable(attribute(error, "details")) else None
    if isinstance(details, str):
        return details
    if isinstance(error, OSError) and isinstance(error.strerror, str):
        return error.strerror
    args = error.args
    if isinstance(args[0] if args else None, Mapping) and isinstance(args[0].get("M"), str):
        return str(args[0]["M"])
    is_driver = bool(dbapi_names(error))
    text = args[1] if is_driver and len(args) == 2 and isinstance(args[1], str) else text_of(error)
    if type(text) is not str:
        return ""
    kinds = {name for name, _ in names_of(error)}
    if "ParamValidationError" in kinds:
        return _VALUE.sub("", text[:LONGEST_TEXT])
    if "S3UploadFailedError" in kinds:
        # Before it stand the names of the files.
        text = text.rpartition("An error occurred ")[2]
    text = _without_lists(DETAILS.split(text[:_LONGEST_READ], maxsplit=1)[0])[:LONGEST_TEXT]
    if not is_driver:
        return text
    return _COLUMN.sub(r"column \1", _BRACKETS.sub("", _NEAR.sub("near", text)))


def _without_lists(text: str) -> str:
    """The text without the values of an INSERT or an IN, and without what Python's lists hold."""
    rows = _ROWS.search(text)
    if rows is not None:
        end = text.rfind(")", rows.end()) if len(text) < _LONGEST_READ else len(text)
        text = text[: rows.end()] + text[max(end, rows.end()) :]
    return _LIST.sub("[]", text)


def _words_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _template(error: BaseException, text: str, names: OwnNames) -> list[str]:
    """The words of an error's text that do not differ from letter to letter, in alphabetical order.

    Their order in the text may be that of a set.
    """
    if is_about_data(error):
        return [name_of(attribute(error, "encoding"))]
    if isinstance(error, KeyError):
        return _key(error, text, names)
    if isinstance(error, AttributeError | NameError | ImportError):
        name = attribute(error, "name")
        if isinstance(name, str):
            return [name if names.owns(name) else ""]
    fields = _fields(error, names)
    if fields:
        return fields
    for pattern, name in _SAME:
        if pattern.search(text):
            return [name]
    first, _, rest = text.strip().partition("\n")
    stable = _stable(pieces(first, names.literals), names)
    if len(stable) < _HEADLINE:
        stable = _stable(pieces(f"{first}\n{rest}", names.literals), names)
    # Python names the types of the values that it was given.
    is_typed = isinstance(error, TypeError | ValueError)
    return [word for word in stable if not is_typed or word not in _TYPES]


def _key(error: KeyError, text: str, names: OwnNames) -> list[str]:
    key = error.args[0] if len(error.args) == 1 else None
    if isinstance(key, str) and len(key.split()) > 1:
        return _stable(pieces(key, names.literals), names)
    return [key if names.owns(key) else type(key).__name__]  # type: ignore[list-item]


def _stable(cut: Sequence[Piece], names: OwnNames) -> list[str]:
    """The literals and the known words, each once; a name of the program where one is expected."""
    cut = _without_quotations(cut, names)
    stable: dict[str, None] = {}
    depth, last, is_named = 0, "", False
    for index, piece in enumerate(cut):
        if piece.kind is Kind.MARK:
            depth = max(0, depth + (piece.text == "{") - (piece.text == "}"))
            is_named = is_named and piece.text.isspace()
            continue
        kept: list[str] = []
        if piece.kind is Kind.LITERAL:
            kept = [word.lower() for word in _LETTERS.findall(piece.text)]
        elif depth:
            pass
        elif piece.kind is Kind.WORD:
            # Inside a sentence, words with capitals are names, also if they are known.
            starts = not last and piece.text.lower() in _NAMES_TOO and not _goes_on(cut, index)
            is_named = _is_capital(piece.text) and (is_named or last.islower() or starts)
            kept = [] if is_named else [piece.text.lower()]
        else:
            is_named = piece.kind is Kind.NAME
            kept = _name_of_the_program(piece, last, names)
        stable.update(dict.fromkeys(map(_singular, kept)))
        last = _last_word(piece, kept)
    return sorted(stable)[:_MOST_WORDS]


def _without_quotations(cut: Sequence[Piece], names: OwnNames) -> list[Piece]:
    """The pieces, without the text between two literals that the letter has word by word."""
    kept: list[Piece] = []
    for is_literal, group in groupby(cut, lambda piece: piece.kind is Kind.LITERAL):
        run = list(group)
        text = "".join(piece.text for piece in run).strip()
        words = sum(piece.kind is Kind.WORD for piece in run)
        is_whole = len(run) == len(cut)
        if is_literal or is_whole or words < _QUOTATION or not names.quotes_letter(text):
            kept += run
    return kept


def _name_of_the_program(piece: Piece, last: str, names: OwnNames) -> list[str]:
    """A value that is a name of the program: of a column, a field and the like."""
    name = piece.text.strip("'\"`")
    if _JSON_PATH.fullmatch(name):
        return [_INDEX.sub("", name)]
    if piece.kind is Kind.HOST:
        is_place = name.rpartition(".")[2].lower() in _NO_FIELD
        return [name] if not is_place and names.owns(name) else []
    return [name] if last in _NAMES and names.owns(name) else []


def _last_word(piece: Piece, kept: Sequence[str]) -> str:
    if piece.kind in (Kind.LITERAL, Kind.WORD):
        found = _LETTERS.findall(piece.text)
        return found[-1] if found else ""
    return kept[-1] if kept else ""


def _goes_on(cut: Sequence[Piece], index: int) -> bool:
    """True if a known word in lower case follows, as in "will not"."""
    following = next((piece for piece in cut[index + 1 :] if not piece.text.isspace()), None)
    return following is not None and following.kind is Kind.WORD and following.text.islower()


def _is_capital(word: str) -> bool:
    return word[:1].isupper() and not word.isupper()


def _singular(word: str) -> str:
    if word in _ALIKE:
        return _ALIKE[word]
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _fields(error: BaseException, names: OwnNames) -> list[str]:
    """The fields that a validator refuses, and why: pydantic, jsonschema, marshmallow."""
    details = _pydantic(error)
    if details is not None:
        named = {
            f"{_field(_known_place(detail))} {_rule(name_of(detail.get('type')))}"
            for detail in details[:_FIELDS]
            if isinstance(detail, Mapping)
        }
        return [name_of(attribute(error, "title")), *sorted(named)]
    validator, path = attribute(error, "validator"), attribute(error, "absolute_schema_path")
    if isinstance(validator, str) and path is not None:
        missing = text_of(error).partition("'")[2].partition("'")[0]
        named_field = missing if validator == "required" and names.owns(missing) else ""
        return [validator, _field(path), named_field]
    rule, place = attribute(error, "rule"), attribute(error, "path")
    if isinstance(rule, str) and isinstance(place, list | tuple):
        return [rule[:LONGEST_NAME], _field(place)]
    messages = attribute(error, "messages")
    if isinstance(messages, Mapping):
        refused = islice(messages.items(), _FIELDS)
        return sorted(f"{name_of(name)} {_message(value, names)}" for name, value in refused)
    return []


def _known_place(detail: Mapping[str, Any]) -> Any:
    """Where the model is, if what it refuses is a key: the message names it."""
    place = detail.get("loc")
    is_key = name_of(detail.get("type")) in _OF_KEYS
    return place[:-1] if is_key and isinstance(place, tuple) else place


def _message(value: Any, names: OwnNames) -> str:
    first = value[0] if isinstance(value, list) and value else value
    return " ".join(_stable(pieces(first), names)) if isinstance(first, str) else ""


def _rule(kind: str) -> str:
    """The rule behind a type of pydantic's: `int_parsing` and `int_type` say that it is no int."""
    base, _, end = kind.partition("_")
    return base if end and _REFUSED_TYPE.search(kind) else kind


def _pydantic(error: BaseException) -> list[Any] | None:
    try:
        return list(
            error.errors(include_url=False, include_context=False, include_input=False)  # type: ignore[attr-defined]
        )
    except Exception:  # code of a foreign class
        return None


def _field(path: Any) -> str:
    try:
        steps = [step for step in list(path)[:_FIELDS] if isinstance(step, str)]
    except TypeError:
        return ""
    return ".".join(step if IDENTIFIER.fullmatch(step) else "" for step in steps)
