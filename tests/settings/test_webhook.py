"""The settings of the webhook dispatcher."""

from __future__ import annotations

import pytest

from deadletter.settings.json_fields import BadSettings
from deadletter.settings.webhook import Webhook, webhook_from_json


def test_the_dispatchers_settings_are_read_and_checked() -> None:
    # Https on its own port, and never this machine.
    assert webhook_from_json("{}") == Webhook(5.0, allow_loopback=False, ports=(443,))
    assert webhook_from_json('{"timeout": 2, "ports": [8443]}') == Webhook(2, ports=(8443,))
    with pytest.raises(BadSettings, match="ports must be a JSON list of whole numbers"):
        webhook_from_json('{"ports": [true]}')
    with pytest.raises(BadSettings, match="unknown key 'url'"):
        webhook_from_json('{"url": "x"}')
