"""A run passes if enough mutants are noticed, of all and of each package."""

from __future__ import annotations

from dataclasses import replace

from lab.mutation.mutant import Ending, Mutant, Result
from lab.mutation.verdict import MutationVerdict, judge, table

MUTANT = Mutant(
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

KILLED, TIMEOUT, SURVIVED = Ending.KILLED, Ending.TIMEOUT, Ending.SURVIVED


def verdict(**packages: list[Ending]) -> MutationVerdict:
    return judge(
        {
            package: [Result(replace(MUTANT, at=at), ending) for at, ending in enumerate(endings)]
            for package, endings in packages.items()
        }
    )


def test_a_time_out_is_noticed_and_a_survivor_is_not() -> None:
    scored = verdict(circuit=[*[KILLED] * 8, TIMEOUT, SURVIVED])
    assert scored.total.score == 0.9
    assert [mutant.was for mutant in scored.survivors] == ["return 1"]
    assert scored.passes


def test_too_many_survivors_of_all_fail_though_each_package_is_above_its_own_bound() -> None:
    scored = verdict(circuit=[*[KILLED] * 9, SURVIVED], rules=[*[KILLED] * 8, *[SURVIVED] * 2])
    assert scored.total.score == 0.85
    assert not scored.passes


def test_one_package_far_below_the_others_fails() -> None:
    scored = verdict(circuit=[KILLED] * 90, rules=[*[KILLED] * 7, *[SURVIVED] * 3])
    assert scored.total.score == 0.97
    assert not scored.passes


def test_the_table_ends_with_the_sum() -> None:
    scored = verdict(circuit=[*[KILLED] * 8, SURVIVED], rules=[KILLED])
    assert table(scored)[-1].startswith("| all | 10 | 9 | 0 | 1 | 90.0% |")
