"""What each kind of value is in words, how it is checked, and what pydantic is told of it.

Declarations are dataclasses of the functions' library, which knows no pydantic. So the methods by
which pydantic asks an annotation are given to `ValueKind`, `Setting` and `Fixed` here.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import EnumMeta
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import jmespath
from jmespath import functions
from jmespath.exceptions import JMESPathError
from pydantic_core import PydanticCustomError, core_schema

from deadletter.contract import EVERYTHING, NOTHING, PARKED_FOR, PATH_FUNCTIONS
from deadletter.settings.setting import Fixed, Setting, ValueKind

from .arn import Arn, NotAnArn, is_token
from .duration import MINUTE, seconds, written

# Lambda allows 64 characters for "<app>-<pipeline>-consumer". Names with an id of a queue can be
# longer than their service allows; `infra.context` checks each of them.
APP_LENGTH, PIPELINE_LENGTH, ID_LENGTH = 24, 28, 16

# JMESPath itself notices an unknown function only when it meets a message, and finds nothing.
_FUNCTIONS = {*functions.Functions.FUNCTION_TABLE, *PATH_FUNCTIONS}

T = TypeVar("T")
Check = Callable[[str], bool]


def _like(words: str, pattern: str, longest: int = 500) -> tuple[str, Check]:
    shape = re.compile(pattern)
    return words, lambda text: len(text) <= longest and shape.fullmatch(text) is not None


def _named(length: int) -> tuple[str, Check]:
    words = "lower-case letters, digits and single hyphens, starting with a letter, at most"
    return _like(f"{words} {length} characters", r"[a-z][a-z0-9]*(-[a-z0-9]+)*", length)


def _arn(service: str, pattern: str, example: str) -> tuple[str, Check]:
    def check(text: str) -> bool:
        try:
            arn = Arn.parse(text)
        except NotAnArn:
            return False
        return arn.service == service and re.fullmatch(pattern, arn.resource) is not None

    where = "arn:aws:{}:eu-west-1:111122223333:{}"
    return f"an ARN like {where.format(service, example)}", check


def _is_path(text: str) -> bool:
    try:
        tree = jmespath.compile(text).parsed
    except JMESPathError:
        return False
    return _called(tree) <= _FUNCTIONS


def _called(tree: Mapping[str, Any]) -> set[str]:
    """The names of the functions that an expression calls."""
    own = {tree["value"]} if tree["type"] == "function_expression" else set()
    return own.union(*map(_called, tree["children"]))


# The words for what is allowed, and the check of a text that is no token of the CDK.
TEXTS: Mapping[ValueKind, tuple[str, Check]] = {
    ValueKind.APP_NAME: _named(APP_LENGTH),
    ValueKind.PIPELINE_NAME: _named(PIPELINE_LENGTH),
    ValueKind.ID: _named(ID_LENGTH),
    # One line of a description of 1,024 characters.
    ValueKind.LINE: _like(
        "text of at most 80 characters, without line breaks", r"[^\x00-\x1f\x7f]+", 80
    ),
    ValueKind.PATH: (
        "a JMESPath expression, such as body.tenant or json(body.Message).tenant",
        _is_path,
    ),
    ValueKind.COMPARED: (
        f"{EVERYTHING}, {NOTHING}, or a JMESPath expression, such as body.order",
        lambda text: text in (EVERYTHING, NOTHING) or _is_path(text),
    ),
    ValueKind.PARKED_FOR: (", ".join(map(str, PARKED_FOR)), lambda text: text in PARKED_FOR),
    ValueKind.QUEUE_ARN: _arn("sqs", r"[A-Za-z0-9_-]{1,75}(\.fifo)?", "orders"),
    ValueKind.FUNCTION_ARN: _arn(
        "lambda", r"function:[A-Za-z0-9_-]{1,64}(:[A-Za-z0-9_$-]+)?", "function:orders"
    ),
    ValueKind.TOPIC_ARN: _arn("sns", r"[A-Za-z0-9_-]{1,256}", "pager"),
    ValueKind.KEY_ARN: _arn("kms", r"key/[A-Za-z0-9-]+", "key/1234abcd-12ab-34cd"),
    # Queries and users may hold secrets, which must not be in a function's environment.
    ValueKind.URL: _like(
        "an https URL on port 443, without query, such as https://api.example/health",
        r"https://[A-Za-z0-9.-]+(:443)?(/[^\s?#]*)?",
    ),
    ValueKind.UUID: _like(
        "a UUID such as 1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f",
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    ),
    ValueKind.SUBNET: _like("an id such as subnet-0123456789abcdef0", "subnet-.+"),
    ValueKind.SECURITY_GROUP: _like("an id such as sg-0123456789abcdef0", "sg-.+"),
}

# How a duration is typed, and the pattern for it in the schema.
NOTATION = ", in seconds or written like 90s, 15m, 4d"
_WRITTEN = {"type": "string", "pattern": "^[0-9]{1,9}[smhd]$"}
_DURATIONS = (ValueKind.SECONDS, ValueKind.MINUTES)


@cache
def hints(declaration: Any) -> Mapping[str, Any]:
    """The annotation of each field of a declaration that a person may type."""
    annotations = get_type_hints(declaration, include_extras=True)
    named = {item.name: annotations[item.name] for item in fields(declaration)}
    return {name: hint for name, hint in named.items() if _mark(hint, Setting)}


@cache
def says(declaration: Any) -> Mapping[str, str]:
    """The docstring below each field of a declaration: the functions do not load it."""
    said = {}
    for base in filter(is_declared, reversed(declaration.__mro__)):
        [tree] = ast.parse(inspect.getsource(base)).body
        for field, below in pairwise(tree.body):  # type: ignore[attr-defined]
            match field, below:
                case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                    said[name] = " ".join(text.split())
    return said


def marked(hint: Any) -> Setting:
    """The limits in an annotation."""
    return _mark(hint, Setting) or Setting()


def kind_of(hint: Any) -> ValueKind | None:
    """What a text or a number in an annotation is, beyond its type."""
    return _mark(hint, ValueKind)


def is_declared(kind: Any) -> bool:
    """Whether it is a declaration, so an object to a person."""
    return is_dataclass(kind)


def bare(hint: Any) -> Any:
    """The type in an annotation, without `| None`: of that, a person types nothing."""
    if get_origin(hint) is Annotated:
        return bare(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        rest = [part for part in get_args(hint) if part is not NoneType]
        return bare(rest[0]) if len(rest) == 1 else hint
    return hint


def words(hint: Any) -> str:
    """What a value may be."""
    limits, plain, kind = marked(hint), bare(hint), kind_of(hint)
    if limits.allowed:
        return limits.allowed
    if kind in _DURATIONS:
        whole = " of whole minutes" if kind is ValueKind.MINUTES else ""
        return f"a duration{whole}{_bounds(limits, written)}{NOTATION}"
    if kind is not None:
        return TEXTS[kind][0]
    if is_declared(plain):
        return f"an object with the keys {', '.join(hints(plain))}"
    if isinstance(plain, EnumMeta):
        return ", ".join(map(str, plain))
    match get_origin(plain), get_args(plain):
        case origin, choices if origin is Literal:
            return ", ".join(map(str, choices))
        case origin, [item, *_] if origin is tuple:
            return f"a list{', at least one, ' if limits.least else ', '}each item {words(item)}"
        case _, [_, value]:
            return f"an object, each value {words(value)}"
    if plain is bool:
        return "true or false"
    if plain is int:
        return f"a whole number{_bounds(limits, '{:.0f}'.format)}"
    if plain is float:
        return f"a number{_bounds(limits, '{:g}'.format)}"
    return "text" if limits.most is None else f"text of at most {limits.most} characters"


def is_optional(hint: Any) -> bool:
    """Whether a person may also type nothing at all."""
    plain = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return NoneType in get_args(plain)


def is_duration(hint: Any) -> bool:
    """Whether a value is seconds, which a person may also write like 15m."""
    return kind_of(hint) in _DURATIONS


def _bounds(limits: Setting, show: Callable[[float], str]) -> str:
    low, high = limits.least, limits.most
    if limits.above is not None:
        return f" above {show(limits.above)}" + ("" if high is None else f", up to {show(high)}")
    if low is not None:
        return f", at least {show(low)}" if high is None else f" from {show(low)} to {show(high)}"
    return ""


def _marks(hint: Any) -> list[Any]:
    """What an annotation says beside the type, also within `| None`."""
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        return [*_marks(inner), *marks]
    if get_origin(hint) in (Union, UnionType):
        return [mark for part in get_args(hint) for mark in _marks(part)]
    return []


def _mark(hint: Any, sort: type[T]) -> T | None:
    return next((mark for mark in _marks(hint) if isinstance(mark, sort)), None)


def _schema_of_kind(kind: ValueKind, source: Any, _handler: Any) -> Any:
    schema = _schema_of(kind)
    return core_schema.nullable_schema(schema) if NoneType in get_args(source) else schema


def _schema_of(kind: ValueKind) -> Any:
    if kind in _DURATIONS:
        step = MINUTE if kind is ValueKind.MINUTES else None
        whole = core_schema.int_schema(strict=True, multiple_of=step)
        return core_schema.no_info_before_validator_function(seconds, whole)
    check = TEXTS[kind][1]

    def checked(text: str) -> str:
        if not is_token(text) and not check(text):
            raise PydanticCustomError("refused", "not of this kind")
        return text

    return core_schema.no_info_after_validator_function(
        checked, core_schema.str_schema(strict=True)
    )


def _schema_of_setting(limits: Setting, source: Any, handler: Any) -> Any:
    schema: Any = handler(source)
    inner = schema
    while inner["type"] in ("nullable", "function-before", "function-after", "default"):
        inner = inner["schema"]
    if inner["type"] in ("bool", "int", "float", "str"):
        inner["strict"] = True
    if inner["type"] == "float":
        inner["allow_inf_nan"] = False
    least, most = (
        ("ge", "le") if inner["type"] in ("int", "float") else ("min_length", "max_length")
    )
    told = {least: limits.least, most: limits.most, "gt": limits.above}
    inner.update({key: limit for key, limit in told.items() if limit is not None})
    return schema


def _schema_of_fixed(_fixed: Fixed, _source: Any, _handler: Any) -> core_schema.CoreSchema:
    def refuse(_typed: object) -> None:
        raise PydanticCustomError("unexpected_keyword_argument", "no person types it")

    anything = core_schema.any_schema()
    return core_schema.no_info_plain_validator_function(refuse, json_schema_input_schema=anything)


def _json_of_kind(kind: ValueKind, schema: Any, handler: Any) -> Any:
    described = handler(schema)
    return {"anyOf": [described, _WRITTEN]} if kind in _DURATIONS else described


for _asked, _sort, _answer in (
    ("__get_pydantic_core_schema__", ValueKind, _schema_of_kind),
    ("__get_pydantic_core_schema__", Setting, _schema_of_setting),
    ("__get_pydantic_core_schema__", Fixed, _schema_of_fixed),
    ("__get_pydantic_json_schema__", ValueKind, _json_of_kind),
):
    setattr(_sort, _asked, _answer)
