"""The numbers of well-known libraries: the tables of them, and what of each family is common."""

from __future__ import annotations

from deadletter.contract import Blame
from deadletter.failure import codes
from tests.each_row import each_row

DEPENDENCY, CONFIGURATION, NEITHER = Blame.DEPENDENCY, Blame.CONFIGURATION, Blame.NEITHER


def test_no_table_of_numbers_has_lost_or_gained_a_row() -> None:
    counts = {
        vendor: {blame: len(numbers) for blame, numbers in tables.items()}
        for vendor, tables in codes.NUMBERS.items()
    }
    assert counts == {
        "mysql": {DEPENDENCY: 50, CONFIGURATION: 15},
        "sqlserver": {DEPENDENCY: 18, CONFIGURATION: 3},
        "snowflake": {CONFIGURATION: 16},
        "clickhouse": {DEPENDENCY: 20, CONFIGURATION: 9},
        "oracle": {DEPENDENCY: 31, CONFIGURATION: 8},
        "oracle thin": {DEPENDENCY: 7},
        "mongo": {DEPENDENCY: 28, CONFIGURATION: 5},
        "facebook": {DEPENDENCY: 7, CONFIGURATION: 5},
        "mail": {CONFIGURATION: 5},
        "amqp": {DEPENDENCY: 3, CONFIGURATION: 4},
        "websocket": {DEPENDENCY: 7},
        "curl": {DEPENDENCY: 11},
    }


@each_row("vendor", list(codes.NUMBERS))
def test_each_number_of_a_vendor_says_one_thing(vendor: str) -> None:
    """A number in two lists would be judged by the last."""
    listed = [number for numbers in codes.NUMBERS[vendor].values() for number in numbers]
    assert len(listed) == len(set(listed))


@each_row(
    ("code", "blame"),
    [
        (399, None),
        (400, DEPENDENCY),
        (499, DEPENDENCY),
        (500, NEITHER),
        (532, CONFIGURATION),
        (599, NEITHER),
        (600, None),
    ],
)
def test_a_reply_of_mail_is_judged_by_its_hundred(code: int, blame: Blame | None) -> None:
    assert codes.of_mail(code) is blame
