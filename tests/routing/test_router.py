"""The router reads rules, ledger and circuits, and answers for each letter once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.circuit.state import Circuit, CircuitsUnavailable, State
from deadletter.contract import Blame, Category, Reason
from deadletter.failure.causes import NO_CAUSES, CauseHold, Causes, CausesUnavailable
from deadletter.failure.failure import Failure, FailureKind
from deadletter.failure.fate import GIVEN_BACK, Fate
from deadletter.failure.ledger import LedgerRow, LedgerUnavailable
from deadletter.message import stamp as stamps
from deadletter.message.letter import Attribute, Letter, NotALetter
from deadletter.message.stamp import Stamp
from deadletter.pace.pace import CallPace
from deadletter.routing import direct_router
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive
from deadletter.routing.direct_router import DirectRouter
from deadletter.routing.router import (
    LaneAnswer,
    Question,
    RouterAnswer,
    RouterUnavailable,
    Verdict,
    usable,
)
from deadletter.routing.wire import (
    answer_event,
    answer_from_json,
    answer_to_json,
    encoded_question,
    lanes_from_json,
    question_bytes,
    question_from_json,
    question_to_json,
)
from deadletter.rules.document import Build, Document, DocumentBuilder
from deadletter.rules.refused_rule import RefusedRule
from deadletter.rules.rulebook import RuleBook, RulesUnavailable, read_rules
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import Pipeline, RetryPolicy
from tests.each_row import each_row
from tests.samples import NOW, REDRIVER, decisions, failed, json_values, letter, letters
from tests.samples import stamps as any_stamps
from tests.samples import verdict as verdict_on

PIPELINE = Pipeline(
    "orders",
    context={"tenantId": "body.tenantId"},
    circuit_key="body.endpoint",
    policy=RetryPolicy(Backoff(base=0, floor=0), max_attempts=3),
    dedicated=("slow",),
    consumer_library=True,
)
WITHOUT_LIBRARY = replace(PIPELINE, consumer_library=False)
FORGED = Attribute("String", '{"origin":"somebody else","attempt":0,"first_sent":1}')


@dataclass
class Books:
    """Rules, ledger and circuits in memory; `down` names the store that gives no answer.

    `lagging` are the rows as a replica has them; None if it has caught up.
    """

    items_: list[Mapping[str, Any]] = field(default_factory=list)
    rows_: dict[str, LedgerRow] = field(default_factory=dict)
    lagging: dict[str, LedgerRow] | None = None
    matches_: dict[str, int] = field(default_factory=dict)
    open_: set[str] = field(default_factory=set)
    paces: dict[str, CallPace] = field(default_factory=dict)
    down: str = ""
    asked: list[list[str]] = field(default_factory=list)
    causes_: Causes = NO_CAUSES
    causes_read: int = 0

    def items(self, pipeline: str) -> Sequence[Mapping[str, Any]]:
        if self.down == "rules":
            raise RulesUnavailable
        return list(self.items_)

    def rows(self, origins: Sequence[str], *, lagging: bool = False) -> Mapping[str, LedgerRow]:
        if self.down == "ledger":
            raise LedgerUnavailable
        self.asked.append(list(origins))
        rows = self.rows_ if self.lagging is None or not lagging else self.lagging
        return {origin: rows[origin] for origin in origins if origin in rows}

    def matches(self, rules: Sequence[str]) -> Mapping[str, int]:
        if self.down == "matches":
            raise LedgerUnavailable
        by_id = {key.partition("#")[0]: key for key in rules}
        return {key: self.matches_[id_] for id_, key in by_id.items() if id_ in self.matches_}

    def read(self, keys: Sequence[str]) -> Mapping[str, Circuit]:
        if self.down == "circuits":
            raise CircuitsUnavailable
        return {
            key: Circuit(
                key, State.OPEN if key in self.open_ else State.CLOSED, pace=self.paces.get(key)
            )
            for key in keys
        }


@dataclass
class CausesOf:
    """The causes in the books."""

    books: Books

    def read(self) -> Causes:
        if self.books.down == "causes":
            raise CausesUnavailable
        self.books.causes_read += 1
        return self.books.causes_


def router(books: Books, pipeline: Pipeline = PIPELINE, build: Build | None = None) -> DirectRouter:
    return DirectRouter(
        pipeline=pipeline,
        rules=books,
        ledger=books,
        circuits=books,
        trusted_senders=frozenset({REDRIVER}),
        clock=lambda: NOW,
        random=Random(1),
        causes=CausesOf(books),
        build=build,
    )


def decide(books: Books, *asked: Letter | Question, pipeline: Pipeline = PIPELINE) -> RouterAnswer:
    questions = [item if isinstance(item, Question) else Question(item) for item in asked]
    return router(books, pipeline).decide(questions)


def verdict_of(books: Books, asked: Letter | Question, pipeline: Pipeline = PIPELINE) -> Verdict:
    [only] = decide(books, asked, pipeline=pipeline).verdicts
    return only


def stamped(stamp: Stamp, message_id: str = "m9", sender: str = f"{REDRIVER}:run") -> Letter:
    attributes = {stamps.NAME: stamps.attribute(stamp)}
    return letter(message_id=message_id, attributes=attributes, SenderId=sender)


def rule(rule_id: str, action: str, **columns: Any) -> Mapping[str, Any]:
    return {"rule_id": rule_id, "pipeline": "orders", "action": action, "tenantId": "a", **columns}


# The stamp that a verdict gives.


def test_a_first_re_drive_is_attempt_one_of_its_origin() -> None:
    verdict = verdict_of(Books(), letter(message_id="m1"))
    assert verdict.decision == Redrive(0, "attempt 1, backoff of 0 s")
    assert verdict.stamp == Stamp(
        "m1",
        1,
        1_789_999_000_000,
        "AIDAPRODUCER",
        decision="REDRIVE",
        because="attempt 1, backoff of 0 s",
        at=int(NOW),
    )
    assert not verdict.forged


def test_only_a_re_drive_counts_as_an_attempt() -> None:
    stamp = Stamp("origin", 2, 1_789_999_000_000, "AIDA", run="run1", reason="POISON")
    parked = verdict_of(Books([rule("q", "QUARANTINE")]), stamped(stamp))
    assert parked.stamp == replace(
        stamp,
        rule="q",
        decision="PARK",
        reason="QUARANTINED",
        because="rule q says QUARANTINE",
        at=int(NOW),
    )
    held = verdict_of(Books([rule("h", "HOLD")]), stamped(stamp))
    assert (held.stamp.attempt, held.stamp.decision, held.stamp.reason) == (2, "HOLD", None)
    sent = verdict_of(Books(), stamped(replace(stamp, run=None)), WITHOUT_LIBRARY)
    assert (sent.stamp.attempt, sent.stamp.rule) == (3, None)


@each_row(
    ("carried", "recorded", "attempt"), [(0, 0, 1), (1, 0, 2), (0, 1, 2), (1, 2, 3), (2, 1, 3)]
)
def test_the_attempt_counts_on_from_the_letter_or_the_ledger_whichever_has_more(
    carried: int, recorded: int, attempt: int
) -> None:
    books = Books(rows_={"origin": LedgerRow((failed(),), attempt=recorded)})
    assert (
        verdict_of(books, stamped(Stamp("origin", carried, 1_789_999_000_000))).stamp.attempt
        == attempt
    )


class TrapDocuments(DocumentBuilder):
    """A defect that the messages named meet."""

    traps: frozenset[str] = frozenset()

    def build(self, letter: Letter, *rest: Any) -> Document:
        if letter.message_id in self.traps:
            raise TypeError("a defect")
        return super().build(letter, *rest)


def with_defect(books: Books, *traps: str) -> DirectRouter:
    documents = TrapDocuments(PIPELINE)
    documents.traps = frozenset(traps)
    return router(books, build=documents.build)


def asked_of(router: DirectRouter, *ids: str) -> RouterAnswer:
    """The answer of the router's function about messages with these ids."""
    letters = [question_to_json(Question(letter(message_id=id_))) for id_ in ids]
    return answer_from_json(answer_event(router, {"letters": letters}))


