"""Typed settings as their declaration, or the first mistake in them as one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from deadletter.settings.setting import ValueKind

from .kinds import bare, hints, is_declared, kind_of, words
from .refusal import Refused, shown, value_refused

T = TypeVar("T")


def checked(declaration: Callable[..., T], typed: object, owner: str) -> T:
    """What was typed, as its declaration. Raises Refused with one sentence about the `owner`."""
    try:
        made: T = adapter(declaration).validate_python(typed)
        return made
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    raise Refused(f"{owner}: {_sentence(declaration, first, typed)}")


@cache
def adapter(declaration: Any) -> TypeAdapter[Any]:
    """Pydantic's reading of a declaration."""
    return TypeAdapter(declaration)


def paths(declaration: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Path and annotation of each setting, an object before what is in it."""
    for name, hint in hints(declaration).items():
        yield f"{above}{name}", hint
        if is_declared(inner := bare(hint)):
            yield from paths(inner, f"{above}{name}.")


def values_of(settings: Any, *kinds: ValueKind) -> Iterator[tuple[str, str]]:
    """Path and value of each setting of these kinds that has one."""
    declaration: Any = type(settings)
    for path in _paths_of(declaration, kinds):
        if value := attrgetter(path)(settings):
            yield path, value


# Each pipeline of a hundred is checked beside all others.
@cache
def _paths_of(declaration: Any, kinds: tuple[ValueKind, ...]) -> Sequence[str]:
    return [path for path, hint in paths(declaration) if kind_of(hint) in kinds]


def as_typed(typed: Any, steps: Sequence[int | str], otherwise: object) -> object:
    """The value at these steps as a person wrote it; `otherwise` if it is a default."""
    for step in steps:
        try:
            typed = typed[step]
        except (KeyError, IndexError, TypeError):
            return otherwise
    return typed


def _sentence(declaration: Any, error: Mapping[str, Any], typed: object) -> str:
    steps = [step for step in error["loc"] if step != "[key]"]
    wrong_key = len(steps) < len(error["loc"])
    path, hint = "", declaration
    for step in steps:
        inner: Any = bare(hint)
        if isinstance(step, int):
            path, hint = f"{path}[{step}]", get_args(inner)[0]
            continue
        above, path = path, f"{path}.{step}" if path else step
        if not is_declared(inner):
            hint = get_args(inner)[0 if wrong_key else 1]
        elif step in hints(inner):
            hint = hints(inner)[step]
        else:
            return _unknown(declaration, inner, above, path)
    if wrong_key:
        above, _, key = path.rpartition(".")
        return f"{above} has the key {shown(key)}; allowed: {words(hint)}."
    if error["type"] == "missing":
        return f"{path} is missing; allowed: {words(hint)}."
    value = as_typed(typed, steps, error["input"])
    return f"{value_refused(path or 'the whole', value, words(hint))}."


def _unknown(declaration: type, parent: Any, above: str, path: str) -> str:
    """That there is no such setting, and which one was probably meant."""
    said, key = f"there is no setting {path}", path.rpartition(".")[2]
    if key in {item.name for item in fields(parent)}:
        return f"{said}: its value is the same for all pipelines, or follows from other settings."
    beside = {name: f"{above}.{name}" if above else name for name in hints(parent)}
    anywhere = {known.rpartition(".")[2]: known for known, _ in paths(declaration)}
    for known in (beside, anywhere):
        for near in get_close_matches(key, known, n=1, cutoff=0.75):
            return f"{said}; did you mean {known[near]}?"
    return f"{said}; docs/settings.md has a table of all."
