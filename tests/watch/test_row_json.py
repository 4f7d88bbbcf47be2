"""The watch's row survives its table."""

from __future__ import annotations

import pytest

from deadletter.watch.row import Failing, LaneRow, Level, QueueRow, Stalled, WatchRow
from deadletter.watch.row_json import row_from_json, row_to_json

FULL = WatchRow(
    first_at=1.5,
    ran_at=2.25,
    queues={"dlq": QueueRow(letters=3, read_at=9.0, filled_at=4.5), "main": QueueRow()},
    lanes={"due": LaneRow(letters=7, first_due=8.0)},
    counted_at=3.0,
    levels={"CircuitState": Level(2, 4.0)},
    failing={"router": Failing(5.0, 2, "a \u2028 reason")},
    stalled=Stalled(6.0, "no run"),
    held={"tenant-1": 7.0},
)


@pytest.mark.parametrize("row", [FULL, WatchRow(first_at=1.0, ran_at=1.0)])
def test_a_row_is_read_as_it_was_written(row: WatchRow) -> None:
    assert row_from_json(row_to_json(row)) == row


def test_a_field_of_a_later_version_is_left_out() -> None:
    text = '{"first_at":1,"ran_at":2,"new":1,"queues":{"dlq":{"letters":3,"new":4}}}'
    row = row_from_json(text)
    assert row is not None
    assert row.queues == {"dlq": QueueRow(letters=3)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"first_at":"1","ran_at":2}',
        '{"first_at":true,"ran_at":2}',
        '{"first_at":1,"ran_at":2,"queues":[]}',
        '{"first_at":1,"ran_at":2,"queues":{"dlq":{"letters":"3"}}}',
        '{"first_at":1,"ran_at":2,"levels":{"x":{"value":3}}}',
        '{"first_at":NaN,"ran_at":2}',
    ],
)
def test_a_damaged_row_is_no_row(text: str) -> None:
    assert row_from_json(text) is None


def test_a_row_of_many_queues_is_small() -> None:
    queue = QueueRow(
        **dict.fromkeys(QueueRow.__slots__, 1800000000.123)  # type: ignore[arg-type]  # all
    )
    row = WatchRow(first_at=1.0, ran_at=1.0, queues={f"queue-{n}": queue for n in range(12)})
    assert len(row_to_json(row)) < 8 * 1024


def test_times_are_kept_to_the_millisecond() -> None:
    row = row_from_json(row_to_json(WatchRow(first_at=1.0, ran_at=1800000000.12345)))
    assert row == WatchRow(first_at=1.0, ran_at=1800000000.123)


def test_a_row_of_an_older_version_was_never_counted() -> None:
    row = row_from_json('{"first_at":1,"ran_at":2}')
    assert row is not None
    assert row.counted_at == 0