def test_a_message_that_a_defect_meets_stays_and_the_others_are_decided() -> None:
    answer = asked_of(with_defect(Books(), "m1", "m2"), "m0", "m1", "m2", "m3")
    assert [verdict.message_id for verdict in answer.verdicts] == ["m0", "m3"]
    assert answer.bad_rows == ("message m1: TypeError", "message m2: TypeError")
    alone = asked_of(with_defect(Books(), "m1"), "m1")
    assert (alone.verdicts, alone.bad_rows) == ((), ("message m1: TypeError",))


def test_a_run_picks_the_messages_that_no_defect_meets() -> None:
    asked = [question_to_json(Question(letter(message_id=f"m{n}"), replay=True)) for n in range(3)]
    event = {"select": {"letters": asked, "selection": {}}}
    picks = answer_event(with_defect(Books(), "m1"), event)["picks"]
    assert [pick["message_id"] for pick in picks] == ["m0", "m2"]


def test_a_store_that_gives_no_answer_is_not_taken_for_a_defect() -> None:
    with pytest.raises(RouterUnavailable):
        asked_of(with_defect(Books(down="circuits"), "m1"), "m2")


def test_attempts_in_the_ledger_alone_exhaust_a_letter() -> None:
    books = Books(rows_={"origin": LedgerRow((failed(),), attempt=3)})
    verdict = verdict_of(books, stamped(Stamp("origin", 0, 1_789_999_000_000)))
    assert verdict.decision == Park(
        Reason.RETRIES_EXHAUSTED,
        "3 of 3 attempts used; it last failed with KeyError",
        category="transient",
    )


@given(st.integers(0, 9), st.integers(0, 9))
def test_no_verdict_lowers_the_attempt(carried: int, recorded: int) -> None:
    books = Books(rows_={"origin": LedgerRow(attempt=recorded)})
    verdict = verdict_of(books, stamped(Stamp("origin", carried, 1_789_999_000_000)))
    assert verdict.stamp.attempt >= max(carried, recorded)
    assert verdict.stamp.origin == "origin"


# Rows that lag behind what was written.


def lives(*ends: str) -> tuple[Failure, ...]:
    """The failures of a letter, one a life: of the handler, given back untried, or permanent."""
    kinds: dict[str, dict[str, Any]] = {
        "failed": {},
        "given back": {"error_type": str(Fate.REFUSED), "message": GIVEN_BACK, "fingerprint": ""},
        "permanent": {"category": "schema"},
    }
    return tuple(
        failed(at=NOW - 900 + 60 * life, attempt=life, **kinds[end])
        for life, end in enumerate(ends)
    )


def lagging_verdict(stamp: Stamp, newest: LedgerRow, seen: LedgerRow | None) -> Verdict:
    """The verdict where a replica has this row, or none."""
    lagging = {} if seen is None else {"origin": seen}
    return verdict_of(Books(rows_={"origin": newest}, lagging=lagging), stamped(stamp))


def test_a_letter_is_not_parked_for_failures_that_a_row_does_not_show_yet() -> None:
    """Without one it would be parked as a letter that kills its consumer."""
    stamp = Stamp("origin", 1, 1_789_999_000_000)
    newest = LedgerRow(lives("failed", "failed"), attempt=1, tried=1)
    for seen in (None, LedgerRow(), LedgerRow(newest.failures[:1])):
        verdict = lagging_verdict(stamp, newest, seen)
        assert isinstance(verdict.decision, Redrive | Hold)
        assert (verdict.stamp.attempt, verdict.free) == (2, False)


def test_a_life_whose_try_a_row_does_not_show_yet_uses_an_attempt() -> None:
    """A receive of it was given back, a later one failed: it would be free each time."""
    stamp = Stamp("origin", 1, 1_789_999_000_000)
    given_back = LedgerRow(lives("failed", "given back"), attempt=1, tried=0)
    newest = replace(given_back, tried=1)
    verdict = lagging_verdict(stamp, newest, given_back)
    assert (verdict.stamp.attempt, verdict.stamp.base, verdict.free) == (2, 0, False)


