"""The router is asked once more after no answer, and decides alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from deadletter.failure.failure import FailureKind
from deadletter.message.letter import compact_json
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.report import Tally
from deadletter.redrive.router_client import RouterClient, next_request, orders, request_bytes
from deadletter.routing.decision import Hold, Redrive
from deadletter.routing.router import LaneAnswer, Question, RouterAnswer, RouterUnavailable, Verdict
from deadletter.routing.wire import question_to_json
from deadletter.rules.refused_rule import RefusedRule
from deadletter.signals.figures import Count
from tests.each_row import each_row
from tests.samples import letter, received, verdict

REDRIVE = Redrive(0, "x")
HOLD = Hold("due", 5.0, "x")


@dataclass
class Answering:
    """A router that gives no answer so many times, and then always the same one."""

    answer: RouterAnswer = field(default_factory=lambda: RouterAnswer(()))
    silent: int = 0
    asked: list[Sequence[Question]] = field(default_factory=list)

    def decide(self, questions: Sequence[Question]) -> RouterAnswer:
        self.asked.append(questions)
        if len(self.asked) <= self.silent:
            raise RouterUnavailable("down")
        return self.answer

    def open_lanes(self, lanes: Sequence[str]) -> LaneAnswer:
        return LaneAnswer(lanes)


def mail(*names: str) -> list[ReceivedLetter]:
    return [received(letter(message_id=name)) for name in names]


def counts_of(tally: Tally) -> dict[str, int]:
    return {str(name): number for name, number in tally.report("o", "dlq", "x").counts.items()}


def test_a_router_that_fails_once_is_asked_again_and_the_failure_is_counted() -> None:
    router, tally = Answering(RouterAnswer((verdict("a", HOLD, 0),)), silent=1), Tally()
    verdicts = RouterClient(router=router, tally=tally).verdicts(mail("a"), served=False)
    assert list(verdicts) == ["a"]
    assert len(router.asked) == 2
    assert counts_of(tally) == {"RouterUnavailable": 1}


def test_a_router_that_fails_twice_is_left_alone() -> None:
    router, tally = Answering(silent=2), Tally()
    with pytest.raises(RouterUnavailable):
        RouterClient(router=router, tally=tally).verdicts(mail("a"), served=False)
    assert len(router.asked) == 2


def test_a_router_is_not_asked_about_no_letters() -> None:
    router = Answering()
    assert RouterClient(router=router, tally=Tally()).verdicts([], served=True) == {}
    assert router.asked == []


def test_only_letters_that_waited_for_their_delay_are_called_served() -> None:
    waited, judged_first = mail("a", "b")
    rescued = replace(judged_first, is_rescued=True)
    router = Answering()
    client = RouterClient(router=router, tally=Tally())
    client.verdicts([waited, rescued], served=True)
    client.verdicts([waited, rescued], served=False)
    served = [[question.served for question in questions] for questions in router.asked]
    assert served == [[True, False], [False, False]]


def test_what_is_unusual_about_verdicts_is_counted() -> None:
    answer = RouterAnswer(
        (
            replace(verdict("a", HOLD, 0), forged=True),
            replace(verdict("b", HOLD, 0), forged=True),
            verdict("c", HOLD, 0),
            # Two verdicts on one letter are no verdict.
            verdict("d", HOLD, 0),
            verdict("d", REDRIVE, 1),
        ),
        refused_rules=(RefusedRule("typo", "why"),),
        shadow_matches={"dry": 2},
        costly_rules={"big": 3},
        limited_rules=("spent",),
        failures=(FailureKind("f", "KeyError", 12),),
    )
    tally = Tally()
    client = RouterClient(router=Answering(answer), tally=tally)
    verdicts = client.verdicts(mail("a", "b", "c", "d", "e"), served=False)
    assert list(verdicts) == ["a", "b", "c"]
    report = tally.report("orders", "dlq", "x")
    assert counts_of(tally) == {
        "Undecided": 2,
        "ForgedStamp": 2,
        "RuleInvalid": 1,
        "RuleLimitReached": 1,
        "RuleTooCostly": 3,
        "DominantFailure": 12,
    }
    assert report.decisions == {"HOLD": 3}
    assert report.refused_rules == {"typo": "why"}
    assert report.shadow_matches == {"dry": 2}
    assert report.costly_rules == report.to_json()["costly_rules"] == {"big": 3}
    assert report.limited_rules == ("spent",)


VERDICTS: tuple[tuple[Verdict, int], ...] = (
    # A re-drive that is decided now is counted in the new stamp already.
    (verdict("a", REDRIVE, 1), 0),
    (verdict("a", REDRIVE, 2), 1),
    (verdict("a", REDRIVE, 3), 1),
    (verdict("a", HOLD, 0), 0),
    (verdict("a", HOLD, 1), 1),
)


@each_row(("decided", "bounced"), VERDICTS)
def test_a_letter_that_was_re_driven_before_has_come_back(decided: Verdict, bounced: int) -> None:
    tally = Tally()
    client = RouterClient(router=Answering(RouterAnswer((decided,))), tally=tally)
    client.verdicts(mail("a"), served=False)
    assert counts_of(tally).get("RedriveBounced", 0) == bounced


def test_a_letter_out_of_the_waiting_room_has_not_come_back() -> None:
    tally = Tally()
    client = RouterClient(router=Answering(RouterAnswer((verdict("a", REDRIVE, 2),))), tally=tally)
    client.verdicts(mail("a"), served=True)
    assert counts_of(tally) == {}


def test_a_letter_without_a_verdict_gets_no_order() -> None:
    letters = mail("a", "b", "c")
    verdicts = {name: verdict(name, REDRIVE, 4) for name in ("c", "a")}
    made = orders(letters, verdicts, {"b": True})
    assert [(order.copy, order.stamp.attempt, order.maybe_sent) for order in made] == [
        ("a", 4, False),
        ("c", 4, False),
    ]


# The size of a request.


def test_the_bytes_of_letters_are_those_of_the_request() -> None:
    letters = [received(letter("é" * number, f"m{number}")) for number in range(1, 4)]
    questions = [Question(item.letter, served=True, home=item.home) for item in letters]
    request = compact_json([question_to_json(question) for question in questions])
    # One bracket more than commas.
    assert sum(map(request_bytes, letters)) + 1 == len(request)


def filled(size: int, name: str) -> ReceivedLetter:
    """A letter that adds exactly so many bytes to a request."""
    empty = request_bytes(received(letter("", name)))
    return received(letter("x" * (size - empty), name))


def names_of(letters: Sequence[ReceivedLetter]) -> str:
    return "".join(item.letter.message_id for item in letters)


@each_row(
    ("sizes", "most", "now", "later"),
    [
        ([1_000, 1_000, 1_000], 2, "ab", "c"),
        ([1_000, 1_000], 5, "ab", ""),
        ([2_000_000, 2_500_000], 9, "ab", ""),
        ([2_000_000, 2_500_001], 9, "a", "b"),
        ([2_000_000, 1_000, 2_500_000, 1_000], 9, "ab", "cd"),
        # One letter always goes, and alone.
        ([4_600_000, 1_000], 9, "a", "b"),
        ([], 9, "", ""),
    ],
)
def test_a_request_takes_the_first_letters_that_fit_into_four_and_a_half_megabytes(
    sizes: list[int], most: int, now: str, later: str
) -> None:
    letters = [filled(size, name) for size, name in zip(sizes, "abcd", strict=False)]
    request, rest = next_request(letters, most)
    assert (names_of(request), names_of(rest)) == (now, later)


def test_rules_that_the_router_counts_and_does_not_name_are_counted() -> None:
    tally = Tally()
    for _ in range(2):
        tally.add_rule_notes(
            {"typo": "no such action"}, {}, ["spent"], unnamed_refused=19_951, unnamed_limited=10
        )
    counts = tally.report("orders", "dlq", "done").counts
    assert counts[Count.RULE_INVALID] == 19_952
    assert counts[Count.RULE_LIMIT_REACHED] == 11
