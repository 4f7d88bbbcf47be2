"""Times at which a rule acts: a start, and windows of a day, by the clocks of a zone."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from deadletter.rules.rule import RuleRefused, read_rule
from deadletter.rules.rulebook import NO_MATCH
from deadletter.rules.windows import any_open, read_windows
from tests.each_row import each_row
from tests.rules.rule_items import PIPELINE, book, document, item, rule_of
from tests.samples import NOW

NIGHT = "22:00-06:00 Europe/Berlin"


def at(text: str) -> float:
    """Epoch seconds of an ISO 8601 time with a zone."""
    return datetime.fromisoformat(text).timestamp()


def is_open(active: str, moment: str) -> bool:
    return any_open(read_windows(active), at(moment))


def hours_open(active: str, start: str, hours: int) -> float:
    """Hours within some hours from `start` in which a window is open, by the quarter."""
    begin = datetime.fromisoformat(start)
    quarters = [begin + timedelta(minutes=15 * n) for n in range(4 * hours)]
    windows = read_windows(active)
    return sum(any_open(windows, quarter.timestamp()) for quarter in quarters) / 4


@each_row(
    ("moment", "expected"),
    [
        ("2026-11-20T21:59:59+01:00", False),
        ("2026-11-20T22:00:00+01:00", True),
        ("2026-11-21T00:00:00+01:00", True),
        ("2026-11-21T05:59:59+01:00", True),
        ("2026-11-21T06:00:00+01:00", False),
        ("2026-07-20T20:00:00+00:00", True),
        ("2026-07-20T19:59:59+00:00", False),
    ],
)
def test_a_window_is_open_while_the_clocks_of_its_zone_show_a_time_in_it(
    moment: str, expected: bool
) -> None:
    assert is_open(NIGHT, moment) is expected


@each_row(
    ("moment", "expected"),
    [
        ("2026-11-20T08:00:00+00:00", True),  # a Friday
        ("2026-11-20T18:00:00+00:00", False),
        ("2026-11-21T12:00:00+00:00", False),
        ("2026-11-22T12:00:00+00:00", False),
        ("2026-11-23T07:59:00+00:00", False),
        ("2026-11-23T08:00:00+00:00", True),
    ],
)
def test_a_window_may_be_of_some_days_only(moment: str, expected: bool) -> None:
    assert is_open("mon-FRI 8:00 - 18:00 UTC", moment) is expected


def test_a_window_past_midnight_belongs_to_the_day_on_which_it_opens() -> None:
    assert is_open("Fri 22:00-06:00 UTC", "2026-11-21T05:00:00+00:00")
    assert not is_open("Fri 22:00-06:00 UTC", "2026-11-20T05:00:00+00:00")
    assert is_open("Sat-Mon 22:00-06:00 UTC", "2026-11-24T05:00:00+00:00")
    assert not is_open("Sat-Mon 22:00-06:00 UTC", "2026-11-24T22:00:00+00:00")


def test_several_windows_are_open_when_one_of_them_is() -> None:
    both = "Mon-Fri 12:00-13:00 UTC, Sat-Sun 00:00-24:00 UTC"
    assert hours_open(both, "2026-11-16T00:00:00+00:00", 7 * 24) == 5 + 48


# The two nights of a year in which the clocks change. Berlin: 29 March 2026, 02:00 becomes 03:00,
# and 25 October 2026, 03:00 becomes 02:00.


@each_row(
    ("active", "evening", "hours"),
    [
        (NIGHT, "2026-03-27T20:00:00+00:00", 8),
        (NIGHT, "2026-03-28T20:00:00+00:00", 7),
        (NIGHT, "2026-10-24T18:00:00+00:00", 9),
        (NIGHT, "2026-10-25T18:00:00+00:00", 8),
        ("02:00-03:00 Europe/Berlin", "2026-03-28T18:00:00+00:00", 0),
        ("02:00-03:00 Europe/Berlin", "2026-10-24T18:00:00+00:00", 2),
        ("02:30-03:30 Europe/Berlin", "2026-03-28T18:00:00+00:00", 0.5),
        ("02:30-03:30 Europe/Berlin", "2026-10-24T18:00:00+00:00", 1.5),
    ],
)
def test_in_the_nights_of_a_clock_change_a_window_follows_the_clocks(
    active: str, evening: str, hours: float
) -> None:
    assert hours_open(active, evening, 18) == hours


def test_on_the_night_the_clocks_go_forward_a_window_opens_and_closes_at_its_own_times() -> None:
    assert not is_open(NIGHT, "2026-03-28T20:59:59+00:00")
    assert is_open(NIGHT, "2026-03-28T21:00:00+00:00")
    assert is_open(NIGHT, "2026-03-29T03:59:59+00:00")
    assert not is_open(NIGHT, "2026-03-29T04:00:00+00:00")


def test_on_the_night_the_clocks_go_back_a_window_opens_and_closes_at_its_own_times() -> None:
    assert not is_open(NIGHT, "2026-10-24T19:59:59+00:00")
    assert is_open(NIGHT, "2026-10-24T20:00:00+00:00")
    assert is_open(NIGHT, "2026-10-25T04:59:59+00:00")
    assert not is_open(NIGHT, "2026-10-25T05:00:00+00:00")


# Texts that are no windows.


@each_row(
    ("typed", "why"),
    [
        ("22:00-06:00", "active must be [DAY[-DAY] ]HH:MM-HH:MM ZONE"),
        ("22-6 UTC", "active must be [DAY[-DAY] ]HH:MM-HH:MM ZONE"),
        ("22:00-06:00 UTC,", "active must be [DAY[-DAY] ]HH:MM-HH:MM ZONE"),
        ("x" * 81, f"UTC': '{'x' * 80}'"),
        ("", "active must be text such as"),
        (7, "active must be text such as"),
        ("22:00-06:00 Mars/Olympus", "unknown time zone; allowed are IANA names"),
        ("22:00-06:00 Europe", "unknown time zone; allowed are IANA names"),
        ("22:00-06:00 ../../etc/passwd", "active must be [DAY[-DAY] ]HH:MM-HH:MM ZONE"),
        ("22:00-06:00 /etc/passwd", "unknown time zone"),
        ("22:60-06:00 UTC", "a time outside 00:00 to 24:00: '22:60'"),
        ("22:00-24:01 UTC", "a time outside 00:00 to 24:00: '24:01'"),
        ("24:00-06:00 UTC", "opens at 24:00; midnight is 00:00"),
        ("06:00-06:00 UTC", "a window without length; the whole day is 00:00-24:00"),
        ("Mon-Fre 06:00-08:00 UTC", "unknown day; allowed are Mon, Tue, Wed"),
        (",".join(["06:00-08:00 UTC"] * 21), "active has more than 20 windows"),
    ],
)
def test_a_text_that_is_no_window_makes_the_rule_invalid(typed: object, why: str) -> None:
    with pytest.raises(RuleRefused) as refused:
        read_rule(item(active=typed), PIPELINE)
    assert why in str(refused.value)


def test_the_notice_of_an_unknown_zone_does_not_repeat_what_was_typed() -> None:
    with pytest.raises(RuleRefused) as refused:
        read_rule(item(active="22:00-06:00 s3cret/zone"), PIPELINE)
    assert "s3cret" in str(refused.value)
    assert "s3cret" not in refused.value.gist


# Rules with times.


def test_a_rule_acts_from_its_start_on() -> None:
    rules = book(item(starts_at=NOW + 60), item("next", priority=200))
    assert rule_of(rules.first(document(), NOW + 59, {})) == "next"
    assert rule_of(rules.first(document(), NOW + 60, {})) == "r"
    assert rules.holding(NOW, {}) == ("next",)


@pytest.mark.parametrize("ends", [NOW, NOW - 1])
def test_a_rule_that_would_end_before_it_starts_is_refused(ends: float) -> None:
    with pytest.raises(RuleRefused, match="starts_at must be before expires_at"):
        read_rule(item(starts_at=NOW, expires_at=ends), PIPELINE)


def test_a_rule_acts_in_its_windows_only() -> None:
    rules = book(item(active=NIGHT))
    by_day, by_night = at("2026-11-20T12:00:00+01:00"), at("2026-11-20T23:00:00+01:00")
    assert rules.first(document(), by_day, {}) is NO_MATCH
    assert rule_of(rules.first(document(), by_night, {})) == "r"
    assert rules.holding(by_day, {}) == ()
    assert rules.holding(by_night, {}) == ("r",)
    [trial] = rules.explain(document(), by_day, {}, diverted=False)
    assert trial.outcome == "outside its active times"


def test_another_edition_begins_when_a_rule_starts_and_when_its_window_opens_or_closes() -> None:
    begin = at("2026-11-20T12:00:00+01:00")
    rules = book(item(active=NIGHT, starts_at=begin), item("other", tenantId="b"))
    moments = [
        "2026-11-20T11:59:59+01:00",
        "2026-11-20T12:00:00+01:00",
        "2026-11-20T21:59:59+01:00",
        "2026-11-20T22:00:00+01:00",
        "2026-11-21T05:59:59+01:00",
        "2026-11-21T06:00:00+01:00",
    ]
    editions = [rules.edition(at(moment), {}) for moment in moments]
    shut, open_ = editions[0], editions[3]
    assert shut != open_
    assert editions == [shut, shut, shut, open_, open_, shut]
    plain = book(item(starts_at=begin))
    assert plain.edition(begin - 1, {}) != plain.edition(begin, {})


def test_a_rule_outside_its_times_is_not_called_used_up() -> None:
    rules = book(item(max_matches=1, starts_at=NOW + 1))
    assert rules.at_limit(NOW, {"r": 1}) == ()
    assert rules.at_limit(NOW + 1, {"r": 1}) == ("r",)