@given(
    st.lists(st.sampled_from(["failed", "given back", "permanent"]), min_size=1, max_size=7),
    st.data(),
)
def test_no_lag_lets_a_letter_use_fewer_attempts_or_pass_its_maximum(
    ends: list[str], data: st.DataObject
) -> None:
    failures, carried = lives(*ends), data.draw(st.integers(0, len(ends) - 1), "carried")
    tried = [life for life, end in enumerate(ends) if end != "given back"]
    newest = LedgerRow(failures, attempt=len(ends) - 1, tried=max(tried, default=None))
    known = data.draw(st.integers(0, len(ends)), "known")
    seen = None
    if known:
        tried_then = max((life for life in tried if life < known), default=None)
        seen = LedgerRow(failures[:known], attempt=known - 1, tried=tried_then)
    stamp = Stamp("origin", carried, 1_789_999_000_000)
    expected = verdict_of(Books(rows_={"origin": newest}), stamped(stamp))
    verdict = lagging_verdict(stamp, newest, seen)
    if isinstance(verdict.decision, Park) or verdict.free:
        assert type(verdict.decision) is type(expected.decision)
        assert verdict.free == expected.free
        assert (verdict.stamp.attempt, verdict.stamp.base) == (
            expected.stamp.attempt,
            expected.stamp.base,
        )
    if isinstance(verdict.decision, Redrive):
        assert verdict.stamp.attempts_used <= PIPELINE.policy.max_attempts
        assert verdict.stamp.attempts_used > stamp.attempts_used or verdict.free


def test_a_stamp_that_a_row_does_not_show_yet_counts() -> None:
    newest = {"m9": LedgerRow(stamp=Stamp("origin", 3, 1_789_000_000_000, "AIDA"))}
    for lagging in ({}, {"m9": LedgerRow(lives("failed"))}):
        books = Books(
            rows_={**newest, "origin": LedgerRow(lives(*["failed"] * 4))}, lagging=lagging
        )
        verdict = verdict_of(books, letter(message_id="m9", SenderId=f"{REDRIVER}:run"))
        assert verdict.stamp.origin == "origin"
        assert isinstance(verdict.decision, Park)


def test_rows_are_read_once_where_no_newer_one_could_do_harm() -> None:
    books = Books(rows_={"origin": LedgerRow(lives("failed"), tried=0)}, lagging={})
    books.lagging = dict(books.rows_)
    assert isinstance(verdict_of(books, stamped(Stamp("origin", 0, 1))).decision, Park)
    assert books.asked == [["origin"], ["origin"]]
    books.asked.clear()
    sent = verdict_of(books, stamped(Stamp("origin", 0, 1_789_999_000_000)))
    assert isinstance(sent.decision, Redrive | Hold)
    assert books.asked == [["origin"]]


# Letters that could not carry their stamp, and forged stamps.


def test_the_ledger_keeps_the_stamp_of_a_letter_without_one_under_its_id() -> None:
    stamp = Stamp("origin", 2, 1_789_000_000_000, "AIDA")
    books = Books(
        rows_={"m9": LedgerRow(stamp=stamp), "origin": LedgerRow((failed(category="schema"),))}
    )
    verdict = verdict_of(books, letter(message_id="m9", SenderId=f"{REDRIVER}:run"))
    assert verdict.stamp.origin == "origin"
    # Its history is kept under the origin, which only the kept stamp names.
    assert verdict.decision == Park(
        Reason.PERMANENT,
        "last failure was of category schema; it last failed with KeyError",
        category="schema",
    )
    # Once more, as nothing newer says otherwise.
    assert books.asked == [["m9"], ["origin"], ["m9", "origin"]]


def test_a_re_drive_after_a_life_that_was_never_tried_uses_no_attempt() -> None:
    refused = failed(attempt=2, error_type=str(Fate.REFUSED), message=GIVEN_BACK, fingerprint="")
    books = Books(rows_={"origin": LedgerRow((refused,))})
    verdict = verdict_of(books, stamped(Stamp("origin", 2, 1_789_999_000_000, "AIDA", base=1)))
    assert (verdict.stamp.attempt, verdict.stamp.base, verdict.free) == (3, 2, True)
    # A letter that waits has not been re-driven: its life is judged when it leaves.
    held = verdict_of(
        replace(books, items_=[rule("h", "HOLD")]),
        stamped(Stamp("origin", 2, 1_789_999_000_000, "AIDA", base=1)),
    )
    assert (held.stamp.attempt, held.stamp.base, held.free) == (2, 1, False)


def test_rules_see_the_attempts_that_were_used() -> None:
    books = Books([rule("q", "QUARANTINE", pattern='{"redrive": {"attempt": [2]}}')])
    used = stamped(Stamp("origin", 5, 1_789_999_000_000, "AIDA", base=3))
    assert isinstance(verdict_of(books, used).decision, Park)


def test_the_attempt_counts_on_from_a_kept_stamp() -> None:
    stamp = Stamp("origin", 2, 1_789_999_000_000, "AIDA")
    books = Books(rows_={"m9": LedgerRow(stamp=stamp), "origin": LedgerRow((failed(),))})
    assert verdict_of(books, letter(message_id="m9")).stamp.attempt == 3
    books.rows_["origin"] = LedgerRow((failed(),), attempt=3)
    assert isinstance(verdict_of(books, letter(message_id="m9")).decision, Park)


def test_a_letter_that_carries_its_stamp_is_looked_up_under_its_origin_only() -> None:
    books = Books()
    decide(books, stamped(Stamp("o1", 1, 1_789_999_000_000)), letter(message_id="m2"))
    # The second time for the newest: neither had a row.
    assert books.asked == [["m2", "o1"], ["m2", "o1"]]


def test_a_forged_stamp_is_ignored_and_reported() -> None:
    books = Books(rows_={"somebody else": LedgerRow(attempt=3)})
    verdict = verdict_of(books, letter(message_id="m1", attributes={stamps.NAME: FORGED}))
    assert verdict.forged
    assert (verdict.stamp.origin, verdict.stamp.attempt) == ("m1", 1)
    assert verdict.stamp.first_sent == 1_789_999_000_000


def test_a_stamp_kept_for_a_letter_wins_over_a_forged_one() -> None:
    stamp = Stamp("origin", 1, 1_789_999_000_000, "AIDA")
    books = Books(rows_={"m1": LedgerRow(stamp=stamp), "origin": LedgerRow((failed(),))})
    verdict = verdict_of(books, letter(message_id="m1", attributes={stamps.NAME: FORGED}))
    assert (verdict.forged, verdict.stamp.origin, verdict.stamp.attempt) == (True, "origin", 2)


