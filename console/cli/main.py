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
    plain_typer,
)
from .exit import DISTRIBUTION, MEANING

GROUPS = {
    "run": "Runs of retry, discard and restore: planned, paced, stoppable.",
    "circuit": "Circuit breakers: which dependencies are down, and the manual override.",
    "endpoint": "Webhook endpoints: where tenants want their events, and which get none.",
    "rules": "Routing rules: which messages to stop, slow down or set apart.",
}
"""The first words of commands of two words, and the line of each in the help."""

COMMANDS = {
    "status": (".status", "What needs attention, and how full each queue is."),
    "show": (
        ".show",
        "One message, run, rule, circuit, cause or pipeline: all that is on record of it.",
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
    "restore": (".discard", "Bring discarded messages back: those of a run, or single ones."),
    "forget": (".forget", "Erase what is kept of a message, for a data protection request."),
    "run list": (".runs", "List the runs, those that are live first."),
    "run hold": (
        ".runs",
        "Stop a run: nothing is sent from two seconds after this on. It asks nothing.",
    ),
    "run resume": (
        ".runs",
        "Go on with a run that was held, by a person or by itself; its step begins anew.",
    ),
    "run abort": (".runs", "End a run for good. It sends nothing any more."),
    "run approve": (
        ".runs",
        "Approve the messages of a run that waits for it: its first ones are sent.",
    ),
    "run reject": (
        ".runs",
        "Reject a run that waits for approval: nothing was sent, its messages are parked.",
    ),
    "circuit list": (
        ".circuits",
        "List each pipeline's own circuit, and all others that are not closed or overridden.",
    ),
    "circuit open": (
        ".circuits",
        "Open a circuit by hand: nothing is sent on, and live traffic is paused too.",
    ),
    "circuit close": (".circuits", "Close a circuit by hand: messages are sent again."),
    "circuit release": (
        ".circuits",
        "End what a person said about a circuit. An open circuit is tried with a canary at once.",
    ),
    "endpoint list": (
        ".endpoints",
        "List the endpoints of all tenants, and why an endpoint gets nothing.",
    ),
    "endpoint add": (
        ".endpoints",
        "Add an endpoint of a tenant, or enable it again; it is checked first.",
    ),
    "endpoint disable": (
        ".endpoints",
        "Disable an endpoint, within seconds: nothing is posted to it.",
    ),
    "rules list": (".rules", "The rules in the order they are tried, and what each does."),
    "rules add": (".rules", "Add a rule, in effect within a minute."),
    "rules disable": (".rules", "Disable a rule, within a minute; it stays in the table."),
    "rules remove": (".rules", "Remove a rule; dlq rules undo brings it back."),
    "rules undo": (".rules", "Take the last change of a rule back."),
    "rules test": (
        ".rule_trial",
        "What a rule would match, without effect; or check files of rules.",
    ),
    "rules apply": (".rules", "Write a file of rules into the table."),
    "audit": (".audit", "Who changed what, when and why: the newest first."),
    "help": (".help", "What holds for all commands: words, exit statuses, JSON, policies."),
}
"""Each command's module, which holds it in `typer_app`, and its line in the help."""

SAME = {"redrive": "retry", "replay": "retry"}
"""AWS's words for a command of ours: they run it, as it plans and asks first."""


@cache
def _made(words: str) -> Any:
    """The command of these words; only its module is imported."""
    module, _ = COMMANDS[words]
    found = typer.main.get_command(import_module(module, __package__).typer_app)
    return getattr(found, "commands", {}).get(words.rpartition(" ")[2], found)


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
        return GROUPS[name] if name in GROUPS else COMMANDS[name][1]


class _Below(_Commands):
    """The commands of two words that begin with the name of this group."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [words.split()[1] for words in COMMANDS if words.startswith(f"{self.name} ")]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        words = f"{self.name} {cmd_name}"
        return _made(words) if words in COMMANDS else None

    def _line(self, name: str) -> str:
        return COMMANDS[f"{self.name} {name}"][1]


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
