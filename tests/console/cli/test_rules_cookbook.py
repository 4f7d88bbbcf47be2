"""The cookbook's commands write the very rules that it shows."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from console.cli.exit import Exit
from tests.rules import cookbook
from tests.rules.cookbook import Recipe

TYPED = tuple(recipe for recipe in cookbook.recipes() if recipe.commands)


@pytest.mark.parametrize("recipe", TYPED, ids=lambda recipe: recipe.title)
def test_a_command_of_the_cookbook_writes_its_rule(cloud: Any, dlq: Any, recipe: Recipe) -> None:
    settings = cookbook.settings()
    cloud.deploy(
        "orders",
        **{key: list(settings[key]) for key in ("context", "dedicated", "policies")},
    )
    for command in recipe.commands:
        dlq(*shlex.split(command)[1:], "--yes", ends=Exit.DONE)
    # Author, reason and end differ for each person.
    aside = {"pipeline", "created_by", "reason", "expires_at"}
    rules = json.loads(dlq("rules list --yaml --json").stdout)["file"]
    assert sorted(
        ({key: value for key, value in rule.items() if key not in aside} for rule in rules),
        key=lambda rule: str(rule["rule_id"]),
    ) == list(recipe.rules)


def test_most_recipes_of_the_cookbook_have_a_command() -> None:
    assert len(TYPED) >= 10
