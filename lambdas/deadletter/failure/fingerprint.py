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
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import CodeType, FrameType, TracebackType
from typing import Any

from deadletter.failure import codes
from deadletter.failure.failure import CONNECTION_REFUSED, TIMEOUT
from deadletter.failure.foreign import (
    Link,
    answer,
    attribute,
    http_status,
    names_of,
    text_of,
    within,
    wrapped_in,
)
from deadletter.failure.template import LONGEST_TEXT, Kind, Piece, pieces
from deadletter.message.letter import Letter


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Bytes of hash: a pipeline has a few hundred kinds of failure, not billions.
_BYTES = 8

# Frames read of a traceback; further out, a recursion began.
_FRAMES = 200

# Steps of a traceback: Python's own limit of a recursion is 1,000.
_STEPS = 3_000

# Fields of one validation, and steps behind an error to the cause of all.
_FIELDS = 8
_BEHIND = 20

# Characters of a text inside another one; a shorter one is there by chance.
_SHORTEST_QUOTE = 4

# Words of one template.
_MOST_WORDS = 60

# Characters of a name or a code: a longer one is data.
_LONGEST_NAME = 60

_TARGET_LENGTH = 100

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*")

# Errors whose texts say where or how data is malformed: each of them differs by the data.
_OF_DATA = frozenset(
    {
        *("JSONDecodeError", "ParseError", "RecursionError", "ExpatError", "ZeroDivisionError"),
        *("UnicodeDecodeError", "UnicodeEncodeError", "UnicodeTranslateError"),
    }
)
# Types of data, in Python's own texts.
_TYPES = frozenset(
    {"bool", "bytes", "decimal", "dict", "float", "int", "integer", "list", "nonetype"}
    | {"set", "str", "string", "tuple"}
)

_OF_DATA_IN = frozenset({"binascii", "zlib", "struct"})

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

# What databases and SQLAlchemy add to the text of an error.
_ADDED = re.compile(
    r"\s*(\n\s*DETAIL:|\n\s*CONTEXT:|\n\s*HINT:|\n\s*LINE \d|\[SQL:|\[parameters:"
    r"|\(Background on this error)"
)

# The value in botocore's error about a parameter.
_VALUE = re.compile(r"value: .{0,500}?, type: .{0,100}?, valid types: [^\n]{0,200}")

# The classes that every Python driver of a database has.
_DBAPI = frozenset(
    {"DBAPIError", "DatabaseError", "DataError", "IntegrityError", "InterfaceError"}
    | {"InternalError", "NotSupportedError", "OperationalError", "ProgrammingError"}
)

# Types of pydantic's errors that only say how a value is not of a type.
_REFUSED_TYPE = re.compile(r"_(type|parsing|parsing_size|from_float|unicode|inexact)$")

# A name after one of these is the program's own: of a column, a parameter and so on.
_NAMES = _words(
    """
    argument attribute column constraint field function index key method module operator option
    parameter property relation sequence table variable view
    """
)

# Where a value stands in a document of JSON.
_JSON_PATH = re.compile(r"\$[.\[][A-Za-z0-9_.\[\]'\"*$-]{0,100}")
_INDEX = re.compile(r"\[\d+\]")
_LETTERS = re.compile(r"[^\W\d_]+")

# The ends of file names and host names, which are no fields of a document or a table.
_NO_FIELD = _words(
    """
    com csv de dev eu example gz html internal io jpg json local log net org parquet pdf png py txt
    uk xml yaml zip
    """
)

# Words that change with a number.
_ALIKE = {"are": "is", "were": "was", "have": "has", "an": "a"}

