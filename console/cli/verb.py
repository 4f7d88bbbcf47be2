"""Makes a command of a verb: its options from the request, and the questions before a change."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from ..operations.audit import told_in_part
from ..operations.errors import Cause, Problem
from ..operations.session import Session
from ..operations.verbs import PIPELINE, AskedField, Planned, TextFile, Verb, always
from . import asking, completion
from .command import OF_PIPELINES, SomePipelines, command, option
from .exit import Exit
from .output import Block, Reply, end_progress, said

Show = Callable[[Any], Iterable[Block]]

DRY_RUN = option(
    "dry_run",
    Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and change nothing.")],
    default=False,
)


@dataclass(frozen=True, slots=True)
class VerbView:
    """A verb as a command, and its answer for a person (`show`).

    attention  whether the exit status is 1, as something has failed or needs a person
    ask        completes a plan with what a person says
    follow     what was done, with what has come of it
    check      whether --check, if the request has it, ends with 1
    watch      shows the answer again and again with --watch, and returns the last one
    says_plan  whether a person who was not asked reads the plan above the answer
    """

    verb: Verb
    show: Show
    attention: Callable[[Any], object] = lambda _: False
    ask: Callable[[Session, Any], Any] = lambda _, plan: plan
    follow: Callable[[Session, Any], Any] = lambda _, done: done
    check: Callable[[Any], bool] = lambda _: False
    watch: Callable[[Callable[[], Any]], Any] | None = None
    says_plan: bool = False


def add(parent: typer.Typer, view: VerbView) -> None:
    """Make the view a command of `parent`."""
    verb, show = view.verb, view.show
    asked = list(verb.asked())

    def run(session: Session, /, **given: Any) -> Reply[Any]:
        request = verb.request(**_values(asked, given))
        if verb.read is not None:
            read = partial(verb.read, session, request)
            shown = view.watch is not None and request.watch
            answer = view.watch(read) if view.watch is not None and shown else read()
            is_found = getattr(request, "check", False) and view.check(answer)
            ends = _status(is_found or view.attention(answer))
            return Reply(answer, (lambda _: ()) if shown else show, ends)
        unasked: list[str] = []
        with told_in_part(session):
            done = _change(session, view, request, given, unasked)
            if isinstance(done, Planned):
                return Reply(done, _planned)
            done = view.follow(session, done)
        plan = chain(*map(said, unasked)) if view.says_plan else ()
        return Reply(done, lambda done: chain(plan, show(done)), _status(view.attention(done)))

    options = [
        option(field.name, _annotation(field), _default(field))
        for field in asked
        if field.asked is not PIPELINE
    ]
    if verb.prepare and verb.reasoned:
        options.append(option("reason", asking.Reason if verb.change else asking.Why))
    if verb.question is not None:
        options += [DRY_RUN] if verb.plans else []
        options += [option("yes", asking.Yes, default=False)] if verb.severe is not always else []
    if verb.severe is not None:
        options.append(option("confirm", asking.Confirm))
    if any(field.names_pipelines for field in asked):
        options.append(option(OF_PIPELINES, SomePipelines))
    run.__dict__["view"] = view
    command(parent, verb.name, run, options, says=verb.help, example=verb.examples)


def _status(attention: object) -> Exit:
    return Exit.ATTENTION if attention else Exit.DONE


def _change(
    session: Session, view: VerbView, request: Any, given: dict[str, Any], unasked: list[str]
) -> Any:
    """What was done, or with --dry-run what would be: prepare, ask, commit.

    With --yes the plan is added to `unasked`.
    """
    verb = view.verb
    assert verb.prepare is not None
    assert verb.commit is not None
    only_planned, reason = given.get("dry_run"), given.get("reason")
    change = verb.change(request) if callable(verb.change) else verb.change
    why = asking.reason(reason, "" if only_planned else change)
    plan = verb.prepare(session, request)
    end_progress()
    if verb.question is None:
        return verb.commit(session, plan, why)
    plan = view.ask(session, plan)
    would = list(verb.question(plan))
    if only_planned:
        would += verb.trial(session, plan) if verb.trial is not None else ()
        end_progress()
        return Planned(**session.place, would=would)
    if verb.severe is not None and verb.severe(plan):
        asking.confirm_by_name(session, given["confirm"], *would)
    elif given["yes"]:
        unasked += would
    elif would:
        asking.confirm(session, *would)
    return verb.commit(session, plan, why)


def _values(asked: Sequence[AskedField], given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a request: what was typed, and the pipelines of -p in the field for them."""
    values = {}
    for field in asked:
        typed = None if field.asked is PIPELINE else given[field.name]
        value = _value(field, typed)
        if field.names_pipelines:
            named = value if field.repeats else filter(None, [value])
            pipelines = (*named, *(given[OF_PIPELINES] or ()))
            value = pipelines if field.repeats else _only(pipelines)
        values[field.name] = value
    return values


def _only(pipelines: Sequence[str]) -> str | None:
    """The one pipeline that was named; None without any."""
    several = tuple(dict.fromkeys(pipelines))
    if len(several) > 1:
        raise Problem(f"Two pipelines, {' and '.join(several)}: name one of them.", Cause.INPUT)
    return several[0] if several else None


def _value(field: AskedField, typed: Any) -> Any:
    if field.kind is TextFile:
        named = typed or () if field.repeats else [typed]
        files = [TextFile(name, _read_text(name)) for name in named]
        return tuple(files) if field.repeats else files[0]
    if field.repeats:
        return tuple(_read(typed))
    return _read_text(typed) if field.asked.reads and typed is not None else typed


def _read_text(path: str) -> str:
    """The text of a file, or of standard input for "-"; Problem if it can't be read."""
    try:
        if path == "-":
            return sys.stdin.read()
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Problem(f"Can't read {path}: {why}.", Cause.INPUT) from error


def _read(typed: Sequence[str] | None) -> Iterator[str]:
    """What was typed several times; @FILE is each line of a file, and match=@FILE all of it."""
    for each in typed or ():
        if each.startswith("@"):
            yield from filter(None, map(str.strip, _read_text(each[1:]).splitlines()))
        elif each.startswith(_PATTERN):
            yield f"{_PATTERN[:-1]}{_read_text(each.removeprefix(_PATTERN))}"
        else:
            yield each


_PATTERN = "match=@"


def _planned(answer: Planned) -> Iterable[Block]:
    return chain(*map(said, answer.would))


_COMPLETED = {
    "run": completion.runs,
    "name": completion.names,
    "rule": completion.rules,
}
"""Fields whose values the shell completes."""


def _default(field: AskedField) -> Any:
    if field.required:
        return inspect.Parameter.empty
    return None if field.repeats else field.default


def _annotation(field: AskedField) -> Any:
    """What Typer is told of a field."""
    asked = field.asked
    more: dict[str, Any] = {"min": asked.least, "max": asked.most, "metavar": asked.metavar or None}
    more = {name: each for name, each in more.items() if each is not None}
    kind: Any = str if field.kind is TextFile else field.kind
    kind = list[kind] if field.repeats else kind
    if field.default is None and not field.required:
        kind = kind | None
    if field.names_pipelines:
        more["autocompletion"] = completion.pipelines
    if field.name in _COMPLETED:
        more["autocompletion"] = _COMPLETED[field.name]
    if not asked.names:
        return Annotated[kind, typer.Argument(help=asked.says, **more)]
    return Annotated[kind, typer.Option(*asked.names, help=asked.says, **more)]
