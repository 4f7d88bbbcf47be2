"""The cookbook's commands write the very rules that it shows."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from console.operations.problem import Exit
from tests.rules import cookbook
from tests.rules.cookbook import Recipe

TYPED = tuple(one for one in cookbook.recipes() if one.commands)


@pytest.mark.parametrize("recipe", TYPED, ids=lambda one: one.title)
def test_a_command_of_the_cookbook_writes_its_rule(cloud: Any, dlq: Any, recipe: Recipe) -> None:
    settings = cookbook.settings()
    cloud.deploy(
        "orders",
        **{key: list(settings[key]) for key in ("context", "dedicated", "policies")},
    )
    for command in recipe.commands:
        done = dlq(*shlex.split(command)[1:], "--yes")
        assert done.exit_code == Exit.DONE, done.output
    # Who and why and until when are everybody's own.
    aside = {"pipeline", "created_by", "reason", "expires_at"}
    said = json.loads(dlq("rules", "export").stdout)
    assert sorted(
        ({key: value for key, value in one.items() if key not in aside} for one in said),
        key=lambda one: str(one["rule_id"]),
    ) == list(recipe.rules)


def test_the_cookbook_shows_how_to_type_most_of_it() -> None:
    assert len(TYPED) >= 10
