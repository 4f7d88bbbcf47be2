"""The place of a failure: which function of the team's own code called what failed."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from itertools import islice
from traceback import walk_tb
from types import FrameType
from typing import Any, NamedTuple

from deadletter.failure.foreign import Link, attribute
from deadletter.failure.vocabulary import words

# Frames read of a traceback; further out, a recursion began.
_FRAMES = 200

# Steps of a traceback: Python's own limit of a recursion is 1,000.
_STEPS = 3_000

# Errors of a chain, and frames of each, that a log shows.
_ERRORS_SHOWN = 5
_FRAMES_SHOWN = 12

# Characters of the path of a file, from its end, and of the name of a function or a class.
_LONGEST_PATH = 80
_LONGEST_NAME = 60

# What is run from a text has a name that the program chose, perhaps by the message.
_SOURCE = re.compile(r"[\w./\\: -]+\.pyc?")

# Arguments read of one call.
_ARGUMENTS = 20


# Libraries by their own name, where they lie beside the handler and not in site-packages.
_LIBRARIES = words(
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


def place_of(error: BaseException, *, only_own: bool) -> list[str]:
    """Module and function of the team's own code that called what failed."""
    frames = frames_of(error)
    own = [frame for frame in frames if not is_library(frame)]
    if isinstance(error, RecursionError) and own:
        # The depth at which a recursion ends is chance; the functions in it are not.
        return min(map(_function, own))
    if own:
        return _function(own[-1])
    return _function(frames[-1]) if frames and not only_own else []


class LibraryCall(NamedTuple):
    """A call of a library by the team's code: the library's name, and what it was given."""

    library: str
    arguments: tuple[Any, ...]


def called_library(error: BaseException) -> LibraryCall | None:
    """The call of a library in which the error was raised; None if it was raised elsewhere.

    A library that is written in C has no frame: its call is unknown.
    """
    frames = frames_of(error)
    inside = len(frames)
    while inside and is_library(frames[inside - 1]):
        inside -= 1
    if inside == len(frames):
        return None
    frame = frames[inside]
    count = frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount
    names = frame.f_code.co_varnames[: min(count, _ARGUMENTS)]
    values = frame.f_locals
    library = module_of(frame).partition(".")[0]
    return LibraryCall(library, tuple(values.get(name) for name in names))


def argument_of(error: BaseException) -> Any:
    """The value that the failed call of C code was given by the team's own function.

    That is a variable, or what constants select in one, as in `Decimal(order["lines"][0]["sum"])`.
    None if the call was given anything else, such as what another function returned: that may come
    from a dependency.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or is_library(trace.tb_frame):
        return None
    # Loaded with the first such error: each function would pay for it at its start.
    from dis import get_instructions

    steps = list(get_instructions(trace.tb_frame.f_code))
    call = next((step for step in steps if step.offset == trace.tb_lasti), None)
    inside = [step for step in steps if call is not None and _is_inside(step, call)]
    others = [step for step in inside if step.opname.startswith("CALL") and step is not call]
    if len(others) != sum(step.argval == "get" for step in inside):
        return None
    variables = trace.tb_frame.f_locals
    loaded = [step.argval for step in inside if step.opname.startswith(("LOAD_FAST", "LOAD_DEREF"))]
    # One step may load two variables.
    names = [name for each in loaded for name in (each if isinstance(each, tuple) else (each,))]
    values = [variables.get(name) for name in names]
    given = [value for value in values if type(value) in (str, dict, list)]
    if len(given) != 1:
        return None
    value: Any = given[0]
    for step in inside:
        if step.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            try:
                value = value[step.argval] if type(value) in (dict, list) else None
            except (LookupError, TypeError):
                return None
    return value


def _is_inside(step: Any, call: Any) -> bool:
    """True if a step of the bytecode belongs to an expression in the source."""
    (first, last, start, end), (line, last_line, column, last_column) = (
        step.positions,
        call.positions,
    )
    if None in (*step.positions, *call.positions):
        return False
    return bool((line, column) <= (first, start) and (last, end) <= (last_line, last_column))


def frames_of(error: BaseException) -> list[FrameType]:
    """The innermost frames of an error's traceback, the innermost last."""
    return [frame for frame, _ in _steps_of(error)]


