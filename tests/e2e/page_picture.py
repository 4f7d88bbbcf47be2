"""The pictures of the page in `docs`: its screen Now of a sandbox in trouble, by Chromium.

python -m tests.e2e.page_picture        # two minutes: an AWS, the app in it, and its troubles
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jinja2 import Environment, meta
from playwright.sync_api import Browser

from console.web import page
from sandbox.demo.events import RECOVERING, SENT_LATER, TENANTS, plan
from sandbox.demo.pipeline import DemoPipeline
from sandbox.demo.pipeline import settings as pipeline_settings
from sandbox.demo.receiver import Receiver
from sandbox.demo.run import SEED
from sandbox.deploy import deploy
from sandbox.progress import until
from sandbox.queue_metrics import QueueMetrics
from sandbox.server import ROOT, Sandbox
from tests.chromium import Tab, launched
from tests.e2e.pictures import SCALE, SCHEMES, WIDTH, picture, upper
from tests.e2e.test_page import address_of, served

COMMAND = "python -m tests.e2e.page_picture"

# The picture ends below the queues, what waits, and the circuits.
UNTIL = ".flow"

SCREEN = "now.html"

ROUTER = "deadletter-orders-route"

# So many messages wait for a tenant when the router stops.
WAITING = 40

# What is said then.
CARDS = {"router-down", "unattended"}


def drawn_from() -> list[Path]:
    """The files that the screen is drawn from: its templates, their styles, and what fills them."""
    web = Path(page.__file__).parent
    environment = Environment(autoescape=True, extensions=["jinja2.ext.do"])
    files = {file.name: file for file in (*web.glob("templates/*"), *web.glob("static/*.css"))}
    named, found = [SCREEN], dict[str, Path]()
    while named:
        name = named.pop()
        found[name] = files[name]
        text = files[name].read_text(encoding="utf-8")
        others = meta.find_referenced_templates(environment.parse(text))
        styles = re.findall(r"static/(\w+\.css)", text)
        named += [other for other in (*others, *styles) if other and other not in found]
    return sorted([Path(page.__file__), *found.values()])


def sources_hash(scheme: str) -> str:
    """What a picture keeps of what it was drawn from."""
    digest = hashlib.sha256(f"{scheme} {WIDTH} {SCALE} {UNTIL}".encode())
    for file in drawn_from():
        digest.update(file.read_bytes())
    return digest.hexdigest()


@contextmanager
def troubled(folder: Path) -> Iterator[Sandbox]:
    """The app after an outage of one tenant and a router that can't start, until it is left."""
    with Receiver() as receiver, Sandbox(folder) as sandbox:
        deploy(sandbox, context={"pipelines": json.dumps([pipeline_settings()])})
        pipeline = DemoPipeline(sandbox, "orders")
        with QueueMetrics(sandbox.queues, sandbox.client("cloudwatch")):
            for tenant in TENANTS:
                pipeline.register(tenant, receiver.url(tenant))
            pipeline.send(plan(SEED))

            def moves() -> tuple[int, int, tuple[int, int, int]]:
                return len(receiver.visits), len(pipeline.seated()), pipeline.depths()

            def waits() -> bool:
                pipeline.start_run()
                _, waiting, (_, _, parked) = moves()
                return waiting >= WAITING and parked > 0

            until(waits, f"messages of {RECOVERING} wait", marks=moves)
            sandbox.client("lambda").put_function_concurrency(
                FunctionName=ROUTER, ReservedConcurrentExecutions=0
            )
            pipeline.send(plan(SEED + 1)[:SENT_LATER])

            def is_told() -> bool:
                pipeline.start_run()
                cards = attention(sandbox)
                return cards.keys() >= CARDS and "is in ALARM" in cards["router-down"]

            until(is_told, "the alarm rings", marks=moves)
            yield sandbox


def attention(sandbox: Sandbox) -> Mapping[str, str]:
    """What `dlq status` says of each kind of trouble."""
    answer = json.loads(sandbox.dlq(["status", "--json"]).stdout)
    return {each["kind"]: each["says"] for each in answer["attention"]}


def draw(browser: Browser, sandbox: Sandbox) -> Mapping[str, bytes]:
    """Draw the screen in each colour scheme, with the hash of what it was drawn from."""
    viewport: Any = {"width": WIDTH, "height": 900}
    drawn = {}
    with (
        served(sandbox) as started,
        browser.new_context(viewport=viewport, device_scale_factor=SCALE) as context,
    ):
        address = address_of(started)
        tab = Tab(context, address.partition("enter?")[0])
        tab.page.goto(address)
        tab.page.wait_for_url(tab.home)
        for scheme in SCHEMES:
            tab.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # a literal
            drawn[scheme] = upper(tab.page, UNTIL, sources_hash(scheme))
        assert tab.errors == []
    return drawn


def main() -> None:
    with troubled(ROOT / "build" / "page-picture") as sandbox, launched() as browser:
        for scheme, png in draw(browser, sandbox).items():
            picture("page", scheme).write_bytes(png)


if __name__ == "__main__":
    main()
