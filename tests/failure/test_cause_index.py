"""Entries of the index of causes: what a failure changes, and how an entry is read."""

from __future__ import annotations

from typing import Any

from deadletter.contract import Blame
from deadletter.failure.cause_index import (
    LARGEST_ENTRY,
    NO_FINGERPRINT,
    CauseEntry,
    cut,
    entry_change,
    entry_from_item,
    shard_of,
)
from deadletter.failure.fate import GIVEN_BACK, Fate
from deadletter.failure.ledger import AboutLetter
from tests.each_row import each_row
from tests.samples import NOW, failed

ABOUT = AboutLetter({"tenantId": "t-1"}, "t-1/default", 1_204)
FAILURE = failed(at=NOW, attempt=2, message="no price", http_status=422, fingerprint="f1")


def item(origin: str = "a", **changes: Any) -> dict[str, Any]:
    change = entry_change("orders", origin, FAILURE, ABOUT)
    keys = {"pk": f"orders#ledger#{origin}", "sk": "ledger"}
    return {**keys, **change.sets, **change.keeps, **changes}


def test_an_entry_is_read_as_it_was_written() -> None:
    assert entry_from_item(item()) == CauseEntry(
        origin="a",
        fingerprint="f1",
        seen=NOW,
        first_at=NOW,
        category="transient",
        error_type="KeyError",
        words="no price",
        http_status=422,
        attempt=2,
        about=ABOUT,
        blame=Blame.NEITHER,
    )


def test_a_failure_without_a_fingerprint_is_in_the_index_too() -> None:
    change = entry_change("orders", "a", failed(fingerprint=""), ABOUT)
    assert change.sets["fingerprint"] == NO_FINGERPRINT
    entry = entry_from_item(item(fingerprint=NO_FINGERPRINT))
    assert entry is not None
    assert entry.fingerprint == ""


def test_what_a_failure_lacks_is_removed_from_the_row() -> None:
    change = entry_change("orders", "a", failed(error_type="", message=""), AboutLetter(size=1))
    assert set(change.removes) == {"error_type", "http_status", "words", "context", "endpoint"}
    assert set(change.removes).isdisjoint(change.sets)


def test_an_entry_is_small_whatever_it_says() -> None:
    """A page of the index has as many entries as fit into a megabyte."""
    about = AboutLetter({"tenantId": "t" * 400}, "e" * 5_000, 1_204)
    change = entry_change("orders", "a" * 36, failed(message="m" * 5_000), about)
    item = {"pk": f"orders#ledger#{'a' * 36}", "sk": "ledger", **change.sets, **change.keeps}
    size = sum(len(f"{name}{value}".encode()) for name, value in item.items())
    assert 0.8 * LARGEST_ENTRY <= size <= LARGEST_ENTRY
    assert change.sets["words"].startswith("m" * 20)


def test_what_could_not_be_read_leaves_the_facts_about_the_letter_as_they_are() -> None:
    change = entry_change("orders", "a", FAILURE, None)
    assert {"context", "endpoint", "size"}.isdisjoint({*change.sets, *change.keeps})
    assert {"context", "endpoint", "size"}.isdisjoint(change.removes)


def test_a_receive_without_a_try_replaces_no_cause() -> None:
    given_back = failed(error_type=str(Fate.REFUSED), message=GIVEN_BACK, fingerprint="")
    change = entry_change("orders", "a", given_back, ABOUT)
    assert change.sets.keys() == {"causes", "seen"}
    assert change.keeps["fingerprint"] == NO_FINGERPRINT
    assert "words" not in change.keeps
    assert change.removes == ()


@each_row(
    "changes",
    [
        {"pk": "orders"},
        {"pk": 7},
        {"seen": "yesterday"},
        {"category": "tired"},
        {"blame": "me"},
        {"http_status": "teapot"},
    ],
)
def test_a_malformed_entry_is_no_entry(changes: dict[str, Any]) -> None:
    assert entry_from_item(item(**changes)) is None


def test_letters_are_spread_over_all_shards() -> None:
    assert {shard_of(f"letter-{n}") for n in range(200)} == set(range(8))


def test_a_cut_text_ends_with_an_ellipsis_and_is_never_half_a_character() -> None:
    assert cut("words", 5) == "words"
    assert cut("words…", 5) == "wo…"
    assert cut("ééé", 5) == "é…"
    assert cut("words", 2) == ""
    assert cut("\ud800", 9) == "?"
