"""The demo's report as one page of HTML: no script, and nothing from other hosts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from console.web.page import render
from sandbox.alarms import SHORT_MINUTE
from sandbox.demo import chart, person
from sandbox.demo.beside import ASSUMPTIONS, COUNTED, LATE_AFTER

Report = Mapping[str, Any]
"""What `sandbox.demo.run` writes."""

# What has to be zero, with what it is called.
_ZERO = {
    "waiting": "still on its way",
    "lost": "lost",
    "strangers": "bodies that were never sent",
    "altered": "attributes changed",
    "astray": "another end than planned",
    "unrecorded": "healed, without a failure record",
}


def write(report: Report, file: Path) -> None:
    """Write the page to *file*."""
    file.write_text(page(report), encoding="utf-8")


def page(report: Report) -> str:
    """The page. All texts are escaped; bodies are not in it.

    What a demo that was broken off or went wrong does not have is left out.
    """
    samples, tenants = report.get("samples", ()), report.get("tenants", ())
    names = {each["name"]: f"{each['name']} ({each['role']})" for each in tenants}
    picture = None
    if len(samples) > 1:
        picture = chart.picture(samples, report.get("outage") or {}, names)
    return render(
        "demo.html",
        report=report,
        picture=picture,
        places=chart.PLACES,
        edge=chart.EDGE,
        zero=_ZERO,
        parked=sum(report["parked_by_reason"].values()),
        at_once=report["delivered"] - report["healed"],
        counted=COUNTED,
        assumptions=ASSUMPTIONS,
        assumed=person.ASSUMED,
        late_after=LATE_AFTER,
        minute=SHORT_MINUTE,
    )
