"""`dlq parked`: messages that automation has given up leave the parking queues, or come back."""

from __future__ import annotations

from .command import command, group
from .parked_release import discard, release, restore

typer_app = group("Messages that automation gave up and a person has to judge.")

command(
    typer_app,
    "release",
    example=[
        "dlq parked release orders --id 8f14e45f-ceea-467f-9575-2a8c1d6e2b11",
        'dlq parked release orders --reason POISON --why "fixed in 4.2.1"',
        "dlq parked release orders --tenant acme --since 2d",
        'dlq parked release orders --all --why "fixed in 4.2.1"',
    ],
)(release)

command(
    typer_app,
    "discard",
    example=[
        'dlq parked discard orders --reason EXPIRED --why "the sale is over"',
        "dlq parked discard orders --id 8f14e45f-ceea-467f-9575-2a8c1d6e2b11",
    ],
)(discard)

command(
    typer_app,
    "restore",
    example=[
        'dlq parked restore orders --run 4f0c1b2a3d4e5f60 --why "the wrong filter"',
        "dlq parked restore orders --id 8f14e45f-ceea-467f-9575-2a8c1d6e2b11",
        "dlq parked restore orders --reason POISON --tenant acme",
    ],
)(restore)
