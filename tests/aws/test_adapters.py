"""Our adapters keep their ports' promises on every backend."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.lease import DynamoDBLease, memory_of, read_last_run
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.queue import SqsQueue
from deadletter.aws.waiting_room import DynamoDBLanes, DynamoDBWaitingRoom
from deadletter.aws.watch_store import DynamoDBWatchStore
from deadletter.contract import DAY, END_OF_TIME, PARKED_LANE, ROWS_KEPT, Partition, run_lane
from deadletter.failure.ledger import RuleCounts
from deadletter.message.confirmation import Confirmation
from deadletter.message.envelope import Envelope, QueueTraits, seal
from deadletter.message.letter import Attribute, Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.pace.auto_rate import AutoRate, Direction
from deadletter.pace.lane import LanePaid
from deadletter.pace.run import RunPaid, rate_of
from deadletter.redrive.journal import (
    MAX_STANDING_PLANS,
    ClaimLost,
    Intent,
    Plan,
    key_of,
    merged,
)
from deadletter.redrive.order import Order
from deadletter.redrive.report import Report
from deadletter.redrive.round_robin import LastTurn
from deadletter.redrive.source_memory import NO_DRAIN, UNKNOWN, Drain, SourceMemory
from deadletter.redrive.waiting_room import (
    FOREVER,
    SHARDS,
    Lane,
    LaneCount,
    LaneLook,
    WaitingRoomEntry,
    never,
)
from deadletter.routing.decision import DUE, Hold
from tests.aws.backends import Aws
from tests.each_row import each_row
from tests.tables import LETTERS, create_messages_table, waiting_room

BUCKET = "letters-of-the-contract"


@pytest.fixture
def letters(aws: Aws) -> Aws:
    """An account with the messages table."""
    create_messages_table(aws.dynamodb)
    return aws


@pytest.fixture
def room(letters: Aws) -> DynamoDBWaitingRoom:
    return room_of(letters, fifo=False)


@pytest.fixture
def fifo_room(letters: Aws) -> DynamoDBWaitingRoom:
    return room_of(letters, fifo=True)


@pytest.fixture
def journal(letters: Aws) -> DynamoDBJournal:
    return DynamoDBJournal(letters.dynamodb, LETTERS, "orders", 100)


@pytest.fixture
def lease(letters: Aws) -> DynamoDBLease:
    """Of the DLQ's runs, at ten messages a second."""
    return DynamoDBLease(letters.dynamodb, LETTERS, "orders", "dlq", 10.0)


