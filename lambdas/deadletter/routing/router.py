"""The port of the router: what it is asked, and what it answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from deadletter.contract import MAIN_DLQ
from deadletter.failure.failure import FailureKind
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp
from deadletter.routing.decision import Decision
from deadletter.rules.refused_rule import RefusedRule

if TYPE_CHECKING:
    from deadletter.message.queue import ReceivedLetter


class RouterUnavailable(Exception):
    """The router gave no usable answer: every letter stays where it is."""


@dataclass(frozen=True, slots=True)
class Question:
    """One letter to decide about.

    `served` says that it has waited for its delay; `home` is the id of the DLQ that it
    lies in. The lives before `spared` failed for a cause that suddenly dominated.
    """

    letter: Letter
    served: bool = False
    home: str = MAIN_DLQ
    spared: int = 0


def question_about(received: ReceivedLetter, *, served: bool) -> Question:
    """The question what to do with a letter in hand."""
    return Question(received.letter, served, received.home, received.spared)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on one letter, and the stamp that it carries from now on.

    `forged` says that the letter had a Redrive attribute that none of our roles wrote,
    `free` that its re-drive uses no attempt: the stamp's `base` has grown with `attempt`.
    """

    message_id: str
    decision: Decision
    stamp: Stamp
    forged: bool = False
    free: bool = False


@dataclass(frozen=True, slots=True)
class RouterAnswer:
    """Verdicts on letters, and what the router noticed of their rules and failures.

    `shadow_matches` counts letters by rule in shadow mode; `limited_rules` have used up
    their matches, `limited_everywhere` those of them that are rules of all pipelines;
    `failures` are the commonest last failures of these letters, not all, and without a
    cause that suddenly dominates.
    """

    verdicts: tuple[Verdict, ...]
    refused_rules: tuple[RefusedRule, ...] = ()
    shadow_matches: Mapping[str, int] = field(default_factory=dict)
    limited_rules: tuple[str, ...] = ()
    failures: tuple[FailureKind, ...] = ()
    limited_everywhere: tuple[str, ...] = ()


class Router(Protocol):
    """Decides about letters. Raises RouterUnavailable for all letters at once if it cannot."""

    def decide(self, questions: Sequence[Question]) -> RouterAnswer: ...

    def releasable_lanes(self, lanes: Sequence[str]) -> Sequence[str]:
        """The lanes of `lanes` whose letters may leave before their due time.

        A circuit's lane may when the circuit is CLOSED; a cause's lane when the cause is not
        held; a rule's lane when the rule is valid or deleted, and no HOLD rule in force. Other
        lanes are never among them.
        """


def usable_verdicts(answer: RouterAnswer, asked: Sequence[str]) -> dict[str, Verdict]:
    """The verdicts that can be acted on, by message id: exactly one per letter of `asked`.

    A letter with no verdict or with two, and a verdict on any other letter, are left out:
    the redriver does nothing that the router did not clearly decide.
    """
    times = Counter(verdict.message_id for verdict in answer.verdicts)
    wanted = set(asked)
    return {
        verdict.message_id: verdict
        for verdict in answer.verdicts
        if times[verdict.message_id] == 1 and verdict.message_id in wanted
    }