# Where an error's text names the host that did not answer, and its port.
_HOST_IN_TEXT = re.compile(
    r"""
    (?: \bhost\s*[=:]?\s*['"]? | \bserver\s+(?:at|on)\s+['"]?
      | \bconnect(?:ing|ion)?\s+to\s+(?:the\s+)?(?:host\s+|server\s+)?(?:at\s+)?['"]?
      | [a-z][a-z0-9+.-]{0,20}://(?:[^\s/@]{0,200}@)? | ^(?=[a-z0-9._-]{1,100}:\d)
    )
    (?P<host> [a-z0-9_-]{1,63} (?:\.[a-z0-9_-]{1,63}){0,10} )
    (?: :(?P<port>\d{2,5}) | ['"]?(?:\s*\([^()]{0,60}\))?,\s*port[= ](?P<apart>\d{2,5}) )?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NO_HOST = _words(
    """
    a an any at database endpoint host is it mongodb mysql postgres postgresql proxy redis remote
    server the to url was your
    """
)
_USUAL_PORTS = frozenset({"", "80", "443"})
_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}|[0-9a-f]*:[0-9a-f:.]+", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")

# Libraries by their own name, where they lie beside the handler and not in site-packages.
_LIBRARIES = _words(
    """
    MySQLdb PIL aiobotocore aiohttp aiomysql aiopg anthropic asyncpg attr attrs
    aws_lambda_powertools aws_xray_sdk boto3 botocore cachetools cattr cattrs celery certifi
    charset_normalizer clickhouse_connect clickhouse_driver confluent_kafka cx_Oracle dateutil
    ddtrace deadletter django dns elastic_transport elasticsearch fastjsonschema firebase_admin
    flask google googleapiclient gql graphql grpc grpc_status grpclib h11 h2 hiredis httpcore
    httplib2 httpx influxdb_client jmespath jose jsonpath_ng jsonschema jwt kafka kombu ldap3
    lxml marshmallow msgpack msgspec mysql nats neo4j newrelic numpy oauthlib openai
    opensearchpy opentelemetry oracledb orjson pandas paramiko peewee pg8000 phonenumbers pika
    pkg_resources prometheus_client psycopg psycopg2 pyarrow pyasn1 pydantic pydantic_core
    pymemcache pymongo pymysql pynamodb pyodbc pytz redis requests requests_oauthlib rsa s3fs
    s3transfer sentry_sdk simplejson six slack_sdk snowflake sqlalchemy starlette stripe suds
    tenacity thrift tornado twilio typeguard ujson urllib3 voluptuous websocket websockets
    werkzeug wrapt xmltodict yaml zeep
    """
) | set(sys.stdlib_module_names)
_LIBRARY_PATHS = ("site-packages", "dist-packages", "/var/runtime/", "/var/lang/", "<frozen")


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
        parts = _identity(chain, error_type, speaker, _Words(letter, literals), dependency)
    except Exception:  # code of a foreign class
        parts = [error_type]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[: 2 * _BYTES]


def _identity(
    chain: Sequence[Link],
    error_type: str,
    speaker: BaseException | None,
    words: _Words,
    dependency: str,
) -> list[Any]:
    error = chain[0].error
    errors = _distinct((error, speaker, _root(error)))
    target = _target(chain, words)
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
            _codes(item, words),
            [] if silent else _template(item, text, words),
            _place(item, only_own=item is not error),
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
    if error.__context__ is not None and not error.__suppress_context__:
        yield error.__context__


def _type(error: BaseException, error_type: str) -> str:
    """The class's name, the same for all classes of a call without an answer."""
    names = [name for name, _ in names_of(error)]
    if error_type == TIMEOUT and any(codes.TIMEOUT_NAME.search(name) for name in names):
        return "ConnectTimeout" if "connect" in names[0].lower() else TIMEOUT
    if isinstance(attribute(error, "response"), Mapping) and _aws_code(error):
        return "ClientError"
    return names[0][:_LONGEST_NAME]


class _Words:
    """What is the program's own word: a literal of it, or a name that the letter does not have."""

    def __init__(self, letter: Letter | None, literals: frozenset[str]) -> None:
        self.literals = literals
        self._letter = letter
        self._text: str | None = None

    def owns(self, name: object) -> bool:
        """True for a literal, and for an identifier without digits that is not in the letter."""
        if not isinstance(name, str) or len(name) > _LONGEST_NAME:
            return False
        if name in self.literals:
            return True
        is_name = _IDENTIFIER.fullmatch(name) and not _DIGITS.search(name)
        return bool(is_name) and not self.in_letter(name)

    def in_letter(self, name: str) -> bool:
        """True if the letter has the name as a whole word."""
        if self._text is None:
            self._text = "" if self._letter is None else _text_of_letter(self._letter)
        pattern = rf"(?<![a-z0-9_]){re.escape(name.lower())}(?![a-z0-9_])"
        return re.search(pattern, self._text) is not None


def _text_of_letter(letter: Letter) -> str:
    values = (item.value for item in letter.attributes.values())
    texts = (value for value in values if isinstance(value, str))
    return "\n".join((letter.body, *letter.system.values(), *texts)).lower()


# Codes.


def _codes(error: BaseException, words: _Words) -> list[str]:
    """What names the failure without words: status, AWS code, SQLSTATE, errno and so on."""
    if _is_about_data(error):
        return []
    named = [str(status) if (status := http_status(error)) is not None else "", _aws_code(error)]
    if named[1]:
        return [*named, _name(attribute(error, "operation_name")), *_aws_reasons(error)]
    named += [_grpc_code(error), *_database_codes(error)]
    if isinstance(error, OSError) and error.errno is not None:
        # A name that does not resolve has several numbers.
        resolving = any(name in ("gaierror", "herror") for name, _ in names_of(error))
        named.append("dns" if resolving else str(error.errno))
    for name in ("code", "error_code", "codeName", "smtp_code", "reply_code", "sqlite_errorname"):
        named.append(_own_code(attribute(error, name), words))
    return [code for code in dict.fromkeys(named) if code]


def _own_code(value: Any, words: _Words) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value)) if abs(value) < 100_000 else ""
    if not isinstance(value, str):
        value = attribute(value, "name")
    is_code = isinstance(value, str) and len(value) <= _LONGEST_NAME and _CODE.fullmatch(value)
    if not is_code or sum(map(str.isdigit, value)) > 5:
        return ""
    return value if value in words.literals or not words.in_letter(value) else ""


