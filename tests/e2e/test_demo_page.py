"""The page of a demo as Chromium draws it; the pictures are in build/demo-page."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from sandbox.demo.page import page, write
from sandbox.server import ROOT
from tests.chromium import look
from tests.e2e.demo_picture import draw, page_hash, recorded
from tests.e2e.pictures import kept_hash, picture, size
from tests.e2e.test_replay_page import NARROW, WIDE, require_readable
from tests.sandbox.demo_report import report

PICTURES = ROOT / "build" / "demo-page"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_the_page_of_a_demo_is_readable_and_asks_nobody(
    chromium: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    file = tmp_path / "demo.html"
    write(report(), file)
    sight = look(
        chromium, file, width=width, scheme=scheme, picture=PICTURES / f"{width}-{scheme}.png"
    )
    require_readable(sight, file, width)
    texts = {text["text"] for text in sight.texts}
    assert {"331", "279", "98", "100", "52", "0", "the outage"} <= texts
    assert {"delivered", "main queue", "DLQ", "waiting", "parked"} <= texts
    # The outage; each tenant's lane, and in birch's the circuit while it was open and half open.
    assert [chart["drawn"] for chart in sight.charts] == [1, 1, 3, 1]
    is_dark = sum(map(int, sight.colour.strip("rgb()").split(","))) < 3 * 128
    assert is_dark == (scheme == "dark")


@pytest.mark.slow_because("Chromium draws it twice")
def test_the_picture_of_the_page_is_drawn_and_keeps_of_which_it_is(
    chromium: Browser,
) -> None:
    html = page(recorded())
    png = draw(chromium, html, "dark")
    assert kept_hash(png) == page_hash(html, "dark")
    kept = picture("demo", "dark").read_bytes()
    assert size(png)[0] == size(kept)[0]
    # Fonts differ from machine to machine.
    assert size(png)[1] == pytest.approx(size(kept)[1], rel=0.2)
    assert len(png) < 1.5 * len(kept)
