"""Every comparison and every recipe of docs/rules.md is executed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from deadletter.circuit.state import Circuit
from deadletter.contract import delay_lane
from deadletter.failure.ledger import LedgerRow
from deadletter.message import stamp as stamps
from deadletter.message.letter import Attribute, Letter
from deadletter.message.stamp import Stamp
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive
from deadletter.routing.direct_router import DirectRouter
from deadletter.routing.router import Question
from deadletter.rules.pattern import compile_pattern
from deadletter.rules.rule import COLUMNS, VERDICT, Action
from deadletter.settings.pipeline import Pipeline, pipeline_from_json
from tests.each_row import each_row
from tests.rules import cookbook
from tests.rules.cookbook import Recipe
from tests.samples import NOW, REDRIVER, failed

RECIPES = cookbook.recipes()
_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


def pipeline() -> Pipeline:
    settings = cookbook.settings()
    return pipeline_from_json(json.dumps({**settings, "dedicated": list(settings["dedicated"])}))


class Books:
    """The recipe's rules, and the last failure in the ledger, if any."""

    def __init__(self, recipe: Recipe, failure: Mapping[str, Any] | None) -> None:
        self._rules = [{"pipeline": "orders", **rule} for rule in recipe.rules]
        self._row = LedgerRow((failed(**failure),)) if failure is not None else LedgerRow()

    def items(self, pipeline: str) -> list[Mapping[str, Any]]:
        return list(self._rules)

    def rows(self, origins: Any, *, lagging: bool = False) -> Mapping[str, LedgerRow]:
        return dict.fromkeys(origins, self._row)

    def matches(self, rules: Any) -> Mapping[str, int]:
        return {}

    def read(self, keys: Any) -> Mapping[str, Circuit]:
        return {key: Circuit(key) for key in keys}


def letter(example: Mapping[str, Any]) -> Letter:
    """The letter of an example on the page."""
    fields = {"body", "text", "attributes", "failure", "attempt", "age", "sender", "home"}
    assert set(example) <= fields, "a field that this test does not know"
    sent = int((NOW - seconds(example.get("age", "1h"))) * 1000)
    mark = Stamp("origin", example.get("attempt", 0), sent, example.get("sender", "AROASOMEBODY:x"))
    attributes = {
        name: Attribute("String", value) for name, value in example.get("attributes", {}).items()
    }
    return Letter(
        "m1",
        example["text"] if "text" in example else json.dumps(example["body"]),
        {**attributes, stamps.NAME: stamps.attribute(mark)},
        {"SenderId": f"{REDRIVER}:run", "SentTimestamp": str(sent)},
    )


def seconds(text: str) -> int:
    return int(text[:-1]) * _UNITS[text[-1]]


def length(span: float) -> str:
    unit, size = next((unit, size) for unit, size in _UNITS.items() if span % size == 0)
    return f"{span // size:g}{unit}"


def outcome(recipe: Recipe, example: Mapping[str, Any]) -> str:
    """The outcome of a letter, in the words of the page."""
    books = Books(recipe, example.get("failure"))
    # A failure is recorded by the consumer library only.
    router = DirectRouter(
        pipeline=replace(pipeline(), consumer_library="failure" in example),
        rules=books,
        ledger=books,
        circuits=books,
        trusted_senders=frozenset({REDRIVER}),
        clock=lambda: NOW,
        random=Random(1),
    )
    answer = router.decide([Question(letter(example), home=example.get("home", "dlq"))])
    assert answer.refused_rules == ()
    (verdict,) = answer.verdicts
    counted = "".join(f", counted for {rule}" for rule in answer.shadow_matches)
    return words(verdict.decision) + counted


def words(decision: Decision) -> str:
    match decision:
        case Park(reason=reason):
            return f"Park {reason}"
        case Divert(queue=queue):
            return f"Divert to {queue}"
        case Redrive(because=because) | Hold(lane="due", because=because) if (
            ", backoff of " in because
        ):
            return "Redrive by backoff"
        case Redrive(delay=delay):
            return f"Redrive after {length(delay)}"
        case Hold(lane=lane, due=due) if lane.startswith(delay_lane("")):
            return f"Redrive after {length(due - NOW)}"
        case Hold(lane=lane):
            return f"Hold in {lane}"


@each_row("recipe", RECIPES, ids=lambda recipe: recipe.title)
def test_a_recipe_has_the_outcomes_on_the_page(recipe: Recipe) -> None:
    assert recipe.letters
    for example, expected in recipe.letters:
        assert outcome(recipe, example) == expected, example


def test_every_action_has_a_recipe() -> None:
    assert {rule["action"] for recipe in RECIPES for rule in recipe.rules} == set(Action)


def test_every_column_is_explained_and_no_other() -> None:
    _, _, table = cookbook.PAGE.partition("| column | meaning |")
    cells = [row.split(" | ")[0] for row in table.partition("\n\n")[0].splitlines()[2:]]
    named = {name for cell in cells for name in cell.split("`")[1::2]} - {"tenantId"}
    assert named == COLUMNS | VERDICT


@each_row(
    ("pattern", "yes", "no"), [pytest.param(*row, id=name) for name, *row in cookbook.comparisons()]
)
def test_a_comparison_matches_the_values_on_the_page(pattern: Any, yes: str, no: str) -> None:
    compiled = compile_pattern({"body": {"field": pattern}})

    def matches(written: str) -> bool:
        # An empty cell is a letter without the field.
        return compiled.matches({"body": {"field": json.loads(written)} if written else {}})

    assert matches(yes)
    assert not matches(no)


def test_every_operator_of_the_language_has_a_row() -> None:
    patterns = json.dumps([pattern for _, pattern, _, _ in cookbook.comparisons()])
    operators = {"prefix", "suffix", "equals-ignore-case", "wildcard", "anything-but", "numeric",
                 "exists", "cidr"}  # fmt: skip
    assert all(f'"{operator}"' in patterns for operator in operators)
