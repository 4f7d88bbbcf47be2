"""The pictures in `docs` are of the demo's page as it is now, from a run that was recorded."""

from __future__ import annotations

import pytest

from sandbox.alarms import SHORT_MINUTE
from sandbox.demo.beside import MODELLED, beside
from sandbox.demo.events import plan
from sandbox.demo.page import page
from sandbox.demo.run import SEED
from tests.e2e.demo_picture import (
    COMMAND,
    RUN,
    SCALE,
    SCHEMES,
    WIDTH,
    kept_hash,
    page_hash,
    picture,
    recorded,
    size,
)

MOST_BYTES = 200_000

AGAIN = f"make demo && {COMMAND} build/demo-report.json"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_picture_is_of_the_present_page(scheme: str) -> None:
    png = picture(scheme).read_bytes()
    is_present = kept_hash(png) == page_hash(page(recorded()), scheme)
    assert is_present, f"the page has changed, its picture has not: {COMMAND}"
    assert size(png)[0] == WIDTH * SCALE


def test_both_are_small_enough_for_a_readme() -> None:
    assert sum(picture(scheme).stat().st_size for scheme in SCHEMES) <= MOST_BYTES


def test_the_recorded_run_went_well_and_is_compared_by_the_present_models() -> None:
    run = recorded()
    assert (run["lost"], run["waiting"], run["sent"]) == (0, 0, len(plan(SEED)))
    outage = (run["outage"]["ended"] - run["outage"]["began"]) / SHORT_MINUTE
    models = [way.as_json() for way in beside(plan(SEED), outage_minutes=outage)]
    own, *others = run["beside"]
    assert others == models, f"{RUN.name} is older than the models: {AGAIN}"
    assert own.keys() == models[0].keys()
    assert own["how"] != MODELLED
