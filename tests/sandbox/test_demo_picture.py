"""The pictures in `docs` are of the pages as they are now; the demo's from a run on record."""

from __future__ import annotations

import pytest

from sandbox.demo.beside import MEASURED, MODELLED
from sandbox.demo.events import plan
from sandbox.demo.page import page
from sandbox.demo.run import SEED
from sandbox.server import ROOT
from tests.e2e import page_picture
from tests.e2e.demo_picture import COMMAND, page_hash, recorded
from tests.e2e.pictures import SCALE, SCHEMES, WIDTH, kept_hash, picture, size

MOST_BYTES = 200_000


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_picture_is_of_the_present_page(scheme: str) -> None:
    png = picture("demo", scheme).read_bytes()
    is_present = kept_hash(png) == page_hash(page(recorded()), scheme)
    assert is_present, f"the page has changed, its picture has not: {COMMAND}"
    assert size(png)[0] == WIDTH * SCALE


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_picture_was_drawn_from_the_present_templates(scheme: str) -> None:
    png = picture("page", scheme).read_bytes()
    is_present = kept_hash(png) == page_picture.sources_hash(scheme)
    assert is_present, f"the screen has changed, its picture has not: {page_picture.COMMAND}"
    assert size(png)[0] == WIDTH * SCALE


def test_the_screen_is_drawn_from_its_templates_and_styles() -> None:
    names = {file.name for file in page_picture.drawn_from()}
    assert names >= {"now.html", "base.html", "parts.html", "page.css", "page.py"}
    assert "find.html" not in names


@pytest.mark.parametrize("name", ["demo", "page"])
def test_both_are_small_enough_for_a_readme(name: str) -> None:
    assert sum(picture(name, scheme).stat().st_size for scheme in SCHEMES) <= MOST_BYTES
    readme = (ROOT / "README.md").read_text()
    for scheme in SCHEMES:
        assert f"docs/{name}-{scheme}.png" in readme


def test_the_recorded_run_went_well_and_has_the_present_figures() -> None:
    run = recorded()
    assert (run["lost"], run["waiting"], run["sent"]) == (0, 0, len(plan(SEED)))
    own, *others = run["beside"]
    assert (own["how"], {way["how"] for way in others}) == (MEASURED, {MODELLED})
    is_present = own.keys() == others[0].keys()
    assert is_present, f"other figures are counted: make demo && {COMMAND} build/demo-report.json"


def test_the_readme_gives_the_figures_of_the_recorded_run() -> None:
    readme = " ".join((ROOT / "README.md").read_text().split())
    run = recorded()
    ways = {way["system"]: way for way in run["beside"]}
    ours, best, morning = (
        ways[name]
        for name in ("Deadletter", "native redrive, best case", "native redrive, next morning")
    )
    parked = ours["sorted"]
    assert f"of {run['sent']} events sent into an outage, {run['sent'] - parked} are" in readme
    at = f"at {best['hours']} for {best['night_minutes']} minutes"
    for said in (
        f"one person, {at}; or no one, and {morning['late']} messages are six hours late",
        f"no one: {ours['night_minutes']} minutes, {ours['late']} late, {parked} hopeless ones",
    ):
        assert said in readme
