"""What became of each letter is kept in two bytes, and survives its worker."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from deadletter.replay.progress import (
    PART,
    PartStatus,
    ShardProgress,
    StatusUnavailable,
    first_unfinished,
    merged,
    save,
)
from deadletter.replay.ticket import ReplayOutcome


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


def test_letters_without_a_terminal_outcome_are_unfinished() -> None:
    progress = ShardProgress.of(0, {0: PartStatus("rs p", "0000")})
    assert list(first_unfinished(progress, 6)) == [1, 2, 4, 5]
    assert list(first_unfinished(progress, 6, 4)) == [4, 5]