def test_a_stamp_that_is_not_believed_stands_for_one_attempt_whatever_it_says() -> None:
    two = {stamps.NAME: FORGED, stamps.KEPT_NAME: Attribute("String", '{"origin":"o","attempt":9}')}
    known = Books(rows_={"m1": LedgerRow((failed(attempt=0),))})
    verdict = verdict_of(known, letter(message_id="m1", attributes=two))
    assert (verdict.decision.because[:9], verdict.stamp.attempt) == ("attempt 1", 1)
    three = {**two, "Redriv7": FORGED, "Redrive7": FORGED, "Redriv8": Attribute("String", "{}")}
    verdict = verdict_of(known, letter(message_id="m1", attributes=three))
    because = "3 of 3 attempts used, 3 by stamps of unknown senders; it last failed with KeyError"
    assert isinstance(verdict.decision, Park)
    assert (verdict.decision.reason, verdict.decision.because) == (
        Reason.RETRIES_EXHAUSTED,
        because,
    )
    # Those that a believed one has beside it were a producer's own.
    ours = stamped(Stamp("origin", 1, 1_789_999_000_000, "AIDA"))
    beside = replace(ours, attributes={**three, **ours.attributes})
    assert isinstance(
        verdict_of(Books(rows_={"origin": LedgerRow((failed(),))}), beside).decision, Redrive
    )


# Ledger reads where only the redriver writes the ledger.

TEN = {f"a{number}": Attribute("String", "x") for number in range(10)}


def test_without_the_consumer_library_no_row_is_read_for_letters_that_carry_their_stamp() -> None:
    books = Books(rows_={"origin": LedgerRow((failed(category="schema"),), attempt=9)})
    first = letter(message_id="m1", SenderId="AIDAPRODUCER")
    forged = letter(message_id="m2", attributes={stamps.NAME: FORGED})
    again = stamped(Stamp("origin", 1, 1_789_999_000_000))
    answer = decide(books, first, forged, again, pipeline=WITHOUT_LIBRARY)
    assert books.asked == []
    assert [verdict.stamp.attempt for verdict in answer.verdicts] == [1, 1, 2]


@each_row(
    "unmarked",
    [
        letter(message_id="m9", SenderId=f"{REDRIVER}:run"),
        letter(message_id="m9", attributes=TEN, SenderId=f"{REDRIVER}:run"),
        letter(message_id="m9", attributes=TEN),
        letter(message_id="m9", attributes={stamps.NAME: FORGED, **dict([*TEN.items()][:9])}),
        letter(
            message_id="m9",
            attributes={stamps.NAME: Attribute("String", "{}")},
            SenderId=f"{REDRIVER}:run",
        ),
    ],
)
def test_without_the_consumer_library_the_kept_stamp_of_an_unmarked_letter_is_read(
    unmarked: Letter,
) -> None:
    kept = Stamp("origin", 1, 1_789_999_000_000, "AIDA")
    books = Books(rows_={"m9": LedgerRow(stamp=kept), "origin": LedgerRow(attempt=3)})
    verdict = verdict_of(books, unmarked, WITHOUT_LIBRARY)
    assert books.asked == [["m9"]]
    assert (verdict.stamp.origin, verdict.stamp.attempt) == ("origin", 2)


def test_without_the_consumer_library_a_ledger_that_is_down_stops_unmarked_letters_only() -> None:
    books = Books(down="ledger")
    assert verdict_of(books, letter(message_id="m1"), WITHOUT_LIBRARY).stamp.attempt == 1
    with pytest.raises(RouterUnavailable):
        decide(books, letter(message_id="m2", attributes=TEN), pipeline=WITHOUT_LIBRARY)


# Rules.


def test_rules_see_the_first_sender_and_the_counted_attempt() -> None:
    patterned = {
        "rule_id": "r",
        "action": "QUARANTINE",
        "pattern": {"system": {"SenderId": ["AIDA"]}, "redrive": {"attempt": [2]}},
    }
    books = Books([patterned], rows_={"origin": LedgerRow(attempt=2)})
    verdict = verdict_of(books, stamped(Stamp("origin", 1, 1_789_999_000_000, "AIDA")))
    assert verdict.decision == Park(Reason.QUARANTINED, "rule r says QUARANTINE", "r")


def test_a_limit_on_matches_holds_within_a_batch() -> None:
    books = Books([rule("q", "QUARANTINE", max_matches=5)], matches_={"q": 2})
    answer = decide(books, *(letter(message_id=f"m{n}") for n in range(6)))
    kinds = [type(verdict.decision) for verdict in answer.verdicts]
    assert kinds == [Park] * 3 + [Redrive] * 3
    assert answer.limited_rules == ("q",)
    # The redriver claims them by it, for all its workers.
    over_the_wire = answer_from_json(json.loads(json.dumps(answer_to_json(answer))))
    for each in (answer, over_the_wire):
        assert [verdict.limit for verdict in each.verdicts] == [5] * 3 + [None] * 3


def test_a_malformed_limit_is_none() -> None:
    books = Books([rule("q", "QUARANTINE", max_matches=5)])
    data = answer_to_json(decide(books, letter(message_id="m")))
    for limit in ("5", True, 5.5, None):
        data["verdicts"][0]["limit"] = limit
        assert answer_from_json(data).verdicts[0].limit is None


def test_rules_of_all_pipelines_that_do_nothing_are_named_as_such() -> None:
    spent = rule("spent", "QUARANTINE", max_matches=1)
    everywhere = {**rule("everywhere", "QUARANTINE", max_matches=1), "pipeline": "*"}
    typo = {"rule_id": "typo", "pipeline": "*", "action": "HOLD THIS"}
    books = Books([spent, everywhere, typo], matches_={"spent": 1, "everywhere": 1})
    answer = decide(books)
    assert set(answer.limited_rules) == {"spent", "everywhere"}
    assert answer.limited_everywhere == ("everywhere",)
    assert [(refused.rule_id, refused.everywhere) for refused in answer.refused_rules] == [
        ("typo", True)
    ]


