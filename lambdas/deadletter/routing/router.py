"""The port of the router: what it is asked, and what it answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from deadletter.contract import MAIN_DLQ
from deadletter.failure.failure import FailureKind
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp
from deadletter.routing.decision import Decision
from deadletter.rules.refused_rule import RefusedRule

if TYPE_CHECKING:
    from deadletter.message.queue import ReceivedLetter
    from deadletter.routing.selection import Pick, Selection


class RouterUnavailable(Exception):
    """The router gave no usable answer: every letter stays where it is."""


@dataclass(frozen=True, slots=True)
class Question:
    """One letter to decide about.

    `served` says that it has waited for its delay; `home` is the id of the DLQ that it
    lies in. The lives before `spared` failed for a cause that suddenly dominated. With
    `replay` the letter is judged as one that its replay run is about to send. `stamp` is the
    one that the run gave it: it counts instead of the letter's own, except for its attempts,
    if the letter or the ledger has more. `waited` are the seconds of a delay that it has waited
    for so far, if it is not over. `held_by` is the rule that it has waited for: it is counted as
    a match of that rule already. `admitted` is the THROTTLE rule whose rate lets it go now.
    """

    letter: Letter
    served: bool = False
    home: str = MAIN_DLQ
    spared: int = 0
    replay: bool = False
    stamp: Stamp | None = None
    waited: float = 0.0
    held_by: str | None = None
    admitted: str | None = None


def question_about(
    received: ReceivedLetter,
    *,
    served: bool,
    now: float | None = None,
    admitted: str | None = None,
) -> Question:
    """The question what to do with a letter in hand.

    A letter in the custody of a replay run is judged as one of that run. With `now` (epoch
    seconds) the wait of one whose delay is not over counts as a part of the delay.
    """
    since = received.held_since
    waited = 0.0 if served or now is None or since is None else max(0.0, now - since)
    return Question(
        received.letter,
        served,
        received.home,
        received.spared,
        replay=received.stamp is not None,
        stamp=received.stamp,
        waited=waited,
        held_by=received.held_by,
        admitted=admitted,
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on one letter, and the stamp that it carries from now on.

    `forged` says that the letter had a Redrive attribute that none of our roles wrote,
    `free` that its re-drive uses no attempt: the stamp's `base` has grown with `attempt`,
    `undated` that its own expiry is no time. Of the tries of its replay run `excused` failed by the
    dependency.
    `matched` and `shadow_matched` are the versions of rules, by `rule_counts_key`, that this letter
    counts for once it is moved; a rule with a `limit` acts on so many. `before` is the stamp of
    before it joined a replay run: it keeps
    that one if it does not join.
    """

    message_id: str
    decision: Decision
    stamp: Stamp
    forged: bool = False
    free: bool = False
    matched: str | None = None
    shadow_matched: tuple[str, ...] = ()
    undated: bool = False
    excused: int = 0
    before: Stamp | None = None
    limit: int | None = None


MOST_NAMED = 50
"""Rules of one sort that an answer names: a table with thousands of them must not make an answer
that Lambda refuses."""


@dataclass(frozen=True, slots=True)
class RouterAnswer:
    """Verdicts on letters, and what the router noticed of their rules and failures.

    What it says of `refused_rules` ends in logs: it holds no value that was typed.
    `shadow_matches` counts letters by rule in shadow mode, `costly_rules` letters by rule that was
    too costly to judge on them; `limited_rules` have used up
    their matches, `limited_everywhere` those of them that are rules of all pipelines;
    `failures` are the commonest last failures of these letters, not all, and without a
    cause that suddenly dominates. Of refused and limited rules at most MOST_NAMED are named;
    `unnamed_refused` and `unnamed_limited` are how many more there are. `bad_rows` are the names of
    rows that the router could not read.
    """

    verdicts: tuple[Verdict, ...]
    refused_rules: tuple[RefusedRule, ...] = ()
    shadow_matches: Mapping[str, int] = field(default_factory=dict)
    limited_rules: tuple[str, ...] = ()
    failures: tuple[FailureKind, ...] = ()
    limited_everywhere: tuple[str, ...] = ()
    costly_rules: Mapping[str, int] = field(default_factory=dict)
    unnamed_refused: int = 0
    unnamed_limited: int = 0
    bad_rows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LaneAnswer:
    """What the router says of lanes whose letters wait for something else than their due time.

    open     the lanes whose letters may leave before they are due: of a circuit that is CLOSED, of
             a HOLD rule that is not in force any more
    invalid  the lanes of rules that are INVALID
    edition  names the rules that are in force: with another edition they may decide otherwise about
             the letters that wait. Empty: not known
    rates    letters per second that may leave the lane of a rule in force, for rules with a rate
    bad_rows  the names of rows that the router could not read
    """

    open: Sequence[str]
    invalid: Sequence[str] = ()
    edition: str = ""
    rates: Mapping[str, float] = field(default_factory=dict)
    bad_rows: tuple[str, ...] = ()


class Router(Protocol):
    """Decides about letters. Raises RouterUnavailable for all letters at once if it cannot."""

    def decide(self, questions: Sequence[Question]) -> RouterAnswer: ...

    def open_lanes(self, lanes: Sequence[str]) -> LaneAnswer:
        """Which of these lanes are open; those of other kinds than JUDGED_LANES never are."""

    def select(
        self, questions: Sequence[Question], selection: Selection, *, release: bool = False
    ) -> Sequence[Pick]:
        """Which of these letters a replay run may take, and what the run needs to know of each.

        One pick per letter; none on a letter whose ledger row is unreadable. With `release`
        the letters were given up before, and no reason to park them leaves them out.
        """


class _Answer(Protocol):
    """What the router says about one letter."""

    @property
    def message_id(self) -> str: ...


_A = TypeVar("_A", bound=_Answer)


def usable(answers: Sequence[_A], asked: Sequence[str]) -> dict[str, _A]:
    """The verdicts or picks that can be acted on, by message id: exactly one per letter of `asked`.

    A letter with no answer or with two, and an answer on any other letter, are left out: nothing
    is done that the router did not clearly decide.
    """
    times = Counter(answer.message_id for answer in answers)
    wanted = set(asked)
    return {
        answer.message_id: answer
        for answer in answers
        if times[answer.message_id] == 1 and answer.message_id in wanted
    }
