"""`dlq`: its commands, each loaded when it is called."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from .command import ALL_SHARED, Group, Shared, examples, option, plain_typer, with_options
from .commands import COMMANDS, GROUPS, module_of
from .exit import DISTRIBUTION, MEANING
from .verb import add

SAME = {"redrive": "retry", "replay": "retry"}
"""AWS's words for a command of ours: they run it, as it plans and asks first."""


@cache
def _made(words: str) -> Any:
    """The command of these words; only its module is imported."""
    views = import_module(module_of(words), __package__).VIEWS
    alone = plain_typer()
    add(alone, next(each for each in views if each.verb.name == words.split()[-1]))
    return typer.main.get_command(alone)


@cache
def _group(name: str) -> Any:
    below = plain_typer(name=name, cls=_Below, no_args_is_help=True)
    below.callback(help=GROUPS[name])(lambda: None)
    return typer.main.get_command(below)


class _Commands(Group):
    """The commands of COMMANDS; importing all of them would make every call slower."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(dict.fromkeys(words.partition(" ")[0] for words in COMMANDS))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in GROUPS:
            return _group(cmd_name)
        name = cmd_name if cmd_name in COMMANDS else SAME.get(cmd_name, "")
        return _made(name) if name else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._line(name)) for name in self.list_commands(ctx)])

    def _line(self, name: str) -> str:
        return GROUPS[name] if name in GROUPS else COMMANDS[name].says


class _Below(_Commands):
    """The commands of two words that begin with the name of this group."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [words.split()[1] for words in COMMANDS if words.startswith(f"{self.name} ")]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        words = f"{self.name} {cmd_name}"
        return _made(words) if words in COMMANDS else None

    def _line(self, name: str) -> str:
        return COMMANDS[f"{self.name} {name}"].says


def _exit_statuses() -> str:
    rows = (f"  {int(status):>3}  {says}" for status, says in MEANING.items())
    return "\n".join(["\b", "Exit status:", *rows])


_EXAMPLES = examples("dlq status", "dlq --profile prod status --json --query attention")

app = typer.Typer(
    name="dlq",
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    suggest_commands=False,
    epilog=f"{_exit_statuses()}\n\n{_EXAMPLES}",
)


def version() -> str:
    """The version of the installed distribution, or that none is installed."""
    from importlib import metadata

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return f"of unknown version: the distribution {DISTRIBUTION!r} is not installed"


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"dlq {version()}\n")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
    ),
]


def _root(context: typer.Context, **given: Any) -> None:
    """Read and steer the dead-letter queues of a deadletter app.

    The options below may stand before or after a command. Colour is left out when
    NO_COLOR is set, and all styling when the output is not a terminal.
    """
    del given["version"]
    context.obj = Shared(**given)


app.callback()(with_options(_root, [*ALL_SHARED, option("version", Version, default=False)]))


def main() -> None:
    """Runs `dlq` with the arguments of this process."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that can't show a character gets an escape, not an error.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    app(prog_name="dlq")
