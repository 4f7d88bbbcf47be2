"""The order of acts: nothing lies between a chunk's first send and its mark but sends."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from botocore.exceptions import (
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)

from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.wiring.moving import redriver_for
from deadletter.contract import ROWS_KEPT
from deadletter.redrive.mover import MOST_SENDS
from deadletter.redrive.report import Report
from deadletter.redrive.run_limits import SEND_AND_MARK
from deadletter.redrive.sending import LAST_SEND
from deadletter.testing.fakes import client_error
from tests.each_row import each_row
from tests.simulation.stage import Stage, attribute, in_turn
from tests.tables import LETTERS

SEND, MARK, PUT_BODY = "send_message_batch", "update_item", "put_object"
RUN_SECONDS = 55.0

Strike = Callable[["Calls", str, Mapping[str, Any]], None]
"""Told of each call before it takes effect; raises to end it."""


class Killed(BaseException):
    """The function is gone, and with it everything that it had not written."""


class Calls:
    """The calls of one run, in order; `strike` is told of each of them."""

    def __init__(self, strike: Strike | None = None, after: Strike | None = None) -> None:
        self.names: list[str] = []
        self.requests: list[Mapping[str, Any]] = []
        self.dead = False
        self._strike = strike
        self._after = after

    def client(self, real: Any) -> Any:
        return _Client(self, real)

    def kill(self) -> None:
        self.dead = True
        raise Killed

    def call(self, name: str, act: Callable[..., Any], options: Mapping[str, Any]) -> Any:
        if self.dead:
            raise Killed
        self.names.append(name)
        self.requests.append(options)
        if self._strike is not None:
            self._strike(self, name, options)
        answer = act(**options)
        if self._after is not None:
            self._after(self, name, options)
        return answer

    @property
    def mark_at(self) -> int:
        """The position of the first mark."""
        return next(
            at
            for at, name in enumerate(self.names)
            if name == MARK and "journal" in self.requests[at]["Key"]["pk"]["S"]
        )


class _Client:
    def __init__(self, calls: Calls, real: Any) -> None:
        self._calls = calls
        self._real = real

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._real, name)
        return lambda **options: self._calls.call(name, act, options)


@dataclass
class Scene:
    """A pipeline whose DLQ has letters of three kinds, and what was published at once."""

    stage: Stage = field(default_factory=Stage)
    published: Counter[str] = field(default_factory=Counter)

    def publish(self, name: str, number: int) -> None:
        self.published[name] += number

    def fill(self, plain: int = 0, unmarked: int = 0, large_holds: int = 0, holds: int = 0) -> None:
        """Put letters into the DLQ; a hold rule sends those of tenant h to the waiting room."""
        stage = self.stage
        stage.add_rule("hold", tenantId="h", action="hold")
        ten = {f"a{number}": attribute("x") for number in range(10)}
        for number in range(plain):
            stage.put(f'{{"tenantId": "a", "n": {number}}}')
        for number in range(unmarked):
            stage.put(f'{{"tenantId": "b", "n": {number}}}', MessageAttributes=ten)
        for number in range(large_holds):
            stage.put(f'{{"tenantId": "h", "n": {number}, "x": "{"x" * 9_000}"}}')
        for number in range(holds):
            stage.put(f'{{"tenantId": "h", "m": {number}}}')
        stage.fail()

    def run(self, calls: Calls | None = None, *, seconds: float = RUN_SECONDS) -> Report:
        """One run; raises Killed if the run ended at a call."""
        stage, calls = self.stage, calls or Calls()
        sqs, dynamodb = calls.client(stage.redriver_sqs), calls.client(stage.dynamodb)
        clients = replace(
            stage.clients,
            sqs=sqs,
            sending=sqs,
            dynamodb=dynamodb,
            journal=dynamodb,
            s3=calls.client(stage.s3),
        )
        redriver = redriver_for(
            stage.pipeline,
            stage.resources,
            clients,
            stage.world,
            router=stage.router,
            in_parallel=in_turn,
            count_metric=self.publish,
        )
        return redriver.run(stage.clock() + seconds)

    def drain(self) -> None:
        """Runs until nothing is left, each after all locks have ended."""
        for _ in range(3):
            self.stage.clock.advance(RUN_SECONDS + 200)
            self.run()

    def extra_copies(self) -> int:
        """Copies of letters in the main queue beyond one each."""
        bodies = Counter(self.stage.bodies(self.stage.main))
        return sum(bodies.values()) - len(bodies)


def scene_of_sixty() -> Scene:
    scene = Scene()
    scene.fill(plain=30, unmarked=10, large_holds=15, holds=5)
    return scene


def killed_at(position: int, *, applied: bool) -> tuple[Scene, bool]:
    """A drained scene whose first run was killed at a call, and whether it was."""
    scene = scene_of_sixty()

    def kill(calls: Calls, _name: str, _options: Mapping[str, Any]) -> None:
        if len(calls.names) == position + 1:
            calls.kill()

    was_killed = False
    try:
        scene.run(Calls(None, kill) if applied else Calls(kill))
    except Killed:
        was_killed = True
    scene.drain()
    return scene, was_killed


def test_between_the_first_send_and_the_mark_there_are_only_sends() -> None:
    calls = Calls()
    report = scene_of_sixty().run(calls)
    assert (report.counts["Redriven"], report.counts["Held"]) == (40, 20)
    first_send = calls.names.index(SEND)
    assert calls.names[first_send : calls.mark_at] == [SEND] * 4
    assert SEND not in calls.names[calls.mark_at :]
    assert PUT_BODY not in calls.names[: calls.mark_at]


def test_facts_of_unmarked_letters_are_one_request_after_the_mark() -> None:
    calls = Calls()
    report = scene_of_sixty().run(calls)
    assert calls.names[calls.mark_at + 1] == "transact_write_items"
    assert calls.names.count("transact_write_items") == 1
    assert report.counts["RedriveUnmarked"] == 10


def test_a_run_that_ends_right_after_its_mark_leaves_no_letter_without_its_facts() -> None:
    """The mark has the new ids; the run that sees the letters again writes their facts."""
    scene = Scene()
    scene.fill(unmarked=5)

    def kill(calls: Calls, name: str, _options: Mapping[str, Any]) -> None:
        if name == "transact_write_items":
            calls.kill()

    with pytest.raises(Killed):
        scene.run(Calls(kill))
    scene.drain()
    assert scene.extra_copies() == 0
    rows = [item for item in scene.stage.dynamodb.items("messages") if "stamp" in item]
    assert len(rows) == 5


def test_bodies_that_take_too_long_leave_their_letters_without_an_intent() -> None:
    scene = Scene()
    scene.fill(large_holds=3)

    def delay(_calls: Calls, name: str, _options: Mapping[str, Any]) -> None:
        if name == PUT_BODY:
            scene.stage.clock.advance(16)

    calls = Calls(delay)
    report = scene.run(calls)
    assert calls.names.count(PUT_BODY) == 3
    assert report.counts["TooLateToSend"] == 3
    assert (scene.stage.waiting(), scene.stage.journal()) == ([], [])
    assert "batch_write_item" not in calls.names


def test_a_room_that_is_not_reached_leaves_its_letters_free() -> None:
    scene = Scene()
    scene.fill(holds=3)

    def refuse(_calls: Calls, name: str, options: Mapping[str, Any]) -> None:
        if name == MARK and "lanes" in options["Key"]["pk"]["S"]:
            raise client_error("UpdateItem", "InternalServerError", "no", status=500)

    calls = Calls(refuse)
    scene.run(calls)
    assert scene.stage.journal() == []
    assert "change_message_visibility_batch" in calls.names


def test_a_letter_that_may_have_been_sent_is_counted_when_it_goes_into_the_room() -> None:
    scene = Scene()
    scene.fill(plain=2)

    def kill(calls: Calls, name: str, _options: Mapping[str, Any]) -> None:
        if name == SEND:
            calls.kill()

    with pytest.raises(Killed):
        scene.run(Calls(None, kill))
    scene.stage.add_rule("hold all", tenantId="a", action="hold")
    scene.drain()
    assert len(scene.stage.waiting()) == 2
    assert scene.published["PossibleDuplicate"] == 2


def test_a_run_remembers_the_last_copies_that_it_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deadletter.redrive.mover.MOST_REMEMBERED", 4)
    scene = Scene()
    scene.fill(plain=9)
    redriver = scene.stage.redriver()
    redriver.run(scene.stage.clock() + RUN_SECONDS)
    assert len(redriver._setup.mover._moved) == 4


def test_bodies_are_stored_before_the_intent_that_names_their_letters() -> None:
    calls = Calls()
    scene_of_sixty().run(calls)
    last_body = max(at for at, name in enumerate(calls.names) if name == PUT_BODY)
    written = calls.names[last_body + 1 :]
    assert written[0] == "put_item"
    assert "batch_write_item" in written


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(at, marks=pytest.mark.nightly) for at in (1, 2))]
)
@pytest.mark.parametrize("applied", [False, True])
def test_only_a_kill_between_the_first_send_and_the_mark_repeats_letters(
    applied: bool, first: int
) -> None:
    calls = Calls()
    scene_of_sixty().run(calls)
    send, mark = calls.names.index(SEND), calls.mark_at
    window = set(range(send, mark) if applied else range(send + 1, mark + 1))
    positions = range(first, len(calls.names), 3)
    repeating = set()
    for position in positions:
        scene, was_killed = killed_at(position, applied=applied)
        assert was_killed
        assert len(set(scene.stage.bodies(scene.stage.main))) == 40
        assert len(scene.stage.waiting()) == 20
        extra = scene.extra_copies()
        assert scene.published["PossibleDuplicate"] >= extra
        if extra:
            repeating.add(position)
    assert repeating == window.intersection(positions) != set()


def test_a_chunk_with_large_bodies_sends_its_others_while_s3_hangs() -> None:
    scene = Scene()
    scene.fill(plain=20, large_holds=40)
    asked = []

    def hang(_calls: Calls, name: str, _options: Mapping[str, Any]) -> None:
        if name == PUT_BODY:
            asked.append(scene.stage.clock())
            scene.stage.clock.advance(9)
            raise ReadTimeoutError(endpoint_url="s3")

    began = scene.stage.clock()
    report = scene.run(Calls(hang))
    assert report.counts["Redriven"] == 20
    assert len(asked) == 2
    assert scene.stage.clock() - began < RUN_SECONDS - SEND_AND_MARK
    assert scene.stage.journal() == []
    scene.drain()
    assert (len(scene.stage.waiting()), scene.extra_copies()) == (40, 0)
    assert scene.published["PossibleDuplicate"] == 0


class PartlyFailing:
    """An SQS client some of whose entries fail at their first sends, as its answers say."""

    def __init__(self, real: Any, fails: Callable[[str], bool], tries: int) -> None:
        self._real = real
        self._fails = fails
        self._tries = tries
        self._attempts: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def send_message_batch(self, **options: Any) -> Any:
        entries: Sequence[Any] = options["Entries"]
        failed = []
        for entry in entries:
            body = entry["MessageBody"]
            self._attempts[body] += 1
            if self._fails(body) and self._attempts[body] <= self._tries:
                failed.append({"Id": entry["Id"], "Code": "InternalError", "SenderFault": False})
        ids = {failure["Id"] for failure in failed}
        going = [entry for entry in entries if entry["Id"] not in ids]
        answer: dict[str, Any] = {}
        if going:
            answer = self._real.send_message_batch(**{**options, "Entries": going})
        return {**answer, "Failed": [*answer.get("Failed", []), *failed]}


def filled(*, plain: int, fifo: bool) -> Scene:
    """A scene with so many messages in its DLQ; nine of two groups on FIFO."""
    scene = Scene()
    if not fifo:
        scene.fill(plain=plain)
        return scene
    scene = Scene(Stage(replace(scene.stage.pipeline, fifo=True)))
    for number in range(9):
        body = f'{{"tenantId": "a", "n": {number}}}'
        options = {"MessageGroupId": f"g{number % 2}", "MessageDeduplicationId": str(number)}
        scene.stage.put(body, **options)
    scene.stage.fail()
    return scene


def is_first(body: str) -> bool:
    return body.endswith(" 1}")


def is_odd(body: str) -> bool:
    return body.rstrip("}")[-1] in "13579"


@pytest.mark.parametrize("fifo", [False, True])
def test_an_entry_that_sqs_confirms_as_failed_is_sent_again_in_the_same_run(fifo: bool) -> None:
    scene = filled(plain=9, fifo=fifo)
    # On FIFO the three letters behind it follow in the same retry.
    fails = is_first if fifo else is_odd
    scene.stage.redriver_sqs = PartlyFailing(scene.stage.redriver_sqs, fails, 1)  # type: ignore[assignment]
    report = scene.run()
    assert report.counts["Redriven"] == 9
    assert "RedriveFailure" not in report.counts
    assert "PossibleDuplicate" not in report.counts
    assert scene.stage.journal() == []
    assert scene.extra_copies() == 0
    assert scene.stage.bodies(scene.stage.dlq) == []


def test_a_failed_entry_is_tried_a_few_times_and_then_left_without_an_intent() -> None:
    scene = Scene()
    scene.fill(plain=4)
    scene.stage.redriver_sqs = PartlyFailing(scene.stage.redriver_sqs, is_odd, 99)  # type: ignore[assignment]
    calls = Calls()
    report = scene.run(calls, seconds=30)
    assert report.counts["Redriven"] == 2
    assert calls.names.count(SEND) % MOST_SENDS == 0
    assert scene.stage.journal() == []
    scene.stage.clock.advance(200)
    again = scene.run()
    assert "PossibleDuplicate" not in again.counts


def test_a_failed_entry_is_not_waited_for_when_there_is_no_time_to_send_it_again() -> None:
    scene = Scene()
    scene.fill(plain=2)
    stage = scene.stage
    stage.redriver_sqs = PartlyFailing(stage.redriver_sqs, is_odd, 99)  # type: ignore[assignment]
    last_moment = stage.clock() + RUN_SECONDS - SEND_AND_MARK
    ends: list[float] = []

    def slow_send(calls: Calls, name: str, options: Mapping[str, Any]) -> None:
        if name == SEND:
            stage.clock.now = last_moment - 0.01
        if name == "delete_message_batch":
            ends.append(stage.clock())

    calls = Calls(slow_send)
    report = scene.run(calls)
    assert (calls.names.count(SEND), report.counts["Redriven"]) == (1, 1)
    assert ends == [last_moment - 0.01]
    # No second is paid for a poll of a queue that gave all that it was said to hold.
    assert stage.clock() == ends[0]


def test_a_lost_answer_is_tried_once_and_its_letters_keep_their_locks() -> None:
    scene = Scene()
    scene.fill(plain=3)

    def lose(calls: Calls, name: str, _options: Mapping[str, Any]) -> None:
        if name == SEND:
            raise ReadTimeoutError(endpoint_url="sqs")

    calls = Calls(None, lose)
    report = scene.run(calls)
    assert calls.names.count(SEND) == 1
    assert len(scene.stage.bodies(scene.stage.main)) == 3
    assert "Redriven" not in report.counts
    assert "change_message_visibility_batch" not in calls.names
    assert scene.stage.take(scene.stage.dlq) == []
    assert len(scene.stage.journal()) == 1
    scene.drain()
    assert scene.extra_copies() == 3
    assert scene.published["PossibleDuplicate"] == 3


NEVER_LEFT = {
    "no connection": EndpointConnectionError(endpoint_url="sqs"),
    "a connect time-out": ConnectTimeoutError(endpoint_url="sqs"),
    "throttled": client_error("SendMessageBatch", "RequestThrottled", "slow down", status=400),
}
REFUSED = {
    "403": client_error("SendMessageBatch", "AccessDenied", "no", status=403),
}


@each_row("why", NEVER_LEFT)
@each_row("fifo", [False, True])
def test_what_never_left_or_was_throttled_is_sent_again_in_the_same_run(
    why: str, fifo: bool
) -> None:
    scene = filled(plain=20, fifo=fifo)

    def refuse(calls: Calls, name: str, _options: Mapping[str, Any]) -> None:
        if name == SEND and calls.names.count(SEND) <= 2:
            raise NEVER_LEFT[why]

    began = scene.stage.clock()
    report = scene.run(Calls(refuse))
    assert report.counts["Redriven"] == (9 if fifo else 20)
    assert "PossibleDuplicate" not in report.counts
    # The pauses before the second and the third send.
    assert scene.stage.clock() - began < 5
    assert scene.stage.journal() == []
    assert scene.stage.bodies(scene.stage.dlq) == []
    assert scene.extra_copies() == 0


@pytest.mark.parametrize("why", [*NEVER_LEFT, *REFUSED])
def test_what_never_leaves_is_neither_counted_nor_locked(why: str) -> None:
    scene = Scene()
    scene.fill(plain=20)

    def refuse(_calls: Calls, name: str, _options: Mapping[str, Any]) -> None:
        if name == SEND:
            raise {**NEVER_LEFT, **REFUSED}[why]

    report = scene.run(Calls(refuse))
    assert "Redriven" not in report.counts
    assert (report.ended_well, report.trouble.endswith("on orders")) == (False, True)
    assert scene.stage.journal() == []
    seen = [letter for _ in range(2) for letter in scene.stage.take(scene.stage.dlq)]
    assert len(seen) == 20
    scene.stage.clock.advance(200)
    assert scene.run().counts["Redriven"] == 20
    assert scene.published["PossibleDuplicate"] == 0
    assert scene.extra_copies() == 0


def test_a_possible_duplicate_is_published_before_the_second_send() -> None:
    scene = Scene()
    scene.fill(plain=3)

    def kill_after_send(calls: Calls, name: str, _options: Mapping[str, Any]) -> None:
        if name == SEND:
            calls.kill()

    for sends in (1, 2, 3):
        with pytest.raises(Killed):
            scene.run(Calls(None, kill_after_send))
        assert scene.extra_copies() == 3 * (sends - 1)
        assert scene.published["PossibleDuplicate"] == 3 * (sends - 1)
        scene.stage.clock.advance(RUN_SECONDS + 200)


def test_a_possible_duplicate_is_published_once_and_reported_once() -> None:
    scene = Scene()
    scene.fill(plain=3)

    def lose(_calls: Calls, name: str, _options: Mapping[str, Any]) -> None:
        if name == SEND:
            raise ReadTimeoutError(endpoint_url="sqs")

    scene.run(Calls(None, lose))
    scene.stage.clock.advance(RUN_SECONDS + 200)
    report = scene.run()
    assert scene.published == {"PossibleDuplicate": 3}
    assert report.to_json()["possible_duplicates"] == 3
    assert "PossibleDuplicate" not in report.metrics()


def test_the_report_tells_lost_answers_from_killed_runs() -> None:
    scene = Scene()
    scene.fill(plain=25)

    def lose(calls: Calls, name: str, _options: Mapping[str, Any]) -> None:
        if name == SEND and calls.names.count(SEND) == 1:
            raise ReadTimeoutError(endpoint_url="sqs")

    def kill(calls: Calls, name: str, _options: Mapping[str, Any]) -> None:
        if name == SEND:
            calls.kill()

    scene.run(Calls(lose))
    for message in scene.stage.take(scene.stage.main):
        scene.stage.sqs.delete_message(
            QueueUrl=scene.stage.main, ReceiptHandle=message["ReceiptHandle"]
        )
    # Those without an answer are locked still.
    for number in range(4):
        scene.stage.put(f'{{"tenantId": "a", "late": {number}}}')
    scene.stage.fail()
    with pytest.raises(Killed):
        scene.run(Calls(kill))
    scene.stage.clock.advance(RUN_SECONDS + 200)
    said = scene.run().to_json()
    assert said["possible_duplicates"] == 10 + 4
    assert said["possible_duplicates_of_killed_runs"] == 4


def unexplained(scene: Scene) -> int:
    """The letters of open intents that are not marked as sent."""
    client: Any = scene.stage.dynamodb
    intents = DynamoDBJournal(client, LETTERS, "orders", ROWS_KEPT).read()
    return sum(len(intent.plans) - intent.sent.bit_count() for intent in intents)


def test_after_a_kill_at_most_the_letters_of_open_intents_count_and_are_shown_apart() -> None:
    calls = Calls()
    scene_of_sixty().run(calls)
    counted = 0
    for position in range(len(calls.names)):
        scene = scene_of_sixty()

        def kill(calls: Calls, _name: str, _options: Mapping[str, Any], at: int = position) -> None:
            if len(calls.names) == at + 1:
                calls.kill()

        with pytest.raises(Killed):
            scene.run(Calls(kill))
        most = unexplained(scene)
        scene.stage.clock.advance(RUN_SECONDS + 200)
        said = scene.run().to_json()
        assert said["possible_duplicates"] <= most
        assert said["possible_duplicates"] == said["possible_duplicates_of_killed_runs"]
        counted += said["possible_duplicates"]
    assert counted


def test_a_mark_that_is_not_written_deletes_what_was_sent_and_sends_nothing_again() -> None:
    scene = Scene()
    scene.fill(plain=9)
    scene.stage.redriver_sqs = PartlyFailing(scene.stage.redriver_sqs, is_odd, 1)  # type: ignore[assignment]

    def refuse(_calls: Calls, name: str, options: Mapping[str, Any]) -> None:
        if name == MARK and "journal" in options["Key"]["pk"]["S"]:
            raise client_error("UpdateItem", "InternalServerError", "no", status=500)

    calls = Calls(refuse)
    report = scene.run(calls)
    assert report.counts["JournalUnavailable"]
    assert calls.names.count(SEND) == 1
    assert scene.extra_copies() == 0
    scene.drain()
    assert scene.extra_copies() == 0
    assert len(scene.stage.bodies(scene.stage.main)) == 9


def test_facts_that_cannot_be_written_together_are_written_one_by_one() -> None:
    scene = Scene()
    scene.fill(unmarked=5)

    def cancel(_calls: Calls, name: str, _options: Mapping[str, Any]) -> None:
        if name == "transact_write_items":
            code = "TransactionCanceledException"
            raise client_error("TransactWriteItems", code, "conflict", status=400)

    report = scene.run(Calls(cancel))
    assert report.counts["RedriveUnmarked"] == 5
    assert "RedriveUnrecorded" not in report.counts
    rows = [item for item in scene.stage.dynamodb.items("messages") if "stamp" in item]
    assert len(rows) == 5


def test_letters_whose_facts_cannot_be_written_are_deleted_and_counted() -> None:
    scene = Scene()
    scene.fill(unmarked=5)

    def refuse(_calls: Calls, name: str, _options: Mapping[str, Any]) -> None:
        if name == "transact_write_items":
            raise client_error("TransactWriteItems", "InternalServerError", "no", status=500)

    report = scene.run(Calls(refuse))
    assert report.counts["RedriveUnrecorded"] == 5
    assert scene.stage.bodies(scene.stage.dlq) == []
    assert scene.extra_copies() == 0


SLOW_STEPS = ("query", "get_queue_attributes", "put_item", PUT_BODY)


@pytest.mark.parametrize("slow", SLOW_STEPS)
def test_nothing_is_sent_after_a_slow_step_that_outlasts_the_time_to_send(slow: str) -> None:
    scene = Scene()
    scene.fill(plain=10, large_holds=5)
    deadline = scene.stage.clock() + RUN_SECONDS
    late: list[float] = []

    def delay(calls: Calls, name: str, options: Mapping[str, Any]) -> None:
        if name == slow:
            scene.stage.clock.advance(50)
        if name == SEND or (name == "batch_write_item" and calls.names.count(SEND) == 0):
            late.extend([scene.stage.clock()] if scene.stage.clock() > deadline - 10 else [])

    scene.run(Calls(delay))
    assert late == []
    scene.drain()
    assert scene.extra_copies() == 0


def test_the_last_send_leaves_time_for_its_mark() -> None:
    assert LAST_SEND == 60 + SEND_AND_MARK == 70


@dataclass
class FifoScene(Scene):
    """Letters of one FIFO group: the first is sent, the second goes to the waiting room."""

    def __post_init__(self) -> None:
        self.stage = Stage(replace(self.stage.pipeline, fifo=True))
        self.stage.add_rule("hold", tenantId="h", action="hold")
        for tenant in "ah":
            body = f'{{"tenantId": "{tenant}"}}'
            options = {"MessageGroupId": "g", "MessageDeduplicationId": str(uuid.uuid4())}
            self.stage.put(body, **options)
        self.stage.fail()


@pytest.mark.parametrize("fault", ["send", "mark and delete"])
def test_no_letter_enters_the_room_behind_one_of_its_group_that_may_come_back(fault: str) -> None:
    scene = FifoScene()

    def lose(_calls: Calls, name: str, options: Mapping[str, Any]) -> None:
        is_mark = name == MARK and "journal" in options["Key"]["pk"]["S"]
        if fault == "send" and name == SEND:
            raise ReadTimeoutError(endpoint_url="sqs")
        if fault != "send" and (is_mark or name == "delete_message_batch"):
            raise ReadTimeoutError(endpoint_url="aws")

    scene.run(Calls(lose, None) if fault != "send" else Calls(None, lose))
    assert scene.stage.waiting() == []


def test_a_later_chunk_holds_a_letter_of_such_a_group_only_when_the_mark_is_on_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next intent of the slot is written after what stands: the mark is made up for there.

    Each request of the router takes one letter: the second is in the worker's hand meanwhile.
    """
    monkeypatch.setattr("deadletter.redrive.receiving.MAX_REQUEST", 10)
    scene = FifoScene()
    marks: list[Any] = []

    def lose(_calls: Calls, name: str, options: Mapping[str, Any]) -> None:
        is_mark = name == MARK and "journal" in options["Key"]["pk"]["S"]
        if is_mark or name == "delete_message_batch":
            raise ReadTimeoutError(endpoint_url="aws")
        if name == "batch_write_item":
            marks.extend(intent["sent"]["B"] for intent in scene.stage.journal())

    scene.run(Calls(lose))
    assert b"\x01" in marks
    scene.drain()
    assert scene.extra_copies() == 0
    assert len(scene.stage.bodies(scene.stage.main)) == len(scene.stage.waiting()) == 1


def test_a_letter_that_was_marked_and_not_deleted_stops_no_hold_of_its_group() -> None:
    scene = FifoScene()

    def refuse(_calls: Calls, name: str, _options: Mapping[str, Any]) -> None:
        if name == "delete_message_batch":
            raise ReadTimeoutError(endpoint_url="sqs")

    scene.run(Calls(refuse))
    assert len(scene.stage.waiting()) == 1
