"""A person's hand at the page."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.chromium import Tab


@dataclass
class Hand:
    """It counts its clicks. Typing is no click."""

    tab: Tab
    clicks: int = 0
    why: str = ""
    """The reason that it was asked for."""

    def link(self, name: str) -> None:
        self.clicks += 1
        self.tab.page.get_by_role("link", name=name, exact=True).first.click()

    def button(self, name: str, within: str = "main") -> None:
        self.clicks += 1
        place = self.tab.page.locator(within)
        try:
            place.get_by_role("button", name=name, exact=True).first.click()
        except Exception as error:
            error.add_note(f"On {self.tab.page.url}:\n{self.tab.text}")
            raise

    def tick(self, name: str) -> None:
        self.clicks += 1
        self.tab.page.get_by_label(name).first.check()

    def search(self, text: str) -> None:
        self.tab.page.get_by_role("search").get_by_role("textbox").fill(text)
        self.tab.page.keyboard.press("Enter")

    def agree(self, button: str) -> None:
        """The reason if it is asked for, and the button that says how much."""
        page = self.tab.page
        page.wait_for_url("**/plan/**")
        assert page.locator(".fields").count(), f"{page.url}: {self.tab.text}"
        if (reason := page.get_by_label("Reason")).count():
            self.why = "INC-7"
            reason.fill(self.why)
        said = page.locator(".fields button").inner_text()
        assert re.fullmatch(button, said), f"{said!r} of:\n{self.tab.text}"
        # Who goes on at once would break off what was sent.
        with page.expect_navigation():
            self.button(said)
