"""Chromium without a window, driven by the DevTools protocol over two pipes."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")

# All texts and images as they are drawn, in CSS pixels.
_MEASURE = """(() => {
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
  const {scrollWidth, scrollHeight} = document.documentElement;
  const colour = getComputedStyle(document.body).backgroundColor;
  return JSON.stringify({texts, charts, width: scrollWidth, height: scrollHeight, colour});
})()"""


REQUIRED = os.environ.get("CHROMIUM") == "required"
"""Whether a machine without Chromium fails the tests of pages instead of skipping them."""


def program() -> str:
    """The path of Chromium; empty if it is not installed."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), "")


needs_chromium = pytest.mark.skipif(
    not program() and not REQUIRED, reason="Chromium is missing: apt-get install chromium"
)


@dataclass(frozen=True, slots=True)
class Sight:
    """A page as it was drawn.

    texts     each with its height; `charts` with their sizes and the number of visible parts
    width     of all that was drawn, in CSS pixels
    colour    of the background
    errors    what the console said
    requests  every URL that was asked for
    """

    texts: list[dict[str, Any]]
    charts: list[dict[str, float]]
    width: int
    height: int
    colour: str
    errors: list[str]
    requests: list[str]


class Browser:
    """A Chromium; use it as a context manager. Its profile lies in *folder*."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last = 0
        self._events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        if not program():
            raise FileNotFoundError(f"no Chromium: none of {', '.join(PROGRAMS)} is on the path")
        inbound, self._requests = os.pipe()
        self._answers, outbound = os.pipe()
        words = [
            *(program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *("--no-first-run", "--disable-extensions", f"--user-data-dir={self._folder}"),
            "--remote-debugging-pipe",
        ]
        # The protocol is spoken on descriptors 3 and 4; dash knows none above 9.
        shell = f'exec "$@" 3<&{inbound} 4>&{outbound}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", shell, "bash", *words],
            pass_fds=[inbound, outbound],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(inbound)
        os.close(outbound)
        self._buffer = b""
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._requests)
        os.close(self._answers)

    def look(
        self,
        page: Path,
        *,
        width: int,
        scheme: str,
        picture: Path,
        scale: float = 1,
        until: str = "",
    ) -> Sight:
        """Open a page in a tab of that width, in the colour scheme `light` or `dark`.

        The picture has *scale* pixels for each CSS pixel, and ends below the element that the
        selector *until* names.
        """
        target = self._ask("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self._ask("Target.attachToTarget", {"targetId": target, "flatten": True})
        tab = str(attached["sessionId"])
        for domain in ("Page", "Log", "Runtime", "Network"):
            self._ask(f"{domain}.enable", tab=tab)
        metrics = {"width": width, "height": 900, "deviceScaleFactor": scale, "mobile": False}
        self._ask("Emulation.setDeviceMetricsOverride", metrics, tab)
        wanted = [{"name": "prefers-color-scheme", "value": scheme}]
        self._ask("Emulation.setEmulatedMedia", {"features": wanted}, tab)
        self._events.clear()
        self._ask("Page.navigate", {"url": page.as_uri()}, tab)
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._read()
        answer = self._ask("Runtime.evaluate", {"expression": _MEASURE}, tab)
        measured = json.loads(answer["result"]["value"])
        height = measured["height"]
        if until:
            expression = (
                f"document.querySelector({json.dumps(until)}).getBoundingClientRect().bottom"
            )
            answer = self._ask("Runtime.evaluate", {"expression": expression}, tab)
            height = round(answer["result"]["value"])
        whole = {
            "format": "png",
            "captureBeyondViewport": True,
            "clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1},
        }
        shot = self._ask("Page.captureScreenshot", whole, tab)
        picture.write_bytes(base64.b64decode(shot["data"]))
        sight = Sight(**measured, errors=self._errors(), requests=self._requested())
        self._ask("Target.closeTarget", {"targetId": target})
        return sight

    def _errors(self) -> list[str]:
        kinds = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        return [json.dumps(event["params"]) for event in self._events if event["method"] in kinds]

    def _requested(self) -> list[str]:
        return [
            str(event["params"]["request"]["url"])
            for event in self._events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def _ask(
        self, method: str, parameters: Mapping[str, Any] | None = None, tab: str = ""
    ) -> dict[str, Any]:
        self._last += 1
        session = {"sessionId": tab} if tab else {}
        request = {"id": self._last, "method": method, "params": parameters or {}, **session}
        os.write(self._requests, json.dumps(request).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _read(self) -> dict[str, Any]:
        """The next message: an answer, or an event, which is kept."""
        while b"\0" not in self._buffer:
            part = os.read(self._answers, 1 << 16)
            assert part, "Chromium has ended"
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self._events.append(message)
        return message
