"""The JSON Schema of a pipeline reaches its router, or stops the synthesis."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deadletter.rules.json_schema import JsonSchema, unpacked
from infra.context import read
from infra.environment import pipeline
from infra.refusal import Refused
from infra.router import LARGEST, packed
from infra.settings import PipelineDeployment
from tests.infra.conftest import typed
from tests.rules.test_json_schema import CASES

SCHEMA = {"type": "object", "required": ["id"], "title": "Objednávka"}


def with_schema(file: Path) -> PipelineDeployment:
    context = {"pipelines": [{"name": "orders", "replay": {"schema": str(file)}}]}
    [settings] = read(context).pipelines
    return settings


def written(folder: Path, text: str) -> PipelineDeployment:
    file = folder / "order.schema.json"
    file.write_text(text, encoding="utf-8")
    return with_schema(file)


def test_the_router_reads_the_schema_of_the_file(tmp_path: Path) -> None:
    text = packed(written(tmp_path, json.dumps(SCHEMA)))
    assert text is not None
    assert unpacked(text).admits({"id": 1})
    assert not unpacked(text).admits({})


def test_a_pipeline_without_a_schema_has_no_variable() -> None:
    assert packed(typed()) is None


def test_the_path_of_the_file_is_in_no_functions_settings(tmp_path: Path) -> None:
    assert "schema" not in pipeline(written(tmp_path, "{}"))


def test_what_the_library_takes_is_not_refused(tmp_path: Path) -> None:
    for schema, _, _ in CASES:
        assert packed(written(tmp_path, json.dumps(schema)))


REFUSED: list[tuple[Any, str]] = [
    ("{", "is not JSON; allowed: a JSON Schema"),
    ("[]", r"has \[\] in place of a schema; allowed: the keywords \$ref, type, "),
    ('{"properties": {"a": {"pattern": "x"}}}', "has the keyword pattern; allowed: the keywords"),
    ('{"anyOf": {"a": 1}}', "has null in place of a schema"),
    ('{"items": [{}]}', r"has \[\{\}\] in place of a schema"),
    (
        json.dumps({"enum": [f"{number * 7919 % 100_003:x}" for number in range(3_000)]}),
        rf"has \d+ bytes when it is packed; allowed: at most {LARGEST}",
    ),
]


@pytest.mark.parametrize(("text", "why"), REFUSED, ids=[why[:30] for _, why in REFUSED])
def test_a_schema_that_the_router_cannot_use_stops_the_synthesis(
    text: str, why: str, tmp_path: Path
) -> None:
    settings = written(tmp_path, text)
    with pytest.raises(Refused, match=f"^Pipeline orders: replay.schema .*order.schema.json {why}"):
        packed(settings)


def test_a_file_that_is_missing_stops_the_synthesis(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be read; allowed: a file that exists"):
        packed(with_schema(tmp_path / "nothing.json"))


def test_a_schema_that_is_refused_here_is_refused_there_too(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pattern"):
        JsonSchema({"pattern": "x"})
