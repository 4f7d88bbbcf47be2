"""Each planted bug is caught by a schedule on record, which is clean without the bug."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.simulation import caught
from tests.simulation.caught import BUGS, HUNTS, Bug, Schedule, recorded

RECORDED = recorded()


@cache
def is_broken(simulator: str, schedule: Schedule) -> bool:
    """Whether the schedule breaks a promise without a bug: several bugs share one."""
    return HUNTS[simulator].is_broken(schedule)


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_planted_bug_is_caught(bug: Bug) -> None:
    hit = bug.hit(RECORDED.get(bug, ()))
    if hit is None:
        pytest.fail(f'no schedule on record catches it any more: make caught OF="{bug}"')
    assert not is_broken(bug.simulator, hit), "the schedule is broken without the bug, too"


def test_the_record_is_of_bugs_that_there_are() -> None:
    assert set(RECORDED) == set(BUGS)
    assert all(len(set(schedules)) <= caught.ENOUGH for schedules in RECORDED.values())


QUICK = Bug("claims", "a withdrawal deletes the row")


def test_a_bug_that_no_recorded_schedule_hits_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when code has moved: the test fails and names the command, and a search finds others."""
    clean = next(
        schedule
        for schedule in QUICK.hunt.schedules(list(QUICK.hunt.sorts))
        if QUICK.hit([schedule]) is None
    )
    monkeypatch.setitem(RECORDED, QUICK, [clean])  # type: ignore[arg-type]
    with pytest.raises(
        pytest.fail.Exception, match='make caught OF="claims: a withdrawal deletes the row"'
    ):
        test_a_planted_bug_is_caught(QUICK)
    hits, _ = caught.search(QUICK, list(QUICK.hunt.sorts))
    assert len(hits) == caught.ENOUGH
    assert clean not in hits


def test_a_schedule_that_is_broken_without_the_bug_proves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "is_broken", lambda *_: True)
    with pytest.raises(AssertionError, match="without the bug, too"):
        test_a_planted_bug_is_caught(QUICK)


def test_a_search_takes_the_sorts_that_have_hit_the_bug() -> None:
    rare = Bug("redriver", "a merge forgets the marks")
    known: dict[Bug, Sequence[Schedule]] = {rare: [Schedule("interrupted", 279)]}
    assert caught.likely_sorts(rare, known) == ["interrupted"]
    assert caught.likely_sorts(rare, {}) == list(rare.hunt.sorts)


def test_a_fresh_search_goes_on_where_it_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "caught.json"
    results.write_text(f'{{"{QUICK}": 4}}')
    searched: list[Bug] = []
    monkeypatch.setattr(caught, "search", lambda bug, *_, **__: searched.append(bug))
    assert caught.fresh([QUICK], 7_000, results) == 0
    assert searched == []
