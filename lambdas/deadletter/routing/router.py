"""Decides about letters; reads rules, ledger and circuits, and can move nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Protocol

from deadletter.circuit.state import Circuit, Circuits, CircuitsUnavailable
from deadletter.contract import MAIN_DLQ
from deadletter.failure.failure import Failure, FailureKind
from deadletter.failure.ledger import NO_ROW, Ledger, LedgerRow, LedgerUnavailable
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp, StampReading
from deadletter.routing.decision import Decision, Hold, Park, Redrive
from deadletter.routing.judgement import Case, judge
from deadletter.rules.document import Document, DocumentBuilder
from deadletter.rules.rulebook import (
    RefusedRule,
    RuleBook,
    Rules,
    RulesUnavailable,
    Trial,
    read_rules,
)
from deadletter.settings.pipeline import Pipeline

# Of the failures of one question: one that dominates a run is among the first few of nearly
# every question, and the answer stays small.
_MOST_KINDS = 5


class RouterUnavailable(Exception):
    """The router gave no usable answer: every letter stays where it is."""


@dataclass(frozen=True, slots=True)
class Question:
    """One letter to decide about.

    `served` says that it has waited for its delay; `home` is the id of the queue it
    died into.
    """

    letter: Letter
    served: bool = False
    home: str = MAIN_DLQ


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on one letter, and the stamp it shall carry from now on."""

    message_id: str
    decision: Decision
    stamp: Stamp
    forged: bool = False


@dataclass(frozen=True, slots=True)
class RouterAnswer:
    """Verdicts on the letters of one question, with what the router noticed meanwhile.

    `failures` are the commonest last failures of these letters: beside them there may
    be rarer ones.
    """

    verdicts: tuple[Verdict, ...]
    refused_rules: tuple[RefusedRule, ...] = ()
    shadow_matches: Mapping[str, int] = field(default_factory=dict)
    limited_rules: tuple[str, ...] = ()
    failures: tuple[FailureKind, ...] = ()


class Router(Protocol):
    """Whoever decides. Raises RouterUnavailable when it cannot, for all letters at once."""

    def decide(self, questions: Sequence[Question]) -> RouterAnswer: ...

    def releasable_lanes(self, lanes: Sequence[str]) -> Sequence[str]:
        """The lanes of `lanes` whose letters may leave before their due time.

        A circuit's lane may when the circuit is CLOSED; a rule's lane when the rule is valid
        or deleted, and no HOLD rule in force. Other lanes are never among them.
        """


@dataclass(frozen=True, slots=True)
class _Exhibit:
    """One letter with all that is known of it."""

    question: Question
    stamp: Stamp
    forged: bool
    row: LedgerRow
    document: Document

    @property
    def diverted(self) -> bool:
        return self.question.home != MAIN_DLQ


@dataclass(frozen=True, slots=True)
class _Desk:
    """The letters of one question, with what holds for all of them; `matches` is counted on."""

    book: RuleBook
    matches: Counter[str]
    now: float
    circuits: Mapping[str, Circuit]
    exhibits: tuple[_Exhibit, ...]


