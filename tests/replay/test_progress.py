"""What became of each letter is kept in two bytes, and survives its worker."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from deadletter.replay.manifest import (
    PART,
    PartStatus,
    ShardProgress,
    StatusUnavailable,
    merged,
    save,
)
from deadletter.replay.ticket import ReplayOutcome
from tests.each_row import each_row


class Rows:
    def __init__(self) -> None:
        self.rows: dict[tuple[int, int], PartStatus] = {}
        self.fails = False

    def read(self, shard: int) -> Mapping[int, PartStatus]:
        return {part: status for (at, part), status in self.rows.items() if at == shard}

    def write(self, shard: int, parts: Mapping[int, PartStatus]) -> None:
        if self.fails:
            raise StatusUnavailable
        self.rows |= {(shard, part): status for part, status in parts.items()}


def test_progress_reads_as_it_was_saved() -> None:
    rows, progress = Rows(), ShardProgress.of(2, {})
    progress.set(0, ReplayOutcome.RECOVERED)
    progress.set(2 * PART + 1, ReplayOutcome.SENT, returns=2)
    save(rows, [progress])
    assert sorted(rows.rows) == [(2, 0), (2, 2)]
    again = ShardProgress.of(2, rows.read(2))
    assert again.outcome(0) is ReplayOutcome.RECOVERED
    assert again.outcome(1) is ReplayOutcome.OPEN
    assert again.outcome(2 * PART + 1) is ReplayOutcome.SENT
    assert (again.returned(2 * PART + 1), again.returned(0)) == (2, 0)
    assert again.outcome(9 * PART) is ReplayOutcome.OPEN
    assert again.counts()[ReplayOutcome.RECOVERED] == 1
    assert again.returns_total == 2


def test_late_failures_are_kept_and_never_taken_back() -> None:
    rows, progress = Rows(), ShardProgress.of(0, {})
    progress.set(1, ReplayOutcome.OPEN, returns=1)
    progress.note_late(1)
    save(rows, [progress])
    assert rows.rows[0, 0].late == "01"
    assert ShardProgress.of(0, rows.read(0)).late_total == 1
    known = PartStatus("  r", "010", "01")
    assert merged(known, PartStatus("   ", "000")) == PartStatus("  r", "010", "010")


def test_more_returns_than_a_digit_holds_shift_no_other_letter() -> None:
    """Tries that failed before a person resumed the run count for no limit."""
    rows, progress = Rows(), ShardProgress.of(0, {})
    for _ in range(50):
        progress.note_late(0)
    progress.set(0, ReplayOutcome.SENT, returns=50)
    progress.set(1, ReplayOutcome.SENT, returns=11)
    save(rows, [progress])
    again = ShardProgress.of(0, rows.read(0))
    assert (again.returned(0), again.returned(1)) == (35, 11)
    assert again.late_total == 35


def test_a_terminal_outcome_is_final() -> None:
    progress = ShardProgress.of(0, {})
    progress.set(0, ReplayOutcome.UNKNOWN)
    progress.set(0, ReplayOutcome.RECOVERED)
    assert progress.outcome(0) is ReplayOutcome.UNKNOWN


def test_only_changed_parts_are_saved_and_only_once() -> None:
    rows, progress = Rows(), ShardProgress.of(0, {1: PartStatus("s", "0")})
    progress.set(PART, ReplayOutcome.SENT)
    assert progress.dirty == set()
    progress.set(PART, ReplayOutcome.DUPLICATE)
    save(rows, [progress])
    assert (progress.dirty, sorted(rows.rows)) == (set(), [(0, 1)])


def test_what_could_not_be_saved_stays_unsaved() -> None:
    rows, progress = Rows(), ShardProgress.of(0, {})
    progress.set(0, ReplayOutcome.RECOVERED)
    rows.fails = True
    with pytest.raises(StatusUnavailable):
        save(rows, [progress])
    rows.fails = False
    save(rows, [progress])
    assert rows.rows == {(0, 0): PartStatus("r", "0")}


@each_row(
    ("stored", "later", "after"),
    [
        (("", "", ""), ("r", "1", ""), ("r", "1", "")),
        (("r", "1", ""), ("", "", ""), ("r", "1", "")),
        (("r", "2", "1"), ("p", "1", "2"), ("r", "2", "2")),
        (("s ", "10", ""), ("rs", "01", ""), ("rs", "11", "")),
        (("s", "a", ""), (" r", "9", "1"), (" r", "a0", "10")),
        (("?", "", "1"), ("s", "", ""), ("?", "0", "1")),
    ],
)
def test_a_later_status_takes_nothing_back(
    stored: tuple[str, str, str], later: tuple[str, str, str], after: tuple[str, str, str]
) -> None:
    assert merged(PartStatus(*stored), PartStatus(*later)) == PartStatus(*after)


def test_a_letter_behind_the_end_of_the_texts_is_open_and_never_came_back() -> None:
    progress = ShardProgress.of(0, {0: PartStatus("rs", "01", "01")})
    assert [progress.is_terminal(position) for position in range(4)] == [True, False, False, False]
    assert [progress.returned(position) for position in range(4)] == [0, 1, 0, 0]
    assert [progress.outcome(position) for position in (1, 2)] == [
        ReplayOutcome.SENT,
        ReplayOutcome.OPEN,
    ]
    progress.note_late(3)
    assert progress.status_of(0) == PartStatus("rs  ", "0100", "0101")
    assert (progress.dirty, progress.returns_total, progress.late_total) == ({0}, 1, 2)


def test_an_outcome_without_a_number_keeps_how_often_the_letter_came_back() -> None:
    progress = ShardProgress.of(0, {})
    progress.set(PART, ReplayOutcome.OPEN, returns=2)
    progress.set(PART, ReplayOutcome.SENT)
    assert progress.status_of(1) == PartStatus("s", "2")
    assert progress.counts() == {ReplayOutcome.OPEN: PART, ReplayOutcome.SENT: 1}
