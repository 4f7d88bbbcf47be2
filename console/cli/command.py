"""What all commands share: their common options, and how they end.

A command is a function of a Session and its own options that returns a Reply.
`command` makes it a Typer command: it adds the shared options, prints the reply, turns
errors into a sentence and sets the exit status.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from types import SimpleNamespace
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from deadletter.contract import DEFAULT_APP

from ..operations import aws as clients
from ..operations.errors import Cause, Denied, Problem, explain
from ..operations.session import Session
from ..operations.verbs import PIPELINE
from ..operations.words import GIVEN
from . import completion, output
from .commands import BESIDE_READER, help_after_refusal
from .exit import exit_status
from .output import Reply

Profile = Annotated[
    str | None,
    typer.Option(
        "--profile", metavar="NAME", help="AWS profile; else AWS_PROFILE, as in the AWS CLI."
    ),
]
Region = Annotated[
    str | None,
    typer.Option(
        "--region", metavar="NAME", help="AWS region; else AWS_REGION, then the profile's own."
    ),
]
AppName = Annotated[
    str | None,
    typer.Option(
        "--app", metavar="NAME", help=f"Name of the app; else DLQ_APP, else {DEFAULT_APP}."
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON; docs/answers.schema.json describes it.")
]
AsLines = Annotated[
    bool,
    typer.Option("--jsonl", help="Print JSON lines: each row of the answer's first list, or it."),
]
Query = Annotated[
    str | None,
    typer.Option("--query", metavar="JMESPATH", help="Print this part of the JSON only."),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

_PIPELINE: Any = typer.Option(
    *PIPELINE.names,
    metavar=PIPELINE.metavar,
    help=PIPELINE.says,
    autocompletion=completion.pipelines,
)
SomePipelines = Annotated[list[str] | None, _PIPELINE]


@dataclass(frozen=True, slots=True)
class Shared:
    """The options of every command, written before or after its name.

    `pipeline` is one of those commands that are about pipelines.
    """

    profile: Profile = None
    region: Region = None
    app: AppName = None
    json: AsJson = False
    jsonl: AsLines = False
    query: Query = None
    debug: Debug = False
    pipeline: SomePipelines = None

    def over(self, outer: Shared) -> Shared:
        """These options, completed by those written before the command's name."""
        return Shared(*(getattr(self, o.name) or getattr(outer, o.name) for o in fields(Shared)))


OF_PIPELINES = "of_pipelines"
"""The parameter of -p, which a command about pipelines has."""


