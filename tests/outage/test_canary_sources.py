"""What a canary's result is, by what the consumer's function returned."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from deadletter.circuit.transitions import CanaryVerdict
from deadletter.message.confirmation import Confirmation
from deadletter.outage.canaries import Canary, CanaryResult, CanarySetup, judge_answer
from deadletter.redrive.journal import Intent, Journal, JournalUnavailable, OpenIntents, key_of
from deadletter.redrive.known_intents import KnownIntents
from deadletter.settings.pipeline import Pipeline
from tests.each_row import each_row
from tests.samples import NOW, letter, received

FAILED = {"batchItemFailures": [{"itemIdentifier": "m1"}]}
NONE_FAILED: dict[str, Any] = {"batchItemFailures": []}


@each_row(
    ("answer", "verdict", "is_processed"),
    [
        (NONE_FAILED, CanaryVerdict.SUCCESS, True),
        (FAILED, CanaryVerdict.FAILURE, False),
        # An unknown id means the whole batch, as Lambda reads it.
        ({"batchItemFailures": [{"itemIdentifier": "other"}]}, CanaryVerdict.FAILURE, False),
        ({"batchItemFailures": [None]}, CanaryVerdict.FAILURE, False),
        ({"batchItemFailures": "m1"}, CanaryVerdict.FAILURE, False),
        ({"batchItemFailures": None}, CanaryVerdict.SUCCESS, True),
        # A consumer that does not report failures returns anything at all.
        (None, CanaryVerdict.SUCCESS, True),
        ("done", CanaryVerdict.SUCCESS, True),
        ([1, 2], CanaryVerdict.SUCCESS, True),
        ({"deadletter": "success"}, CanaryVerdict.SUCCESS, True),
    ],
)
def test_an_answer_without_the_library_is_judged_by_its_failures(
    answer: object, verdict: CanaryVerdict, is_processed: bool
) -> None:
    result = judge_answer(json.dumps(answer).encode(), "m1", "orders")
    assert result.verdict is verdict
    assert (result.proof is not None) == is_processed


@each_row("key", ["orders", "orders#config", "dependency/bank", "endpoint-7"])
@each_row("word", ["success", "failure", "neutral"])
@each_row("answer", [NONE_FAILED, FAILED])
def test_the_word_on_the_probed_circuit_counts_and_the_failures_say_whether_to_delete(
    answer: dict[str, Any], word: str, key: str
) -> None:
    """A handler may fail after its call has succeeded, or go on after its call has failed."""
    opposite = "failure" if word == "success" else "success"
    details = {"circuits": {key: word, "another": opposite}}
    payload = json.dumps({**answer, "deadletter": details}).encode()
    result = judge_answer(payload, "m1", key)
    assert result.verdict == word
    assert (result.proof is not None) is (answer is NONE_FAILED)


@pytest.mark.parametrize("circuits", [{}, {"another": "neutral"}, {"orders": 7}, {"orders": "?"}])
def test_about_a_circuit_that_is_not_named_an_answer_says_nothing(circuits: object) -> None:
    details = {"circuits": circuits}
    payload = json.dumps({**FAILED, "deadletter": details}).encode()
    assert judge_answer(payload, "m1", "orders").verdict is CanaryVerdict.NEUTRAL


@pytest.mark.parametrize("word", ["success", "failure"])
def test_an_answer_about_another_circuit_alone_is_evidence_elsewhere(word: str) -> None:
    details = {"circuits": {"another": word, "third": "neutral"}}
    payload = json.dumps({**FAILED, "deadletter": details}).encode()
    assert judge_answer(payload, "m1", "orders").verdict is CanaryVerdict.ELSEWHERE


def test_an_empty_payload_is_a_success() -> None:
    assert judge_answer(b"", "m1", "orders").verdict is CanaryVerdict.SUCCESS


@pytest.mark.parametrize("payload", [b"{", b"\xff", b"[" * 100_000])
def test_a_payload_that_is_not_json_is_a_failure(payload: bytes) -> None:
    result = judge_answer(payload, "m1", "orders")
    assert result.verdict is CanaryVerdict.FAILURE
    assert result.proof is None


def test_the_confirmation_is_for_the_letter_that_was_sent() -> None:
    proof = judge_answer(b"null", "m1", "orders").proof
    assert proof is not None
    assert proof.copy == "m1"


# What a dead letter's queue is told after the answer.

ASIDE = 180
"""Three of the longest cooldowns, in seconds."""


@dataclass
class Told:
    """A queue that keeps what it is told of handles."""

    hidden: list[tuple[str, int]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    deletes: bool = True

    def hide(self, waits: Any) -> int:
        self.hidden += waits
        return 0

    def make_visible(self, handles: Any) -> None:
        self.hidden += [(handle, 0) for handle in handles]

    def delete(self, letters: Any) -> Any:
        if not self.deletes:
            return [taken for taken, _ in letters]
        self.deleted += [taken.handle for taken, _ in letters]
        return []


@dataclass
class MemoryJournal:
    """The intents on record, by slot; the next calls of `down` get no answer."""

    held: dict[str, Intent] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)

    def _answers(self, call: str) -> None:
        if call in self.down:
            raise JournalUnavailable(call)

    def read(self) -> list[Intent]:
        return list(self.held.values())

    def write(self, intent: Intent, replacing: Intent | None) -> None:
        self._answers("write")
        self.held[intent.slot] = intent

    def mark(self, intent: Intent) -> None:
        self._answers("mark")
        self.held[intent.slot] = intent

    def erase(self, intent: Intent) -> None:
        self._answers("erase")
        self.held.pop(intent.slot, None)

    def merge(self, parts: Any, into: Any) -> None:
        self._answers("merge")
        for part in parts:
            self.held.pop(part.slot, None)
        if into is not None:
            self.held[into.slot] = into


def canary_setup(journal: Journal, **changes: Any) -> CanarySetup:
    """What canaries of the pipeline `orders` are given, but for what it must not use."""
    nothing: Any = None
    clock = changes.get("clock", lambda: NOW)
    setup: dict[str, Any] = {
        "pipeline": Pipeline("orders", message_ttl=3_600.0),
        "dlq_arn": "arn:dlq",
        "main_arn": "arn:main",
        "router": nothing,
        "room": nothing,
        "journal": journal,
        "known": KnownIntents(journal, clock),
        "mover_for": nothing,
        "owner": lambda: "me",
        "clock": clock,
        "random": nothing,
        "count_metric": lambda *_: None,
    }
    return CanarySetup(**{**setup, **changes})


def dead_letter(
    queue: Told, *, fifo: bool = False, journal: MemoryJournal | None = None, **changes: Any
) -> Canary:
    """A letter of the DLQ that is on record."""
    any_queue: Any = queue
    setup = canary_setup(
        journal or MemoryJournal(), pipeline=Pipeline("orders", fifo=fifo), **changes
    )
    message = received(letter())
    canary = Canary(setup, message, "arn:dlq", setup.slot_for(message), queue=any_queue)
    assert canary.record()
    return canary


@pytest.mark.parametrize(("fifo", "seconds"), [(False, 180), (True, 0)])
def test_a_dead_letter_that_failed_rests_but_never_hides_its_fifo_group(
    fifo: bool, seconds: int
) -> None:
    """SQS gives no later letter of a group while one of it is hidden."""
    queue = Told()
    assert not dead_letter(queue, fifo=fifo).settle(CanaryResult(CanaryVerdict.FAILURE))
    assert queue == Told(hidden=[("handle of m1", seconds)])


@pytest.mark.parametrize("verdict", [CanaryVerdict.NEUTRAL, CanaryVerdict.NO_ANSWER])
def test_a_letter_that_may_be_at_work_or_says_nothing_stays_locked(verdict: CanaryVerdict) -> None:
    queue = Told()
    assert not dead_letter(queue).settle(CanaryResult(verdict))
    assert queue == Told()


@pytest.mark.parametrize("verdict", [CanaryVerdict.SUCCESS, CanaryVerdict.NEUTRAL])
def test_a_letter_that_was_processed_is_deleted(verdict: CanaryVerdict) -> None:
    queue = Told()
    processed = CanaryResult(verdict, Confirmation("m1", "consumer"))
    assert dead_letter(queue, fifo=True).settle(processed)
    assert queue == Told(deleted=["handle of m1"])


# What the journal says of a dead letter that the consumer was given.

PROCESSED = CanaryResult(CanaryVerdict.SUCCESS, Confirmation("m1", "consumer"))
LONG_AFTER = 2e10


def test_the_intent_stands_before_the_consumer_is_called_and_names_the_queue() -> None:
    journal = MemoryJournal()
    dead_letter(Told(), journal=journal)
    [intent] = journal.read()
    assert [plan.key for plan in intent.plans] == [key_of("m1")]
    assert intent.expires == received(letter()).locked_until
    assert intent.home == received(letter()).home
    assert OpenIntents([intent], 0).record_of("m1").is_busy


@pytest.mark.parametrize(
    "result", [PROCESSED, *map(CanaryResult, (CanaryVerdict.FAILURE, CanaryVerdict.NEUTRAL))]
)
def test_an_answered_letter_leaves_nothing_in_the_journal(result: CanaryResult) -> None:
    journal = MemoryJournal()
    dead_letter(Told(), journal=journal).settle(result)
    assert journal.held == {}


def test_a_letter_without_an_answer_is_unknown_to_later_runs() -> None:
    journal = MemoryJournal()
    canary = dead_letter(Told(), journal=journal)
    canary.settle(CanaryResult(CanaryVerdict.NO_ANSWER))
    later = OpenIntents(journal.read(), LONG_AFTER).record_of("m1")
    assert later.maybe_sent
    # Its prober has lived to say so.
    assert later.had_no_answer


def test_a_processed_letter_that_could_not_be_deleted_is_only_deleted_later() -> None:
    journal = MemoryJournal()
    canary = dead_letter(Told(deletes=False), journal=journal)
    assert not canary.settle(PROCESSED)
    assert OpenIntents(journal.read(), LONG_AFTER).record_of("m1").mark is not None


def test_a_delete_after_the_locks_end_is_not_believed() -> None:
    """SQS accepts an old handle when another has received the letter, and keeps it."""
    journal, late = MemoryJournal(), received(letter()).locked_until - 5
    canary = dead_letter(Told(), journal=journal, clock=lambda: late)
    assert not canary.settle(PROCESSED)
    assert OpenIntents(journal.read(), LONG_AFTER).record_of("m1").mark is not None


@pytest.mark.parametrize("give_back", [True, False])
def test_a_letter_that_an_intent_still_names_keeps_its_lock(give_back: bool) -> None:
    queue, journal = Told(), MemoryJournal()
    canary = dead_letter(queue, journal=journal)
    journal.down = {"erase"}
    if give_back:
        canary.give_back()
    else:
        canary.settle(CanaryResult(CanaryVerdict.FAILURE))
    assert queue == Told()
    assert OpenIntents(journal.read(), 0).record_of("m1").is_busy


@pytest.mark.parametrize("down", [{"mark"}, {"erase"}, {"mark", "erase"}])
def test_a_journal_that_fails_keeps_no_processed_letter_from_being_deleted(down: set[str]) -> None:
    queue = Told()
    canary = dead_letter(queue, journal=MemoryJournal(down=down))
    assert canary.settle(PROCESSED)
    assert queue.deleted == ["handle of m1"]


def test_a_letter_that_cannot_be_put_on_record_raises() -> None:
    with pytest.raises(JournalUnavailable):
        dead_letter(Told(), journal=MemoryJournal(down={"write"}))