def test_an_answer_is_small_however_many_rules_do_nothing() -> None:
    typos = [rule(f"{'typo' * 40}-{n}", "HOLD THIS", tenantId="x" * 200) for n in range(20_000)]
    spent = [rule(f"spent-{n}", "QUARANTINE", tenantId="b", max_matches=1) for n in range(60)]
    off = [{**rule("off", "HOLD THIS"), "enabled": False}]
    used = {f"spent-{n}": 1 for n in range(60)}
    answer = decide(Books([*off, *typos, *spent], matches_=used), letter())
    assert (len(answer.refused_rules), answer.unnamed_refused) == (50, 19_951)
    assert not any(refused.disabled for refused in answer.refused_rules)
    assert (len(answer.limited_rules), answer.unnamed_limited) == (50, 10)
    data = answer_to_json(answer)
    assert len(json.dumps(data)) <= 256 * 1024
    assert answer_from_json(data) == answer


def test_a_match_that_another_judgement_overrides_is_not_counted() -> None:
    delay = rule("d", "DELAYED_REDRIVE", delay_seconds=60, max_matches=1, tenantId="a")
    unreadable = letter('{"tenantId": "a", "tenantId": "a"}', message_id="bad")
    expired = letter(message_id="old", SentTimestamp="1")
    answer = decide(Books([delay]), unreadable, expired, letter(message_id="good"))
    assert answer.verdicts[2].decision == Redrive(60, "attempt 1, delay of 60 s by rule d", "d")


def test_a_rule_diverts_from_the_dlq_and_not_from_the_dedicated_dlq() -> None:
    books = Books([rule("d", "DEDICATED_DLQ", queue="slow"), rule("h", "HOLD", priority=200)])
    in_dedicated, in_main = Question(letter(), home="slow"), Question(letter())
    assert verdict_of(books, in_main).decision == Divert("slow", "rule d says DEDICATED_DLQ", "d")
    assert isinstance(verdict_of(books, in_dedicated).decision, Hold)


def test_a_bad_rule_and_a_shadow_are_reported_and_change_nothing() -> None:
    books = Books([rule("bad", "PURGE"), rule("dry", "QUARANTINE", mode="shadow")])
    answer = decide(books, letter(message_id="m1"), letter(message_id="m2"))
    assert [refused.rule_id for refused in answer.refused_rules] == ["bad"]
    assert answer.shadow_matches == {"dry": 2}
    assert all(isinstance(verdict.decision, Redrive) for verdict in answer.verdicts)


# 300 wildcards of two pieces on a text of 600,000 characters.
COSTLY = {"body": {"text": [{"wildcard": f"*a{n}b*c*"} for n in range(300)]}}


@pytest.mark.parametrize("action", ["QUARANTINE", "DEDICATED_DLQ", "HOLD"])
def test_a_stopping_rule_that_is_too_costly_to_judge_holds_the_letter(action: str) -> None:
    queue = {"queue": "slow"} if action == "DEDICATED_DLQ" else {}
    costly = rule("big", action, pattern=COSTLY, max_matches=1, **queue)
    books = Books([costly, rule("small", "DEFAULT", tenantId="a", priority=200)])
    long = json.dumps({"tenantId": "a", "text": "x" * 600_000})
    answer = decide(books, letter(long, message_id="m1"), letter(long, message_id="m2"), letter())
    held = [verdict.decision for verdict in answer.verdicts[:2]]
    because = "rule big is too costly to decide on this message"
    assert [(d.lane, d.because, d.rule) for d in held if isinstance(d, Hold)] == [
        ("rule:big", because, None)
    ] * 2
    assert isinstance(answer.verdicts[2].decision, Redrive)
    assert answer.costly_rules == {"big": 2}
    assert answer_from_json(answer_to_json(answer)) == answer
    assert router(books).open_lanes(["rule:big"]).open == []
    _, [big, small] = router(books).explain(Question(letter(long)))
    assert big.outcome == "is too costly to decide on this message, and holds the message"
    assert small.outcome == "matches, but an earlier rule speaks"


@pytest.mark.parametrize(
    ("action", "more"),
    [
        ("DELAYED_REDRIVE", {"delay_seconds": 60}),
        ("DEFAULT", {}),
        ("QUARANTINE", {"mode": "shadow"}),
    ],
)
def test_another_rule_that_is_too_costly_to_judge_does_not_match(
    action: str, more: dict[str, Any]
) -> None:
    costly = rule("big", action, pattern=COSTLY, **more)
    books = Books([costly, rule("small", "QUARANTINE", tenantId="a", priority=200)])
    long = letter(json.dumps({"tenantId": "a", "text": "x" * 600_000}))
    answer = decide(books, long)
    assert answer.verdicts[0].decision == Park(
        Reason.QUARANTINED, "rule small says QUARANTINE", "small"
    )
    assert (answer.costly_rules, answer.shadow_matches) == ({"big": 1}, {})
    _, [big, _] = router(books).explain(Question(long))
    assert big.outcome == "is too costly to decide on this message, and does not match"


def test_an_explanation_is_the_verdict_with_the_rules_that_led_to_it() -> None:
    books = Books([rule("d", "DEDICATED_DLQ", queue="slow"), rule("h", "HOLD", priority=200)])
    for question in (Question(letter()), Question(letter(), home="slow", served=True)):
        verdict, trials = router(books).explain(question)
        assert verdict == verdict_of(books, question)
        [decided] = [trial.rule_id for trial in trials if trial.outcome == "matches and speaks"]
        assert decided == verdict.decision.rule
    books.down = "ledger"
    with pytest.raises(RouterUnavailable):
        router(books).explain(Question(letter()))


def test_an_edited_rule_applies_to_the_next_question() -> None:
    books = Books([rule("q", "QUARANTINE")])
    direct = router(books)
    assert isinstance(direct.decide([Question(letter())]).verdicts[0].decision, Park)
    books.items_[0] = rule("q", "QUARANTINE", enabled=False)
    assert isinstance(direct.decide([Question(letter())]).verdicts[0].decision, Redrive)


# Failures of the letters.


def test_an_answer_names_the_commonest_last_failures_of_its_letters() -> None:
    kinds = [(f"f{number}", 7 - number) for number in range(7)]
    rows = {
        f"{fingerprint}-{number}": LedgerRow(
            (failed(fingerprint="old"), failed(fingerprint=fingerprint, error_type="KeyError"))
        )
        for fingerprint, letters in kinds
        for number in range(letters)
    }
    rows |= {f"unknown-{number}": LedgerRow((failed(fingerprint=""),)) for number in range(9)}
    asked = [letter(message_id=origin) for origin in (*rows, "no row")]
    answer = decide(Books(rows_=rows), *asked)
    assert answer.failures == tuple(
        FailureKind(fingerprint, "KeyError", count) for fingerprint, count in kinds[:5]
    )


