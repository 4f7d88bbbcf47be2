"""The watch's row survives its table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deadletter.signals.troubles import Seen, TroubleKind
from deadletter.watch.row import (
    AnnouncedCause,
    AttendedRow,
    CircuitOpenings,
    CircuitsRow,
    DrainRow,
    Failing,
    LaneRow,
    Level,
    MainRow,
    NewsRow,
    ParkedRow,
    QueueRow,
    ReplaysRow,
    WatchRow,
    news_from_plain,
    row_from_json,
    row_to_json,
)
from tests.each_row import each_row
from tests.watch.minutes import Minutes

FULL = WatchRow(
    first_at=1.5,
    ran_at=2.25,
    queues={"dlq": QueueRow(messages=3, read_at=9.0, filled_at=4.5), "main": QueueRow()},
    lanes={"due": LaneRow(messages=7, first_due=8.0)},
    counted_at=3.0,
    levels={"CircuitState": Level(2, 4.0)},
    failing={"router": Failing(5.0, 2, "a \u2028 reason")},
    held={"tenant-1": 7.0},
    seen=(
        Seen(TroubleKind.CIRCUIT_OPEN, {"key": "orders", "seconds": 2.5}, 3.5),
        Seen(TroubleKind.DEEP, {"messages": 140, "most": 100}),
    ),
    circuits=CircuitsRow(
        not_closed={"orders": 1.0},
        stuck={"orders#config": TroubleKind.CONFIGURATION},
        openings={"orders": CircuitOpenings(outage=4, trips=2, at=(1.0, 2.5))},
        many_since=9.5,
    ),
    attended={"parking:default": AttendedRow(messages=3, at=1.0, times=(2.0, 3.5), counts=(3, 2))},
    replays=ReplaysRow(broken=("r1",), lost={"r2": (1.0, 2.0)}, moved_at=3.0),
    main=MainRow(asked_at=4.0, oldest=0.5),
    depths=(1, 0, 3),
    direction="rising",
    drain=DrainRow(times=(1.0, 61.5), depths=(300, 290), deep=2, late=1),
    news=NewsRow(
        read_at=1.5,
        causes={
            "f": AnnouncedCause(
                noticed_at=1.0,
                seen_at=2.0,
                messages=3,
                category="transient",
                error_type="HTTPError",
                is_told=True,
            )
        },
        recovered_until=2.5,
        parked={"default": ParkedRow(messages=4, last=5, told_at=6.0)},
        expiring={"dlq": 7.5},
    ),
)


@pytest.mark.parametrize("row", [FULL, WatchRow(first_at=1.0, ran_at=1.0)])
def test_a_row_is_read_as_it_was_written(row: WatchRow) -> None:
    assert row_from_json(row_to_json(row)) == row


def test_a_field_of_a_later_version_is_left_out() -> None:
    text = '{"first_at":1,"ran_at":2,"new":1,"queues":{"dlq":{"messages":3,"new":4}}}'
    row = row_from_json(text)
    assert row is not None
    assert row.queues == {"dlq": QueueRow(messages=3)}


@each_row(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"first_at":"1","ran_at":2}',
        '{"first_at":true,"ran_at":2}',
        '{"first_at":1,"ran_at":2,"queues":[]}',
        '{"first_at":1,"ran_at":2,"queues":{"dlq":{"messages":"3"}}}',
        '{"first_at":1,"ran_at":2,"queues":{"dlq":{"filled_at":-7.5}}}',
        '{"first_at":1,"ran_at":2,"levels":{"x":{"value":3}}}',
        '{"first_at":NaN,"ran_at":2}',
        '{"first_at":1,"ran_at":2,"depths":[true]}',
        '{"first_at":1,"ran_at":2,"depths":3}',
        '{"first_at":1,"ran_at":2,"direction":3}',
        '{"first_at":1,"ran_at":2,"drain":[]}',
        '{"first_at":1,"ran_at":2,"drain":{"times":["1"]}}',
        '{"first_at":1,"ran_at":2,"drain":{"late":"1"}}',
        f'{{"first_at":1,"ran_at":2,"drain":{{"depths":[{"9" * 400}]}}}}',
        f'{{"first_at":1,"ran_at":2,"depths":[-{"9" * 400}]}}',
        '{"first_at":1,"ran_at":2,"replays":{"broken":[3]}}',
        '{"first_at":1,"ran_at":2,"circuits":{"openings":{"a":{"outage":3}}}}',
        '{"first_at":1,"ran_at":2,"circuits":{"stuck":{"a":3}}}',
        '{"first_at":1,"ran_at":2,"seen":[{"kind":"deep","since":"1"}]}',
    ],
)
def test_a_damaged_row_is_no_row(text: str) -> None:
    assert row_from_json(text) is None


@pytest.mark.parametrize(
    "facts", ["{}", '{"messages":"many","most":100}', '{"messages":NaN,"most":1}']
)
def test_a_trouble_that_lacks_a_fact_hides_no_other(facts: str) -> None:
    deep = f'{{"kind":"deep","since":1,"facts":{facts}}}'
    held = '{"kind":"circuit-open","since":1,"facts":{"key":"orders","seconds":1800}}'
    row = row_from_json(f'{{"first_at":1,"ran_at":2,"seen":[{deep},{held}]}}')
    assert row is None or [each.kind for each in row.seen] == [TroubleKind.CIRCUIT_OPEN]
    assert (row is None) is ("NaN" in facts)


def test_a_trouble_that_lacks_a_fact_of_its_command_is_left_out() -> None:
    seen = ",".join(
        f'{{"kind":"rule-invalid","since":1,"facts":{{"rules":"stop"{more}}}}}'
        for more in ("", ',"rule":"stop"')
    )
    row = row_from_json(f'{{"first_at":1,"ran_at":2,"seen":[{seen}]}}')
    assert row is not None
    assert [each.repair(pipeline="orders") for each in row.seen] == [
        'dlq rules undo stop --pipeline orders --reason "a slip"'
    ]


@each_row(
    ("data", "news"),
    [
        (None, NewsRow()),
        ([1], NewsRow()),
        ({"read_at": "1", "recovered_until": True, "causes": 3, "parked": [], "new": 1}, NewsRow()),
        ({"read_at": 1, "causes": {"f": {"messages": 3}, "g": 3}}, NewsRow(read_at=1.0)),
        (
            {"parked": {"a": {"messages": 1}, "b": {"messages": 1, "last": 2, "new": 3}}},
            NewsRow(parked={"b": ParkedRow(messages=1, last=2)}),
        ),
        ({"expiring": {"dlq": None, "main": 8}}, NewsRow(expiring={"main": 8})),
    ],
)
def test_of_news_what_is_malformed_is_forgotten(data: object, news: NewsRow) -> None:
    assert news_from_plain(data) == news


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


def test_an_idle_row_is_one_write_unit() -> None:
    minutes = Minutes()
    minutes.settings = replace(minutes.settings, dedicated=("slow",))
    minutes.now += 0.123
    minutes.pass_minutes(20)
    assert minutes.row is not None
    # The item has its keys, and a few attributes for people, beside the text.
    assert len(row_to_json(minutes.row)) < 900
