"""When each page rings, and the five lines that it says."""

from __future__ import annotations

import pytest

from deadletter.signals.pages import APP_PAGES, PIPELINE_PAGES, Alarm

LEVEL = (">= 1", (1, 3), "quiet")
WHEN = {
    "DlqAge": ("> age", None, "kept"),
    "MessageAge": (">= age", (1, 3), "quiet"),
    "MessageExpiry": ("<= letter_expiry", (1, 3), "quiet"),
    "RedriveStalled": (">= 1", (3, 3), "heartbeat"),
}
SIGNS = {"above": ">", "at least": ">=", "at most": "<="}
PAGES = {page.alarm: page for page in (*PIPELINE_PAGES, *APP_PAGES)}


@pytest.mark.parametrize("alarm", Alarm)
def test_each_page_rings_at_its_threshold(alarm: Alarm) -> None:
    page = PAGES[alarm]
    rings = f"{SIGNS[page.compares]} {page.threshold}"
    assert (rings, page.looks, page.missing) == WHEN.get(alarm, LEVEL)
    assert page.of_app is (alarm == "SharedTrouble")


@pytest.mark.parametrize(
    ("alarm", "pipeline", "first", "section"),
    [
        ("MessageAge", "orders", "dlq --app shop status --pipeline orders", "dlqage"),
        ("DlqDepth", "orders", "dlq --app shop groups --pipeline orders", "dlqdepth"),
        ("SharedTrouble", None, "dlq --app shop status", "sharedtrouble"),
    ],
)
def test_a_page_says_what_to_type_and_where_to_read(
    alarm: str, pipeline: str | None, first: str, section: str
) -> None:
    page = PAGES[Alarm(alarm)]
    text = page.text(
        "shop", pipeline, {"age": "30 min", "depth": "100"}, runbook="book", owner="ann"
    )
    symptom, cause, *rest = text.split("\n")
    assert symptom == f"Symptom: {page.says.format(age='30 min', depth='100')}"
    assert cause.startswith("Likely cause: ")
    assert rest == [f"First command: `{first}`", f"Runbook: book#{section}", "Owner: ann"]