# Circuits and lanes.


def test_a_letter_is_held_by_the_circuit_of_its_key_or_of_the_pipeline() -> None:
    books = Books(open_={"https://a"})
    down, up = (letter(f'{{"endpoint": "https://{name}"}}') for name in "ab")
    assert isinstance(verdict_of(books, down).decision, Hold)
    assert isinstance(verdict_of(books, up).decision, Redrive)
    books.open_ = {"orders"}
    decision = verdict_of(books, up).decision
    assert isinstance(decision, Hold)
    assert decision.lane == "circuit:orders"


def test_a_lane_is_releasable_when_its_circuit_is_closed_or_its_hold_rule_has_ended() -> None:
    books = Books([rule("holds", "HOLD"), rule("parks", "QUARANTINE")], open_={"down"})
    lanes = ["circuit:down", "circuit:up", "rule:holds", "rule:parks", "rule:gone", "due", "run:1"]
    assert router(books).open_lanes(lanes).open == ["circuit:up", "rule:parks", "rule:gone"]


def test_a_lane_of_a_pace_in_which_messages_wait_long_lets_no_letter_go() -> None:
    pace = CallPace(2.0, 2.0, since=NOW, changed=NOW, utat=NOW, ptat=NOW + 100)
    books = Books(paces={"soon": pace, "late": replace(pace, ptat=NOW + 600)})
    assert router(books).open_lanes(["circuit:soon", "circuit:late"]).open == ["circuit:soon"]


def test_the_rate_of_a_rule_is_told_to_those_who_ask_for_its_lane() -> None:
    slow = [rule(name, "THROTTLE", rate=rate) for name, rate in (("a", 5), ("b", 0.5))]
    answer = router(Books([*slow, rule("holds", "HOLD")])).open_lanes(["rule:b", "rule:holds"])
    assert answer.rates == {"rule:b": 0.5}
    assert answer.open == []


def test_a_letter_whose_cause_dominates_goes_back_and_its_life_is_spared() -> None:
    books = Books(
        rows_={"origin": LedgerRow((failed(attempt=2, category=Category.SCHEMA),))},
        causes_=Causes(holds={"f1": CauseHold(NOW - 9, NOW + 9)}),
    )
    mark = Stamp("origin", 2, 1_789_999_000_000, "AIDA", base=1)
    verdict = verdict_of(books, stamped(mark))
    assert isinstance(verdict.decision, Redrive)
    assert (verdict.stamp.attempt, verdict.stamp.base, verdict.stamp.spared) == (3, 2, 3)


@each_row(("prefix", "parks"), [("f1", True), ("f", True), ("f2", False)])
def test_a_rule_on_a_cause_parks_its_letters_although_the_cause_is_held(
    prefix: str, parks: bool
) -> None:
    """It is a person's word about the cause, of which digits are enough."""
    books = Books(
        items_=[
            {
                "rule_id": "stop",
                "pipeline": "orders",
                "action": "QUARANTINE",
                "pattern": {"failure": {"fingerprint": [{"prefix": prefix}]}},
            }
        ],
        rows_={"m1": LedgerRow((failed(),))},
        causes_=Causes(holds={"f1": CauseHold(NOW - 9, NOW + 9)}),
    )
    decision = decision_on(Question(letter(message_id="m1")), books)
    parked = Park(Reason.QUARANTINED, "rule stop says QUARANTINE", "stop")
    assert decision == parked if parks else isinstance(decision, Redrive)


def test_a_letter_that_waited_keeps_the_lives_that_were_spared_meanwhile() -> None:
    """Its own stamp is that of its last send; it would be parked for a life that did not count."""
    last = LedgerRow((failed(attempt=2, category=Category.SCHEMA),))
    books = Books(rows_={"origin": last})
    waits = Question(stamped(Stamp("origin", 2, 1_789_999_000_000, "AIDA")), served=True)
    assert isinstance(decision_on(waits, books), Park)
    assert isinstance(decision_on(replace(waits, spared=3), books), Redrive)


def decision_on(question: Question, books: Books) -> Decision:
    [only] = router(books).decide([question]).verdicts
    return only.decision


def test_a_cause_that_is_held_is_named_among_no_failures_because_it_has_its_own_page() -> None:
    rows = {"m1": LedgerRow((failed(),)), "m2": LedgerRow((failed(fingerprint="f2"),))}
    books = Books(rows_=rows, causes_=Causes(holds={"f1": CauseHold(NOW - 9, NOW + 9)}))
    answer = decide(books, letter(message_id="m1"), letter(message_id="m2"))
    assert [kind.fingerprint for kind in answer.failures] == ["f2"]


def test_letters_of_a_fifo_group_that_failed_alike_are_counted_together() -> None:
    standard = replace(PIPELINE, poison_lives=3)
    fifo = replace(standard, fifo=True)
    lives = LedgerRow((failed(attempt=0), failed(attempt=1)))
    names = ("m1", "m2", "m3")
    books = Books(rows_=dict.fromkeys(names, lives))
    books.rows_["m4"] = LedgerRow((failed(http_status=503),))

    def parked(groups: Mapping[str, str], pipeline: Pipeline = fifo) -> list[str]:
        letters = [letter(message_id=name, MessageGroupId=groups[name]) for name in groups]
        verdicts = decide(books, *letters, pipeline=pipeline).verdicts
        return [verdict.message_id for verdict in verdicts if isinstance(verdict.decision, Park)]

    row = dict.fromkeys((*names, "m4"), "g")
    assert parked(row) == list(names)
    # Of another group; of a standard queue, whose groups are tenants; of too few.
    assert parked({**row, "m2": "h"}) == []
    assert parked(row, standard) == []
    assert parked(dict.fromkeys(("m1", "m2", "m4"), "g")) == []


def test_copies_of_one_letter_are_no_row_of_poison() -> None:
    fifo = replace(PIPELINE, fifo=True, poison_lives=3)
    books = Books(rows_={"origin": LedgerRow((failed(attempt=0), failed(attempt=1)))})
    copies = [
        replace(
            stamped(Stamp("origin", 1), name),
            system={**letter().system, "SenderId": REDRIVER, "MessageGroupId": "g"},
        )
        for name in ("c1", "c2", "c3")
    ]
    verdicts = decide(books, *copies, pipeline=fifo).verdicts
    assert not any(isinstance(verdict.decision, Park) for verdict in verdicts)