def _steps_of(error: BaseException) -> list[tuple[FrameType, int]]:
    """The innermost frames of an error's traceback with the line of each, the innermost last."""
    # The frame itself may have gone on to another line since.
    return list(islice(walk_tb(error.__traceback__), _STEPS))[-_FRAMES:]


def where_raised(chain: Sequence[Link]) -> str:
    """File, line and function where the team's own code failed: "shop/cart.py:41 in price_of".

    The innermost frame of the nearest error of the chain that has one of the team's own; without
    any, the innermost frame of the raised error. Empty for an error that was never raised.
    """
    steps = [_steps_of(link.error) for link in chain]
    own = ([step for step in each if not is_library(step[0])] for each in steps)
    return next((_words_of(*each[-1]) for each in (*own, *steps[:1]) if each), "")


def traceback_of(chain: Sequence[Link]) -> tuple[str, ...]:
    """The traceback of a chain of errors, one line for each error and each frame.

    It has the classes of the errors and the places of the calls: no text of an error, no source
    and no value. Frames of this library are left out where others are there.
    """
    lines: list[str] = []
    for link in chain[:_ERRORS_SHOWN]:
        steps = _steps_of(link.error)
        shown = [step for step in steps if module_of(step[0]).partition(".")[0] != "deadletter"]
        name = written_name(type(link.error))[:_LONGEST_NAME]
        lines.append(f"caused by {name}" if lines else name)
        lines += [f"  {_words_of(*step)}" for step in (shown or steps)[-_FRAMES_SHOWN:]]
    return tuple(lines)


def _words_of(frame: FrameType, line: int) -> str:
    path = frame.f_code.co_filename
    # From where it is imported: where that lies differs between machines, and says nothing.
    depth = module_of(frame).count(".") + 1 + path.endswith("/__init__.py")
    file = "/".join(path.split("/")[-depth:])
    shown = file[-_LONGEST_PATH:] if _SOURCE.fullmatch(file) else "code"
    function = frame.f_code.co_qualname.rpartition("<locals>.")[2]
    return f"{shown}:{line} in {function[:_LONGEST_NAME]}"


def _function(frame: FrameType) -> list[str]:
    names = frame.f_code.co_qualname.split(".")
    # A comprehension is no function since Python 3.12.
    while len(names) > 2 and names[-1] in ("<listcomp>", "<dictcomp>", "<setcomp>"):
        names = names[:-2]
    return [module_of(frame), ".".join(names)]


def module_of(frame: FrameType) -> str:
    """The name of the module that a frame's code is of."""
    return str(frame.f_globals.get("__name__", ""))


def is_library(frame: FrameType) -> bool:
    """True for code of Python or of a library, and not of the team."""
    return _is_of_library(module_of(frame), frame.f_code.co_filename)


def is_library_class(kind: type) -> bool:
    """True for a class of Python or of a library, and not of the team."""
    name = str(kind.__module__)
    return _is_of_library(name, str(getattr(sys.modules.get(name), "__file__", "")))


def written_name(kind: type) -> str:
    """The name of the nearest class of an exception that stands in code, such as "OutOfStock".

    A class that a program makes while it runs (`type(name, …)`) may be named by data of a message:
    the name of the class that it is made from is returned for it.
    """
    return next(each.__name__ for each in kind.__mro__ if _is_written(each))


def _is_written(kind: type) -> bool:
    *within, name = kind.__qualname__.split(".")
    if name != kind.__name__:
        return False
    # Libraries make classes too, and name them by what they read of an API, not of a message.
    if "<locals>" in within or is_library_class(kind):
        return True
    holder: Any = sys.modules.get(str(kind.__module__))
    for part in (*within, name):
        holder = attribute(holder, part)
    return isinstance(holder, type)


def _is_of_library(module: str, path: str) -> bool:
    if module.partition(".")[0] in _LIBRARIES:
        return True
    return any(part in path for part in _LIBRARY_PATHS)
