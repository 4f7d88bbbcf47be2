"""The pictures in `docs` are of the demo's page as it is now, from a run that was recorded."""

from __future__ import annotations

import pytest

from sandbox.demo.beside import MEASURED, MODELLED
from sandbox.demo.events import plan
from sandbox.demo.page import page
from sandbox.demo.run import SEED
from tests.e2e.demo_picture import (
    COMMAND,
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


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_picture_is_of_the_present_page(scheme: str) -> None:
    png = picture(scheme).read_bytes()
    is_present = kept_hash(png) == page_hash(page(recorded()), scheme)
    assert is_present, f"the page has changed, its picture has not: {COMMAND}"
    assert size(png)[0] == WIDTH * SCALE


def test_both_are_small_enough_for_a_readme() -> None:
    assert sum(picture(scheme).stat().st_size for scheme in SCHEMES) <= MOST_BYTES


def test_the_recorded_run_went_well_and_has_the_present_figures() -> None:
    run = recorded()
    assert (run["lost"], run["waiting"], run["sent"]) == (0, 0, len(plan(SEED)))
    own, *others = run["beside"]
    assert (own["how"], {way["how"] for way in others}) == (MEASURED, {MODELLED})
    is_present = own.keys() == others[0].keys()
    assert is_present, f"other figures are counted: make demo && {COMMAND} build/demo-report.json"
