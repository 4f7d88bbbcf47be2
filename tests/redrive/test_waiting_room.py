"""Where a letter waits, and until when."""

from __future__ import annotations

import pytest

from deadletter.contract import END_OF_TIME, PARKED_LANE, dedicated_lane, run_lane
from deadletter.message.stamp import Stamp
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import FOREVER, is_shut, never, shard_of
from deadletter.routing.decision import DUE, Hold, Redrive
from tests.samples import letter, received


@pytest.mark.parametrize(("name", "shard"), [("m1", 6), ("m2", 1), ("m3", 0)])
def test_a_letter_keeps_its_shard_from_version_to_version(name: str, shard: int) -> None:
    """Letters in the room are found by the shard that an older version gave them."""
    assert shard_of(letter(message_id=name), fifo=False) == shard
    assert shard_of(letter(message_id="other", MessageGroupId=name), fifo=True) == shard


def test_a_letter_without_a_group_has_its_own_shard_in_a_fifo_room() -> None:
    for name in ("m1", "m2", "m3"):
        mail = letter(message_id=name)
        assert shard_of(mail, fifo=True) == shard_of(mail, fifo=False)


def test_a_lane_that_no_time_opens_keeps_its_letters_by_age() -> None:
    """The due times are stored: a later version must still find what an older one kept."""
    assert END_OF_TIME == 1_099_511_627_776
    assert FOREVER == 2_199_023_255_552
    assert never(letter(SentTimestamp="5000")) == 1_099_511_627_781
    assert never(letter(SentTimestamp="")) == 1_099_511_627_776


def test_no_time_opens_the_lanes_of_rescued_letters_and_of_replay_runs() -> None:
    assert is_shut(PARKED_LANE)
    assert is_shut(dedicated_lane("slow"))
    assert is_shut(run_lane("r"))
    assert not is_shut(DUE)
    assert not is_shut("circuit:orders")


def test_only_a_letter_that_waits_has_a_hold() -> None:
    mail = received(letter(message_id="a", MessageGroupId="g"))
    held = Hold(DUE, 5.0, "x")
    order = Order(mail, held, Stamp("a"))
    assert (order.hold, order.copy, order.group) == (held, "a", "g")
    with pytest.raises(AssertionError, match="is not a Hold"):
        _ = Order(mail, Redrive(0, "x"), Stamp("a")).hold
