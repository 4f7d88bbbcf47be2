"""The page of a replay run as Chromium draws it; the pictures are in build/replay-page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from console.operations.replay_report import MEANING, GroupAccount, RunAccount, RunMinute
from console.operations.replay_runs import ReplayRow
from console.web.page import render
from sandbox.server import ROOT
from tests.chromium import Sight, look

PICTURES = ROOT / "build" / "replay-page"

# CSS pixels: a telephone, and a window.
NARROW, WIDE = 360, 1200

# Lines of text that are lower than this can't be read.
LOWEST_LINE = 13

BEGAN = datetime(2026, 11, 22, 17, 5, tzinfo=UTC)

OUTCOMES = [name for name in MEANING if name not in ("UNACCOUNTED", "RETURNED")]


def broken(minutes: int) -> RunAccount:
    """A run with every outcome there is, long names, and letters that are unaccounted for."""
    counts = {name: 10 * (place + 1) for place, name in enumerate(OUTCOMES)}
    letters = sum(counts.values())
    groups = [
        GroupAccount(f"{number:x}" * 16, "transient" * (number % 2), letters, counts)
        for number in range(5)
    ]
    tenants = [GroupAccount(name, "", 1, {"PARKED": 1}) for name in ("acme", "x" * 120, "")]
    run = ReplayRow(
        pipeline="orders-of-" + "a" * 50, run="ef26aeae5a038383", state="BROKEN",
        counted=letters + 3, messages=letters, ended=letters, counts=counts,
        step=6, rate=40.0, created=BEGAN, changed=BEGAN + timedelta(minutes=7), expires=None,
        because="13 messages are neither in the run's lane nor on a ticket", by="replay",
        leaves_to="parked", empty=False, restarts=1,
    )  # fmt: skip
    return RunAccount(
        account="123456789012", region="eu-west-1", app="deadletter", at=BEGAN, run=run,
        final=True, source="dlq", destination="main", why="the fix is deployed, " * 12,
        who=f"arn:aws:sts::123456789012:assumed-role/{'operator-' * 12}/person",
        messages=letters, counts=counts, unaccounted=13,
        missing=[f"letter-{number}" for number in range(13)], missed="3 messages did not join",
        returned=144, causes=groups, tenants=tenants, keys=groups,
        minutes=[
            RunMinute(BEGAN + timedelta(minutes=n), {"RECOVERED": n, "RETURNED": 3, "PARKED": 1})
            for n in range(minutes)
        ],
        says=f"13 of {letters} messages are unaccounted for: the run is BROKEN",
    )  # fmt: skip


def page(account: RunAccount) -> str:
    return render("report.html", account=account, meaning=MEANING)


def test_the_account_that_is_drawn_at_night_is_one_of_today() -> None:
    assert "13 of " in page(broken(7))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("minutes", [1, 7, 1500])
def test_the_page_is_readable_and_asks_nobody(
    chromium: Browser, tmp_path: Path, minutes: int, width: int, scheme: str
) -> None:
    file = tmp_path / "report.html"
    file.write_text(page(broken(minutes)))
    picture = PICTURES / f"{minutes}-minutes-{width}-{scheme}.png"
    sight = look(chromium, file, width=width, scheme=scheme, picture=picture)
    require_readable(sight, file, width)
    # The outcomes, five causes, three tenants, five keys, and the minutes.
    assert len(sight.charts) == 1 + 5 + 3 + 5 + 1
    assert sight.charts[0]["drawn"] == len(OUTCOMES)
    is_dark = sum(map(int, sight.colour.strip("rgb()").split(","))) < 3 * 128
    assert is_dark == (scheme == "dark")


def require_readable(sight: Sight, file: Path, width: int) -> None:
    """Nothing is wrong, nothing else is loaded, nothing is cut off or too small."""
    assert sight.errors == []
    assert sight.requests == [file.as_uri()]
    assert sight.width <= width, f"{sight.width - width} pixels are cut off"
    for chart in sight.charts:
        assert chart["width"] >= 60, chart
        assert chart["height"] >= 12, chart
        assert chart["drawn"], chart
    assert [text for text in sight.texts if text["height"] < LOWEST_LINE] == []
