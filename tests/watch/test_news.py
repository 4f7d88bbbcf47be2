"""News: each is told once in the ordinary case, and at least once in any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deadletter.contract import DAY, HOUR, MINUTE, EventType
from deadletter.watch.news import (
    MOST_CAUSES,
    CausesLook,
    News,
    NewsLook,
    RecoveredLetters,
    SeenCause,
    count_recovered,
    judge_news,
    reads_causes,
    told,
)
from deadletter.watch.row import LaneRow, NewsRow, QueueRow, WatchRow
from deadletter.watch.watch_settings import WatchSettings
from tests.each_row import each_row
from tests.events.emitted import problems

BEGIN = 1_800_000_000.0
SETTINGS = WatchSettings(
    pipeline="orders", message_ttl=12.0 * DAY, parking=("default", "fraud"), dedicated=("slow",)
)
APPEARED, OVER = EventType.CAUSE_APPEARED, EventType.CAUSE_OVER
PARKED, RECOVERED = EventType.MESSAGES_PARKED, EventType.MESSAGES_RECOVERED


@dataclass
class Newsdesk:
    """The news of one pipeline, minute by minute. What a test changes is seen in the next one.

    `failing` are the letters of each cause, `failed_at` when each last failed if not just now;
    `dead` are letters in the DLQ, `parked` those of each parking queue.
    """

    now: float = BEGIN
    failing: dict[str, int] = field(default_factory=dict)
    failed_at: dict[str, float] = field(default_factory=dict)
    is_whole: bool = True
    is_readable: bool = True
    dead: int = 1
    parked: dict[str, int] = field(default_factory=dict)
    lanes: dict[str, LaneRow] = field(default_factory=dict)
    rescued_at: dict[str, float] = field(default_factory=dict)
    expiry: dict[str, float] = field(default_factory=dict)
    recovered: int = 0
    bus_is_up: bool = True
    row: NewsRow = field(default_factory=NewsRow)
    told: list[tuple[float, News]] = field(default_factory=list)
    asked: list[tuple[float, float]] = field(default_factory=list)
    reads: int = 0
    dead_at: float | None = None

    def pass_minutes(self, count: int) -> None:
        for _ in range(count):
            self.look()

    def look(self, *, crashes: bool = False) -> list[News]:
        """One minute; with `crashes` it ends after its news were put, before the row is written."""
        if self.dead:
            self.dead_at = self.now
        row = WatchRow(
            first_at=BEGIN, ran_at=self.now, queues=self._queues(), lanes=self.lanes, news=self.row
        )
        causes = None
        if reads_causes(row, self.now) and self.is_readable:
            self.reads += 1
            causes = CausesLook(
                {name: self._seen(name, count) for name, count in self.failing.items()},
                self.is_whole,
            )
        window = count_recovered(row, self.now)
        recovered = None
        if window is not None:
            self.asked.append(window)
            recovered = RecoveredLetters(self.recovered, *window)
        look = NewsLook(causes=causes, recovered=recovered, expiry=self.expiry)
        after, news = judge_news(row, look, SETTINGS, self.now)
        for each in news:
            if self.bus_is_up:
                assert problems(each.type, self._whole(each.detail)) == []
                self.told.append((self.now, each))
                after = told(after, each, self.now)
        if not crashes:
            self.row = after
        self.now += MINUTE
        return list(news) if self.bus_is_up else []

    def _whole(self, detail: Mapping[str, Any]) -> dict[str, Any]:
        return {"version": 1, "app": "shop", "pipeline": "orders", "at": self.now, **detail}

    def _seen(self, name: str, count: int) -> SeenCause:
        return SeenCause(
            messages=count,
            since=self.now - 30,
            last_at=self.failed_at.get(name, self.now - 1),
            sample=f"{name}-1",
            category="transient",
            error_type="HTTPError",
            http_status=503,
        )

    def _queues(self) -> dict[str, QueueRow]:
        dlq = QueueRow(messages=self.dead, read_at=self.now, held_at=self.dead_at)
        parking = {
            f"parking:{id_}": QueueRow(
                messages=self.parked.get(id_, 0),
                read_at=self.now,
                held_at=self.now if self.parked.get(id_) else None,
                rescued_at=self.rescued_at.get(id_),
            )
            for id_ in SETTINGS.parking
        }
        return {"main": QueueRow(messages=7, held_at=self.now), "dlq": dlq, **parking}

    def of(self, *types: EventType) -> list[tuple[str, str]]:
        return [(news.type, news.about) for _, news in self.told if news.type in types]


# Causes.


def test_a_new_cause_is_announced_once_with_what_a_person_needs() -> None:
    desk = Newsdesk(failing={"a": 12})
    desk.pass_minutes(60)
    assert desk.of(APPEARED, OVER) == [(APPEARED, "a")]
    assert desk.told[0][1].detail == {
        "cause": "a",
        "category": "transient",
        "error_type": "HTTPError",
        "http_status": 503,
        "messages": 12,
        "is_at_least": False,
        "since": BEGIN - 30,
        "sample": "a-1",
        "command": "dlq groups orders",
    }


def test_a_cause_is_over_when_no_letter_has_waited_for_it_for_five_minutes() -> None:
    desk = Newsdesk(failing={"a": 12})
    desk.pass_minutes(2)
    desk.failing["a"] = 40
    desk.pass_minutes(1)
    desk.failing.clear()
    desk.pass_minutes(4)
    assert desk.of(OVER) == []
    desk.pass_minutes(1)
    assert desk.of(APPEARED, OVER) == [(APPEARED, "a"), (OVER, "a")]
    assert desk.told[-1][1].detail["messages"] == 40
    desk.failing["a"] = 1
    desk.pass_minutes(1)
    assert desk.of(APPEARED, OVER)[2:] == [(APPEARED, "a")]


def test_a_cause_that_an_index_loses_for_a_moment_is_not_over() -> None:
    desk = Newsdesk(failing={"a": 1})
    for _ in range(20):
        desk.pass_minutes(1)
        desk.failing = {} if desk.failing else {"a": 1}
    assert desk.of(APPEARED, OVER) == [(APPEARED, "a")]


def test_a_look_that_was_not_whole_or_failed_ends_no_cause() -> None:
    desk = Newsdesk(failing={"a": 1})
    desk.pass_minutes(1)
    desk.failing.clear()
    desk.is_whole = False
    desk.pass_minutes(30)
    desk.is_readable = False
    desk.pass_minutes(30)
    assert desk.of(OVER) == []
    desk.is_whole = desk.is_readable = True
    desk.pass_minutes(1)
    assert desk.of(OVER) == [(OVER, "a")]


def test_rows_of_letters_that_somebody_else_deleted_are_no_new_cause() -> None:
    desk = Newsdesk(failing={"old": 3, "new": 3}, failed_at={"old": BEGIN - 2 * HOUR})
    desk.pass_minutes(3)
    assert desk.of(APPEARED) == [(APPEARED, "new")]


def test_a_cause_that_began_while_causes_could_not_be_read_is_announced() -> None:
    desk = Newsdesk()
    desk.pass_minutes(1)
    desk.is_readable = False
    desk.failing, desk.failed_at = {"a": 3}, {"a": desk.now}
    desk.pass_minutes(3 * 60)
    desk.is_readable = True
    desk.pass_minutes(2)
    assert desk.of(APPEARED) == [(APPEARED, "a")]


def test_without_dead_letters_causes_end_and_are_not_read_any_more() -> None:
    desk = Newsdesk(failing={"a": 1})
    desk.pass_minutes(2)
    # Its row stays: somebody else has purged the queue.
    desk.dead = 0
    desk.pass_minutes(67)
    assert desk.of(APPEARED, OVER) == [(APPEARED, "a"), (OVER, "a")]
    reads = desk.reads
    desk.pass_minutes(24 * 60)
    assert desk.reads == reads
    assert desk.row == NewsRow()


@each_row(("is_readable", "read"), [(True, 15), (False, 0)])
def test_the_last_whole_look_is_remembered_for_a_quarter_of_an_hour(
    is_readable: bool, read: int
) -> None:
    desk = Newsdesk()
    desk.pass_minutes(1)
    desk.dead, desk.is_readable = 0, is_readable
    desk.pass_minutes(15)
    assert desk.row.read_at == BEGIN + read * MINUTE
    desk.pass_minutes(1)
    assert desk.row.read_at == 0


def test_an_idle_pipeline_reads_nothing_and_remembers_nothing() -> None:
    desk = Newsdesk(dead=0)
    desk.pass_minutes(100)
    assert (desk.reads, desk.asked, desk.told, desk.row) == (0, [], [], NewsRow())


def test_parked_letters_alone_are_no_reason_to_read_causes() -> None:
    desk = Newsdesk(dead=0, parked={"default": 5}, lanes={"parked": LaneRow(held_at=BEGIN)})
    desk.pass_minutes(30)
    assert desk.reads == 0


def test_only_so_many_causes_are_remembered_the_largest_first_and_others_follow() -> None:
    desk = Newsdesk(failing={f"c{n:02}": n + 1 for n in range(MOST_CAUSES + 5)})
    desk.pass_minutes(2)
    names = [name for _, name in desk.of(APPEARED)]
    assert len(names) == MOST_CAUSES
    assert "c04" not in names
    del desk.failing["c54"]
    desk.pass_minutes(7)
    assert [name for _, name in desk.of(APPEARED)][MOST_CAUSES:] == ["c04"]


# What the bus and crashes do.


def test_news_that_the_bus_did_not_take_are_told_when_it_does() -> None:
    desk = Newsdesk(failing={"a": 1}, parked={"fraud": 2}, expiry={"dlq": 100.0}, bus_is_up=False)
    desk.pass_minutes(5)
    assert desk.told == []
    desk.bus_is_up = True
    desk.pass_minutes(5)
    assert desk.of(*EventType) == [
        (APPEARED, "a"),
        (PARKED, "fraud"),
        (EventType.MESSAGES_EXPIRE_SOON, "dlq"),
    ]
    desk.bus_is_up = False
    desk.failing.clear()
    desk.pass_minutes(10)
    desk.bus_is_up = True
    desk.pass_minutes(10)
    assert desk.of(OVER) == [(OVER, "a")]


def test_a_cause_that_ends_before_anyone_could_be_told_of_it_is_no_news() -> None:
    desk = Newsdesk(failing={"a": 1}, bus_is_up=False)
    desk.pass_minutes(2)
    desk.failing.clear()
    desk.pass_minutes(10)
    desk.bus_is_up = True
    desk.pass_minutes(10)
    assert desk.told == []


def test_after_a_crash_between_the_event_and_the_row_it_is_told_again() -> None:
    desk = Newsdesk(failing={"a": 1}, parked={"default": 1})
    desk.look(crashes=True)
    desk.pass_minutes(5)
    assert desk.of(APPEARED) == [(APPEARED, "a")] * 2
    assert desk.of(PARKED) == [(PARKED, "default")] * 2


# Recovered, parked, expiring.


def test_recovered_letters_are_counted_without_gap_or_overlap() -> None:
    desk = Newsdesk()
    desk.pass_minutes(15)
    desk.recovered = 40
    desk.pass_minutes(60)
    assert all(one[1] == two[0] for one, two in zip(desk.asked, desk.asked[1:], strict=False))
    assert desk.of(RECOVERED) == [(RECOVERED, "")] * len(desk.asked[1:])
    detail = desk.told[0][1].detail
    assert detail["count"] == 40
    assert (detail["since"], detail["until"]) == desk.asked[1]
    assert len(desk.asked) == 7
    # CloudWatch may take three minutes until its count is complete.
    assert desk.told[0][0] == detail["until"] + 3 * MINUTE


def test_recovered_letters_that_were_not_taken_are_counted_again() -> None:
    desk = Newsdesk(recovered=3, bus_is_up=False)
    desk.pass_minutes(20)
    desk.bus_is_up = True
    desk.pass_minutes(1)
    [(_, news)] = desk.told
    assert (news.detail["since"], news.detail["until"]) == desk.asked[-1]
    assert news.detail["since"] == desk.asked[0][0]


def test_counting_ends_a_while_after_the_last_dead_letter() -> None:
    desk = Newsdesk()
    desk.pass_minutes(1)
    desk.dead = 0
    desk.pass_minutes(60)
    assert len(desk.asked) == 2
    assert desk.row.recovered_until == 0


def test_parked_letters_are_a_digest_of_ten_minutes() -> None:
    desk = Newsdesk()
    for _ in range(30):
        desk.parked["default"] = desk.parked.get("default", 0) + 2
        desk.pass_minutes(1)
    counts = [(news.detail["count"], news.detail["messages"]) for _, news in desk.told]
    assert counts == [(2, 2), (20, 22), (20, 42)]


def test_letters_that_leave_are_no_news_and_those_that_come_after_are() -> None:
    desk = Newsdesk(parked={"default": 10})
    desk.pass_minutes(15)
    desk.parked["default"] = 4
    desk.pass_minutes(15)
    desk.parked["default"] = 5
    desk.pass_minutes(15)
    assert [news.detail["count"] for _, news in desk.told] == [10, 1]


def test_a_queue_that_was_emptied_and_fills_again_is_told_of_after_ten_minutes() -> None:
    desk = Newsdesk(parked={"default": 2})
    desk.pass_minutes(1)
    desk.parked["default"] = 0
    desk.pass_minutes(3)
    desk.parked["default"] = 2
    desk.pass_minutes(15)
    assert [at for at, _ in desk.told] == [BEGIN, BEGIN + 10 * MINUTE]
    desk.parked["default"] = 0
    desk.pass_minutes(15)
    assert desk.row.parked == {}


def test_one_low_count_of_sqs_makes_no_news() -> None:
    desk = Newsdesk(parked={"default": 10})
    desk.pass_minutes(15)
    desk.parked["default"] = 9
    desk.pass_minutes(1)
    desk.parked["default"] = 10
    desk.pass_minutes(15)
    assert len(desk.of(PARKED)) == 1


def test_a_rescue_from_the_parking_queue_to_its_lane_makes_no_news() -> None:
    desk = Newsdesk(parked={"default": 10})
    desk.pass_minutes(15)
    desk.rescued_at["default"] = desk.now
    for queue, lane in ((10, 4), (0, 4), (0, 10)):
        desk.parked["default"] = queue
        desk.lanes["parked"] = LaneRow(messages=lane)
        desk.pass_minutes(7)
    assert len(desk.of(PARKED)) == 1
    desk.lanes["parked"] = LaneRow(messages=12)
    desk.pass_minutes(2)
    assert desk.told[-1][1].detail == {
        "queue": "default",
        "count": 2,
        "messages": 12,
        "command": "dlq list --in parked --look --pipeline orders",
    }


def test_a_source_is_announced_once_for_each_time_that_it_comes_near_its_expiry() -> None:
    soon, letters_expire = SETTINGS.alarms.letter_expiry, EventType.MESSAGES_EXPIRE_SOON
    desk = Newsdesk(expiry={"dlq": soon + 1.0, "main": soon - 1.0})
    desk.pass_minutes(5)
    assert desk.of(letters_expire) == [(letters_expire, "main")]
    for left in (soon, soon + 60.0, soon + 3_600.0, soon):
        desk.expiry["dlq"] = left
        desk.pass_minutes(5)
        assert desk.of(letters_expire)[1:] == [(letters_expire, "dlq")]
    for left in (soon + 3_601.0, soon):
        desk.expiry["dlq"] = left
        desk.pass_minutes(1)
    assert desk.of(letters_expire)[2:] == [(letters_expire, "dlq")]
    del desk.expiry["dlq"]
    desk.pass_minutes(1)
    desk.expiry["dlq"] = 10.0
    desk.pass_minutes(5)
    assert desk.of(letters_expire)[3:] == [(letters_expire, "dlq")]


# Any minutes.

MINUTES = st.lists(
    st.tuples(
        st.frozensets(st.sampled_from("abcd"), max_size=4),  # what fails
        st.booleans(),  # whether the index is read
        st.booleans(),  # whether the look is whole
        st.booleans(),  # whether the bus is up
    ),
    max_size=60,
)


@given(MINUTES)
def test_each_cause_that_appears_and_stays_is_announced_exactly_once_until_it_is_over(
    minutes: list[tuple[frozenset[str], bool, bool, bool]],
) -> None:
    desk = Newsdesk()
    for failing, is_readable, is_whole, bus_is_up in minutes:
        desk.failing = dict.fromkeys(failing, 1)
        desk.is_readable, desk.is_whole, desk.bus_is_up = is_readable, is_whole, bus_is_up
        desk.pass_minutes(1)
    for cause in "abcd":
        told_of = [type_ for type_, about in desk.of(APPEARED, OVER) if about == cause]
        # It appears and is over by turns, beginning with the first.
        assert told_of == [(APPEARED, OVER)[n % 2] for n in range(len(told_of))]
    # What fails now, and goes on, is known as soon as the bus and the index answer.
    desk.is_readable = desk.is_whole = desk.bus_is_up = True
    desk.pass_minutes(1)
    for cause in desk.failing:
        told_of = [type_ for type_, about in desk.of(APPEARED, OVER) if about == cause]
        assert told_of[-1] is APPEARED
    # And what fails no more is over for everybody who was told of it.
    desk.failing = {}
    desk.pass_minutes(10)
    for cause in "abcd":
        told_of = [type_ for type_, about in desk.of(APPEARED, OVER) if about == cause]
        assert len(told_of) % 2 == 0


def test_the_row_of_the_property_would_notice_a_second_announcement() -> None:
    desk = Newsdesk(failing={"a": 1})
    desk.pass_minutes(1)
    desk.row = replace(desk.row, causes={"a": replace(desk.row.causes["a"], is_told=False)})
    desk.pass_minutes(1)
    assert desk.of(APPEARED) == [(APPEARED, "a")] * 2
