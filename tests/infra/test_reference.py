"""The schema and the page are what the settings say today."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

# cfn-lint's own: no other validator is among the pinned packages.
from cfnlint.jsonschema import StandardValidator
from cfnlint.schema.resolver import RefResolver

from infra import reference
from infra.context import read
from tests.each_row import each_row
from tests.infra.conftest import EVENTS, HASTY, ORDERS, THEIRS, WATCHED

ROOT = Path(__file__).parents[2]

# Of cdk.json as a whole: people write it.
CDK_SCHEMA = ROOT / "docs" / "cdk.schema.json"


def wrong(cdk_json: Any) -> list[str]:
    """Where an editor underlines a cdk.json: by its schema, which refers to that of the context."""
    files = (CDK_SCHEMA, reference.SCHEMA)
    whole, context = (json.loads(file.read_text()) for file in files)
    at, context_at = (file.as_uri() for file in files)
    resolver = RefResolver(referrer=whole, base_uri=at, store={at: whole, context_at: context})
    errors = StandardValidator(schema=whole, resolver=resolver).iter_errors(cdk_json)
    return [".".join(map(str, error.path)) for error in errors]


def test_the_schemas_are_up_to_date() -> None:
    assert json.loads(reference.SCHEMA.read_text()) == reference.schema(), "run `make docs`"


def test_the_page_is_up_to_date() -> None:
    assert reference.PAGE.read_text() == reference.page(), "run `make docs`"


def test_the_types_are_up_to_date() -> None:
    assert reference.TYPES.read_text() == reference.typed_dicts(), "run `make docs`"


def test_what_the_page_calls_the_default_is_a_value_that_is_allowed() -> None:
    defaults = dict(re.findall(r"^\| `(\w+)` \| [^|]* \| `([^`]+)` \|", reference.page(), re.M))
    assert defaults["message_ttl"] == "12d"
    assert read({"pipelines": [{"name": "orders", "message_ttl": defaults["message_ttl"]}]})


def test_the_example_in_cdk_json_is_taken() -> None:
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    assert [pipeline.name for pipeline in read(context).pipelines] == ["orders"]


def test_cdk_json_names_the_schema_by_which_an_editor_checks_it() -> None:
    cdk_json = json.loads((ROOT / "cdk.json").read_text())
    assert (ROOT / cdk_json["$schema"]).resolve() == CDK_SCHEMA


def test_an_editor_finds_nothing_wrong_with_what_is_right() -> None:
    for file in (ROOT / "cdk.json", *(ROOT / "examples").glob("*/cdk.json")):
        assert wrong(json.loads(file.read_text())) == [], file
    others = json.loads((ROOT / "examples" / "deadletter.json").read_text())
    pipelines = [ORDERS, EVENTS, THEIRS, WATCHED, HASTY, *others["pipelines"]]
    flags = {"@aws-cdk/core:defaultCrossStackReferences": "strong"}
    whole = {"app": "python3 app.py", "watch": {}, "context": {**flags, "pipelines": pipelines}}
    assert wrong(whole) == []


@each_row(
    ("typed", "where"),
    [
        ({"mdoe": "observe"}, "mdoe"),
        ({"mode": "enforced"}, "mode"),
        ({"redrive": {"every": "5 minutes"}}, "redrive.every"),
        ({"alarms": {"aeg": 20}}, "alarms.aeg"),
        ({"parking": "quarantine"}, "parking"),
    ],
)
def test_an_editor_underlines_a_typing_mistake(typed: dict[str, Any], where: str) -> None:
    context = {"pipelines": [{"name": "orders", **typed}]}
    assert wrong({"app": "python3 app.py", "context": context}) == [f"context.pipelines.0.{where}"]
    assert wrong({"app": "python3 app.py", "context": {"pipeline": []}}) == ["context.pipeline"]
