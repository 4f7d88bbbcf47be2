"""The pictures of the demo's page in `docs`: the page of a recorded run, as Chromium draws it.

python -m tests.e2e.demo_picture                            # from the recorded run
python -m tests.e2e.demo_picture build/demo-report.json     # record what `make demo` wrote
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

from sandbox.alarms import SHORT_MINUTE
from sandbox.demo.beside import MODELLED, beside
from sandbox.demo.events import plan
from sandbox.demo.page import page
from sandbox.demo.run import SEED
from sandbox.server import ROOT
from tests.chromium import launched
from tests.e2e.pictures import SCALE, SCHEMES, WIDTH, picture, upper

COMMAND = "python -m tests.e2e.demo_picture"
RUN = ROOT / "tests" / "sandbox" / "demo_run.json"

# The picture ends below the table of the other ways.
UNTIL = ".compare"


def recorded() -> dict[str, Any]:
    """The report of the recorded run, beside the models as they are now."""
    report: dict[str, Any] = json.loads(RUN.read_text(encoding="utf-8"))
    outage = report["outage"]
    others = beside(plan(SEED), outage_minutes=(outage["ended"] - outage["began"]) / SHORT_MINUTE)
    return report | {"beside": [*report["beside"], *(way.as_json() for way in others)]}


def record(report: Mapping[str, Any]) -> None:
    """Keep what was measured of *report*, a line for each of its parts."""
    kept = {**report, "beside": [way for way in report["beside"] if way["how"] != MODELLED]}
    parts = (f"{json.dumps(key)}: {json.dumps(part)}" for key, part in kept.items())
    RUN.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def page_hash(html: str, scheme: str) -> str:
    """What a picture keeps of the page that it was made from."""
    return hashlib.sha256(f"{scheme} {WIDTH} {SCALE} {UNTIL} {html}".encode()).hexdigest()


def draw(browser: Browser, html: str, scheme: Any) -> bytes:
    """Draw the page's upper part, with few colours and the hash of the page in it."""
    viewport: Any = {"width": WIDTH, "height": 900}
    with browser.new_context(
        viewport=viewport, color_scheme=scheme, device_scale_factor=SCALE
    ) as context:
        tab = context.new_page()
        tab.set_content(html)
        return upper(tab, UNTIL, page_hash(html, scheme))


def main(arguments: list[str]) -> None:
    if arguments:
        record(json.loads(Path(arguments[0]).read_text(encoding="utf-8")))
    html = page(recorded())
    with launched() as browser:
        for scheme in SCHEMES:
            picture("demo", scheme).write_bytes(draw(browser, html, scheme))


if __name__ == "__main__":
    main(sys.argv[1:])
