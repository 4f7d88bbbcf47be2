"""What the witness takes for a broken promise, and what not: one process has several workers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deadletter.aws.table import equals
from deadletter.redrive.journal import GRACE, key_of
from tests.simulation.scheduler import Process
from tests.simulation.simulator import Shape, Simulation, simulate
from tests.simulation.witness import Broken, Chunk, Entry, Held, Reading, Witness
from tests.tables import LETTERS

COPY = "6b612818-1c8f-4f51-8d61-1c713d165298"
IN_QUEUE, IN_ROOM = False, True


def held(place: bool) -> Held:
    """The copy, as a process took it out of the queue or out of the waiting room."""
    return Held(COPY, COPY, 0, "", locked_until=float("inf"), from_room=place)


def send(
    *, intent: bool | None, taken: list[bool], marked: list[bool], doubts: bool = False
) -> Entry:
    """A process sends the copy, perhaps one in doubt; raises Broken if it may not.

    The intent that its worker wrote last takes letters out of the queue or of the room; the
    process took the copy from these places, in this order, and read marks that it had left those.
    """
    process = Process("redriver0")
    process.holds["good0"] = [held(place) for place in taken]
    process.journal = {
        (key_of(COPY), place): Reading(is_sent=True, expires=0.0, owner="an earlier run")
        for place in marked
    }
    process.doubts = {(key_of(COPY), place) for place in taken if doubts}
    if intent is not None:
        process.open[None] = Chunk(process, frozenset({key_of(COPY)}), 0.0, of_room=intent)
    entry = Entry(MessageBody="~good0~")
    entry.continues = COPY
    witness()._intended(process, entry)
    return entry


def witness() -> Witness:
    return Simulation(1, Shape(), lambda *_: None).witness


@pytest.mark.parametrize("taken", [[IN_ROOM], [IN_ROOM, IN_QUEUE], [IN_QUEUE, IN_ROOM]])
def test_a_letter_leaves_the_room_though_its_copy_in_the_queue_is_marked(taken: list[bool]) -> None:
    """That mark says that it is in the room. Another worker may delete the copy at any time."""
    send(intent=IN_ROOM, taken=taken, marked=[IN_QUEUE])


@pytest.mark.parametrize("taken", [[IN_QUEUE], [IN_ROOM, IN_QUEUE], [IN_QUEUE, IN_ROOM]])
@pytest.mark.parametrize("mark", [IN_QUEUE, IN_ROOM])
def test_a_copy_in_the_queue_is_not_sent_after_any_mark(taken: list[bool], mark: bool) -> None:
    with pytest.raises(Broken, match="though it has read the mark"):
        send(intent=IN_QUEUE, taken=taken, marked=[mark])


@pytest.mark.parametrize("taken", [[IN_ROOM], [IN_ROOM, IN_QUEUE], [IN_QUEUE, IN_ROOM]])
def test_a_letter_in_the_room_is_not_sent_after_the_mark_that_it_has_left(
    taken: list[bool],
) -> None:
    with pytest.raises(Broken, match="though it has read the mark"):
        send(intent=IN_ROOM, taken=taken, marked=[IN_ROOM])


@pytest.mark.parametrize(("intent", "taken"), [(IN_ROOM, IN_QUEUE), (IN_QUEUE, IN_ROOM)])
def test_an_intent_for_one_place_covers_no_copy_of_the_other(intent: bool, taken: bool) -> None:
    with pytest.raises(Broken, match="without having taken it"):
        send(intent=intent, taken=[taken], marked=[])


OVER, AT_WORK = -GRACE, 0.0
"""When an intent ends, seen from the start of a schedule."""


@pytest.mark.parametrize("place", [IN_QUEUE, IN_ROOM])
@pytest.mark.parametrize("intent", [IN_QUEUE, IN_ROOM])
@pytest.mark.parametrize("ends", [OVER, AT_WORK])
@pytest.mark.parametrize("is_marked", [False, True])
def test_a_copy_is_in_doubt_if_its_process_reads_an_intent_that_ended_without_a_mark(
    place: bool, intent: bool, ends: float, is_marked: bool
) -> None:
    """The intent that put a letter into the room says nothing of the send out of it."""
    sees, process = witness(), Process("redriver0")
    read(sees, process, ends=ends, of_room=intent, is_marked=is_marked)
    says_so = ends == OVER and not is_marked and intent in (place, IN_ROOM)
    assert sees._is_in_doubt(process, held(place)) is says_so
    read(sees, process)
    assert not sees._is_in_doubt(process, held(place))


@pytest.mark.parametrize("place", [IN_QUEUE, IN_ROOM])
@pytest.mark.parametrize("doubts", [False, True])
def test_a_send_remembers_whether_its_copy_was_in_doubt(place: bool, doubts: bool) -> None:
    entry = send(intent=place, taken=[place], marked=[], doubts=doubts)
    assert entry.is_in_doubt is doubts


@pytest.mark.parametrize("ends", [OVER, None])
def test_a_letter_in_the_room_is_in_doubt_if_it_was_when_it_was_put_there(
    ends: float | None,
) -> None:
    sees, admitter, sender = witness(), Process("redriver0"), Process("redriver1")
    read(sees, admitter, ends=ends)
    admitter.holds["good0"] = [held(IN_QUEUE)]
    letter = {"B": json.dumps({"body": "~good0~"}).encode()}
    item = {"copy": {"S": COPY}, "message": letter, "lane": {"S": "orders|due|1"}}
    sees._put_into_room(admitter, {"RequestItems": {LETTERS: [{"PutRequest": {"Item": item}}]}})
    assert sees._is_in_doubt(sender, held(IN_ROOM)) is (ends is not None)
    assert not sees._is_in_doubt(sender, held(IN_QUEUE))


def read(
    sees: Witness,
    process: Process,
    *,
    ends: float | None = None,
    of_room: bool = False,
    is_marked: bool = False,
) -> None:
    """The process reads the journal: one intent about the copy, or none without its end."""
    item = {
        "sk": {"S": "room:due:1" if of_room else "another run.0"},
        "own": {"S": "another run"},
        "expires": {"N": str(sees._scheduler.now + (ends or 0.0))},
        "plans": {"B": key_of(COPY) + bytes(2)},
        "sent": {"B": bytes([is_marked])},
    }
    options = {"Where": equals("pk", "orders#journal")}
    sees._read_from_journal(process, options, {"Items": [] if ends is None else [item]})


def test_nothing_is_sent_without_an_intent_of_that_worker() -> None:
    with pytest.raises(Broken, match="without an intent"):
        send(intent=None, taken=[IN_QUEUE], marked=[])


def test_one_worker_deletes_a_copy_while_another_sends_the_letter_from_the_room() -> None:
    simulate(266_034_423)


@pytest.mark.parametrize("place", [IN_QUEUE, IN_ROOM])
@pytest.mark.parametrize("mark", [IN_QUEUE, IN_ROOM])
def test_a_mark_is_of_the_place_that_its_intent_is_about(place: bool, mark: bool) -> None:
    """A run merges the marks of earlier ones: they say nothing of what it has sent itself."""
    sees, process = witness(), Process("redriver0")
    sees._intent_written(process, intent_of(place))
    chunk = process.open[None]
    sees._intent_written(process, intent_of(mark, is_merged=True, sent=True))
    assert bool(chunk.marked) is (place is mark)


def intent_of(place: bool, *, is_merged: bool = False, sent: bool = False) -> dict[str, Any]:
    """An intent about the copy, as the journal keeps it."""
    slot = ("room:due:1" if place else "") + ("~000000000000001.a run" if is_merged else "a run.0")
    return {
        "sk": {"S": slot},
        "own": {"S": "a run"},
        "expires": {"N": "0"},
        "plans": {"B": key_of(COPY) + bytes(2)},
        "sent": {"B": bytes([sent])},
    }
