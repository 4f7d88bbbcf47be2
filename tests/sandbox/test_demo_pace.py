"""A slow or busy machine has longer time-outs, and a quick one those of the settings."""

import json

import pytest

from infra.settings import PipelineSettings
from sandbox.demo.pace import REFERENCE_SECONDS, SLOW, measure, scale
from sandbox.demo.settings import pipeline


def test_the_measure_is_the_time_that_the_work_took():
    times = iter((10.0, 13.5))
    assert measure(lambda: next(times)) == 3.5


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.01, 1), (REFERENCE_SECONDS, 1), (REFERENCE_SECONDS * 1.01, SLOW), (60.0, SLOW)],
)
def test_time_outs_are_never_shorter_than_on_a_quick_machine(seconds, expected):
    assert scale(seconds) == expected


def test_the_time_outs_grow_and_what_the_story_waits_for_does_not():
    quick, slow = pipeline(1), pipeline(SLOW)
    for part, name in (
        ("consumer", "timeout"),
        ("consumer", "request_timeout"),
        ("circuit", "lease"),
        ("circuit", "settle"),
    ):
        assert slow[part][name] == SLOW * quick[part][name]
        slow[part][name] = quick[part][name]
    assert slow == quick


@pytest.mark.parametrize("by", [1, SLOW])
def test_the_settings_can_be_deployed(by):
    assert PipelineSettings.model_validate_json(json.dumps(pipeline(by))).name == "orders"
