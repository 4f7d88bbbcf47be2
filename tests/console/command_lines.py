"""Command lines of documents, taken apart as `dlq` itself takes them apart."""

from __future__ import annotations

import shlex
from typing import Any

import typer

from console.cli import main


def parse(example: str) -> None:
    """Raises if `dlq` does not take this command line; runs nothing."""
    command: Any = typer.main.get_command(main.app)
    # What a shell would make of it, as far as examples go.
    arguments = shlex.split(example.partition(" > ")[0], comments=True)[1:]
    context = None
    while True:
        context = command.make_context("dlq", arguments, parent=context)
        arguments = [*context._protected_args, *context.args]
        if not arguments:
            break
        command = command.get_command(context, arguments.pop(0))


def takes_options(words: str) -> bool:
    """Whether `dlq` has a command or a group of this name ("dlq rules add")."""
    command: Any = typer.main.get_command(main.app)
    for word in words.split()[1:]:
        context = command.make_context("dlq", [word], resilient_parsing=True)
        command = command.get_command(context, word) if hasattr(command, "get_command") else None
        if command is None:
            return False
    return True