def test_causes_are_read_only_for_letters_that_may_have_one() -> None:
    books = Books(rows_={"m1": LedgerRow((failed(http_status=503),))})
    decide(books, letter(message_id="m1"), letter(message_id="m2"))
    assert books.causes_read == 0
    books.rows_["m1"] = LedgerRow((failed(),))
    decide(books, letter(message_id="m1"), letter(message_id="m2"))
    assert books.causes_read == 1


def test_nothing_is_decided_without_the_causes() -> None:
    books = Books(rows_={"m1": LedgerRow((failed(),))}, down="causes")
    with pytest.raises(RouterUnavailable):
        decide(books, letter(message_id="m1"))
    assert router(books).open_lanes(["circuit:orders", "due"]).open == ["circuit:orders"]


def test_a_rule_that_became_invalid_does_not_release_the_letters_that_it_holds() -> None:
    books = Books([rule("typo", "HOLDD")])
    lanes = router(books).open_lanes(["rule:typo", "delay:typo", "rule:gone"])
    assert lanes.open == ["rule:gone"]
    assert lanes.invalid == ["rule:typo", "delay:typo"]


@each_row(
    ("open_", "lane"),
    [
        ({"orders#config"}, "circuit:orders#config"),
        # What waits for the pipeline's circuit is held by no other: it may test that one.
        ({"hook", "orders", "orders#config"}, "circuit:hook"),
        ({"dependency/payments", "orders"}, "circuit:dependency/payments"),
        ({"orders", "orders#config"}, "circuit:orders"),
        ({"hook#config"}, "circuit:hook#config"),
        ({"dependency/payments"}, "circuit:dependency/payments"),
        ({"dependency/payments#config"}, "circuit:dependency/payments#config"),
        ({"dependency/mail", "mail", "hook2#config"}, None),
    ],
)
@each_row("named", ["dependency/payments", "dependency/payments#config"])
def test_a_letter_waits_for_each_circuit_that_it_depends_on(
    open_: set[str], lane: str | None, named: str
) -> None:
    rows = {"m1": LedgerRow((failed(circuit=named, blame=Blame.DEPENDENCY),))}
    decision = verdict_of(Books(rows_=rows, open_=open_), letter('{"endpoint": "hook"}')).decision
    assert (decision.lane if isinstance(decision, Hold) else None) == lane


def test_a_named_dependency_holds_only_letters_that_failed_by_it() -> None:
    rows = {"m1": LedgerRow((failed(circuit="dependency/payments"), failed()))}
    books = Books(rows_=rows, open_={"dependency/payments"})
    assert isinstance(verdict_of(books, letter(message_id="m1")).decision, Redrive)
    assert isinstance(verdict_of(books, letter(message_id="m2")).decision, Redrive)


# Unavailable stores, and unclear answers.


@pytest.mark.parametrize("down", ["rules", "ledger", "matches", "circuits"])
def test_nothing_is_decided_without_rules_ledger_and_circuits(down: str) -> None:
    books = Books([rule("q", "QUARANTINE", max_matches=1)], down=down)
    with pytest.raises(RouterUnavailable):
        decide(books, letter())


@pytest.mark.parametrize("down", ["rules", "circuits"])
def test_no_lane_is_releasable_without_rules_and_circuits(down: str) -> None:
    with pytest.raises(RouterUnavailable):
        router(Books(down=down)).open_lanes(["circuit:orders"])


@given(st.lists(letters, max_size=5, unique_by=lambda drawn: drawn.message_id))
def test_every_letter_gets_one_verdict_in_the_order_of_the_questions(asked: list[Letter]) -> None:
    answer = decide(Books([rule("q", "QUARANTINE")]), *asked)
    verdicts = [verdict.message_id for verdict in answer.verdicts]
    assert verdicts == [question.message_id for question in asked]


def test_only_a_single_verdict_on_a_letter_of_the_question_is_usable() -> None:
    redrive, park = Redrive(0, "x"), Park(Reason.POISON, "x")
    twice = (verdict_on("twice", redrive), verdict_on("twice", redrive))
    answer = RouterAnswer((verdict_on("once", redrive), *twice, verdict_on("unasked", park)))
    assert usable(answer.verdicts, ["once", "twice", "missing"]) == {
        "once": verdict_on("once", redrive)
    }


# Over the wire.


few_rules = st.none() | st.sampled_from(["r1", "r2"])
questions = st.builds(
    Question,
    letters,
    st.booleans(),
    st.text(),
    st.sampled_from([0, 0, 2]),
    replay=st.booleans(),
    waited=st.sampled_from([0.0, 0.0, 1.5]),
    held_by=few_rules,
    admitted=few_rules,
)


@given(st.lists(questions, max_size=5))
def test_a_question_comes_over_the_wire_as_it_was(questions: list[Question]) -> None:
    for question in questions:
        in_json = json.loads(json.dumps(question_to_json(question)))
        assert question_bytes(question) == len(encoded := encoded_question(question))
        assert json.loads(encoded) == in_json
        assert question_from_json(in_json) == question


verdicts = st.builds(Verdict, st.text(), decisions, any_stamps, st.booleans(), st.booleans())
answers = st.builds(
    RouterAnswer,
    st.lists(verdicts, max_size=4).map(tuple),
    st.lists(
        st.builds(RefusedRule, st.text(), st.text(), st.booleans(), st.booleans()), max_size=2
    ).map(tuple),
    st.dictionaries(st.text(), st.integers(0), max_size=2),
    st.lists(st.text(), max_size=2).map(tuple),
    st.lists(st.builds(FailureKind, st.text(), st.text(), st.integers(0)), max_size=2).map(tuple),
    st.lists(st.text(), max_size=2).map(tuple),
)


@given(answers)
def test_an_answer_comes_over_the_wire_as_it_was(answer: RouterAnswer) -> None:
    assert answer_from_json(json.loads(json.dumps(answer_to_json(answer)))) == answer


@each_row(
    "data",
    [
        None,
        [],
        "yes",
        {},
        {"verdicts": None},
        {"verdicts": {}},
        {"open": []},
        {"errorMessage": "x"},
    ],
)
def test_data_that_is_no_answer_makes_the_router_unavailable(data: object) -> None:
    with pytest.raises(RouterUnavailable):
        answer_from_json(data)


