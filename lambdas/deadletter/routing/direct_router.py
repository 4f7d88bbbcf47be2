"""Decides what to do with letters; reads rules, ledger and circuits, and moves nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

from deadletter.circuit.state import Circuits, CircuitsUnavailable
from deadletter.contract import (
    CONFIG_SUFFIX,
    JUDGED_LANES,
    MAIN_DLQ,
    delay_lane,
    rule_lane,
    with_config_keys,
)
from deadletter.failure.causes import (
    NO_CAUSES,
    CausesReader,
    CausesUnavailable,
    cause_of,
)
from deadletter.failure.failure import Failure, FailureKind
from deadletter.failure.ledger import (
    NO_ROW,
    UNREADABLE,
    Ledger,
    LedgerRow,
    LedgerUnavailable,
)
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp, StampReading
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive
from deadletter.routing.judgement import Case, behind, judge
from deadletter.routing.router import (
    MOST_NAMED,
    LaneAnswer,
    Question,
    RouterAnswer,
    RouterUnavailable,
    Verdict,
)
from deadletter.rules.document import Build, Document, DocumentBuilder
from deadletter.rules.paths import compiled
from deadletter.rules.rulebook import (
    RuleBook,
    Rules,
    RulesUnavailable,
    Trial,
    read_rules,
)
from deadletter.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from deadletter.routing.line import Lines
    from deadletter.routing.picker import Picker
    from deadletter.routing.selection import LiveRuns, Pick, Selection
    from deadletter.rules.json_schema import JsonSchema
    from deadletter.rules.rule import Rule

# Kinds of failures in one answer. A kind that dominates a run is among the first few of nearly
# every answer, and the answer stays small.
_MOST_KINDS = 5


@dataclass(frozen=True, slots=True)
class _CaseBatch:
    """The cases of one request and the rules that they are judged by.

    `matches` says how often each rule has matched; it is counted on while the cases are
    judged. `rows` are those of the ledger, by their ids.
    """

    book: RuleBook
    matches: Counter[str]
    now: float
    cases: tuple[Case, ...]
    rows: Mapping[str, LedgerRow]

    def matched(self, case: Case) -> Case:
        """The case with the rule that matches its letter now."""
        match = self.book.first(
            case.document.value,
            self.now,
            self.matches,
            diverted=case.diverted,
        )
        return case if match is case.match else replace(case, match=match)


_Judged = tuple[Question, Case, Decision]


def _needs_newest_row(case: Case, decision: Decision) -> bool:
    """Whether a decision holds only if no write is missing in the letter's row.

    A row that lags lacks failures. What it lacks can make a letter's life look unused, excused or
    unrecorded: then it would get one more life than its policy allows, or be parked as one that
    kills its consumer. Any other decision sends a letter at most once more, as an attempt that is
    counted in the stamp that it carries: however long a row lags, no copy passes its maximum.
    """
    last, is_redriven = case.row.last, isinstance(decision, Redrive)
    is_unrecorded = last is None or last.attempt < case.stamp.attempt
    is_spared = case.is_excused and isinstance(decision, Hold | Redrive)
    is_uncounted = is_redriven and (case.is_free or case.excused_tries > 0)
    return is_unrecorded or is_spared or is_uncounted or isinstance(decision, Park)


@dataclass(frozen=True, slots=True)
class _History:
    """What the router finds out about one letter before it looks at the circuits."""

    stamp: Stamp
    row: LedgerRow
    document: Document
    circuit_keys: Sequence[str]


class DirectRouter:
    """The router itself, as it runs in its Lambda function, in simulations and in dry runs.

    `clock` gives epoch seconds. Compiled rules are kept as long as the stored ones
    stay the same. Without `causes` none suddenly dominates; without `live_runs` every replay
    run has ended. A replay run takes no letter whose body does not conform to `schema`.
    `build` finds letters as rules see them, if not by their own content. `bad_rows` returns
    the names of rows that could not be read since it was last called.
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
        causes: CausesReader | None = None,
        live_runs: LiveRuns | None = None,
        lines: Lines | None = None,
        schema: JsonSchema | None = None,
        build: Build | None = None,
        bad_rows: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self._pipeline = pipeline
        self._rules = rules
        self._ledger = ledger
        self._circuits = circuits
        self._trusted = trusted_senders
        self._clock = clock
        self._random = random
        self._causes = causes
        self._live_runs = live_runs
        self._lines = lines
        self._schema = schema
        self._bad_rows = bad_rows
        self._build = build or DocumentBuilder(pipeline).build
        self._book: tuple[Sequence[Mapping[str, Any]], RuleBook] | None = None
        self._picker: tuple[Selection, Picker] | None = None
        path = pipeline.idempotency_key
        self._key = None if path is None else compiled("idempotency_key", path)

    def decide(self, questions: Sequence[Question]) -> RouterAnswer:
        """One verdict per question; none on a letter whose ledger row is unreadable.

        Raises RouterUnavailable if rules, ledger or circuits cannot be read: a guess
        could send an expired or a quarantined letter.

        Rows are read as they may have been a moment ago, and once more where that could do harm.
        """
        with _router_unavailable():
            # Without the consumer library the rows that are read say who sent a letter.
            batch = self._read(questions, lagging=self._pipeline.consumer_library)
            judged = self._judged(questions, batch)
            if self._pipeline.consumer_library and self._is_behind(judged, batch):
                batch = self._read(questions)
                judged = self._judged(questions, batch)
            judged = self._in_order(judged)
        shadows: Counter[str] = Counter()
        costly: Counter[str] = Counter()
        verdicts = []
        for question, matched, decision in judged:
            shadows.update(matched.match.shadows)
            costly.update(matched.match.costly)
            verdicts.append(_counted_verdict(question, matched, decision, batch.book))
        limited = batch.book.at_limit(batch.now, batch.matches)
        # A cause that is held has its own page.
        failures = _commonest(case.row.last for case in batch.cases if not case.has_sudden_cause)
        # A person who looks at few of them looks for those that are meant to act.
        refused = sorted(batch.book.refused, key=lambda rule: rule.disabled)[:MOST_NAMED]
        named = limited[:MOST_NAMED]
        return RouterAnswer(
            tuple(verdicts),
            tuple(rule.without_values for rule in refused),
            dict(shadows),
            named,
            failures,
            batch.book.of_all_pipelines(named),
            dict(costly),
            len(batch.book.refused) - len(refused),
            len(limited) - len(named),
            self._bad_rows(),
        )

    def _judged(self, questions: Sequence[Question], batch: _CaseBatch) -> list[_Judged]:
        """The decisions on letters whose rows can be read, in the order of the questions."""
        judged = []
        for question, case in zip(questions, batch.cases, strict=True):
            if case.row.unreadable:
                continue
            matched = batch.matched(case)
            decision = judge(matched)
            if _is_new_match(question, decision):
                # A limit holds within a batch too: the ledger counts these matches later.
                batch.matches[str(decision.rule)] += 1
            judged.append((question, matched, decision))
        return judged

    def _in_order(self, judged: list[_Judged]) -> list[_Judged]:
        """The decisions, but a letter that would go back waits for earlier ones of its key.

        A replay run keeps the order of its own letters.
        """
        if self._lines is None:
            return judged
        # Loaded where letters have an order.
        from deadletter.routing.line import MOST_IN_A_ROW, InARow, LinesUnavailable
        from deadletter.routing.ordering import Ordering

        ordering = Ordering(self._pipeline)
        places = [
            ordering.place(question.letter, case.stamp, case.document)
            if isinstance(decision, Redrive) and case.stamp.run is None
            else None
            for question, case, decision in judged
        ]
        asked = {number: place for number, place in enumerate(places) if place is not None}
        try:
            lines = self._lines.read([*asked.values()], most=MOST_IN_A_ROW, lagging=True)
        except LinesUnavailable as error:
            raise RouterUnavailable(str(error)) from error
        in_order, going = [*judged], defaultdict[str, InARow](InARow)
        for number, place in sorted(asked.items(), key=lambda each: each[1].number):
            (question, case, decision), row = judged[number], going[place.line]
            assert isinstance(decision, Redrive)
            ahead = lines[place.line].ahead_of(place, row.places)
            ordered: Decision = (
                row.joined_by(place, decision, tried=case.was_tried)
                if ahead is None
                else behind(
                    *(case, decision, place, ahead),
                    near=bool(row.places) or lines[place.line].is_near(place),
                )
            )
            in_order[number] = (question, case, ordered)
        return in_order

    def _is_behind(self, judged: Sequence[_Judged], batch: _CaseBatch) -> bool:
        """Whether a row on which a decision may wrongly depend was newer than it was read."""
        doubted = set()
        for question, case, decision in judged:
            if _needs_newest_row(case, decision):
                doubted.add(case.stamp.origin)
            if stamps.may_be_in_ledger(question.letter, self._trusted):
                # Its stamp counts its attempts.
                doubted.add(question.letter.message_id)
        newest = self._rows(doubted)
        return any(newest.get(id_, NO_ROW) != batch.rows.get(id_, NO_ROW) for id_ in doubted)

    def explain(self, question: Question) -> tuple[Verdict, Sequence[Trial]]:
        """The verdict on one letter, with every rule that was tried on it.

        Raises RouterUnavailable as `decide` does, and for an unreadable ledger row.
        """
        with _router_unavailable():
            batch = self._read([question])
            [case] = batch.cases
            if case.row.unreadable:
                raise RouterUnavailable("the message's failure record cannot be understood")
            matched = batch.matched(case)
            [(_, _, decision)] = self._in_order([(question, matched, judge(matched))])
        trials = batch.book.explain(
            case.document.value,
            batch.now,
            batch.matches,
            diverted=case.diverted,
        )
        return _counted_verdict(question, matched, decision, batch.book), trials

    def possible(
        self, question: Question, holds: Callable[[Rule], bool | None]
    ) -> Sequence[Decision]:
        """What may be decided about a letter whose content is not known, in the order of rules.

        `holds` says whether a rule's pattern matches the letter; None: that cannot be told. With
        the last decision none of those rules matches. Raises RouterUnavailable as `explain` does.
        """
        with _router_unavailable():
            batch = self._read([question])
        [case] = batch.cases
        if case.row.unreadable:
            raise RouterUnavailable("the message's failure record cannot be understood")
        matches = batch.book.possible(holds, batch.now, batch.matches, diverted=case.diverted)
        return [judge(replace(case, match=match)) for match in matches]

    def select(
        self, questions: Sequence[Question], selection: Selection, *, release: bool = False
    ) -> tuple[Pick, ...]:
        """One pick per question; none on a letter whose ledger row is unreadable.

        Raises RouterUnavailable as `decide` does, and BadSettings for an invalid selection.
        """
        picker = self._picker_of(selection)
        with _router_unavailable():
            batch = self._read(questions, may_return=not release)
        return tuple(
            picker.pick(question.letter, batch.matched(case), release=release)
            for question, case in zip(questions, batch.cases, strict=True)
            if not case.row.unreadable
        )

    def _picker_of(self, selection: Selection) -> Picker:
        # Only replay runs select: a cold start of the schedule does without.
        from deadletter.routing.picker import Picker

        if self._picker is None or self._picker[0] != selection:
            self._picker = (selection, Picker(self._pipeline, selection, self._schema))
        return self._picker[1]

    def _read(
        self, questions: Sequence[Question], *, may_return: bool = True, lagging: bool = False
    ) -> _CaseBatch:
        """Everything that is known of these letters, read once for all of them.

        Letters that were given up before cannot return to a replay run. Rows of the ledger may be
        `lagging`.
        """
        book = self._rule_book()
        readings = [stamps.read(question.letter, self._trusted) for question in questions]
        # A letter without a trusted stamp is taken for its own origin at first.
        looked_up = self._ids_in_ledger(questions, readings)
        rows = self._rows(looked_up, lagging=lagging)
        readings = [
            _with_run(_with_ledger(question.letter, reading, rows), question)
            for question, reading in zip(questions, readings, strict=True)
        ]
        readings, awaited, unreadable = self._of_runs(questions, readings, may_return=may_return)
        if self._pipeline.consumer_library:
            # A stamp kept in the ledger may name an origin that was not looked up yet.
            missing = {reading.stamp.origin for reading in readings} - looked_up
            rows = {**rows, **self._rows(missing, lagging=lagging)}
        matches = Counter(self._matches(book))
        now = self._clock()
        histories = [
            self._history(
                question,
                reading.stamp,
                UNREADABLE
                if question.letter.message_id in unreadable
                else rows.get(reading.stamp.origin, NO_ROW),
                now,
            )
            for question, reading in zip(questions, readings, strict=True)
        ]
        keys = {key for history in histories for key in history.circuit_keys}
        circuits = self._circuits.read(sorted(keys | {self._pipeline.name}))
        has_cause = any(cause_of(history.row.last) for history in histories)
        alike = self._alike(questions, histories)
        causes = self._causes.read() if has_cause and self._causes is not None else NO_CAUSES
        cases = tuple(
            Case(
                pipeline=self._pipeline,
                stamp=self._with_key(question.letter, history),
                now=now,
                random=self._random,
                row=history.row,
                document=history.document,
                circuits=tuple(circuits[key] for key in history.circuit_keys if key in circuits),
                causes=causes,
                served=question.served,
                admitted=question.admitted,
                waited=question.waited,
                diverted=question.home != MAIN_DLQ,
                forged=reading.forged,
                foreign=reading.foreign,
                replay=question.replay,
                run_shard=self._run_shard(question.letter, history)
                if question.letter.message_id in awaited
                else None,
                alike=alike[_kind(question, history)],
            )
            for question, reading, history in zip(questions, readings, histories, strict=True)
        )
        return _CaseBatch(book, matches, now, cases, rows)

    def _with_key(self, letter: Letter, history: _History) -> Stamp:
        """The letter's stamp with its business key, which is computed anew: it may be edited."""
        stamp = history.stamp
        if self._key is None and not stamp.again:
            return stamp
        # Loaded where messages have a key.
        from deadletter.rules.business_key import digest_of, find_key

        text = None
        if self._key is not None:
            text = find_key(self._key, history.document.value, letter.body).text
        if stamp.again and text is None:
            # Its origin was processed before: by that this one would be skipped.
            return replace(stamp, key=digest_of(f"{stamp.again}origin:{stamp.origin}"))
        # Another message with the key was processed: by its key this one would be skipped.
        if text is None or (stamp.accept is not None and not stamp.again):
            return replace(stamp, key="")
        return replace(stamp, key=digest_of(f"{stamp.again}key:{text}"))

    def _of_runs(
        self,
        questions: Sequence[Question],
        readings: Sequence[StampReading],
        *,
        may_return: bool,
    ) -> tuple[list[StampReading], frozenset[str], frozenset[str]]:
        """The readings, the letters that live replay runs wait for, and those whose rows of runs
        cannot be read.

        A letter that its run has let go is a letter of no run. Most letters never were of one,
        and for them nothing is read.
        """
        of_runs = {
            question.letter.message_id: reading.stamp
            for question, reading in zip(questions, readings, strict=True)
            if reading.stamp.run is not None and not question.replay
        }
        if self._live_runs is None or not of_runs or not may_return:
            return list(readings), frozenset(), frozenset()
        returnable = self._live_runs.returnable(of_runs)
        known = returnable.copies | returnable.unreadable
        rest = {copy: stamp for copy, stamp in of_runs.items() if copy not in known}
        if not rest:
            return list(readings), returnable.copies, returnable.unreadable
        let_go = self._live_runs.let_go(rest)
        of_no_run = [
            _of_no_run(reading) if question.letter.message_id in let_go.copies else reading
            for question, reading in zip(questions, readings, strict=True)
        ]
        return of_no_run, returnable.copies, returnable.unreadable | let_go.unreadable

    def _alike(
        self, questions: Sequence[Question], histories: Sequence[_History]
    ) -> Counter[tuple[str | None, str]]:
        """The letters by FIFO group and kind of their last failure; none on a standard queue."""
        if not self._pipeline.fifo:
            return Counter()
        letters = {
            history.stamp.origin: _kind(question, history)
            for question, history in zip(questions, histories, strict=True)
        }
        return Counter(letters.values())

    def _run_shard(self, letter: Letter, history: _History) -> int:
        # Few letters come back to a run: a cold start of the schedule does without.
        from deadletter.routing.ordering import Ordering, shard_of_key

        key = Ordering(self._pipeline).key(letter, history.document)
        return shard_of_key(key or history.stamp.origin)

    def _ids_in_ledger(
        self, questions: Sequence[Question], readings: Sequence[StampReading]
    ) -> set[str]:
        """The ids under which the ledger may have a row.

        Without the consumer library nothing but the redriver writes rows: the stamps of
        letters that had no room for theirs.
        """
        if self._pipeline.consumer_library:
            return {reading.stamp.origin for reading in readings}
        letters = [question.letter for question in questions]
        return {
            letter.message_id
            for letter in letters
            if stamps.may_be_in_ledger(letter, self._trusted)
        }

    def _rows(self, ids: Collection[str], *, lagging: bool = False) -> Mapping[str, LedgerRow]:
        return self._ledger.rows(sorted(ids), lagging=lagging) if ids else {}

    def _history(self, question: Question, stamp: Stamp, row: LedgerRow, now: float) -> _History:
        counted = _counted(stamp, row, question.spared)
        last = row.last
        document = self._build(question.letter, counted, last, now)
        return _History(counted, row, document, self._circuit_keys(document, last))

    def open_lanes(self, lanes: Sequence[str]) -> LaneAnswer:
        """Which lanes are open: their circuit is CLOSED, or their rule holds none now.

        Raises RouterUnavailable as `decide` does.
        """
        keys = [lane.removeprefix("circuit:") for lane in lanes if lane.startswith("circuit:")]
        with _router_unavailable():
            book = self._rule_book()
            circuits = self._circuits.read(keys) if keys else {}
            matches = self._matches(book)
        now = self._clock()
        refused = [rule.rule_id for rule in book.refused]
        invalid = {lane(rule_id) for rule_id in refused for lane in (rule_lane, delay_lane)}
        waiting = {
            *(
                f"circuit:{key}"
                for key, circuit in circuits.items()
                if not circuit.takes_letters(now)
            ),
            *(rule_lane(rule_id) for rule_id in book.holding(now, matches)),
            # An edit that made a rule invalid must not release every letter it holds.
            *invalid,
        }
        return LaneAnswer(
            [lane for lane in lanes if lane.startswith(JUDGED_LANES) and lane not in waiting],
            [lane for lane in lanes if lane in invalid],
            book.edition(now, matches),
            {
                rule_lane(rule_id): rate
                for rule_id, rate in book.rates(now, matches).items()
                if rule_lane(rule_id) in lanes
            },
            self._bad_rows(),
        )

    def _matches(self, book: RuleBook) -> Mapping[str, int]:
        """How often each rule with a limit has matched so far."""
        limited = book.limited
        counts = self._ledger.matches(list(limited.values())) if limited else {}
        return {rule_id: counts.get(key, 0) for rule_id, key in limited.items()}

    def _rule_book(self) -> RuleBook:
        items = self._rules.items(self._pipeline.name)
        if self._book is None or self._book[0] != items:
            self._book = (items, read_rules(items, self._pipeline))
        return self._book[1]

    def _circuit_keys(self, document: Document, last: Failure | None) -> list[str]:
        """The keys of the circuits that a letter waits for, each kind beside its dependency.

        The pipeline's is the last: what waits for it is held by no other, and may test it.
        The dependencies that a handler names are known only from the failures of their calls.
        """
        named = last.circuit.removesuffix(CONFIG_SUFFIX) if last is not None else ""
        keys = (document.circuit_key, named, self._pipeline.name)
        return with_config_keys(dict.fromkeys(key for key in keys if key))