class DirectRouter:
    """The router itself: in its Lambda function, in simulations and in dry runs.

    `clock` gives epoch seconds. Compiled rules are kept as long as the stored ones
    stay the same.
    """

    def __init__(
        self,
        *,
        pipeline: Pipeline,
        rules: Rules,
        ledger: Ledger,
        circuits: Circuits,
        trusted_senders: frozenset[str],
        clock: Callable[[], float],
        random: Random,
    ) -> None:
        self._pipeline = pipeline
        self._rules = rules
        self._ledger = ledger
        self._circuits = circuits
        self._trusted = trusted_senders
        self._clock = clock
        self._random = random
        self._documents = DocumentBuilder(pipeline)
        self._book: tuple[Sequence[Mapping[str, Any]], RuleBook] | None = None

    def decide(self, questions: Sequence[Question]) -> RouterAnswer:
        """One verdict a question; none on a letter whose ledger row cannot be understood.

        Raises RouterUnavailable if rules, ledger or circuits cannot be read: a guess
        could send an expired or a quarantined letter.
        """
        with _unavailable_without_its_sources():
            desk = self._examine(questions)
        shadows: Counter[str] = Counter()
        verdicts = []
        for exhibit in desk.exhibits:
            if exhibit.row.unreadable:
                continue
            case = self._case(desk, exhibit)
            shadows.update(case.match.shadows)
            decision = judge(case)
            if decision.rule is not None:
                # A limit holds within a batch too: the ledger hears of these only later.
                desk.matches[decision.rule] += 1
            verdicts.append(_said(exhibit, case, decision))
        limited = desk.book.at_limit(desk.now, desk.matches)
        failures = _commonest(one.row.last for one in desk.exhibits)
        return RouterAnswer(tuple(verdicts), desk.book.refused, dict(shadows), limited, failures)

    def explain(self, question: Question) -> tuple[Verdict, Sequence[Trial]]:
        """The verdict on one letter, with every rule that was tried on the way to it."""
        with _unavailable_without_its_sources():
            desk = self._examine([question])
        [exhibit] = desk.exhibits
        if exhibit.row.unreadable:
            raise RouterUnavailable("the letter's ledger row cannot be understood")
        case = self._case(desk, exhibit)
        trials = desk.book.explain(
            exhibit.document.value, desk.now, desk.matches, diverted=exhibit.diverted
        )
        return _said(exhibit, case, judge(case)), trials

    def _examine(self, questions: Sequence[Question]) -> _Desk:
        """Everything that is known of these letters, read once for all of them."""
        book = self._rule_book()
        readings = [stamps.read(one.letter, self._trusted) for one in questions]
        # A letter without a stamp that we believe is its own origin so far.
        looked_up = {reading.stamp.origin for reading in readings}
        rows = self._ledger.rows(sorted(looked_up))
        known = [
            _with_ledger(question.letter, reading, rows)
            for question, reading in zip(questions, readings, strict=True)
        ]
        # A stamp kept in the ledger names an origin that only now can be looked up.
        missing = {reading.stamp.origin for reading in known} - looked_up
        if missing:
            rows = {**rows, **self._ledger.rows(sorted(missing))}
        matches = Counter(self._ledger.matches(book.limited) if book.limited else {})
        now = self._clock()
        exhibits = []
        for question, reading in zip(questions, known, strict=True):
            row = rows.get(reading.stamp.origin, NO_ROW)
            mark = _counted(reading.stamp, row)
            document = self._documents.build(question.letter, mark, row.last, now)
            exhibits.append(_Exhibit(question, mark, reading.forged, row, document))
        circuits = self._circuits.read(self._circuit_keys([one.document for one in exhibits]))
        return _Desk(book, matches, now, circuits, tuple(exhibits))

    def _case(self, desk: _Desk, exhibit: _Exhibit) -> Case:
        return Case(
            pipeline=self._pipeline,
            stamp=exhibit.stamp,
            now=desk.now,
            random=self._random,
            row=exhibit.row,
            match=desk.book.first(
                exhibit.document.value, desk.now, desk.matches, diverted=exhibit.diverted
            ),
            unreadable=exhibit.document.unreadable,
            circuits=self._circuits_of(exhibit.document, desk.circuits),
            served=exhibit.question.served,
        )

    def releasable_lanes(self, lanes: Sequence[str]) -> Sequence[str]:
        """The lanes whose circuit is CLOSED, or whose HOLD rule is not in force any more."""
        keys = [lane.removeprefix("circuit:") for lane in lanes if lane.startswith("circuit:")]
        with _unavailable_without_its_sources():
            book = self._rule_book()
            circuits = self._circuits.read(keys) if keys else {}
        now = self._clock()
        waiting = {
            *(f"circuit:{key}" for key, circuit in circuits.items() if not circuit.is_closed),
            *(f"rule:{rule_id}" for rule_id in book.holding(now)),
            # An edit that made a rule invalid must not release every letter it holds.
            *(f"rule:{rule.rule_id}" for rule in book.refused),
        }
        return [
            lane for lane in lanes if lane.startswith(("circuit:", "rule:")) and lane not in waiting
        ]

    def _rule_book(self) -> RuleBook:
        items = self._rules.items(self._pipeline.name)
        if self._book is None or self._book[0] != items:
            self._book = (items, read_rules(items, self._pipeline))
        return self._book[1]

    def _circuit_keys(self, documents: Sequence[Document]) -> list[str]:
        keys = {one.circuit_key for one in documents if one.circuit_key is not None}
        return [self._pipeline.name, *sorted(keys - {self._pipeline.name})]

    def _circuits_of(
        self, document: Document, circuits: Mapping[str, Circuit]
    ) -> tuple[Circuit, ...]:
        keys = (self._pipeline.name, document.circuit_key)
        return tuple(circuits[key] for key in keys if key is not None and key in circuits)


def _commonest(last: Iterable[Failure | None]) -> tuple[FailureKind, ...]:
    known = [one for one in last if one is not None and one.fingerprint]
    types = {one.fingerprint: one.error_type for one in known}
    common = Counter(one.fingerprint for one in known).most_common(_MOST_KINDS)
    return tuple(FailureKind(one, types[one], letters) for one, letters in common)


@contextmanager
def _unavailable_without_its_sources() -> Iterator[None]:
    try:
        yield
    except (RulesUnavailable, LedgerUnavailable, CircuitsUnavailable) as error:
        raise RouterUnavailable(type(error).__name__) from error


def _said(exhibit: _Exhibit, case: Case, decision: Decision) -> Verdict:
    message_id = exhibit.question.letter.message_id
    return verdict(message_id, case, decision, forged=exhibit.forged)


def verdict(message_id: str, case: Case, decision: Decision, *, forged: bool = False) -> Verdict:
    """The decision together with the stamp that says so; only a re-drive counts as an attempt."""
    mark = replace(
        case.stamp,
        attempt=case.next_attempt if isinstance(decision, Redrive) else case.stamp.attempt,
        rule=decision.rule,
        decision=type(decision).__name__.upper(),
        reason=str(decision.reason) if isinstance(decision, Park) else None,
        because=decision.because,
        at=int(case.now),
        # A permit is for one life. A letter that waits has not begun its next one.
        canary=case.stamp.canary if isinstance(decision, Hold) else None,
    )
    return Verdict(message_id, decision, mark, forged)


def _with_ledger(
    letter: Letter, reading: StampReading, rows: Mapping[str, LedgerRow]
) -> StampReading:
    """The letter's reading, taken from the ledger where the letter could not carry its stamp."""
    kept = rows.get(letter.message_id, NO_ROW).stamp
    return reading if kept is None else replace(reading, stamp=kept)


def _counted(mark: Stamp, row: LedgerRow) -> Stamp:
    """Attempts as the letter or the ledger counts them, whichever knows of more."""
    return replace(mark, attempt=max(mark.attempt, row.attempt))


def usable_verdicts(answer: RouterAnswer, asked: Sequence[str]) -> dict[str, Verdict]:
    """The verdicts that can be acted on: exactly one for a letter that was asked about.

    A letter with none or two, and a verdict on a letter that nobody asked about, are
    left out: what the router did not clearly say, the redriver does not do.
    """
    times = Counter(one.message_id for one in answer.verdicts)
    wanted = set(asked)
    return {
        one.message_id: one
        for one in answer.verdicts
        if times[one.message_id] == 1 and one.message_id in wanted
    }
