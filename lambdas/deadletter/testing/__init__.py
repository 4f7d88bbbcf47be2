"""Fixtures for the tests of a team's own consumer: `pytest_plugins = ["deadletter.testing"]`.

Without pytest there are the fakes and the clock, which simulations use.
"""

from __future__ import annotations

from deadletter.testing.clock import Clock
from deadletter.testing.effects import Effects, at_every_effect
from deadletter.testing.fakes.lambda_ import Context
from deadletter.testing.letterbox import Letterbox, Parked, Run

__all__ = [
    "Clock",
    "Context",
    "Effects",
    "Letterbox",
    "Parked",
    "Run",
    "at_every_effect",
    "letterbox",
    "letterbox_settings",
]

try:
    from deadletter.testing.fixtures import letterbox, letterbox_settings
except ModuleNotFoundError as missing:
    if missing.name != "pytest":
        raise
    __all__.remove("letterbox")
    __all__.remove("letterbox_settings")