def _kind(question: Question, history: _History) -> tuple[str | None, str]:
    """A letter's group, and what it failed for by its own fault; empty for any other failure."""
    return question.letter.group, cause_of(history.row.last)


def _commonest(last_failures: Iterable[Failure | None]) -> tuple[FailureKind, ...]:
    """The commonest failures that have a fingerprint, with the number of their letters."""
    failures = [failure for failure in last_failures if failure and failure.fingerprint]
    types = {failure.fingerprint: failure.error_type for failure in failures}
    letters = Counter(failure.fingerprint for failure in failures).most_common(_MOST_KINDS)
    return tuple(FailureKind(fingerprint, types[fingerprint], n) for fingerprint, n in letters)


@contextmanager
def _router_unavailable() -> Iterator[None]:
    """Turns errors of rules, ledger, circuits and causes into RouterUnavailable."""
    try:
        yield
    except (
        RulesUnavailable,
        LedgerUnavailable,
        CircuitsUnavailable,
        CausesUnavailable,
    ) as error:
        raise RouterUnavailable(str(error) or type(error).__name__) from error


def _is_new_match(question: Question, decision: Decision) -> bool:
    """Whether a letter counts for a rule: what it has waited for was counted when it began to."""
    return decision.rule is not None and decision.rule != question.held_by


