"""A report of a demo, as `sandbox.demo.run` writes it."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

from sandbox.demo.beside import MEASURED, Way, beside
from sandbox.demo.events import plan
from sandbox.demo.person import DAY_BEFORE, MORNING, Act


@cache
def ways_beside() -> list[Way]:
    """The other ways, played once for all tests."""
    return [*beside(plan(1), outage_minutes=3)]


def report(**changes: Any) -> dict[str, Any]:
    """One where everything went well."""
    own = Way.of(
        "Deadletter",
        MEASURED,
        [Act(DAY_BEFORE, "types a rule"), Act(MORNING, "looks")],
        "messages wait",
        late=0,
        sorted=52,
        broken=18,
        poison_rounds=40,
        lost=0,
        duplicates=0,
        changed=0,
        left=0,
    )
    ways = [own, *ways_beside()]
    return {
        "sent": 331,
        "delivered": 279,
        "parked_by_reason": {"MALFORMED": 12, "QUARANTINED": 40},
        "waiting": 0,
        "lost": 0,
        "duplicates": 0,
        "healed": 98,
        "recovered": 100,
        "held": 100,
        "strangers": 0,
        "altered": 0,
        "astray": 0,
        "unrecorded": 0,
        "alarms_that_rang": [],
        "timeline": [
            {"at": 1.6, "text": "an AWS of your own is up"},
            {"at": 41.9, "text": "birch takes nothing: <its circuit> opens"},
        ],
        "samples": [
            {
                "at": float(at),
                "main": max(0, 331 - 20 * at),
                "dlq": 10 if 5 < at < 30 else 0,
                "waiting_room": min(100, 4 * at) if at < 40 else max(0, 100 - 20 * (at - 40)),
                "parking_lot": min(52, 2 * at),
                "delivered": min(179, 12 * at) if at < 40 else min(279, 179 + 20 * (at - 40)),
                "circuits": {
                    "aspen": "CLOSED",
                    "birch": "CLOSED"
                    if at < 6 or at >= 42
                    else "HALF_OPEN"
                    if at >= 38
                    else "OPEN",
                    "cedar": "CLOSED",
                },
            }
            for at in range(60)
        ],
        "outage": {"began": 0.0, "ended": 39.0},
        "circuit_open": [{"from": 6.0, "to": 42.0}],
        "tenants": [
            {
                "name": "aspen",
                "role": "healthy",
                "circuit": "CLOSED",
                "delivered": 179,
                "parked": 6,
                "answers": {"200": 179},
            },
            {
                "name": "birch",
                "role": "down",
                "circuit": "CLOSED",
                "delivered": 100,
                "parked": 3,
                "answers": {"200": 100, "503": 187},
            },
            {
                "name": "cedar",
                "role": "refuses",
                "circuit": "CLOSED",
                "delivered": 0,
                "parked": 43,
                "answers": {"422": 61},
            },
        ],
        "causes": [
            {
                "cause": "503 Service Unavailable",
                "tenant": "birch",
                "failures": 100,
                "ended": "100 delivered after the outage",
            },
            {
                "cause": "422 <Unprocessable>",
                "tenant": "cedar",
                "failures": 40,
                "ended": "40 parked: QUARANTINED",
            },
        ],
        "letter": {
            "id": "76bf7f15",
            "command": "dlq show 76bf7f15",
            "output": "Letter 76bf7f15 of pipeline orders\n  life 1: failed with 503 & waited",
        },
        "beside": deepcopy([way.as_json() for way in ways]),
        **changes,
    }
