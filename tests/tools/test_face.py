"""What a person meets grows no more: each figure has a ceiling, which falls with it."""

from __future__ import annotations

import ast

import pytest
import typer

from tests.each_row import each_row
from tools.face import Budget, budgets, code_lines, leaves

ROOM = 1.02
"""A ceiling lies no further above its figure, so that what a step has won stays won."""


def check_ceiling(budget: Budget) -> None:
    """A figure is below its ceiling, and the ceiling is near."""
    now = budget.count()
    assert now <= budget.most, f"{budget.says}: {now:,}"
    assert budget.most <= ROOM * now, f"{budget.says}: {now:,}"


@pytest.mark.slow_because("it reads each line of the project")
@each_row("budget", budgets())
def test_a_figure_is_below_its_ceiling_and_the_ceiling_is_near(budget: Budget) -> None:
    check_ceiling(budget)


def test_lines_without_code_do_not_count() -> None:
    text = (
        '"""Says.\n\nMore."""\n\n# why\ndef f():\n    """Does."""\n    return (\n        1\n    )\n'
    )
    assert code_lines(ast.parse(text), text) == 4


def test_commands_are_counted_in_their_groups_and_hidden_ones_are_not() -> None:
    app, below = typer.Typer(), typer.Typer()
    app.add_typer(below, name="rules")
    for name in ("list", "add"):
        below.command(name)(lambda: None)
    app.command("status")(lambda: None)
    app.command("old", hidden=True)(lambda: None)
    assert [command.name for command in leaves(typer.main.get_command(app))] == [
        *("status", "list", "add"),
    ]
