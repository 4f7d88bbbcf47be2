"""Letters of replay runs: they go back to their run or to a person, never to the schedule."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given

from deadletter.contract import DAY, Category, Reason, run_lane
from deadletter.failure.causes import CauseHold, Causes
from deadletter.failure.fate import GIVEN_BACK, Fate
from deadletter.failure.ledger import LedgerRow, Recovery
from deadletter.message.letter import Letter, NotALetter
from deadletter.message.stamp import Stamp
from deadletter.routing.decision import Divert, Hold, Park, Redrive
from deadletter.routing.direct_router import DirectRouter
from deadletter.routing.ordering import shard_of_key
from deadletter.routing.router import (
    Question,
    RouterAnswer,
    RouterUnavailable,
    Verdict,
    question_about,
    usable,
)
from deadletter.routing.selection import CopiesOfRuns, Pick, Selection, selection_from_data
from deadletter.routing.wire import (
    answer_event,
    answer_from_json,
    answer_to_json,
    picks_from_json,
    picks_to_json,
    question_from_json,
    question_to_json,
    selection_request,
)
from deadletter.rules.json_schema import JsonSchema
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline
from tests.each_row import each_row
from tests.routing.test_router import PIPELINE, Books, CausesOf, rule, stamped
from tests.samples import NOW, REDRIVER, SENT_MS, failed, letter, letters, received
from tests.samples import stamps as any_stamps

FIFO = replace(PIPELINE, fifo=True)
SENT = Stamp("o1", 3, int(SENT_MS), "AIDA", run="r9", ticket="c1", base=2, spared=3)
"""The stamp of a letter that run r9 has sent once."""

TAKEN = replace(SENT, attempt=2, ticket=None)
"""The stamp that the snapshot of run r9 gave it."""

EXPIRES = int(SENT_MS) / 1000 + PIPELINE.message_ttl
PERMANENTLY = LedgerRow((failed(attempt=3, category=Category.SCHEMA),))


@dataclass
class Runs:
    """Runs that wait for some copies; `down` if they cannot be read.

    `unreadable` are copies with a row that cannot be.
    """

    waited_for: frozenset[str] = frozenset()
    freed: frozenset[str] = frozenset()
    unreadable: frozenset[str] = frozenset()
    down: bool = False
    asked: list[Mapping[str, Stamp]] = field(default_factory=list)

    def returnable(self, stamps: Mapping[str, Stamp]) -> CopiesOfRuns:
        if self.down:
            raise RouterUnavailable("the runs gave no answer")
        self.asked.append(dict(stamps))
        return CopiesOfRuns(self.waited_for & stamps.keys(), self.unreadable & stamps.keys())

    def let_go(self, stamps: Mapping[str, Stamp]) -> CopiesOfRuns:
        return CopiesOfRuns(self.freed & stamps.keys())


def router(
    books: Books,
    runs: Runs | None = None,
    pipeline: Pipeline = PIPELINE,
    schema: JsonSchema | None = None,
) -> DirectRouter:
    return DirectRouter(
        pipeline=pipeline,
        rules=books,
        ledger=books,
        circuits=books,
        trusted_senders=frozenset({REDRIVER}),
        clock=lambda: NOW,
        random=Random(1),
        causes=CausesOf(books),
        live_runs=runs,
        schema=schema,
    )


def verdict_on(asked: Letter | Question, books: Books, runs: Runs | None = None) -> Verdict:
    question = asked if isinstance(asked, Question) else Question(asked)
    [only] = router(books, runs).decide([question]).verdicts
    return only


def returned(stamp: Stamp = SENT) -> Letter:
    return stamped(stamp, message_id="c2")


def replayed(stamp: Stamp = TAKEN, mail: Letter | None = None) -> Question:
    return Question(mail or letter(message_id="c1"), replay=True, stamp=stamp)


# Back from the main queue.


@pytest.mark.parametrize(
    "books",
    [
        Books(),
        Books([rule("q", "QUARANTINE")]),
        Books(rows_={"o1": PERMANENTLY}),
        Books(open_={"orders"}),
    ],
    ids=["as usual", "stopped by a rule", "failed permanently", "with an open circuit"],
)
def test_a_letter_goes_back_to_its_live_run_which_judges_it(books: Books) -> None:
    verdict = verdict_on(returned(), books, Runs(frozenset({"c2"})))
    assert verdict.decision == Hold(
        run_lane("r9"), EXPIRES, "run r9 is live", shard=shard_of_key("o1")
    )
    kept = ("origin", "attempt", "base", "run", "ticket", "first_sent")
    assert [getattr(verdict.stamp, name) for name in kept] == [getattr(SENT, name) for name in kept]


def test_a_letter_goes_back_to_the_shard_of_its_ordering_key() -> None:
    mail = returned()
    mail = replace(mail, system={**mail.system, "MessageGroupId": "g2"})
    [only] = router(Books(), Runs(frozenset({"c2"})), FIFO).decide([Question(mail)]).verdicts
    assert isinstance(only.decision, Hold)
    assert only.decision.shard == shard_of_key("g2") != shard_of_key("o1")


def test_the_verdict_on_a_letter_that_goes_back_survives_the_wire() -> None:
    answer = router(Books(), Runs(frozenset({"c2"}))).decide([Question(returned())])
    assert answer_from_json(json.loads(json.dumps(answer_to_json(answer)))) == answer


def test_a_letter_whose_rows_of_a_run_cannot_be_read_gets_no_verdict() -> None:
    runs = Runs(unreadable=frozenset({"c2"}))
    assert router(Books(), runs).decide([Question(returned())]).verdicts == ()


def test_a_letter_that_its_run_does_not_wait_for_is_parked() -> None:
    verdict = verdict_on(returned(), Books(), Runs())
    assert isinstance(verdict.decision, Park)
    assert verdict.decision.reason is Reason.RUN_FAILED
    assert (verdict.stamp.run, verdict.stamp.reason) == ("r9", "RUN_FAILED")


@pytest.mark.parametrize("served", [False, True])
def test_a_letter_that_its_run_has_let_go_is_a_letter_of_no_run(served: bool) -> None:
    runs = Runs(freed=frozenset({"c2"}))
    row = LedgerRow((failed(attempt=3),))
    verdict = verdict_on(Question(returned(), served), Books(rows_={"o1": row}), runs)
    assert isinstance(verdict.decision, Redrive)
    assert (verdict.stamp.run, verdict.stamp.ticket) == (None, None)
    assert (verdict.stamp.attempt, verdict.stamp.base) == (4, 2)


def test_a_router_that_knows_no_runs_takes_each_for_ended() -> None:
    decision = verdict_on(returned(), Books()).decision
    assert isinstance(decision, Park)
    assert decision.reason is Reason.RUN_FAILED


@pytest.mark.parametrize(
    ("books", "reason"),
    [
        (Books([rule("q", "QUARANTINE")]), Reason.QUARANTINED),
        (Books(rows_={"o1": PERMANENTLY}), Reason.PERMANENT),
        (Books(open_={"orders"}), Reason.RUN_FAILED),
    ],
)
def test_a_letter_of_an_ended_run_is_parked_for_the_reason_that_says_most(
    books: Books, reason: Reason
) -> None:
    decision = verdict_on(returned(), books, Runs()).decision
    assert isinstance(decision, Park)
    assert decision.reason is reason


def test_a_letter_of_an_ended_run_waits_for_no_sudden_cause() -> None:
    causes = Causes(holds={"f1": CauseHold(NOW - 60, NOW + 60)})
    books = Books(rows_={"o1": PERMANENTLY}, causes_=causes)
    decision = verdict_on(returned(), books, Runs()).decision
    assert isinstance(decision, Park)
    assert decision.reason is Reason.RUN_FAILED


def test_an_old_letter_of_an_ended_run_failed_in_the_run_and_did_not_expire() -> None:
    old = replace(SENT, first_sent=1_000)
    decision = verdict_on(returned(old), Books(), Runs()).decision
    assert isinstance(decision, Park)
    assert decision.reason is Reason.RUN_FAILED


def test_runs_are_read_once_for_all_letters_and_only_for_letters_of_runs() -> None:
    runs = Runs()
    usual = Question(letter())
    router(Books(), runs).decide([usual, replayed()])
    assert runs.asked == []
    router(Books(), runs).decide([usual, Question(returned()), replayed()])
    assert runs.asked == [{"c2": SENT}]


def test_no_letter_is_judged_while_the_runs_give_no_answer() -> None:
    with pytest.raises(RouterUnavailable):
        verdict_on(returned(), Books(), Runs(down=True))


def test_a_forged_stamp_leads_to_no_run() -> None:
    forged = stamped(SENT, message_id="c2", sender="AIDAPRODUCER")
    runs = Runs(frozenset({"c2"}))
    assert isinstance(verdict_on(forged, Books(), runs).decision, Redrive)
    assert runs.asked == []


# About to be sent by its run.


def test_a_letter_of_a_run_is_sent_with_its_ticket_and_one_more_attempt() -> None:
    verdict = verdict_on(replayed(), Books())
    assert verdict.decision == Redrive(0, "run r9, attempt 1")
    stamp = verdict.stamp
    assert (stamp.attempt, stamp.base, stamp.run, stamp.ticket) == (3, 2, "r9", "c1")
    assert not verdict.free


def test_each_send_of_a_run_uses_an_attempt() -> None:
    """Even after a life that used none: the sends of one letter in a run are bounded."""
    refused = failed(attempt=3, error_type=str(Fate.REFUSED), message=GIVEN_BACK, fingerprint="")
    untried = LedgerRow((refused,))
    stamp = verdict_on(replayed(SENT), Books(rows_={"o1": untried})).stamp
    assert (stamp.attempt, stamp.base, stamp.attempts_used) == (4, 2, 2)


def test_the_attempt_is_the_larger_one_of_letter_ledger_and_run() -> None:
    books = Books(rows_={"o1": LedgerRow(attempt=7)})
    assert verdict_on(replayed(), books).stamp.attempt == 8
    carried = stamped(replace(SENT, attempt=9), message_id="c1")
    assert verdict_on(replayed(mail=carried), Books()).stamp.attempt == 10


def test_the_run_and_the_acceptance_are_those_that_the_run_gave() -> None:
    carried = stamped(replace(SENT, run="r1", accept=None), message_id="c1")
    stamp = verdict_on(replayed(replace(TAKEN, accept="collision"), carried), Books()).stamp
    assert (stamp.run, stamp.accept, stamp.ticket) == ("r9", "collision", "c1")


OLD_GROUNDS = {
    "expired": (replace(TAKEN, first_sent=1_000), LedgerRow()),
    "permanent before": (TAKEN, LedgerRow((failed(attempt=2, category=Category.SCHEMA),))),
    "poison": (TAKEN, LedgerRow(tuple(failed(attempt=life) for life in range(3)))),
    "silent": (SENT, LedgerRow()),
    "exhausted": (replace(TAKEN, attempt=9, base=2), LedgerRow()),
}


@each_row(("stamp", "row"), OLD_GROUNDS.values(), ids=OLD_GROUNDS)
def test_the_plan_has_settled_what_would_park_the_letter_otherwise(
    stamp: Stamp, row: LedgerRow
) -> None:
    decision = verdict_on(replayed(stamp), Books(rows_={"o1": row})).decision
    assert isinstance(decision, Redrive)


STOPPED: list[tuple[Books, Letter, Any]] = [
    (
        Books([rule("q", "QUARANTINE")]),
        letter(message_id="c1"),
        Park(Reason.QUARANTINED, "rule q says QUARANTINE", "q"),
    ),
    (
        Books(rows_={"o1": PERMANENTLY}),
        letter(message_id="c1"),
        Park(
            Reason.PERMANENT,
            "last failure was of category schema; it last failed with KeyError",
            category="schema",
        ),
    ),
    (
        Books(open_={"orders"}),
        letter(message_id="c1"),
        Hold("circuit:orders", EXPIRES, "circuit orders is OPEN"),
    ),
    (
        Books([rule("d", "DEDICATED_DLQ", queue="slow")]),
        letter(message_id="c1"),
        Divert("slow", "rule d says DEDICATED_DLQ", "d"),
    ),
]


@pytest.mark.parametrize(("books", "mail", "decision"), STOPPED, ids=lambda value: "")
def test_a_rule_a_new_permanent_failure_and_an_open_circuit_stop_a_letter_of_a_run(
    books: Books, mail: Letter, decision: Any
) -> None:
    verdict = verdict_on(replayed(mail=mail), books)
    assert verdict.decision == decision
    assert (verdict.stamp.attempt, verdict.stamp.ticket) == (2, None)


def test_an_unreadable_letter_of_a_run_is_parked() -> None:
    decision = verdict_on(replayed(mail=letter("{", "c1")), Books()).decision
    assert isinstance(decision, Park)
    assert decision.reason is Reason.MALFORMED


def test_a_letter_that_a_rule_diverts_is_no_longer_its_runs() -> None:
    books = Books([rule("d", "DEDICATED_DLQ", queue="slow")])
    stamp = verdict_on(replayed(SENT), books).stamp
    assert (stamp.run, stamp.ticket, stamp.base) == (None, None, 2)


def test_a_letter_in_the_custody_of_a_run_is_asked_about_as_replayed() -> None:
    taken = replace(received(letter(message_id="c1")), stamp=TAKEN)
    question = question_about(taken, served=True)
    assert (question.replay, question.stamp) == (True, TAKEN)
    usual = question_about(received(letter()), served=True)
    assert (usual.replay, usual.stamp) == (False, None)


# Picks.


def picks(
    asked: Letter | Question,
    selection: Selection,
    books: Books | None = None,
    *,
    pipeline: Pipeline = PIPELINE,
    runs: Runs | None = None,
    release: bool = False,
) -> Pick:
    question = asked if isinstance(asked, Question) else Question(asked)
    [only] = router(books or Books(), runs, pipeline).select([question], selection, release=release)
    return only


ALL = Selection()
FAILED = LedgerRow((failed(fingerprint="f7", category=Category.TRANSIENT),))
SELECTIONS: list[tuple[Selection, bool]] = [
    (ALL, True),
    (Selection(pattern={"body": {"tenantId": ["a"]}}), True),
    (Selection(pattern={"body": {"tenantId": ["b"]}}), False),
    (Selection(ids=("c2",)), True),
    (Selection(ids=("o1",)), True),
    (Selection(ids=("m7",)), False),
    (Selection(fingerprints=("f7",)), True),
    (Selection(fingerprints=("f8",)), False),
    (Selection(tenants=("z", "a")), True),
    (Selection(tenants=("z",)), False),
    (Selection(reasons=(Reason.POISON,)), True),
    (Selection(reasons=(Reason.CRASH,)), False),
    (Selection(since=int(SENT_MS) / 1000), True),
    (Selection(since=int(SENT_MS) / 1000 + 1), False),
    (Selection(until=int(SENT_MS) / 1000), False),
    (Selection(until=int(SENT_MS) / 1000 + 1), True),
    (Selection(where="tenantId == 'a'"), True),
    (Selection(where="tenantId == 'b'"), False),
    # A text is not true, though it is not empty.
    (Selection(where="tenantId"), False),
    (Selection(ids=("c2",), tenants=("z",)), False),
    (Selection(groups=("g1",)), True),
    (Selection(groups=("g2",)), False),
    # The run takes groups wholly.
    (Selection(groups=("g1",), tenants=("z",)), True),
]


@each_row(("selection", "chosen"), SELECTIONS, ids=lambda value: "")
def test_a_selection_takes_what_all_its_fields_allow(selection: Selection, chosen: bool) -> None:
    stamp = replace(SENT, run=None, reason="POISON")
    mail = stamped(stamp, message_id="c2")
    mail = replace(mail, system={**mail.system, "MessageGroupId": "g1"})
    assert picks(mail, selection, Books(rows_={"o1": FAILED})).chosen is chosen


def test_an_unreadable_body_is_in_no_selection_by_its_content() -> None:
    assert not picks(letter("{"), Selection(where="tenantId == 'a'")).chosen
    assert picks(letter("{"), ALL).chosen


@pytest.mark.parametrize(
    "selection", [Selection(where="a b"), Selection(pattern={"body": {"a": 5}})]
)
def test_an_invalid_selection_is_refused_and_named(selection: Selection) -> None:
    with pytest.raises(BadSettings, match=r"where|pattern"):
        picks(letter(), selection)


@pytest.mark.parametrize("name", ["reasons", "include"])
def test_a_selection_with_a_reason_that_does_not_exist_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(BadSettings, match=f"{name} has no 'BORING'; allowed are QUARANTINED"):
        selection_from_data({name: ["POISON", "BORING"]})


def test_a_pick_says_what_the_run_needs_to_know() -> None:
    row = replace(FAILED, attempt=4, recovered_at=NOW)
    mail = stamped(replace(SENT, run=None), message_id="c2")
    assert picks(mail, ALL, Books(rows_={"o1": row})) == Pick(
        message_id="c2",
        chosen=True,
        stamp=replace(SENT, run=None, attempt=4),
        key="",
        sequence=f"200{SENT_MS}.{0:039d}",
        cause="f7",
        category="transient",
        tenant="a",
        applied=True,
    )
    row = replace(row, recovered_as=Recovery.SUPERSEDED)
    assert not picks(mail, ALL, Books(rows_={"o1": row})).applied


@pytest.mark.parametrize("release", [False, True])
def test_a_body_that_does_not_conform_to_the_schema_is_left_out(release: bool) -> None:
    def left_out(body: str, books: Books) -> str:
        asked = router(books, schema=JsonSchema({"required": ["tenantId"]}))
        [pick] = asked.select([Question(letter(body))], ALL, release=release)
        return pick.left_out

    assert left_out('{"tenantId": "a"}', Books()) == ""
    assert left_out('{"tenant": "a"}', Books()) == "SCHEMA"
    assert left_out("{", Books()) == ("SCHEMA" if release else "MALFORMED")
    parked = Books(rows_={"m1": PERMANENTLY})
    assert left_out('{"tenant": "a"}', parked) == ("SCHEMA" if release else "PERMANENT")


@pytest.mark.parametrize("body", ['{"tenant": "a"}', "{"])
def test_where_every_reason_is_included_no_letter_is_left_out(body: str) -> None:
    """As for letters that are to be forgotten, whatever they look like."""
    asked = router(Books(), schema=JsonSchema({"required": ["tenantId"]}))
    [pick] = asked.select([Question(letter(body))], Selection(include=tuple(Reason)), release=False)
    assert (pick.chosen, pick.left_out) == (True, "")


def test_letters_that_automation_parks_are_left_out_with_the_reason() -> None:
    books = Books(rows_={"m1": PERMANENTLY})
    assert picks(letter(), ALL, books).left_out == "PERMANENT"
    assert picks(letter(), Selection(include=(Reason.POISON,)), books).left_out == "PERMANENT"
    assert picks(letter(), Selection(include=(Reason.PERMANENT,)), books).left_out == ""
    assert picks(letter(), ALL, books, release=True).left_out == ""


TOO_OLD = replace(SENT, run=None, ticket=None, first_sent=int((NOW - 13 * DAY) * 1000))


@each_row(
    ("mail", "release", "left_out"),
    [
        (stamped(TOO_OLD, message_id="c2"), False, "EXPIRED"),
        (stamped(replace(TOO_OLD, reason="EXPIRED"), message_id="c2"), True, "EXPIRED"),
        # It was given up in time, and has waited for a person since.
        (stamped(replace(TOO_OLD, reason="POISON"), message_id="c2"), True, ""),
        (letter(f'{{"until": {NOW - 1}}}'), False, "EXPIRED"),
        (letter(f'{{"until": {NOW - 1}}}'), True, "EXPIRED"),
        (letter(f'{{"until": {NOW + 1}}}'), False, ""),
        (letter('{"until": 3600}'), True, ""),
    ],
)
def test_an_expired_letter_joins_no_run_whatever_is_included(
    mail: Letter, release: bool, left_out: str
) -> None:
    pipeline = replace(PIPELINE, expires="body.until", message_ttl=12 * DAY)
    for selection in (ALL, Selection(include=(Reason.EXPIRED, Reason.POISON, Reason.CRASH))):
        pick = picks(mail, selection, pipeline=pipeline, release=release)
        assert pick.left_out == left_out
    everything = Selection(include=tuple(Reason))
    assert picks(mail, everything, pipeline=pipeline, release=release).left_out == ""


def test_a_run_sends_no_letter_past_its_own_expiry() -> None:
    pipeline = replace(PIPELINE, expires="body.until")
    for until, parks in ((NOW - 1, True), (NOW, True), (NOW + 1, False), ("true", False)):
        asked = Question(letter(f'{{"until": {until}}}'), stamp=TAKEN, replay=True)
        [said] = router(Books(), pipeline=pipeline).decide([asked]).verdicts
        assert (said.decision == Park(Reason.EXPIRED, "past its own expiry")) is parks
        assert said.undated == (until == "true")
        assert answer_from_json(answer_to_json(RouterAnswer((said,)))).verdicts == (said,)


def test_an_included_reason_does_not_hide_another() -> None:
    poison = tuple(failed(attempt=life) for life in range(4))
    row = LedgerRow((*poison, failed(attempt=4, category=Category.SCHEMA)))
    include = Selection(include=(Reason.PERMANENT,))
    assert picks(letter(), include, Books(rows_={"m1": row})).left_out == "POISON"


def test_a_letter_that_waits_is_not_left_out() -> None:
    assert picks(letter(), ALL, Books(open_={"orders"})).left_out == ""
    assert picks(letter(), ALL, Books([rule("h", "HOLD")])).left_out == ""


def test_a_letter_of_another_live_run_is_not_chosen() -> None:
    runs = Runs(frozenset({"c2"}))
    assert not picks(returned(), ALL, runs=runs).chosen
    assert picks(returned(), ALL, runs=Runs()).left_out == "RUN_FAILED"


def test_a_letter_that_was_given_up_goes_back_to_no_run() -> None:
    """Its consumer may have parked it in a live run, which has not read that outcome yet."""
    runs = Runs(frozenset({"c2"}))
    assert picks(returned(), ALL, runs=runs, release=True).chosen
    assert runs.asked == []


def test_groups_are_ordering_keys_on_fifo_queues_only() -> None:
    mail = letter(MessageGroupId="g1", SequenceNumber="18870000000000000001")
    pick = picks(mail, ALL, pipeline=FIFO)
    assert (pick.key, pick.sequence) == ("g1", f"200{SENT_MS}.{18870000000000000001:039d}")
    assert picks(mail, ALL).key == ""


def test_letters_sent_in_the_same_millisecond_are_in_order_of_their_sequence_number() -> None:
    sequences = [
        picks(letter(MessageGroupId="g", SequenceNumber=number), ALL, pipeline=FIFO).sequence
        for number in ("9", "10", "18870000000000000001")
    ]
    assert sequences == sorted(sequences)


def test_a_letter_with_an_unreadable_row_gets_no_pick() -> None:
    books = Books(rows_={"m1": LedgerRow(unreadable=True)})
    assert router(books).select([Question(letter())], ALL) == ()


def test_only_one_pick_on_a_letter_that_was_asked_about_counts() -> None:
    first, second, other = (Pick(message_id=name, chosen=True, stamp=SENT) for name in "aab")
    assert usable([first, second, other], ["a", "b"]) == {"b": other}
    assert usable([other], ["a"]) == {}


# The JSON between redriver and router.


@given(letters, any_stamps)
def test_the_question_about_a_replayed_letter_survives_the_wire(mail: Letter, mark: Stamp) -> None:
    question = Question(mail, replay=True, stamp=mark)
    assert question_from_json(json.loads(json.dumps(question_to_json(question)))) == question


def test_a_question_with_a_malformed_stamp_is_refused() -> None:
    with pytest.raises(NotALetter, match="stamp"):
        question_from_json({**question_to_json(replayed()), "stamp": {"attempt": 1}})


@pytest.mark.parametrize("release", [False, True])
def test_picks_survive_the_wire(release: bool) -> None:
    books = Books(rows_={"o1": PERMANENTLY})
    questions = [Question(returned()), Question(letter(message_id="m2"))]
    selection = Selection(
        pattern={"body": {"tenantId": ["a"]}},
        ids=("m2",),
        reasons=(),
        include=(Reason.PERMANENT,),
        until=NOW,
    )
    expected = router(books).select(questions, selection, release=release)
    event = json.loads(json.dumps(selection_request(questions, selection, release=release)))
    answer = json.loads(json.dumps(answer_event(router(books), event)))
    assert picks_from_json(answer) == expected
    assert [pick.chosen for pick in expected] == [False, True]


@each_row("answer", [None, [], {}, {"picks": None}, {"errorMessage": "x"}])
def test_an_answer_without_picks_is_no_answer(answer: Any) -> None:
    with pytest.raises(RouterUnavailable):
        picks_from_json(answer)


@each_row(
    "damage",
    [{"stamp": None}, {"stamp": {}}, {"message_id": 5}, {"key": None}, {"sequence": 7}],
)
def test_a_pick_that_cannot_be_understood_is_left_out(damage: dict[str, Any]) -> None:
    [data] = picks_to_json([Pick(message_id="a", chosen=True, stamp=SENT)])["picks"]
    assert picks_from_json({"picks": [{**data, **damage}, None, data]}) == picks_from_json(
        {"picks": [data]}
    )


def test_only_true_is_chosen() -> None:
    [data] = picks_to_json([Pick(message_id="a", chosen=True, stamp=SENT)])["picks"]
    [pick] = picks_from_json({"picks": [{**data, "chosen": "yes"}]})
    assert not pick.chosen


@each_row("rule", ["stop", None])
def test_a_pick_names_the_rule_that_leaves_it_out(rule: str | None) -> None:
    pick = Pick(message_id="a", chosen=True, stamp=SENT, left_out="QUARANTINED", rule=rule)
    answer = picks_to_json([pick])
    assert picks_from_json(answer) == (pick,)
    del answer["picks"][0]["rule"]  # A router of the version before.
    assert picks_from_json(answer) == (replace(pick, rule=None),)