def _counted_verdict(question: Question, case: Case, decision: Decision, book: RuleBook) -> Verdict:
    """The decision with the stamp that records it; only a re-drive counts as an attempt.

    With it the versions of rules that the letter counts for once it is moved.
    """
    message_id, is_redriven = question.letter.message_id, isinstance(decision, Redrive)
    is_free = is_redriven and case.is_free
    # A life that failed while its cause dominated is not held against the letter later.
    is_spared = case.is_excused and isinstance(decision, Hold | Redrive)
    stamp = replace(
        case.stamp,
        attempt=case.stamp.attempt + int(is_redriven),
        base=case.stamp.base + int(is_free),
        spared=case.stamp.attempt + 1 if is_spared else case.stamp.spared,
        rule=decision.rule,
        decision=type(decision).__name__.upper(),
        reason=str(decision.reason) if isinstance(decision, Park) else None,
        because=decision.because,
        at=int(case.now),
        # A permit is for one life. A letter that waits has not begun its next one.
        canary=case.stamp.canary if isinstance(decision, Hold) else None,
    )
    if case.replay and is_redriven:
        stamp = replace(stamp, ticket=message_id)
    if case.replay and isinstance(decision, Divert):
        # It has left the run: the dedicated DLQ has a schedule of its own.
        stamp = replace(stamp, run=None, ticket=None)
    is_match = _is_new_match(question, decision)
    rule = book.rules[decision.rule] if is_match and decision.rule is not None else None
    shadows = () if question.served else case.match.shadows
    return Verdict(
        message_id,
        decision,
        stamp,
        case.forged,
        is_free,
        None if rule is None else rule.counts_key,
        tuple(book.rules[rule_id].counts_key for rule_id in shadows),
        case.document.undated,
        case.excused_tries,
        limit=None if rule is None else rule.max_matches,
    )


def _with_ledger(
    letter: Letter, reading: StampReading, rows: Mapping[str, LedgerRow]
) -> StampReading:
    """The reading with the stamp that the ledger keeps for a letter that could not carry it."""
    kept = rows.get(letter.message_id, NO_ROW).stamp
    return reading if kept is None else replace(reading, stamp=kept)


def _of_no_run(reading: StampReading) -> StampReading:
    return replace(reading, stamp=replace(reading.stamp, run=None, ticket=None))


def _with_run(reading: StampReading, question: Question) -> StampReading:
    """The reading with the stamp that a replay run gave the letter; attempts never decrease."""
    given = question.stamp
    if given is None:
        return reading
    attempt = max(given.attempt, reading.stamp.attempt)
    return replace(reading, stamp=replace(given, attempt=attempt))


def _counted(stamp: Stamp, row: LedgerRow, spared: int) -> Stamp:
    """The stamp with the attempts of the letter or of the ledger, whichever are more.

    `spared` is known of a letter that waits, whose own stamp is older.
    """
    if stamp.attempt >= row.attempt and stamp.spared >= spared:
        return stamp
    attempt = max(stamp.attempt, row.attempt)
    return replace(stamp, attempt=attempt, spared=max(stamp.spared, spared))
