"""The claim on one shard of a lane: one worker has it, and what it may have sent is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from deadletter.aws.journal import DynamoDBJournal
from deadletter.contract import ROWS_KEPT
from deadletter.redrive.journal import NOT_ON_RECORD, ROOM, Intent, Plan, Slot, key_of
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.lane_claim import ClaimedLetters, LaneClaim, lane_slot, numbered
from deadletter.testing.clock import START, Clock
from deadletter.testing.fakes import MemoryDynamoDB
from tests.tables import LETTERS, create_messages_table

SLOT = lane_slot("run:r", 3)
SECONDS = 15.0


@dataclass
class Shard:
    """A shard of a lane, and the journal of its pipeline."""

    clock: Clock = field(default_factory=Clock)
    reads: int = 0

    def __post_init__(self) -> None:
        dynamodb: Any = MemoryDynamoDB(self.clock)
        create_messages_table(dynamodb)
        self.journal = DynamoDBJournal(dynamodb, LETTERS, "orders", ROWS_KEPT)

    def claim(self, owner: str = "ann", seconds: float = SECONDS) -> LaneClaim:
        shard = self

        class Counted(KnownIntents):
            def fresh(self) -> Any:
                shard.reads += 1
                return super().fresh()

        return LaneClaim(
            journal=self.journal,
            known=Counted(self.journal, self.clock),
            name=SLOT,
            owner=numbered(owner),
            clock=self.clock,
            ends=lambda: self.clock() + seconds,
        )

    @property
    def intents(self) -> dict[str, Intent]:
        return {intent.slot: intent for intent in self.journal.read()}


def take(claim: LaneClaim, *copies: str, known_at: float = START) -> ClaimedLetters:
    claimed = claim.take(copies, known_at)
    assert claimed is not None
    return claimed


def test_an_intent_names_its_letters_and_ends_when_its_worker_has_to() -> None:
    shard = Shard()
    claimed = take(shard.claim(seconds=40.0), "a", "b")
    assert claimed.expires == START + 40.0
    # Its own intent is no reason to leave them.
    assert claimed.is_free("a")
    intent = shard.intents[SLOT]
    assert (intent.slot, intent.expires) == ("room:run:r:3", START + 40.0)
    assert [plan.key for plan in intent.plans] == [key_of("a"), key_of("b")]


def test_a_shard_is_free_when_its_worker_has_given_it_up() -> None:
    shard = Shard()
    claim = shard.claim()
    claim.hold(take(claim, "a"))
    assert shard.claim("bob").take(["a"], START) is None
    claim.close()
    assert shard.intents == {}
    assert shard.claim("bob").take(["a"], START) is not None


def test_a_worker_that_closes_without_a_slot_leaves_the_intent_that_stands() -> None:
    shard = Shard()
    claim = shard.claim()
    take(claim, "a")
    claim.close()
    assert list(shard.intents) == [SLOT]


def test_a_shard_of_a_worker_that_is_gone_is_taken_when_its_last_send_can_be_marked_no_more() -> (
    None
):
    shard = Shard()
    take(shard.claim(), "a").slot.mark(["a"])
    shard.clock.advance(29.9)
    assert shard.claim("bob").take(["b"], shard.clock()) is None
    shard.clock.advance(0.1)
    claimed = take(shard.claim("bob"), "a", "b", known_at=shard.clock())
    intents = shard.intents
    assert set(intents) == {SLOT, f"{SLOT}~ann.1.1"}
    assert intents[SLOT].owner == "bob.1"
    # What it had marked is known to each that comes after it.
    assert claimed.records["a"].mark is not None
    assert claimed.records["b"] == NOT_ON_RECORD


def test_a_worker_that_was_paused_too_long_has_lost_its_shard() -> None:
    shard = Shard()
    ann = shard.claim()
    ann.hold(take(ann, "a"))
    shard.clock.advance(30.0)
    take(shard.claim("bob"), "b", known_at=shard.clock())
    assert ann.take(["a"], START) is None
    assert shard.intents[SLOT].owner == "bob.1"
    # It has given up the slot: what it takes next is a claim of its own.
    shard.clock.advance(30.0)
    take(ann, "a", known_at=shard.clock())
    assert shard.intents[SLOT].owner == "ann.2"


def test_of_two_workers_that_claim_at_once_one_has_the_shard() -> None:
    shard = Shard()
    late = shard.claim()
    fresh = late._known.fresh

    def overtaken() -> Any:
        reading = fresh()
        if not shard.intents:
            take(shard.claim("bob"), "b")
        return reading

    late._known.fresh = overtaken  # type: ignore[method-assign]
    assert late.take(["a"], START) is None
    assert shard.intents[SLOT].owner == "bob.1"


def test_a_shard_that_is_held_is_read_anew_only_for_what_was_learned_since() -> None:
    shard = Shard()
    claim = shard.claim()
    claim.hold(take(claim, "a"))
    # Once before the claim, and once behind it: another may have worked in the shard until then.
    assert shard.reads == 2
    claim.hold(take(claim, "b", known_at=START))
    assert shard.reads == 2
    shard.clock.advance(1.0)
    claim.hold(take(claim, "c", known_at=START + 1.0))
    assert shard.reads == 3


def test_a_letter_that_may_still_be_in_its_queue_stays_on_record() -> None:
    """The intent that put it in was never marked: who empties the queue has to see our mark."""
    shard = Shard()
    into = Slot(shard.journal, "run.0", "run", home="dlq")
    into.intend([Plan(key_of(copy), ROOM, 0) for copy in "ab"], START - 100)
    into.mark(["b"])
    claim = shard.claim()
    claim.hold(take(claim, "a", "b"))
    claim.close()
    kept = shard.intents[f"{SLOT}~ann.1.1"]
    assert kept.packed.keys() == [key_of("a")]


def test_a_letter_that_another_worker_may_be_sending_is_not_free() -> None:
    shard = Shard()
    Slot(shard.journal, f"{SLOT}~bob.1", "bob").intend([Plan(key_of("a"), "", 0)], START + 60)
    claimed = take(shard.claim(), "a", "b")
    assert [claimed.is_free(copy) for copy in "ab"] == [False, True]
