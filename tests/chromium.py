"""The Chromium that this machine has installed, without a window, driven by Playwright."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")

# All texts and images as they are drawn, in CSS pixels.
_MEASURE = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const range = document.createRange();
    range.selectNodeContents(node);
    const lines = range.getClientRects();
    if (node.data.trim() && lines.length)
      texts.push({text: node.data.trim(), height: lines[0].height});
  }
  const charts = [...document.querySelectorAll("svg")].map((svg) => {
    const parts = [...svg.querySelectorAll("rect")].map((part) => part.getBoundingClientRect());
    const {width, height} = svg.getBoundingClientRect();
    return {width, height, drawn: parts.filter((part) => part.width * part.height > 0).length};
  });
  const {scrollWidth} = document.documentElement;
  const colour = getComputedStyle(document.body).backgroundColor;
  return {texts, charts, width: scrollWidth, colour};
}"""


class Mismatch(AssertionError):
    """Playwright and this Chromium do not understand each other; the message names both."""


def program() -> str:
    """The path of Chromium; empty if it is not installed."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), "")


@contextmanager
def launched() -> Iterator[Browser]:
    """Chromium, until it is left. Raises Mismatch for what Playwright can't tell it."""
    # Loaded by the tests that need it alone.
    from playwright.sync_api import Error, sync_playwright

    # Root can't have Chromium's own sandbox.
    own_sandbox = [] if os.geteuid() else ["--no-sandbox"]
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=program(), args=own_sandbox)
            yield browser
            browser.close()
        except Error as error:
            asked = [program(), "--version"]
            said = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
            raise Mismatch(f"Playwright {version('playwright')} with {said}: {error}") from error


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Chromium; without it a test is skipped, or fails where CHROMIUM=required."""
    if not program():
        say = pytest.fail if os.environ.get("CHROMIUM") == "required" else pytest.skip
        say("Chromium is missing: apt-get install chromium")
    with launched() as browser:
        yield browser


class Tab:
    """A tab that is drawn below the address *home*.

    errors  what its console said of errors and warnings
    asked   every address that it asked for
    """

    def __init__(self, context: BrowserContext, home: str) -> None:
        self.page, self.home = context.new_page(), home
        self.errors: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda asked: self.asked.append(asked.url))

    def open(self, path: str = "") -> None:
        self.page.goto(f"{self.home}{path}")

    def click(self, name: str) -> None:
        self.page.get_by_role("button", name=name).first.click()

    @property
    def text(self) -> str:
        return self.page.inner_text("main")

    def _heard(self, said: ConsoleMessage) -> None:
        # A person who is quicker than the focus is told so, and that is no fault of the page.
        if said.type in ("error", "warning"):
            self.errors.append(said.text)


@dataclass(frozen=True, slots=True)
class Sight:
    """A page as it was drawn.

    texts     each with its height; `charts` with their sizes and the number of visible parts
    width     of all that was drawn, in CSS pixels
    colour    of the background
    errors    what the console said; `requests`: every URL that was asked for
    """

    texts: list[dict[str, Any]]
    charts: list[dict[str, float]]
    width: int
    colour: str
    errors: list[str]
    requests: list[str]


def look(browser: Browser, file: Path, *, width: int, scheme: str, picture: Path) -> Sight:
    """Open a page so wide, in the colour scheme `light` or `dark`, and keep its picture."""
    viewport: Any = {"width": width, "height": 900}
    with browser.new_context(viewport=viewport, color_scheme=scheme) as context:  # type: ignore[arg-type]  # a literal
        tab = Tab(context, file.as_uri())
        tab.open()
        tab.page.screenshot(path=picture, full_page=True)
        return Sight(**tab.page.evaluate(_MEASURE), errors=tab.errors, requests=tab.asked)