def option(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    """A parameter from which Typer makes an option or an argument of a command."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


ALL_SHARED = tuple(
    option(each.name, each.annotation, each.default)
    for each in inspect.signature(Shared, eval_str=True).parameters.values()
)
SHARED = tuple(each for each in ALL_SHARED if each.name != "pipeline")


SHARED_TITLE = "Options of every command"
"""The heading of the shared options in a help page."""


class _AsTyped:
    """Takes texts and defaults as they are: to convert them Typer loads pydantic, 0.1 s of CPU."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)  # type: ignore[misc]  # of the command that it is mixed in
        for each in params:
            if "get_runtime_param" not in vars(each):
                read = SimpleNamespace(coerce=partial(_read, each.get_runtime_param))
                each.get_runtime_param = lambda read=read: read
        return params


def _read(convert: Callable[[], Any], value: Any, param: Any, ctx: Any) -> Any:
    """What was typed for a parameter, converted if it is more than a text."""
    kind = param.type_descriptor.annotation
    several = kind == list[str]
    values = (value or ()) if several else (value,)
    if all(isinstance(each, str if several else kind | None) for each in values):
        return tuple(values) if several else value
    return convert().coerce(value, param=param, ctx=ctx)


class _Command(_AsTyped, TyperCommand):
    """A command whose help lists its own options first, then those of all commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # Only Typer's error of an unknown option has both, and Typer does not export it.
            if hasattr(error, "option_name") and hasattr(error, "possibilities"):
                from . import did_you_mean

                own = [name for parameter in self.get_params(ctx) for name in parameter.opts]
                error.possibilities = did_you_mean.options(error.option_name, own)
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        shared = {option.name for option in SHARED} | {OF_PIPELINES, "help"}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                title = SHARED_TITLE if parameter.name in shared else "Options"
                if parameter.param_type_name == "argument":
                    # Without the type that Typer appends to the name.
                    title, record = "Arguments", (record[0].partition(" ")[0], record[1])
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Group(_AsTyped, TyperGroup):
    """A group that knows what a person meant by a word that is no command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        typed = args[0]
        is_known = typed.startswith("-") or self.get_command(ctx, typed) is not None
        if not is_known and not ctx.resilient_parsing:
            # Only a mistake needs the table of words.
            from . import did_you_mean

            own = self.list_commands(ctx)
            group = ctx.command_path.partition(" ")[2]
            then = args[1] if len(args) > 1 else ""
            whole = partial(self._whole, ctx)
            ctx.fail(did_you_mean.answer(typed, group, own, whole, then))
        return super().resolve_command(ctx, args)

    def _whole(self, ctx: Any, name: str) -> str:
        """A command's name with what has to be typed behind it."""
        entry: Any = self.get_command(ctx, name)
        needed = [each for each in entry.params if each.required]
        arguments = [each.metavar for each in needed if each.param_type_name == "argument"]
        options = [f"{each.opts[0]} {each.metavar}" for each in needed if each.opts[0][0] == "-"]
        return " ".join([name, *arguments, *options])


def plain_typer(**settings: Any) -> typer.Typer:
    """A Typer app with plain-text help and errors: stable, and fast without Rich."""
    return typer.Typer(
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        suggest_commands=False,
        **settings,
    )


def examples(*lines: str) -> str:
    """The end of a help page; \b keeps Typer from joining the lines."""
    return "\n".join(["\b", "Examples:", *(f"  {text}" for text in lines)])


def with_options(run: Callable[..., None], options: Iterable[inspect.Parameter]) -> Any:
    """The function with these options: Typer learns them from its signature."""
    parameters = [option("context", typer.Context, inspect.Parameter.empty), *options]
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def command(
    parent: typer.Typer,
    name: str,
    run: Callable[..., Reply[Any]],
    options: Iterable[inspect.Parameter],
    *,
    says: str,
    example: Sequence[str],
) -> None:
    """Makes a function the command `name` of `parent`, with its own options and the shared ones."""

    def called(context: typer.Context, **given: Any) -> None:
        here = Shared(**{each.name: given.pop(each.name) for each in SHARED})
        shared = here.over(context.find_object(Shared) or Shared())
        words = context.command_path.partition(" ")[2]
        if OF_PIPELINES in given:
            given[OF_PIPELINES] = given[OF_PIPELINES] or shared.pipeline
        elif shared.pipeline:
            context.fail(f"dlq {words} is about no pipeline: leave {PIPELINE.names[0]} out.")
        places = (*(given.get("places") or ()), given.get("name") or "")
        any_queue = any(each.startswith("queue:") for each in places)
        perform(shared, partial(run, **given), _typed(words, given), any_queue=any_queue)

    called.__dict__["__wrapped__"] = run
    made = parent.command(name, cls=_Command, help=says, epilog=examples(*example))
    made(with_options(called, [*options, *SHARED]))


def _typed(words: str, given: Mapping[str, Any]) -> str:
    """The words of a command, with the option for which it takes more policies."""
    options = (f"{words} --{name.replace('_', '-')}" for name in given if given[name] is True)
    return next(filter(BESIDE_READER.__contains__, options), words)


def perform(
    shared: Shared,
    run: Callable[[Session], Reply[Any]],
    words: str,
    *,
    any_queue: bool = False,
) -> None:
    """Runs a command, prints its reply or error, and ends the program with its exit status.

    `words` are those of the command, after `dlq`; `any_queue` says that it looks at a queue of
    no app.
    """
    GIVEN.update(profile=shared.profile, region=shared.region, app=shared.app)
    app = shared.app or os.environ.get("DLQ_APP") or DEFAULT_APP
    try:
        query = output.compiled(shared.query)
        connect = partial(clients.connect, shared.profile, shared.region)
        try:
            reply = run(Session(connect, app, say=output.say, pause=output.pause))
        finally:
            output.end_progress()
        output.write(reply, as_json=shared.json, as_lines=shared.jsonl, query=query)
    except BrokenPipeError:
        raise
    except Exception as error:
        problem = explain(error) or _bug(error)
        if shared.debug:
            traceback.print_exc()
        more = ""
        if isinstance(problem, Denied):
            more = help_after_refusal(words, app, any_queue=any_queue)
        output.show(output.said(f"Error: {problem.says}{more}"), sys.stderr)
        raise typer.Exit(exit_status(problem)) from error
    raise typer.Exit(reply.exit_status)


def _bug(error: Exception) -> Problem:
    # Only its type: the text of an error may quote a message.
    return Problem(
        f"dlq itself failed ({type(error).__name__}), which is a bug: "
        "run it again with --debug and report what it shows.",
        Cause.BUG,
    )
