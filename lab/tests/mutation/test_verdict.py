"""A run passes if enough mutants are noticed, and survivors and judgements match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lab.mutation.mutant import Ending, Mutant, Result
from lab.mutation.verdict import (
    Judgement,
    MutationVerdict,
    judge,
    read_judgements,
    table,
)
from tools.reasons import BadEntry

SURVIVOR = Mutant(
    module="circuit/state.py",
    operator="NumberReplacer",
    at=0,
    length=1,
    text="2",
    scope="age",
    line=7,
    last_line=7,
    was="return 1",
    becomes="return 2",
)
JUDGEMENT = Judgement(
    module="circuit/state.py",
    scope="age",
    was="return 1",
    becomes="return 2",
    reason="The caller only asks whether it is positive.",
)


def verdict(
    *endings: Ending, judgements: Sequence[Judgement] = (), complete: Sequence[str] | None = None
) -> MutationVerdict:
    results = [Result(replace(SURVIVOR, at=at), ending) for at, ending in enumerate(endings)]
    whole = ["circuit/state.py"] if complete is None else complete
    return judge({"circuit": results}, judgements, complete=whole)


KILLED, TIMEOUT, SURVIVED = Ending.KILLED, Ending.TIMEOUT, Ending.SURVIVED


def test_a_time_out_is_noticed_and_a_judged_survivor_is_not_killed() -> None:
    scored = verdict(*[KILLED] * 8, TIMEOUT, SURVIVED, judgements=[JUDGEMENT])
    assert scored.scores[0].score == 0.9
    assert scored.passes


def test_a_survivor_that_is_not_judged_fails_whatever_the_score() -> None:
    scored = verdict(*[KILLED] * 99, SURVIVED)
    assert scored.scores[0].score == 0.99
    assert [mutant.was for mutant in scored.open] == ["return 1"]
    assert not scored.passes


def test_too_many_survivors_fail_though_each_is_judged() -> None:
    scored = verdict(*[KILLED] * 8, SURVIVED, SURVIVED, judgements=[JUDGEMENT])
    assert not scored.open
    assert not scored.passes


def test_a_judgement_without_a_survivor_fails() -> None:
    scored = verdict(KILLED, judgements=[JUDGEMENT])
    assert list(scored.unused) == [JUDGEMENT]
    assert not scored.passes


def test_a_sample_says_nothing_about_unused_judgements() -> None:
    assert verdict(KILLED, judgements=[JUDGEMENT], complete=[]).passes


@pytest.mark.parametrize(
    "other",
    [
        {"module": "circuit/outcomes.py"},
        {"scope": "Circuit.age"},
        {"was": "return 0"},
        {"becomes": "return 0"},
    ],
)
def test_a_judgement_covers_its_own_change_only(other: dict[str, str]) -> None:
    assert JUDGEMENT.covers(SURVIVOR)
    assert not replace(JUDGEMENT, **other).covers(SURVIVOR)


def test_a_judgement_without_a_sentence_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "survivors.toml"
    row = '[[survivor]]\nmodule = "a"\nscope = "b"\nwas = "c"\nbecomes = "d"\nreason = "%s"\n'
    path.write_text(row % "equivalent")
    with pytest.raises(BadEntry, match="a sentence of 5 words"):
        read_judgements(path)
    path.write_text(row % "Both give the same answer here.")
    assert len(read_judgements(path)) == 1


def test_a_judgement_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "survivors.toml"
    path.write_text('[[survivor]]\nmodule = "a"\nline = 7\n')
    with pytest.raises(BadEntry):
        read_judgements(path)


def test_the_table_ends_with_the_sum() -> None:
    scored = verdict(*[KILLED] * 9, SURVIVED, judgements=[JUDGEMENT])
    assert table(scored.scores)[-1].startswith("| all | 10 | 9 | 0 | 1 | 0 | 90.0% |")
