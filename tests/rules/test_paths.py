"""Paths of the settings find what JMESPath finds."""

from __future__ import annotations

from typing import Any

import jmespath
from hypothesis import given
from hypothesis import strategies as st

from deadletter.rules.paths import compiled, value_at
from tests.each_row import each_row
from tests.samples import json_values

NAMES = st.sampled_from(["a", "b", "_c", "d1", "length", "null"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(".".join)


def objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(NAMES, values, max_size=4)


DOCUMENTS = st.recursive(json_values, objects, max_leaves=12)


@given(PATHS, DOCUMENTS)
def test_a_path_of_fields_finds_what_jmespath_finds(path: str, document: Any) -> None:
    assert value_at(compiled("setting", path), document) == jmespath.search(path, document)


DOCUMENT = {"a": {"b": [{"c": 1}, {"c": 2}]}, "a.b": 3, "x": "text"}


@each_row(
    ("path", "value"),
    [
        ("a.b", [{"c": 1}, {"c": 2}]),
        ('"a.b"', 3),
        ("a.b[].c", [1, 2]),
        ("a.b[1].c", 2),
        ("x.y", None),
        ("length(x)", 4),
        ("@.x", "text"),
    ],
)
def test_any_other_path_is_read_by_jmespath(path: str, value: Any) -> None:
    assert value_at(compiled("setting", path), DOCUMENT) == value
