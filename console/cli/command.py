"""What all commands share: the options that every one takes, and how it ends.

A command is a function of a Session and its own options that returns a Reply.
`command` makes it a Typer command: it adds the shared options, prints the reply, turns
errors into one sentence and sets the exit status.
"""

from __future__ import annotations

import inspect
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Annotated, Any, Concatenate, ParamSpec

import typer
from typer.core import TyperCommand, TyperGroup

from deadletter.contract import DEFAULT_APP

from ..operations import app as apps
from ..operations import aws as clients
from ..operations.problem import Exit, Problem
from . import output
from .output import Reply, line, printable

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
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; docs/cli.md lists its keys.")]
Query = Annotated[
    str | None,
    typer.Option("--query", metavar="JMESPATH", help="Print this part of the JSON only."),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

OnePipeline = Annotated[
    str | None,
    typer.Option("--pipeline", metavar="NAME", help="The pipeline; needed if the app has several."),
]
SomePipelines = Annotated[
    list[str] | None,
    typer.Option(
        "--pipeline", metavar="NAME", help="Only this pipeline; may be given several times."
    ),
]


@dataclass(frozen=True, slots=True)
class Shared:
    """What the options say that every command takes, before or after its name."""

    profile: Profile = None
    region: Region = None
    app: AppName = None
    json: AsJson = False
    query: Query = None
    debug: Debug = False

    def over(self, outer: Shared) -> Shared:
        """These options; where they say nothing, those written before the command's name."""
        return Shared(*(getattr(self, f.name) or getattr(outer, f.name) for f in fields(Shared)))


SHARED = tuple(
    one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    for one in inspect.signature(Shared, eval_str=True).parameters.values()
)


@dataclass(frozen=True)
class Session:
    """Where a command looks: one app, in one account and region. `clock` is in epoch seconds."""

    connect: Callable[[], clients.Aws]
    app_name: str
    clock: Callable[[], float] = time.time

    @cached_property
    def aws(self) -> clients.Aws:
        """Connected when first asked for: what works on files alone needs no region."""
        return self.connect()

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock(), UTC)

    def app(self) -> apps.App:
        """The app as it is deployed; raises Problem if it is not there."""
        return apps.find(self.aws, self.app_name)

    def agreed(self, *question: str) -> None:
        """Asks before something changes, and says in which account and region it would.

        Raises Problem if the answer is not yes, or if nobody is there to answer.
        """
        if not interactive():
            raise Problem("Nobody to ask here, so nothing was done: add --yes.", Exit.USAGE)
        where = f"App {self.app_name} in account {self.aws.account}, {self.aws.region}."
        output.show([line(where), *(line(one) for one in question)], sys.stderr)
        if (ask("Go on? [y/N]") or "").lower() not in ("y", "yes"):
            raise Problem("Nothing was done.", Exit.ATTENTION)


def interactive() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty()


def ask(question: str) -> str | None:
    """What the person answers; None if nobody is there."""
    if not interactive():
        return None
    sys.stderr.write(f"{printable(question)} ")
    sys.stderr.flush()
    return sys.stdin.readline().strip()


class _Command(TyperCommand):
    """A command whose help lists its own options first, and those of all commands below."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        shared = {one.name for one in SHARED} | {"help"}
        for one in self.get_params(ctx):
            if (record := one.get_help_record(ctx)) is not None:
                title = "Options of every command" if one.name in shared else "Options"
                if one.param_type_name == "argument":
                    # Without the type that Typer writes behind the name.
                    title, record = "Arguments", (record[0].partition(" ")[0], record[1])
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Group(TyperGroup):
    """A group that reads its options only if one stands before the command's name.

    Typer needs 50 ms and more (pydantic) even to find that an option was not given.
    """

    _bare = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        self._bare = bool(args) and not args[0].startswith("-")
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> Any:
        return [] if self._bare else super().get_params(ctx)


def plain_typer(**settings: Any) -> typer.Typer:
    """A Typer app whose help and errors are plain text: stable, and fast without Rich."""
    return typer.Typer(
        rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False, **settings
    )


def group(says: str) -> typer.Typer:
    """An empty command group; `says` is the line about it in the help."""
    made = plain_typer(cls=Group, no_args_is_help=True)
    made.callback(help=says)(_nothing)
    return made


def _nothing() -> None:
    """With a callback, Typer keeps a group of one command a group."""


def examples(*lines: str) -> str:
    """The end of a help page; \b keeps Typer from joining the lines."""
    return "\n".join(["\b", "Examples:", *(f"  {one}" for one in lines)])


P = ParamSpec("P")
Run = Callable[Concatenate[Session, P], Reply[Any]]


def command(
    parent: typer.Typer, name: str, *, example: Sequence[str]
) -> Callable[[Run[P]], Run[P]]:
    """Makes the function below it the command `name` of `parent`, with the shared options."""

    def register(run: Run[P]) -> Run[P]:
        _, *own = inspect.signature(run, eval_str=True).parameters.values()

        def called(context: typer.Context, **given: Any) -> None:
            here = Shared(**{one.name: given.pop(one.name) for one in SHARED})
            asked = here.over(context.find_object(Shared) or Shared())
            perform(asked, partial(run, **given))

        context = inspect.Parameter(
            "context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
        )
        own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
        parameters = [context, *own, *SHARED]
        # Typer learns a command's options from its signature.
        called.__dict__["__signature__"] = inspect.Signature(parameters)
        called.__annotations__ = {one.name: one.annotation for one in parameters}
        called.__dict__["__wrapped__"] = run
        parent.command(name, cls=_Command, help=inspect.getdoc(run), epilog=examples(*example))(
            called
        )
        return run

    return register


def perform(asked: Shared, run: Callable[[Session], Reply[Any]]) -> None:
    """Runs a command and ends the program as it deserves."""
    try:
        query = output.compiled(asked.query)
        connect = partial(clients.connect, asked.profile, asked.region)
        reply = run(Session(connect, asked.app or os.environ.get("DLQ_APP") or DEFAULT_APP))
        output.write(reply, as_json=asked.json, query=query)
    except BrokenPipeError:
        raise
    except Exception as error:
        problem = clients.explain(error) or _bug(error)
        if asked.debug:
            traceback.print_exc()
        sys.stderr.write(f"Error: {printable(problem.says)}\n")
        raise typer.Exit(problem.exit_status) from error
    raise typer.Exit(reply.exit_status)


def _bug(error: Exception) -> Problem:
    # Its name alone: the text of an error may quote a message.
    return Problem(
        f"dlq itself failed ({type(error).__name__}), which is a bug: "
        "run it again with --debug and report what it shows.",
        Exit.BUG,
    )