def _name(value: object) -> str:
    return value[:_LONGEST_NAME] if isinstance(value, str) else ""


def _aws_code(error: BaseException) -> str:
    response = attribute(error, "response")
    return _name(within(response, "Error", "Code")) if isinstance(response, Mapping) else ""


def _aws_reasons(error: BaseException) -> list[str]:
    reasons = within(attribute(error, "response"), "CancellationReasons")
    reasons = reasons[:_FRAMES] if isinstance(reasons, list) else []
    named = (_name(within(reason, "Code")) for reason in reasons if isinstance(reason, Mapping))
    return sorted({code for code in named if code and code != "None"})


def _grpc_code(error: BaseException) -> str:
    for status in (answer(error, "code"), attribute(error, "grpc_status_code")):
        name = _name(attribute(status, "name"))
        if name:
            return name
    return ""


def _database_codes(error: BaseException) -> list[str]:
    diagnostics = attribute(error, "diag")
    first = error.args[0] if error.args else None
    named = [_name(attribute(error, name)) for name in ("sqlstate", "pgcode")]
    named += [_name(attribute(diagnostics, name)) for name in ("constraint_name", "table_name")]
    named.append(_name(attribute(error, "constraint_name")))
    if isinstance(first, int) and _is_of_database(error):
        named.append(str(first)[:_LONGEST_NAME])
    if isinstance(first, Mapping):
        named += [_name(first.get("C")), _name(first.get("n"))]
    kafka = answer(first, "name") if callable(attribute(first, "code")) else None
    if next(names_of(error))[1] == "redis":
        # Redis begins the text of an error with its kind.
        kind = text_of(error)[:_LONGEST_NAME].partition(" ")[0]
        named.append(kind if kind.isupper() else "")
    return [*named, _name(kafka)]


# Texts.


def _text(error: BaseException) -> str:
    """The part of the error's text that says what failed, and not with which data."""
    response = attribute(error, "response")
    if isinstance(response, Mapping) and _aws_code(error):
        return _words_of(within(response, "Error", "Message"))
    details = answer(error, "details") if callable(attribute(error, "details")) else None
    if isinstance(details, str):
        return details
    if isinstance(error, OSError) and isinstance(error.strerror, str):
        return error.strerror
    args = error.args
    if len(args) == 2 and isinstance(args[1], str) and _is_of_database(error):
        return args[1]
    if isinstance(args[0] if args else None, Mapping) and isinstance(args[0].get("M"), str):
        return str(args[0]["M"])
    text = text_of(error)
    if type(text) is not str:
        return ""
    return _VALUE.sub("", _ADDED.split(text, maxsplit=1)[0])


