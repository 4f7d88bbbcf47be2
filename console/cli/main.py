"""`dlq`: its commands, each loaded when it is called."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from .command import (
    AppName,
    AsJson,
    AsLines,
    Debug,
    Group,
    Profile,
    Query,
    Region,
    Shared,
    SomePipelines,
    examples,
)
from .entry import DISTRIBUTION
from .exit import MEANING

COMMANDS = {
    "status": (".status", "What needs attention, and how full each queue is."),
    "show": (
        ".show",
        "One message, run, rule, circuit, cause or pipeline: all that is on record of it.",
    ),
    "flow": (
        ".flow",
        "This deployment as nodes and edges: queues, what waits, rules in force, circuits.",
    ),
    "groups": (
        ".groups",
        "What is failing, and why: messages by cause, tenant and more, with what to type.",
    ),
    "ui": (".ui", "A page of this app in your browser, with your own rights."),
    "init": (".init", "List the account's DLQs, and add chosen ones to cdk.json."),
    "doctor": (".doctor", "Check what synth can't see around a queue and its DLQ."),
    "list": (".list", "Which messages there are, where they lie, and why."),
    "mute": (".mute", "Mute a pipeline's alarms for a while; it ends by itself."),
    "retry": (".retry", "Send messages again: from DLQs, the parked, or those that wait."),
    "discard": (".discard", "Throw messages away, for a reason that is kept with them."),
    "restore": (".restore", "Bring discarded messages back: those of a run, or single ones."),
    "forget": (".forget", "Erase what is kept of a message, for a data protection request."),
    "run": (".runs", "Runs of retry, discard and restore: planned, paced, stoppable."),
    "circuit": (
        ".circuits",
        "Circuit breakers: which dependencies are down, and the manual override.",
    ),
    "endpoint": (
        ".endpoints",
        "Webhook endpoints: where tenants want their events, and which get none.",
    ),
    "rules": (".rules", "Routing rules: which messages to stop, slow down or set apart."),
    "audit": (".audit", "Who changed what, when and why: the newest first."),
    "help": (".help", "What holds for all commands: words, exit statuses, JSON, policies."),
}
"""Each command's module, which holds it as `typer_app`, and its line in the help."""

SAME = {"redrive": "retry", "replay": "retry"}
"""AWS's words for a command of ours: they run it, as it plans and asks first."""


@cache
def _made(name: str) -> Any:
    module, _ = COMMANDS[name]
    return typer.main.get_command(import_module(module, __package__).typer_app)


class _Commands(Group):
    """The commands of COMMANDS; importing all of them would make every call slower."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        name = cmd_name if cmd_name in COMMANDS else SAME.get(cmd_name, "")
        return _made(name) if name else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, says) for name, (_, says) in COMMANDS.items()])


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


@app.callback()
def root(
    context: typer.Context,
    profile: Profile = None,
    region: Region = None,
    app_name: AppName = None,
    as_json: AsJson = False,
    as_lines: AsLines = False,
    query: Query = None,
    debug: Debug = False,
    pipelines: SomePipelines = None,
    version: Version = False,
) -> None:
    """Read and steer the dead-letter queues of a deadletter app.

    The options below may stand before or after a command. Colour is left out when
    NO_COLOR is set, and all styling when the output is not a terminal.
    """
    context.obj = Shared(profile, region, app_name, as_json, as_lines, query, debug, pipelines)


def main() -> None:
    """Runs `dlq` with the arguments of this process."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that can't show a character gets an escape, not an error.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    app(prog_name="dlq")
