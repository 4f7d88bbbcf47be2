"""The queue metrics are those that SQS would publish."""

from typing import Any

import pytest

from sandbox.queue_metrics import Gauge, MeasuredDepth, QueueMetrics

NOW = 1_000_000.0


def message(
    number: int = 1,
    *,
    sent: float = NOW,
    receives: int = 0,
    visible: bool = True,
    moved: bool = False,
) -> dict[str, Any]:
    """One message as the emulator shows it."""
    system = {"SentTimestamp": str(int(sent * 1000))}
    if moved:
        system["DeadLetterQueueSourceArn"] = "arn:aws:sqs:us-east-1:000000000000:main"
    return {
        "MessageId": f"id-{number}",
        "IsVisible": visible,
        "ReceiveCount": receives,
        "Attributes": system,
    }


def test_an_empty_queue_publishes_zeros():
    assert Gauge().read({"main": []}, now=NOW) == [MeasuredDepth("main", 0, 0, 0.0)]


def test_a_queue_that_was_emptied_publishes_zeros():
    gauge = Gauge()
    gauge.read({"dlq": [message(sent=NOW - 90, moved=True)]}, now=NOW)
    assert gauge.read({"dlq": []}, now=NOW + 60) == [MeasuredDepth("dlq", 0, 0, 0.0)]


def test_visible_in_flight_and_delayed_messages_are_told_apart():
    look = {
        "main": [
            message(1),
            message(2, receives=1, visible=False),
            message(3, receives=0, visible=False),
        ]
    }
    assert Gauge().read(look, now=NOW) == [MeasuredDepth("main", visible=1, not_visible=1, age=0.0)]


def test_the_age_is_that_of_the_oldest_message():
    look = {"main": [message(1, sent=NOW - 30), message(2, sent=NOW - 90)]}
    assert Gauge().read(look, now=NOW)[0].age == 90


def test_in_a_dead_letter_queue_the_age_counts_from_the_move():
    gauge = Gauge()
    look = {"dlq": [message(sent=NOW - 5000, receives=5, moved=True)]}
    assert gauge.read(look, now=NOW)[0].age == 0
    assert gauge.read(look, now=NOW + 40)[0].age == 40


def test_a_letter_that_comes_back_to_the_dead_letter_queue_is_new_there():
    gauge = Gauge()
    look = {"dlq": [message(sent=NOW - 5000, moved=True)]}
    gauge.read(look, now=NOW)
    gauge.read({"dlq": []}, now=NOW + 5)
    assert gauge.read(look, now=NOW + 10)[0].age == 0


def test_a_message_received_three_times_drops_out_of_the_age():
    gauge = Gauge()
    assert gauge.read({"main": [message(sent=NOW - 60, receives=2)]}, now=NOW)[0].age == 60
    assert gauge.read({"main": [message(sent=NOW - 60, receives=3)]}, now=NOW)[0].age == 0


def test_receives_before_the_move_do_not_drop_a_letter_out_of_the_age():
    gauge = Gauge()
    gauge.read({"dlq": [message(receives=5, moved=True)]}, now=NOW)
    assert gauge.read({"dlq": [message(receives=7, moved=True)]}, now=NOW + 9)[0].age == 9
    assert gauge.read({"dlq": [message(receives=8, moved=True)]}, now=NOW + 9)[0].age == 0


def test_a_fifo_queue_never_forgets_its_oldest_message():
    look = {"main.fifo": [message(sent=NOW - 60, receives=9)]}
    assert Gauge().read(look, now=NOW)[0].age == 60


def test_an_error_of_the_thread_is_raised_when_the_context_ends():
    def broken() -> dict[str, list[Any]]:
        raise OSError("the emulator is gone")

    with pytest.raises(OSError, match="the emulator is gone"), QueueMetrics(broken, None):
        pass