def room_of(letters: Aws, *, fifo: bool) -> DynamoDBWaitingRoom:
    letters.s3.create_bucket(
        Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    return waiting_room(letters, bucket=BUCKET, fifo=fifo)


def intent(sequence: int = 1, owner: str = "me", copies: tuple[str, ...] = ("a", "b")) -> Intent:
    plans = tuple(Plan(key_of(copy), "main", 1) for copy in copies)
    return Intent("slot", owner, sequence, 1_800_000_100.0, plans)


def outgoing(copy: str, body: str = "{}") -> Envelope:
    letter = Letter(copy, body, {"n": Attribute("Number.int", "1")}, {})
    return seal(letter, Stamp(copy, 1, 5), QueueTraits())


class TestQueue:
    def test_what_is_sent_is_confirmed_with_its_new_id_and_arrives_whole(self, aws: Aws) -> None:
        queue = SqsQueue(aws.sqs, aws.queue(), aws.clock)
        sending = queue.send([outgoing("a"), outgoing("b", '{"ž": "\\n"}')])
        assert set(sending.confirmed) == {"a", "b"}
        assert not sending.refused
        assert not sending.unknown
        taken = {letter.letter.message_id: letter.letter for letter in queue.receive(10, 30, 1)}
        for copy, proof in sending.confirmed.items():
            assert proof.new_id is not None
            assert taken[proof.new_id].attributes["Redrive"].data_type == "String"
            assert f'"origin":"{copy}"' in str(taken[proof.new_id].attributes["Redrive"].value)

    def test_a_letter_is_locked_until_it_is_released(self, aws: Aws) -> None:
        queue = SqsQueue(aws.sqs, aws.queue(), aws.clock)
        queue.send([outgoing("a")])
        before = aws.clock()
        taken = queue.receive(10, 60, 1)
        assert len(taken) == 1
        assert before + 60 <= taken[0].locked_until <= aws.clock() + 60
        assert queue.receive(10, 60, 0) == []
        queue.make_visible([message.handle for message in taken])
        assert len(queue.receive(10, 60, 1)) == 1

    def test_hidden_messages_come_back_each_in_its_own_time(self, aws: Aws) -> None:
        queue = SqsQueue(aws.sqs, aws.queue(), aws.clock)
        queue.send([outgoing(str(number)) for number in range(10)])
        queue.send([outgoing("last")])
        taken = [*queue.receive(10, 60, 1), *queue.receive(10, 60, 1)]
        assert len(taken) == 11
        first, *others = [message.handle for message in taken]
        # Eleven are two calls, and one that fails costs no other.
        waits = [(first, 0), *((handle, 30) for handle in others)]
        assert queue.hide([*waits, ("no handle", 30)]) == 1
        assert len(queue.receive(10, 60, 1)) == 1
        assert SqsQueue(aws.sqs, aws.queue() + "x", aws.clock).hide(waits) == 11

    def test_a_deleted_letter_is_gone_and_a_strange_proof_deletes_nothing(self, aws: Aws) -> None:
        queue = SqsQueue(aws.sqs, aws.queue(), aws.clock)
        queue.send([outgoing("a")])
        [taken] = queue.receive(10, 60, 1)
        with pytest.raises(ValueError, match="not for this message"):
            queue.delete([(taken, Confirmation("somebody-else", "test"))])
        assert queue.delete([(taken, Confirmation(taken.letter.message_id, "test"))]) == []
        assert queue.depth().total == 0

    def test_a_queue_that_is_not_there_refuses_every_letter(self, aws: Aws) -> None:
        missing = aws.queue().replace("orders", "nowhere")
        sending = SqsQueue(aws.sqs, missing, aws.clock).send([outgoing("a")])
        assert sending.confirmed == {}
        assert set(sending.refused) | sending.unknown == {"a"}


class TestJournal:
    def test_an_intent_is_read_as_it_was_written(self, journal: DynamoDBJournal) -> None:
        copies = ("5b1e7c3a-7f54-4c7b-9f0e-6a1d2c3b4a59", "no-uuid-at-all")
        journal.write(intent(copies=copies), None)
        assert journal.read() == [intent(copies=copies)]

    def test_writing_the_same_intent_twice_is_writing_it_once(
        self, journal: DynamoDBJournal
    ) -> None:
        """What the SDK does when the answer to its first try was lost."""
        journal.write(intent(), None)
        journal.write(intent(), None)
        journal.write(intent(2), intent())
        journal.write(intent(2), intent())
        assert journal.read() == [intent(2)]

    def test_a_slot_that_is_anothers_is_not_overwritten(self, journal: DynamoDBJournal) -> None:
        journal.write(intent(owner="somebody"), None)
        with pytest.raises(ClaimLost):
            journal.write(intent(), None)
        with pytest.raises(ClaimLost):
            journal.mark(intent().marked(["a"]))
        journal.erase(intent())
        assert journal.read() == [intent(owner="somebody")]

    def test_marks_are_kept_and_an_erased_intent_is_gone(self, journal: DynamoDBJournal) -> None:
        journal.write(intent(), None)
        marked = intent().marked(["b"])
        journal.mark(marked)
        assert journal.read() == [marked]
        journal.erase(marked)
        journal.erase(marked)
        assert journal.read() == []

    def test_an_abandoned_intent_outlives_every_letter_of_it(self, letters: Aws) -> None:
        """SQS keeps a message for 14 days at most, and each queue that it passes starts anew."""
        assert ROWS_KEPT > 3 * 14 * DAY
        journal = DynamoDBJournal(letters.dynamodb, LETTERS, "orders", ROWS_KEPT)
        journal.write(intent(), None)
        journal.mark(intent().marked(["a"]))
        [item] = letters.dynamodb.scan(TableName=LETTERS)["Items"]
        assert int(item["ttl"]["N"]) == intent().expires + ROWS_KEPT

    def test_new_ids_and_the_queue_of_an_intent_are_read_as_they_were_written(
        self, journal: DynamoDBJournal
    ) -> None:
        new_id = "0e7ea9ae-9b17-4a3e-8c5a-4f4e4f1bb1a1"
        homely = replace(intent(), home="dlq")
        journal.write(homely, None)
        marked = homely.marked(["b"], {"b": new_id})
        assert list(marked.new_ids.values()) == [new_id]
        journal.mark(marked)
        assert journal.read() == [marked]

    def test_lost_answers_are_read_as_they_were_written(self, journal: DynamoDBJournal) -> None:
        unanswered = intent().marked(["a"]).without_answers()
        assert unanswered.unanswered
        journal.write(unanswered, None)
        assert journal.read() == [unanswered]
        # The answer has come late.
        journal.mark(unanswered.marked(["b"]))
        [read] = journal.read()
        assert read.is_sent(1)

    def test_an_intent_of_an_earlier_version_is_read(
        self, letters: Aws, journal: DynamoDBJournal
    ) -> None:
        """It names no queue, and has no new ids."""
        letters.dynamodb.put_item(
            TableName=LETTERS,
            Item={
                "pk": {"S": "orders#journal"},
                "sk": {"S": "run7.0.2"},
                "own": {"S": "run7"},
                "seq": {"N": "3"},
                "expires": {"N": "1000"},
                "targets": {"L": [{"S": "main"}, {"S": "room"}]},
                "plans": {"B": key_of("a") + b"\x01\x02" + key_of("b") + b"\x00\x01"},
                "sent": {"B": b"\x02"},
                "ttl": {"N": "1100"},
            },
        )
        plans = (Plan(key_of("a"), "room", 2), Plan(key_of("b"), "main", 1))
        assert journal.read() == [Intent("run7.0.2", "run7", 3, 1000.0, plans, 0b10)]

    @pytest.mark.parametrize(
        "change",
        [{"plans": {"B": b"cut off"}}, {"targets": {"L": []}}, {"own": {"N": "7"}}, {"sent": None}],
    )
    def test_of_a_malformed_item_the_rest_is_read_and_its_slot_is_free(
        self, letters: Aws, change: dict[str, Any]
    ) -> None:
        """It stops no run: a letter that it names is sent again as a possible duplicate."""
        bad_rows: list[str] = []
        journal = DynamoDBJournal(letters.dynamodb, LETTERS, "orders", 100, bad_rows.append)
        journal.write(intent(), None)
        [item] = letters.dynamodb.scan(TableName=LETTERS)["Items"]
        wrong = {name: value for name, value in {**item, **change}.items() if value}
        letters.dynamodb.put_item(TableName=LETTERS, Item=wrong)
        [malformed] = journal.read()
        assert bad_rows == [f"{LETTERS} orders#journal {intent().slot}"]
        assert malformed.expires == intent().expires
        is_lost = "plans" in change or "targets" in change
        assert tuple(malformed.plans) == (() if is_lost else tuple(intent().plans))
        journal.write(replace(intent(), owner="next"), malformed)
        assert [each.owner for each in journal.read()] == ["next"]

    def test_intents_are_merged_in_one_step(self, journal: DynamoDBJournal) -> None:
        parts = [replace(intent(), slot=slot).marked(["a"]) for slot in ("x.0", "x.1")]
        for part in parts:
            journal.write(part, None)
        into = replace(merged(parts), slot="~1.y")
        journal.merge(parts, into)
        assert journal.read() == [into]
        journal.merge([into], None)
        assert journal.read() == []

    @pytest.mark.parametrize(
        "meanwhile",
        [
            lambda journal, part: journal.mark(part.marked(["a"])),
            lambda journal, part: journal.write(replace(part, sequence=9), part),
            lambda journal, part: journal.write(replace(part, owner="heir"), part),
            lambda journal, part: journal.erase(part),
        ],
    )
    def test_nothing_is_merged_when_a_part_has_changed_since_it_was_read(
        self, journal: DynamoDBJournal, meanwhile: Callable[[DynamoDBJournal, Intent], None]
    ) -> None:
        parts = [replace(intent(), slot=slot) for slot in ("x.0", "x.1")]
        for part in parts:
            journal.write(part, None)
        meanwhile(journal, parts[1])
        before = journal.read()
        with pytest.raises(ClaimLost):
            journal.merge(parts, replace(merged(parts), slot="~1.y"))
        assert journal.read() == before

    def test_a_full_merged_intent_fits_into_an_item(self, journal: DynamoDBJournal) -> None:
        copies = [str(UUID(int=number)) for number in range(MAX_STANDING_PLANS)]
        plans = [Plan(key_of(copy), "main", 255) for copy in copies]
        full = Intent("~1.y", "run", 1, 1000, plans, home="dlq")
        full = full.marked(copies, dict(zip(copies, copies, strict=True)))
        journal.write(full, None)
        assert journal.read() == [full]

    def test_a_full_intent_fits_into_two_kilobytes(
        self, letters: Aws, journal: DynamoDBJournal
    ) -> None:
        copies = tuple(f"{number:08x}-7f54-4c7b-9f0e-6a1d2c3b4a59" for number in range(100))
        full = intent(copies=copies).marked(copies)
        journal.write(full, None)
        answer = letters.dynamodb.query(
            TableName=LETTERS,
            KeyConditionExpression="pk = :p",
            ExpressionAttributeValues={":p": {"S": "orders#journal"}},
        )
        [item] = answer["Items"]
        size = sum(len(name) + len(next(iter(value.values()))) for name, value in item.items())
        assert size <= 2_048


class TestWaitingRoom:
    def admission(self, copy: str, body: str = "{}", due: float = 100.0) -> Order:
        taken = ReceivedLetter(
            Letter(copy, body, {"b": Attribute("Binary", b"\x00\xff")}, {}), "h", 0
        )
        return Order(taken, Hold("due", due, "waits"), Stamp(copy, 0, 5))

    def due(self, room: DynamoDBWaitingRoom, until: float) -> list[ReceivedLetter]:
        return [
            taken
            for shard in range(SHARDS)
            for taken in room.read(room.due("due", shard, until, 10), 1e10).letters
        ]

    @pytest.mark.parametrize("body", ["{}", "x" * 300_000])
    def test_a_letter_comes_out_as_it_went_in(self, room: DynamoDBWaitingRoom, body: str) -> None:
        admission = self.admission("a", body)
        assert set(room.admit([admission, self.admission("b")])) == {"a", "b"}
        room.admit([admission])
        found = {taken.letter.message_id: taken for taken in self.due(room, 100)}
        assert found["a"].letter == admission.received.letter
        assert [lane.name for lane in room.lanes()] == ["due"]
        proofs = [
            (taken, Confirmation(taken.letter.message_id, "test")) for taken in found.values()
        ]
        assert room.delete(proofs) == []
        assert self.due(room, 100) == []

    def test_a_letter_whose_body_is_gone_leaves_its_neighbours_alone(
        self, room: DynamoDBWaitingRoom, letters: Aws
    ) -> None:
        room.admit([self.admission("a", "x" * 9_000), self.admission("b")])
        letters.s3.delete_object(Bucket=BUCKET, Key="waiting/orders/a")
        found = [room.read(room.due("due", shard, 100, 10), 1e10) for shard in range(SHARDS)]
        assert [taken.letter.message_id for entry in found for taken in entry.letters] == ["b"]
        assert sum(entry.broken for entry in found) == 1

    def test_a_letter_is_not_seen_before_it_is_due(self, room: DynamoDBWaitingRoom) -> None:
        room.admit([self.admission("a", due=101)])
        assert self.due(room, 100) == []

    def test_a_postponed_letter_changes_its_lane(self, room: DynamoDBWaitingRoom) -> None:
        room.admit([self.admission("a")])
        [taken] = self.due(room, 100)
        room.postpone(Order(taken, Hold("rule:x", 500, "a rule"), Stamp("a", 0, 5)))
        assert self.due(room, 1_000) == []
        assert {lane.name for lane in room.lanes()} == {"due", "rule:x"}

    def test_what_is_in_the_room_is_found_there(self, room: DynamoDBWaitingRoom) -> None:
        one, other = self.admission("a"), self.admission("b")
        room.admit([one])
        assert set(room.find([one.received, other.received])) == {"a"}

    def test_the_letters_of_a_lane_are_counted_over_all_its_shards(
        self, room: DynamoDBWaitingRoom, letters: Aws
    ) -> None:
        room.admit([self.admission(str(number)) for number in range(20)])
        other = replace(self.admission("other"), decision=Hold("rule:x", 500, "a rule"))
        room.admit([other])
        lanes = DynamoDBLanes(letters.dynamodb, LETTERS, "orders")
        assert {lane.name: lanes.count(lane.name) for lane in lanes.lanes()} == {
            "due": LaneCount(20), "rule:x": LaneCount(1),
        }  # fmt: skip
        assert lanes.count("never") == LaneCount(0)

    def test_a_look_at_a_lane_takes_nothing_and_needs_no_bucket(
        self, room: DynamoDBWaitingRoom, letters: Aws
    ) -> None:
        room.admit([self.admission("small"), self.admission("large", "x" * 9_000, due=2)])
        lanes = DynamoDBLanes(letters.dynamodb, LETTERS, "orders")
        # The letters themselves are read only when they are asked for.
        assert [letter.letter for letter in lanes.look("due", 10)] == [None, None]
        looked = lanes.look("due", 10, bodies=True)
        small, large = sorted(looked, key=lambda letter: letter.letter is None)
        assert (small.copy, small.home, small.letter is None) == ("small", "dlq", False)
        assert (large.copy, large.letter) == ("large", None)
        assert large.stamp is not None
        assert len(lanes.look("due", 1)) == 1
        assert lanes.look("rule:x", 10) == []

    def test_rescued_letters_are_kept_by_age_and_no_time_shows_them(
        self, room: DynamoDBWaitingRoom
    ) -> None:
        for copy, sent in (("a", "2000000"), ("b", "1000000")):
            mail = Letter(copy, "{}", {}, {"SentTimestamp": sent})
            taken = ReceivedLetter(mail, "h", 0, "parking:default")
            hold = Hold(PARKED_LANE, never(mail), "rescued")
            room.admit([Order(taken, hold, Stamp(copy, 3, 5, reason="POISON"))])
        shards = range(SHARDS)
        assert not any(room.due(PARKED_LANE, shard, END_OF_TIME, 10) for shard in shards)
        entries = [entry for s in shards for entry in room.due(PARKED_LANE, s, FOREVER, 10)]
        assert [entry.copy for entry in sorted(entries, key=lambda entry: entry.due)] == ["b", "a"]
        [letter] = room.read(entries[:1], 1e10).letters
        assert letter.home == "parking:default"

    def in_run(self, copy: str, shard: int | None = None, group: str | None = None) -> Order:
        system = {} if group is None else {"MessageGroupId": group, "SequenceNumber": copy}
        taken = ReceivedLetter(Letter(copy, "{}", {}, system), "h", 0)
        stamp = Stamp(copy, 2, 5, run="r", decision="HOLD", base=2, spared=3)
        return Order(taken, Hold(run_lane("r"), 7, "run r", shard=shard), stamp)

    def test_a_letter_of_a_run_waits_in_the_shard_of_its_key_until_the_run_takes_it(
        self, room: DynamoDBWaitingRoom
    ) -> None:
        order = self.in_run("a", shard=5)
        room.admit([order])
        assert not any(room.due("run:r", shard, END_OF_TIME - 1, 10) for shard in range(SHARDS))
        entries = [room.due("run:r", shard, FOREVER, 10) for shard in range(SHARDS)]
        assert [shard for shard, found in enumerate(entries) if found] == [5]
        [taken] = room.read(entries[5], 1e10).letters
        assert (taken.stamp, taken.is_rescued, taken.spared) == (order.stamp, False, 3)

    def test_a_waiting_letter_joins_a_run_with_the_stamp_of_the_run(
        self, room: DynamoDBWaitingRoom
    ) -> None:
        room.admit([self.admission("a")])
        [taken] = self.due(room, 100)
        assert taken.stamp is None
        order = replace(self.in_run("a", shard=3), received=taken)
        room.postpone(order)
        assert self.due(room, 1_000) == []
        [taken] = room.read(room.due("run:r", 3, FOREVER, 10), 1e10).letters
        assert taken.stamp == order.stamp

    def test_each_letter_of_a_group_in_a_run_is_read_by_itself(
        self, fifo_room: DynamoDBWaitingRoom
    ) -> None:
        """The manifest has the order of a run's letters, whatever else waits in their group."""
        room = fifo_room
        due = replace(self.in_run("1", group="g"), decision=Hold("due", 100, "waits"))
        room.admit([due, self.in_run("2", 5, "g"), self.in_run("3", 5, "g")])
        first, second = room.due("run:r", 5, FOREVER, 10)
        assert [each.letter.message_id for each in room.read([second], 1e10).letters] == ["3"]
        both = room.read([first, second], 1e10).letters
        assert [each.letter.message_id for each in both] == ["2", "3"]

    def test_large_letters_are_read_ten_at_a_time_side_by_side(
        self, room: DynamoDBWaitingRoom
    ) -> None:
        """Each may have a mebibyte; small ones come along with them."""
        large = [self.in_run(f"{number:02}", shard=5) for number in range(12)]
        bodies = [
            replace(each.received, letter=replace(each.received.letter, body="x" * 9_000))
            for each in large
        ]
        room.admit([replace(each, received=body) for each, body in zip(large, bodies, strict=True)])
        room.admit([self.in_run("small", shard=5)])
        side_by_side: list[int] = []

        def in_parallel(calls: Sequence[Callable[[], Any]]) -> list[Any]:
            side_by_side.append(len(calls))
            return [call() for call in calls]

        entries = room.due("run:r", 5, FOREVER, 20)
        parts = [*room.read_in_parts(entries, 1e10, in_parallel)]
        copies = [received.letter.message_id for part in parts for received in part.letters]
        assert sorted(copies) == sorted(entry.copy for entry in entries)
        sizes = [
            sum(len(received.letter.body) > 100 for received in part.letters) for part in parts
        ]
        assert (sizes, side_by_side) == ([10, 2], [10, 2])

    def waiting_group(self, room: DynamoDBWaitingRoom, *bodies: str) -> list[WaitingRoomEntry]:
        """Letters of one FIFO group, "01" the first, all due."""
        orders = []
        for number, body in enumerate(bodies, start=1):
            system = {"MessageGroupId": "g", "SequenceNumber": f"{number:02}"}
            mail = Letter(f"{number:02}", body, {}, system)
            hold = Hold("due", 100.0, "waits")
            orders.append(Order(ReceivedLetter(mail, "h", 0), hold, Stamp(mail.message_id)))
        room.admit(orders)
        entries = [entry for shard in range(SHARDS) for entry in room.due("due", shard, 100, 50)]
        return sorted(entries, key=lambda entry: entry.copy)

    def test_of_a_group_no_more_is_read_than_was_asked_for(
        self, fifo_room: DynamoDBWaitingRoom
    ) -> None:
        entries = self.waiting_group(fifo_room, *["{}"] * 30)
        for wanted in (entries[:1], entries[:12], entries):
            found = fifo_room.read(wanted, 1e10).letters
            assert [each.letter.message_id for each in found] == [each.copy for each in wanted]
        assert fifo_room.read(entries[1:], 1e10).letters == []
        with_a_gap = [*entries[:3], *entries[4:]]
        assert len(fifo_room.read(with_a_gap, 1e10).letters) == 3

    def test_a_broken_letter_stops_its_group_in_later_parts_too(
        self, fifo_room: DynamoDBWaitingRoom, letters: Aws
    ) -> None:
        entries = self.waiting_group(fifo_room, *["x" * 9_000] * 12, "{}")
        letters.s3.delete_object(Bucket=BUCKET, Key="waiting/orders/02")
        parts = [*fifo_room.read_in_parts(entries, 1e10, lambda calls: [each() for each in calls])]
        found = [received.letter.message_id for part in parts for received in part.letters]
        assert (found, [part.broken for part in parts]) == (["01"], [1, 0])

    def test_what_a_lane_has_paid_is_kept_unless_another_run_has_kept_its_own(
        self, room: DynamoDBWaitingRoom
    ) -> None:
        first, second = LanePaid(1_800_000_000.123456, 1_800_000_000.9), LanePaid(1.0, -2.5)
        assert room.paid(DUE) is None
        # A lane that no letter was put into has no row.
        assert not room.note_paid(DUE, None, first)
        room.admit([self.admission("a")])
        assert room.note_paid(DUE, None, first)
        assert room.paid(DUE) == first
        assert not room.note_paid(DUE, None, second)
        assert not room.note_paid(DUE, second, second)
        assert room.note_paid(DUE, first, second)
        assert room.paid(DUE) == second

    def type_in(self, letters: Aws, **columns: Any) -> None:
        """What a person, or something broken, writes into the row of a lane."""
        row = (Partition.LANES.of("orders"), DUE)
        DynamoDBTable(letters.dynamodb, LETTERS).change(row, columns)

    @each_row("text", ["", "[1]", "[NaN, 1]", "[1e300, 1]", '["x", 1]', "{}"])
    def test_what_a_lane_has_paid_is_written_anew_if_it_cannot_be_read(
        self, letters: Aws, room: DynamoDBWaitingRoom, text: str
    ) -> None:
        room.admit([self.admission("a")])
        self.type_in(letters, paid=text)
        assert room.paid(DUE) is None
        assert room.note_paid(DUE, None, LanePaid(1.0, 2.0))
        assert room.paid(DUE) == LanePaid(1.0, 2.0)

    def test_a_lane_is_retired_unless_it_was_used_since(self, room: DynamoDBWaitingRoom) -> None:
        room.admit([self.admission("a")])
        [lane] = room.lanes()
        room.retire(replace(lane, touched=lane.touched - 1))
        assert room.lanes() == [lane]
        room.retire(lane)
        assert room.lanes() == []

    @pytest.mark.parametrize("first_due", [math.inf, 5.5])
    def test_a_look_into_a_lane_is_kept_unless_it_was_used_since(
        self, letters: Aws, room: DynamoDBWaitingRoom, first_due: float
    ) -> None:
        room.admit([self.admission("a")])
        [lane] = room.lanes()
        look = LaneLook(lane.touched + 9.0, first_due)
        room.note_look(replace(lane, touched=lane.touched - 1), look)
        assert room.lanes() == [lane]
        room.note_look(lane, look)
        assert room.lanes() == [replace(lane, look=look)]
        # One who calls a letter back has a run look again.
        letters.clock.advance(60)
        [entry] = [each for shard in range(SHARDS) for each in room.due(DUE, shard, FOREVER, 1)]
        assert room.recall(entry, 0.0)
        [after] = room.lanes()
        assert after == replace(lane, look=look, touched=lane.touched + 60)

    @each_row("look", ["", "[]", "[1]", "[1, 2, 3]", '["a", 2]', "{}", "3"])
    def test_a_malformed_look_is_none_and_its_row_is_named(
        self, letters: Aws, room: DynamoDBWaitingRoom, look: str
    ) -> None:
        room.admit([self.admission("a")])
        self.type_in(letters, look=look)
        bad: list[str] = []
        lanes = DynamoDBLanes(letters.dynamodb, LETTERS, "orders", note_bad_row=bad.append)
        assert [lane.look for lane in lanes.lanes()] == [None]
        assert len(bad) == 1

    def test_a_lane_with_a_malformed_time_stays_in_the_list(
        self, letters: Aws, room: DynamoDBWaitingRoom
    ) -> None:
        room.admit([self.admission("a")])
        self.type_in(letters, touched="yesterday")
        assert room.lanes() == [Lane(DUE, math.inf)]


def test_the_ledger_keeps_stamps_and_counts_matches(letters: Aws) -> None:
    ledger = DynamoDBLedger(letters.dynamodb, LETTERS, "orders", letters.clock, 100)
    assert ledger.rows(["a"]) == {}
    ledger.store_stamps({"a": Stamp("origin", 2, 5)})
    assert ledger.rows(["a", "b"])["a"].stamp == Stamp("origin", 2, 5)
    ledger.count_matches({"r": 2})
    letters.clock.advance(60)
    ledger.count_matches({"r": 3, "q": 1}, {"s": 4})
    assert ledger.matches(["r", "q", "never", "s"]) == {"r": 5, "q": 1, "s": 0}
    now = int(letters.clock())
    assert ledger.all_counts() == {
        "r": RuleCounts(5, now),
        "q": RuleCounts(1, now),
        "s": RuleCounts(shadow_matched=4, last_shadow=now),
    }


def test_matches_of_a_rule_with_a_limit_are_claimed_until_it_is_reached(letters: Aws) -> None:
    ledger = DynamoDBLedger(letters.dynamodb, LETTERS, "orders", letters.clock, 100)
    assert [ledger.claim_matches("r", number, 5) for number in (4, 1, 1)] == [True, True, False]
    assert [ledger.claim_matches("s", number, 5) for number in (4, 100, 1)] == [True, True, False]
    assert ledger.matches(["r", "s"]) == {"r": 5, "s": 104}
    ledger.count_matches({"s": -100})
    assert ledger.claim_matches("s", 1, 5)
    assert ledger.all_counts()["s"] == RuleCounts(5, int(letters.clock()))


def test_one_run_at_a_time_has_the_lease_and_leaves_its_pace_to_the_next(
    lease: DynamoDBLease,
) -> None:
    assert lease.acquire("one", 100, 200) == RunPaid(rate_of(10.0), 0.0)
    assert lease.acquire("two", 150, 250) is None
    assert lease.acquire("one", 100, 200) == RunPaid(rate_of(10.0), 0.0)
    lease.give_back("one", RunPaid(rate_of(4.0), 159.125), Report("orders", "dlq", "done"), 160)
    assert lease.acquire("two", 161, 250) == RunPaid(rate_of(4.0), 159.125)
    lease.give_back("one", RunPaid(rate_of(10.0), 170), Report("orders", "dlq", "late"), 170)
    assert lease.acquire("three", 171, 250) is None
    assert lease.acquire("three", 251, 300) == RunPaid(rate_of(4.0), 159.125)


def test_a_source_is_remembered_beside_its_lease(lease: DynamoDBLease) -> None:
    assert lease.read() == UNKNOWN
    known = SourceMemory(
        emptied_at=90.5, oldest=91.123, looks=3, looked_at=95, ended_at=99, ended_well_at=98,
        stopped="the source is empty", trouble="denied", fruitless=2, fruitless_at=97,
        troubles={"Undecided": 96.5},
        last_turn=LastTurn("lanes", "circuit:a"),
        auto_rate=AutoRate(
            112.5, Direction.FALLEN, "failures 7%", changed_at=90, looked_at=98, waiting=12,
            level=3.25, limit=225, limit_at=90,
        ),
        drain=Drain("run7", 4, 145.5, 12.5, 100.0), wanted_until=300.25,
    )  # fmt: skip
    lease.record(known)
    assert lease.read() == known
    assert lease.acquire("one", 100, 200) == RunPaid(rate_of(10.0), 0.0)
    assert lease.acquire("two", 150, 250) is None


@each_row(
    "malformed",
    [7, {}, {"rate": 0, "direction": "rising"}, {"rate": 5}, {"rate": 5, "direction": "up"},
     {"rate": "5", "direction": "rising"}],
)  # fmt: skip
def test_a_malformed_rate_starts_again(letters: Aws, lease: DynamoDBLease, malformed: Any) -> None:
    lease.record(SourceMemory(looks=1))
    DynamoDBTable(letters.dynamodb, LETTERS).change(
        (Partition.LEASE.of("orders"), "dlq"), {"auto_rate": malformed}
    )
    assert lease.read() == SourceMemory(looks=1)


def test_a_run_stores_only_what_it_has_changed(lease: DynamoDBLease) -> None:
    before = SourceMemory(oldest=50.0, looks=4, emptied_at=10.0)
    lease.record(before)
    lease.record(replace(before, emptied_at=60.0), before)
    lease.record(replace(before, oldest=None, looks=0), before)
    assert lease.read() == SourceMemory(emptied_at=60.0)


def test_a_malformed_memory_counts_as_never_written(letters: Aws) -> None:
    letters.dynamodb.put_item(
        TableName=LETTERS,
        Item={
            "pk": {"S": Partition.LEASE.of("orders")},
            "sk": {"S": "dlq"},
            "oldest": {"S": "yesterday"},
            "looks": {"NULL": True},
            "stopped": {"N": "1"},
            "troubles": {"M": {"Undecided": {"S": "x"}}},
        },
    )
    assert DynamoDBWatchStore(letters.dynamodb, LETTERS, "orders").read()[1] == {"dlq": UNKNOWN}


@each_row("until", [{"NULL": True}, {"N": "1" + "0" * 120}, {"N": "3801"}])
def test_a_lease_whose_end_cannot_be_read_has_ended(letters: Aws, until: Any) -> None:
    """One that ends more than an hour from now was never taken so."""
    bad_rows: list[str] = []
    lease = DynamoDBLease(letters.dynamodb, LETTERS, "orders", "dlq", 10, bad_rows.append)
    key = {"pk": {"S": Partition.LEASE.of("orders")}, "sk": {"S": "dlq"}}
    row = {**key, "own": {"S": "?"}, "until": until, "limit": {"S": "many"}, "paid": {"S": "now"}}
    letters.dynamodb.put_item(TableName=LETTERS, Item=row)
    lease.read()
    assert bad_rows == [f"{LETTERS} orders#lease dlq"]
    assert lease.acquire("one", 200, 300) == RunPaid(rate_of(10.0), 0.0)
    assert lease.acquire("two", 250, 350) is None


def test_each_shard_of_a_drain_has_a_lease_of_its_own(lease: DynamoDBLease) -> None:
    assert lease.acquire("owner", 100, 200)
    assert lease.of_shard(2).acquire("second", 100, 200)
    assert lease.of_shard(3).acquire("third", 100, 200)
    assert lease.of_shard(2).acquire("again", 150, 250) is None
    assert lease.of_shard(2).acquire("after it", 200, 300)


def test_what_shards_have_counted_is_remembered_of_their_source(
    letters: Aws, lease: DynamoDBLease
) -> None:
    lease.record(SourceMemory(looks=4, troubles={"Undecided": 50.0, "Unsendable": 70.0}))
    shard = SourceMemory(looks=9, troubles={"Undecided": 60.0, "Unsendable": 65.0})
    lease.of_shard(2).record(shard)
    lease.of_shard(3).record(SourceMemory(troubles={"BrokenInRoom": 55.0}))
    known = SourceMemory(
        looks=4, troubles={"Undecided": 60.0, "Unsendable": 70.0, "BrokenInRoom": 55.0}
    )
    assert DynamoDBWatchStore(letters.dynamodb, LETTERS, "orders").read() == (None, {"dlq": known})


@each_row("drain", [7, {}, {"of": "4"}, {"of": 0, "until": 1, "rate": 1}])
def test_a_drain_that_cannot_be_read_counts_as_never_recorded(drain: object) -> None:
    assert memory_of({"drain": drain}).drain == NO_DRAIN


def test_the_report_of_the_last_run_is_read_from_the_lease(
    letters: Aws, lease: DynamoDBLease
) -> None:
    def last_run() -> Mapping[str, Any] | None:
        return read_last_run(letters.dynamodb, LETTERS, "orders", "dlq")

    assert last_run() is None
    lease.acquire("a run", 100, 200)
    assert last_run() is None
    report = Report("orders", "dlq", "done")
    lease.give_back("a run", RunPaid(rate_of(4.0), 159.125), report, 160.5)
    assert last_run() == {**report.to_json(), "at": 160}
