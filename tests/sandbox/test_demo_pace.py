"""A slow or busy machine is waited for longer, and no time-out is too short for it."""

import json

import pytest

from infra.context import read
from sandbox.demo.pipeline import settings as pipeline
from sandbox.demo.run import REFERENCE_SECONDS, SLOW, measure, scale


def test_the_measure_is_the_time_that_the_work_took():
    times = iter((10.0, 13.5))
    assert measure(lambda: next(times)) == 3.5


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.01, 1), (REFERENCE_SECONDS, 1), (REFERENCE_SECONDS * 1.01, SLOW), (60.0, SLOW)],
)
def test_a_slow_machine_is_waited_for_longer(seconds, expected):
    assert scale(seconds) == expected


def test_the_settings_can_be_deployed():
    read({"ephemeral": True, "pipelines": json.dumps([pipeline()])})


def test_no_time_out_is_as_short_as_what_a_busy_machine_needs():
    """Sixteen busy loops beside it made everything three times as long."""
    settings = pipeline()
    assert settings["consumer"]["timeout"] >= 4 * 30
    assert settings["consumer"]["request_timeout"] >= 4 * 5
    assert settings["tuning"]["circuit.lease"] >= settings["consumer"]["timeout"] + 30
