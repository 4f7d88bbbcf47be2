"""What the deployment tells the watch of its alarms."""

from __future__ import annotations

import pytest

from deadletter.contract import WATCH
from deadletter.settings.json_fields import BadSettings
from deadletter.watch.watch_settings import WatchSettings, alarms_from_json
from tests.each_row import each_row


def test_what_is_not_told_is_the_default() -> None:
    assert alarms_from_json("") == alarms_from_json("{}") == WATCH
    told = alarms_from_json('{"room_late":60,"scheduled":["slow"]}')
    assert told == WATCH._replace(room_late=60, scheduled=("slow",))


@each_row(
    ("text", "why"),
    [
        ("[]", "WATCH must be a JSON object"),
        ('{"rom_late":60}', "WATCH: unknown key 'rom_late'"),
        ('{"room_late":0}', "WATCH: room_late must be a whole number above 0"),
        ('{"room_late":true}', "WATCH: room_late must be a whole number above 0"),
        ('{"room_late":"60"}', "WATCH: room_late must be a whole number above 0"),
        ('{"scheduled":"slow"}', "WATCH: scheduled must be a JSON list of texts"),
    ],
)
def test_what_is_invalid_is_named(text: str, why: str) -> None:
    with pytest.raises(BadSettings, match=why):
        alarms_from_json(text)


def test_the_dlq_and_the_scheduled_ones_are_drained() -> None:
    alarms = WATCH._replace(scheduled=("slow", "of another"))
    settings = WatchSettings(
        pipeline="orders", message_ttl=1.0, dedicated=("slow", "vip"), alarms=alarms
    )
    assert settings.drained == ("dlq", "slow")
