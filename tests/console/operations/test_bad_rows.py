"""A bad row is named with the command that repairs it, or that shows it."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from console.operations.watched import bad_row
from tests.each_row import each_row

APP: Any = SimpleNamespace(circuits_table="shop-circuits", messages_table="shop-messages")
ITS = '--pipeline orders --reason "it answers"'
NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@each_row(
    ("row", "command"),
    [
        ("shop-circuits orders orders", f"dlq circuit release {ITS}"),
        ("shop-circuits orders acme/a b", f"dlq circuit release 'acme/a b' {ITS}"),
        ("shop-messages orders#lease dlq", 'dlq retry --auto -p orders --reason "repaired"'),
        (
            "shop-messages orders#message#7 message",
            "aws dynamodb get-item --table-name shop-messages --key"
            """ '{"pk": {"S": "orders#message#7"}, "sk": {"S": "message"}}'""",
        ),
        (
            "shop-circuits orders #causes",
            "aws dynamodb get-item --table-name shop-circuits --key"
            """ '{"pipeline": {"S": "orders"}, "circuit_key": {"S": "#causes"}}'""",
        ),
    ],
)
def test_each_row_has_a_command(row: str, command: str) -> None:
    bad = bad_row(APP, "orders", row, NOW.timestamp() - 7_200, NOW)
    assert bad.repair(pipeline="orders") == command
    assert bad.says().startswith(f"a row cannot be read, 2 h 00 min ago: {row}")


def test_a_row_that_was_read_just_now_has_no_time() -> None:
    bad = bad_row(APP, "orders", "shop-messages orders#lease dlq", 0.0, NOW)
    assert "ago" not in bad.says()
