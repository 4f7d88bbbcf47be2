"""What the witness takes for a broken promise, and what not: one process has several workers."""

from __future__ import annotations

import pytest

from deadletter.redrive.journal import key_of
from tests.simulation.scheduler import Process
from tests.simulation.simulator import Shape, Simulation, simulate
from tests.simulation.witness import Broken, Chunk, Entry, Held, Reading, Witness

COPY = "6b612818-1c8f-4f51-8d61-1c713d165298"
IN_QUEUE, IN_ROOM = False, True


def held(place: bool) -> Held:
    """The copy, as a process took it out of the queue or out of the waiting room."""
    return Held(COPY, COPY, 0, "", locked_until=float("inf"), from_room=place)


def send(*, intent: bool | None, taken: list[bool], marked: list[bool]) -> None:
    """A process sends the copy; raises Broken if it may not.

    The intent that its worker wrote last takes letters out of the queue or of the room; the
    process took the copy from these places, in this order, and read marks that it had left those.
    """
    process = Process("redriver0")
    process.holds["good0"] = [held(place) for place in taken]
    process.journal = {
        (key_of(COPY), place): Reading(is_sent=True, expires=0.0, owner="an earlier run")
        for place in marked
    }
    if intent is not None:
        process.open[None] = Chunk(process, frozenset({key_of(COPY)}), 0.0, of_room=intent)
    entry = Entry(MessageBody="~good0~")
    entry.continues = COPY
    witness()._intended(process, entry)


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


def test_nothing_is_sent_without_an_intent_of_that_worker() -> None:
    with pytest.raises(Broken, match="without an intent"):
        send(intent=None, taken=[IN_QUEUE], marked=[])


def test_one_worker_deletes_a_copy_while_another_sends_the_letter_from_the_room() -> None:
    simulate(266_034_423)
