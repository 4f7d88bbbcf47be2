"""Playwright drives the installed Chromium: what tests of pages need of it is tried first."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.chromium import Mismatch, Tab, launched, look

PAGE = """<!doctype html><title>x</title><style>
@media (prefers-color-scheme: dark) { body { background: rgb(1, 2, 3) } }
</style><body><button onclick="this.textContent = 'clicked'">click me</button>
<svg width=70 height=20><rect width=10 height=10 /></svg><img src="missing.png">"""


# First, for Playwright runs once at a time, and the fixture keeps it.
def test_a_chromium_that_playwright_does_not_understand_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "chromium"
    other.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Chromium 7 || exit 1\n')
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(Mismatch, match=r"Playwright [\d.]+ with Chromium 7: "), launched():
        pass


def test_it_draws_clicks_and_tells_what_a_page_asks_for(chromium: Browser, tmp_path: Path) -> None:
    file, picture = tmp_path / "page.html", tmp_path / "page.png"
    file.write_text(PAGE)
    sight = look(chromium, file, width=400, scheme="dark", picture=picture)
    assert (sight.colour, sight.width) == ("rgb(1, 2, 3)", 400)
    assert [text["text"] for text in sight.texts] == ["click me"]
    assert sight.charts == [{"width": 70, "height": 20, "drawn": 1}]
    assert sight.requests == [file.as_uri(), (tmp_path / "missing.png").as_uri()]
    assert len(sight.errors) == 1
    assert picture.read_bytes().startswith(b"\x89PNG")
    with chromium.new_context() as context:
        tab = Tab(context, file.as_uri())
        tab.open()
        tab.click("click me")
        assert tab.page.inner_text("button") == "clicked"
