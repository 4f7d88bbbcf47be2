"""The picture of the page in the README is made anew from a running sandbox."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from sandbox.server import ROOT
from tests.e2e.page_picture import draw, sources_hash, troubled
from tests.e2e.pictures import SCHEMES, kept_hash, picture, size

PICTURES = ROOT / "build" / "page-picture"


@pytest.mark.slow_because("an AWS of its own, and Chromium draws in it")
def test_the_page_of_an_app_in_trouble_is_drawn_and_keeps_from_what(chromium: Browser) -> None:
    with troubled(PICTURES) as sandbox:
        drawn = draw(chromium, sandbox)
    for scheme in SCHEMES:
        png, kept = drawn[scheme], picture("page", scheme).read_bytes()
        (PICTURES / f"{scheme}.png").write_bytes(png)
        assert kept_hash(png) == sources_hash(scheme)
        assert size(png)[0] == size(kept)[0]
        # Texts and fonts differ from run to run and from machine to machine.
        assert size(png)[1] == pytest.approx(size(kept)[1], rel=0.2)