def _words_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _is_about_data(error: BaseException) -> bool:
    name, library = next(names_of(error))
    return name in _OF_DATA or library in _OF_DATA_IN


def _template(error: BaseException, text: str, words: _Words) -> list[str]:
    """The words of an error's text that do not differ from letter to letter, in their order."""
    if _is_about_data(error):
        return [_name(attribute(error, "encoding"))]
    if isinstance(error, KeyError):
        return _key(error, text, words)
    if isinstance(error, AttributeError | NameError | ImportError):
        name = attribute(error, "name")
        if isinstance(name, str):
            return [name if words.owns(name) else ""]
    fields = _fields(error, words)
    if fields:
        return fields
    for pattern, name in _SAME:
        if pattern.search(text):
            return [name]
    stable = _stable(pieces(text, words.literals), words)
    # Python names the types of the values that it was given.
    is_typed = isinstance(error, TypeError | ValueError)
    return [word for word in stable if not is_typed or word not in _TYPES]


def _key(error: KeyError, text: str, words: _Words) -> list[str]:
    key = error.args[0] if len(error.args) == 1 else None
    if isinstance(key, str) and len(key.split()) > 1:
        return _stable(pieces(key, words.literals), words)
    return [key if words.owns(key) else type(key).__name__]  # type: ignore[list-item]


def _stable(cut: Sequence[Piece], words: _Words) -> list[str]:
    """The literals and the known words, each once; a name of the program where one is expected."""
    stable: dict[str, None] = {}
    depth, last, is_named = 0, "", False
    for piece in cut:
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
            is_named = _is_capital(piece.text) and (is_named or last.islower())
            kept = [] if is_named else [piece.text.lower()]
        else:
            is_named = piece.kind is Kind.NAME
            kept = _own_name(piece, last, words)
        stable.update(dict.fromkeys(map(_singular, kept)))
        last = _last_word(piece, kept)
    return sorted(stable)[:_MOST_WORDS]


def _own_name(piece: Piece, last: str, words: _Words) -> list[str]:
    """A value that is a name of the program: of a column, a field and the like."""
    name = piece.text.strip("'\"`")
    if _JSON_PATH.fullmatch(name):
        return [_INDEX.sub("", name)]
    if piece.kind is Kind.HOST:
        is_place = name.rpartition(".")[2].lower() in _NO_FIELD
        return [name] if not is_place and words.owns(name) else []
    return [name] if last in _NAMES and words.owns(name) else []


def _last_word(piece: Piece, kept: Sequence[str]) -> str:
    if piece.kind in (Kind.LITERAL, Kind.WORD):
        found = _LETTERS.findall(piece.text)
        return found[-1] if found else ""
    return kept[-1] if kept else ""


def _is_capital(word: str) -> bool:
    return word[:1].isupper() and not word.isupper()


def _singular(word: str) -> str:
    if word in _ALIKE:
        return _ALIKE[word]
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _fields(error: BaseException, words: _Words) -> list[str]:
    """The fields that a validator refuses, and why: pydantic, jsonschema, marshmallow."""
    details = _pydantic(error)
    if details is not None:
        named = {
            f"{_field(detail.get('loc'))} {_rule(_name(detail.get('type')))}"
            for detail in details[:_FIELDS]
            if isinstance(detail, Mapping)
        }
        return [_name(attribute(error, "title")), *sorted(named)]
    validator, path = attribute(error, "validator"), attribute(error, "absolute_schema_path")
    if isinstance(validator, str) and path is not None:
        missing = text_of(error).partition("'")[2].partition("'")[0]
        named_field = missing if validator == "required" and words.owns(missing) else ""
        return [validator, _field(path), named_field]
    rule, place = attribute(error, "rule"), attribute(error, "path")
    if isinstance(rule, str) and isinstance(place, list | tuple):
        return [rule[:_LONGEST_NAME], _field(place)]
    messages = attribute(error, "messages")
    if isinstance(messages, Mapping):
        refused = islice(messages.items(), _FIELDS)
        return sorted(f"{_name(name)} {_message(value, words)}" for name, value in refused)
    return []


