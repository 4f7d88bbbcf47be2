"""The schema and the page are what the settings say today."""

from __future__ import annotations

import json
import re
from pathlib import Path

from infra import reference
from infra.context import read
from infra.settings import AppSettings

ROOT = Path(__file__).parents[2]


def test_the_schema_is_up_to_date() -> None:
    assert json.loads(reference.SCHEMA.read_text()) == reference.schema(), "run `make docs`"


def test_the_page_is_up_to_date() -> None:
    assert reference.PAGE.read_text() == reference.page(), "run `make docs`"


def test_every_object_that_can_be_set_has_a_section_and_every_key_a_meaning() -> None:
    described = AppSettings.model_json_schema()
    models = {"AppSettings": described, **described["$defs"]}
    assert {name for _, name in reference.SECTIONS} == set(models)
    unexplained = [
        f"{name}.{key}"
        for name, model in models.items()
        for key, node in model["properties"].items()
        if not node.get("description")
    ]
    assert unexplained == []


def test_what_the_page_calls_the_default_is_a_value_that_is_allowed() -> None:
    defaults = dict(re.findall(r"^\| `(\w+)` \| [^|]* \| `([^`]+)` \|", reference.page(), re.M))
    assert defaults["message_ttl"] == "12d"
    assert read({"pipelines": [{"name": "orders", "message_ttl": defaults["message_ttl"]}]})


def test_the_example_in_cdk_json_is_taken() -> None:
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    assert [pipeline.name for pipeline in read(context).pipelines] == ["orders"]


def test_every_example_in_the_readme_is_taken() -> None:
    examples = re.findall(r"```json\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    pipelines = [item for item in map(json.loads, examples) if "main_queue" in item]
    assert pipelines
    for pipeline in pipelines:
        read({"pipelines": [pipeline]})