GOOD = answer_to_json(RouterAnswer((verdict_on("m1", Redrive(0, "x")),)))["verdicts"][0]


@each_row(
    "garbage",
    [
        None,
        [],
        {**GOOD, "id": None},
        {**GOOD, "id": 5},
        {**GOOD, "decision": None},
        {**GOOD, "decision": {"action": "DELETE", "because": "x"}},
        {**GOOD, "decision": {"action": "REDRIVE", "delay": 5_000, "because": "x"}},
        {**GOOD, "stamp": None},
        {**GOOD, "stamp": {"origin": "o", "attempt": -1}},
        {key: value for key, value in GOOD.items() if key != "stamp"},
    ],
)
def test_a_verdict_that_cannot_be_understood_is_left_out(garbage: Any) -> None:
    answer = answer_from_json({"verdicts": [garbage, GOOD]})
    assert [verdict.message_id for verdict in answer.verdicts] == ["m1"]


@given(json_values)
def test_reading_an_answer_raises_nothing_but_router_unavailable(data: Any) -> None:
    whole = answer_to_json(RouterAnswer(()))
    assert answer_from_json({"verdicts": []}) == answer_from_json(whole) == RouterAnswer(())
    whole["verdicts"] = [GOOD]
    for candidate in (
        data,
        {"verdicts": [data]},
        *({"verdicts": [{**GOOD, key: data}]} for key in GOOD),
        *({**whole, key: data} for key in whole),
        {**whole, "refused_rules": [data], "shadow_matches": {"r": data}},
        {**whole, "failures": [data, {"messages": data}]},
    ):
        try:
            answer = answer_from_json(candidate)
        except RouterUnavailable:
            continue
        assert all(isinstance(number, int) for number in answer.shadow_matches.values())
        assert all(isinstance(verdict, Verdict) for verdict in answer.verdicts)
        assert all(isinstance(kind.messages, int) for kind in answer.failures)


def test_the_function_answers_about_letters_and_about_lanes() -> None:
    direct = router(Books([rule("holds", "HOLD")]))
    answer = answer_event(direct, {"letters": [question_to_json(Question(letter()))]})
    assert answer_from_json(answer).verdicts[0].message_id == "m1"
    asked = ["rule:holds", "delay:holds", "rule:gone", "delay:gone", "due"]
    lanes = answer_event(direct, {"lanes": asked})
    assert lanes["open"] == ["rule:gone"]
    assert lanes_from_json(lanes, asked) == direct.open_lanes(asked)
    assert lanes["edition"]
    explained = answer_event(direct, {"explain": question_to_json(Question(letter()))})
    assert explained["verdict"] == answer["verdicts"][0]
    assert explained["tried"] == [{"rule": "holds", "outcome": "matches and speaks", "missed": []}]
    other = answer_event(direct, {"explain": question_to_json(Question(letter("{}")))})
    assert [sorted(field) for field in other["tried"][0]["missed"]] == [
        ["expected", "found", "path"]
    ]
    assert json.dumps(other)
    with pytest.raises(NotALetter):
        answer_event(direct, {"letters": [{"id": "m1"}]})


@each_row("answer", [None, [], {}, {"open": "rule:a"}, {"edition": "e"}])
def test_an_answer_that_does_not_say_which_lanes_are_open_is_none(answer: object) -> None:
    with pytest.raises(RouterUnavailable, match="which lanes are open"):
        lanes_from_json(answer, ["rule:a"])


def test_what_the_router_says_of_lanes_that_it_was_not_asked_about_is_left_out() -> None:
    rates = {"rule:a": 0, "rule:b": 2, "rule:c": "9", "rule:d": float("inf"), "rule:e": 3}
    said = {
        "open": ["rule:x", "rule:a"],
        "invalid": ["rule:c", "due"],
        "edition": 7,
        "rates": rates,
    }
    assert lanes_from_json(said, [f"rule:{name}" for name in "abcd"]) == LaneAnswer(
        ["rule:a"], ["rule:c"], "", {"rule:b": 2.0}
    )


def test_a_letter_with_an_unreadable_row_does_not_keep_the_others_from_their_verdicts() -> None:
    books = Books(rows_={"m1": LedgerRow(unreadable=True)})
    answer = decide(books, letter(message_id="m1"), letter(message_id="m2"))
    assert [verdict.message_id for verdict in answer.verdicts] == ["m2"]
    with pytest.raises(RouterUnavailable, match="failure record"):
        router(books).explain(Question(letter(message_id="m1")))


def test_rules_are_read_anew_only_when_they_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []

    def counted(items: Sequence[Mapping[str, Any]], pipeline: Pipeline) -> RuleBook:
        read.append(len(items))
        return read_rules(items, pipeline)

    monkeypatch.setattr(direct_router, "read_rules", counted)
    books = Books([rule("q", "QUARANTINE")])
    direct = router(books)
    for _ in range(3):
        direct.decide([Question(letter())])
    books.items_.append(rule("r", "QUARANTINE"))
    direct.decide([Question(letter())])
    assert read == [1, 2]


def test_the_reason_of_a_store_that_is_down_is_passed_on() -> None:
    class Throttled(Books):
        def read(self, keys: Sequence[str]) -> Mapping[str, Circuit]:
            raise CircuitsUnavailable("ThrottlingException")

    with pytest.raises(RouterUnavailable, match=r"^ThrottlingException$"):
        decide(Throttled(), letter())
    with pytest.raises(RouterUnavailable, match=r"^RulesUnavailable$"):
        decide(Books(down="rules"), letter())


def test_a_letter_that_waits_stays_a_canary_and_any_other_decision_ends_that() -> None:
    canary = stamped(Stamp("origin", 1, 1_789_999_000_000, canary="permit"))
    held = verdict_of(Books([rule("h", "HOLD")]), canary)
    assert held.stamp.canary == "permit"
    for books in (Books([rule("q", "QUARANTINE")]), Books(rows_={"origin": LedgerRow()})):
        assert verdict_of(books, canary).stamp.canary is None


def test_a_verdict_without_a_word_on_it_is_of_a_letter_that_is_not_forged() -> None:
    assert not Verdict("m1", Redrive(0, "x"), Stamp("m1")).forged