def _message(value: Any, words: _Words) -> str:
    first = value[0] if isinstance(value, list) and value else value
    return " ".join(_stable(pieces(first), words)) if isinstance(first, str) else ""


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
    return ".".join(step if _IDENTIFIER.fullmatch(step) else "" for step in steps)


# Place.


def _place(error: BaseException, *, only_own: bool) -> list[str]:
    """Module and function of the team's own code that called what failed."""
    frames = _frames(error.__traceback__)
    own = [frame for frame in frames if not _is_library(frame)]
    if isinstance(error, RecursionError) and own:
        # The depth at which a recursion ends is chance; the functions in it are not.
        return min(map(_function, own))
    if own:
        return _function(own[-1])
    return _function(frames[-1]) if frames and not only_own else []


def _frames(trace: TracebackType | None) -> list[FrameType]:
    frames: list[FrameType] = []
    steps = 0
    while trace is not None and steps < _STEPS:
        frames.append(trace.tb_frame)
        trace, steps = trace.tb_next, steps + 1
    return frames[-_FRAMES:]


def _function(frame: FrameType) -> list[str]:
    names = frame.f_code.co_qualname.split(".")
    # A comprehension is no function since Python 3.12.
    while len(names) > 2 and names[-1] in ("<listcomp>", "<dictcomp>", "<setcomp>"):
        names = names[:-2]
    return [_module(frame), ".".join(names)]


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _is_library(frame: FrameType) -> bool:
    code: CodeType = frame.f_code
    if _module(frame).partition(".")[0] in _LIBRARIES:
        return True
    return any(part in code.co_filename for part in _LIBRARY_PATHS)


# The dependency.


def _target(chain: Sequence[Link], words: _Words) -> str:
    """The host that was called, or what else names the dependency; empty if unknown."""
    for link in chain:
        for host in _hosts(link.error):
            return _host(host, words)
    for link in chain:
        if _may_name_a_host(link.error):
            for match in _HOST_IN_TEXT.finditer(text_of(link.error)[:LONGEST_TEXT]):
                if match["host"].lower() not in _NO_HOST:
                    port = match["port"] or match["apart"]
                    return _host(f"{match['host']}:{port}" if port else match["host"], words)
    return ""


def _is_of_database(error: BaseException) -> bool:
    return any(name in _DBAPI for name, _ in names_of(error))


def _may_name_a_host(error: BaseException) -> bool:
    no_answer = isinstance(error, ConnectionError | TimeoutError) or any(
        pattern.search(name)
        for name, _ in names_of(error)
        for pattern in (codes.TIMEOUT_NAME, codes.NO_CONNECTION_NAME)
    )
    return no_answer or isinstance(error, OSError) or _is_of_database(error)


def _hosts(error: BaseException) -> Iterator[str]:
    for holder in (attribute(error, "request"), attribute(error, "response"), error):
        url = attribute(holder, "url")
        if url is not None and not callable(url):
            host = _host_of_url(str(url)[:LONGEST_TEXT])
            if host:
                yield host
    for holder in (error, attribute(error, "pool"), attribute(error, "_conn")):
        host, port = attribute(holder, "host"), attribute(holder, "port")
        if isinstance(host, str) and host:
            yield f"{host}:{port}" if isinstance(port, int) else host
    endpoint = attribute(error, "kwargs")
    if isinstance(endpoint, Mapping) and isinstance(endpoint.get("endpoint_url"), str):
        yield _host_of_url(endpoint["endpoint_url"])


def _host_of_url(url: str) -> str:
    rest = url.partition("://")[2]
    return re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]


def _host(host: str, words: _Words) -> str:
    name, _, port = host.lower()[:_TARGET_LENGTH].rpartition(":")
    if not port.isdecimal():
        name, port = host.lower()[:_TARGET_LENGTH], ""
    port = "" if port in _USUAL_PORTS else port
    if _ADDRESS.fullmatch(name):
        name = "address"
    elif "." in name and words.in_letter(name):
        # The letter names its endpoint: the failure is the same for all of them.
        name = "of the letter"
    else:
        name = _DIGITS.sub("#", name)
    return f"{name}:{port}"
