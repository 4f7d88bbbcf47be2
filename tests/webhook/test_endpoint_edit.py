"""What the audit keeps of a change of an endpoint: no path of a URL, and no secret."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from deadletter.webhook.endpoint import edit_facts
from tests.each_row import each_row

PREFIX = "deadletter/webhooks/"
ROW: dict[str, Any] = {
    "tenant": "acme",
    "endpoint": "default",
    "url": "https://hooks.acme.example/in?token=hunter2",
    "enabled": True,
    "secrets": [f"{PREFIX}acme-1"],
}
FACTS = {
    "url": "https://hooks.acme.example",
    "standing": "enabled",
    "secrets": [f"{PREFIX}acme-1"],
}


def test_an_endpoint_that_is_added_or_removed() -> None:
    assert edit_facts(None, ROW, PREFIX) == (None, FACTS)
    assert edit_facts(ROW, None, PREFIX) == (FACTS, None)


@each_row(
    ("changed", "facts"),
    [
        ({"url": "https://evil.example/in"}, {"url": "https://evil.example"}),
        (
            {"url": "https://hooks.acme.example/other"},
            {"url": "https://hooks.acme.example with another path"},
        ),
        ({"url": "ftp://hooks.acme.example"}, {"url": "?"}),
        ({"enabled": False}, {"standing": "disabled"}),
        (
            {"enabled": False, "disabled_because": "it answered 410", "disabled_at": Decimal(7)},
            {"standing": "disabled", "because": "it answered 410"},
        ),
        ({"secrets": []}, {"secrets": []}),
        # Not a name, but perhaps the secret itself.
        ({"secrets": ["whsec_c2VjcmV0"]}, {"secrets": ["?"]}),
        # Whatever else is typed: that it was changed is on record.
        ({"note": "x"}, {}),
    ],
)
def test_a_change_says_what_it_changed(changed: dict[str, Any], facts: dict[str, Any]) -> None:
    assert edit_facts(ROW, {**ROW, **changed}, PREFIX) == (FACTS, {**FACTS, **facts})


def test_a_row_that_is_no_endpoint_is_kept_as_invalid() -> None:
    kept = edit_facts(ROW, {**ROW, "secrets": "hunter2"}, PREFIX)
    because = "secrets must be a list of names of secrets"
    assert kept == (
        FACTS,
        {"url": "https://hooks.acme.example", "standing": "invalid", "because": because},
    )
    lost = edit_facts(ROW, {"tenant": "acme", "endpoint": "default", "url": 7}, PREFIX)
    assert lost is not None
    assert lost[1] == {"url": "?", "standing": "invalid", "because": "url must be text"}


def test_a_pause_that_the_dispatcher_writes_is_no_edit() -> None:
    paused = {**ROW, "throttled_until": Decimal(1_700_000_000), "throttled_by": Decimal(429)}
    assert edit_facts(ROW, paused, PREFIX) is None
    assert edit_facts(paused, {**paused, "throttled_until": Decimal(1)}, PREFIX) is None
    moved = {**paused, "url": "https://evil.example/in"}
    assert edit_facts(ROW, moved, PREFIX) is not None


def test_a_long_reason_is_cut() -> None:
    kept = edit_facts(ROW, {**ROW, "enabled": False, "disabled_because": "x" * 9_000}, PREFIX)
    assert kept is not None
    assert kept[1] is not None
    assert len(kept[1]["because"]) == 500
