"""`dlq parked`: messages that automation has given up leave the parking queues."""

from __future__ import annotations

from .command import command, group
from .parked_release import release

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
