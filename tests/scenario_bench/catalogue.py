"""The scenarios, one row each. Times are seconds since the first message."""

from __future__ import annotations

from typing import Any

from tests.scenario_bench.scenario import MAIL, PAYMENTS, Burst, Event, Scenario, Spell, Trouble

MINUTE = 60.0
HOUR = 60 * MINUTE
QUIET = 5 * MINUTE
"""Every scenario begins with healthy minutes."""


def _outage(length: float, trouble: Trouble = Trouble.ERROR, **affected: Any) -> tuple[Spell, ...]:
    """One spell after the quiet minutes; `affected` are further fields of it."""
    return (Spell(begins=QUIET, ends=QUIET + length, trouble=trouble, **affected),)


FLAPS = tuple(
    Spell(begins=QUIET + 40 * turn, ends=QUIET + 40 * turn + 20, trouble=Trouble.REFUSED)
    for turn in range(15)
)

SLOW_RECOVERY = (
    Spell(begins=QUIET, ends=QUIET + 3 * MINUTE),
    Spell(begins=QUIET + 3 * MINUTE, ends=QUIET + 8 * MINUTE, trouble=Trouble.OVERLOAD),
)

HALF_FIX = (
    Spell(begins=QUIET, ends=QUIET + 10 * MINUTE, trouble=Trouble.BUG),
    Spell(begins=QUIET + 10 * MINUTE, ends=QUIET + 30 * MINUTE, trouble=Trouble.BUG, odd=True),
)


def _minority(count: int) -> Scenario:
    return Scenario(
        name=f"minority-{count}",
        title=f"{count} of 20 tenants dead, 20 min (circuit_key not set)",
        rate=3,
        lasts=40 * MINUTE,
        tenants=20,
        spells=_outage(20 * MINUTE, tenants=tuple(f"t{number}" for number in range(count))),
    )


SCENARIOS = (
    Scenario(name="calm", title="nothing happens (control)", rate=5, lasts=10 * MINUTE, tail=60),
    Scenario(
        name="outage-3m",
        title="total outage, 3 min",
        rate=5,
        lasts=20 * MINUTE,
        spells=_outage(3 * MINUTE),
    ),
    Scenario(
        name="outage-3m-full-hands",
        title="the same, 100 messages in hand",
        rate=5,
        lasts=20 * MINUTE,
        in_hand=100,
        spells=_outage(3 * MINUTE),
    ),
    Scenario(
        name="outage-30m",
        title="total outage, 30 min",
        rate=5,
        lasts=60 * MINUTE,
        spells=_outage(30 * MINUTE),
    ),
    Scenario(
        name="outage-6h",
        title="total outage, 6 h",
        rate=0.5,
        lasts=7 * HOUR,
        tail=2 * HOUR,
        spells=_outage(6 * HOUR),
    ),
    Scenario(
        name="limited",
        title="total outage, 5 min, of a dependency that serves at most 10/s",
        rate=5,
        lasts=30 * MINUTE,
        tail=15 * MINUTE,
        capacity=10,
        spells=_outage(5 * MINUTE),
    ),
    Scenario(
        name="rate-limit",
        title="429 with Retry-After to all above 4/s, 25 min",
        rate=5,
        lasts=50 * MINUTE,
        spells=_outage(25 * MINUTE, Trouble.THROTTLED, limit=4.0),
    ),
    Scenario(
        name="rate-limit-fifo",
        title="the same, FIFO, 20 groups (mapping not ours)",
        rate=5,
        lasts=50 * MINUTE,
        keys=20,
        fifo=True,
        ours=False,
        spells=_outage(25 * MINUTE, Trouble.THROTTLED, limit=4.0),
    ),
    Scenario(
        name="timeouts",
        title="timeouts instead of errors, 10 min",
        rate=5,
        lasts=25 * MINUTE,
        spells=_outage(10 * MINUTE, Trouble.TIMEOUT),
    ),
    Scenario(
        name="brown-out-30",
        title="brown-out 30 %, 30 min",
        rate=5,
        lasts=50 * MINUTE,
        spells=_outage(30 * MINUTE, share=0.3),
    ),
    Scenario(
        name="brown-out-60",
        title="brown-out 60 %, 30 min",
        rate=5,
        lasts=50 * MINUTE,
        spells=_outage(30 * MINUTE, share=0.6),
    ),
    Scenario(
        name="one-key",
        title="one key of 50 dead, 30 min (circuit_key set)",
        rate=5,
        lasts=50 * MINUTE,
        keys=50,
        settings={"circuit_key": "body.endpoint"},
        spells=_outage(30 * MINUTE, key="e0"),
    ),
    Scenario(
        name="tenant-burst",
        title="one tenant's burst fails, 10 min (circuit_key not set)",
        rate=5,
        lasts=30 * MINUTE,
        tenants=20,
        bursts=(Burst(begins=QUIET, ends=QUIET + 10 * MINUTE, rate=10, tenant="t0"),),
        spells=_outage(10 * MINUTE, tenants=("t0",)),
    ),
    *map(_minority, (3, 4, 9)),
    Scenario(
        name="big-messages",
        title="the big messages fail, 10 % of all, 30 min",
        rate=2,
        lasts=50 * MINUTE,
        big=0.1,
        spells=_outage(30 * MINUTE, big=True),
    ),
    Scenario(
        name="one-of-two-unnamed",
        title="two dependencies that the handler does not name, one dead 15 min",
        rate=3,
        lasts=35 * MINUTE,
        needs=((PAYMENTS,), (PAYMENTS, MAIL)),
        spells=_outage(15 * MINUTE, dependency=MAIL),
    ),
    Scenario(
        name="flapping",
        title="flapping 20/20 s, 10 min",
        rate=5,
        lasts=35 * MINUTE,
        spells=FLAPS,
    ),
    Scenario(
        name="slow-recovery",
        title="outage 3 min, then 5 min of growing strength",
        rate=5,
        lasts=30 * MINUTE,
        spells=SLOW_RECOVERY,
    ),
    Scenario(
        name="poison-5",
        title="5 % poison, healthy dependency, 2 h",
        rate=2,
        lasts=2 * HOUR,
        poison=0.05,
    ),
    Scenario(
        name="poison-30",
        title="30 % poison, healthy dependency, 2 h",
        rate=2,
        lasts=2 * HOUR,
        poison=0.30,
    ),
    Scenario(
        name="poison-5-theirs",
        title="5 % poison, 2 h (mapping not ours)",
        rate=2,
        lasts=2 * HOUR,
        poison=0.05,
        ours=False,
    ),
    Scenario(
        name="outage-3m-theirs",
        title="total outage, 3 min (mapping not ours)",
        rate=5,
        lasts=20 * MINUTE,
        spells=_outage(3 * MINUTE),
        ours=False,
    ),
    Scenario(
        name="outage-30m-theirs",
        title="total outage, 30 min (mapping not ours)",
        rate=5,
        lasts=60 * MINUTE,
        spells=_outage(30 * MINUTE),
        ours=False,
    ),
    Scenario(
        name="outage-6h-theirs",
        title="total outage, 6 h (mapping not ours)",
        rate=0.5,
        lasts=7 * HOUR,
        tail=2 * HOUR,
        spells=_outage(6 * HOUR),
        ours=False,
    ),
    Scenario(
        name="health-url",
        title="total outage, 30 min (health URL)",
        rate=5,
        lasts=60 * MINUTE,
        spells=_outage(30 * MINUTE),
        has_health_url=True,
    ),
    Scenario(
        name="health-url-lies",
        title="total outage, 15 min (health URL says that all is well)",
        rate=5,
        lasts=40 * MINUTE,
        spells=_outage(15 * MINUTE),
        has_health_url=True,
        health_lies=True,
    ),
    Scenario(
        name="bad-deployment",
        title="a deployment refuses every message for 20 min (pydantic)",
        rate=2,
        lasts=150 * MINUTE,
        tail=75 * MINUTE,
        spells=(Spell(begins=65 * MINUTE, ends=85 * MINUTE, trouble=Trouble.BUG),),
    ),
    Scenario(
        name="half-fix",
        title="a deployment refuses all messages 10 min, then every second one 20 min (pydantic)",
        rate=2,
        lasts=50 * MINUTE,
        tail=40 * MINUTE,
        spells=HALF_FIX,
    ),
    Scenario(
        name="bad-replies",
        title="200 with an empty body, 3 min (pydantic)",
        rate=5,
        lasts=25 * MINUTE,
        spells=_outage(3 * MINUTE, Trouble.EMPTY),
    ),
    Scenario(
        name="bad-replies-json",
        title="200 with HTML, 3 min (json.loads)",
        rate=5,
        lasts=25 * MINUTE,
        spells=_outage(3 * MINUTE, Trouble.HTML),
    ),
    Scenario(
        name="slow-calls",
        title="every call takes 8 s, 10 min",
        rate=5,
        lasts=40 * MINUTE,
        spells=_outage(10 * MINUTE, Trouble.SLOW),
    ),
    Scenario(
        name="expired-key",
        title="expired API key (401), 60 h",
        rate=0.02,
        lasts=66 * HOUR,
        tail=12 * HOUR,
        spells=_outage(60 * HOUR, Trouble.UNAUTHORIZED),
    ),
    Scenario(
        name="execution-killed",
        title="outage 10 min, its execution killed",
        rate=5,
        lasts=30 * MINUTE,
        spells=_outage(10 * MINUTE),
        events=((QUIET + 5 * MINUTE, Event.KILL_EXECUTION),),
    ),
    Scenario(
        name="row-deleted",
        title="outage 10 min, the row deleted while paused",
        rate=5,
        lasts=60 * MINUTE,
        spells=_outage(10 * MINUTE),
        events=((QUIET + 5 * MINUTE, Event.DELETE_ROW),),
    ),
    Scenario(
        name="nothing-to-probe",
        title="outage 10 min, nothing left to probe with",
        rate=5,
        lasts=40 * MINUTE,
        pause=(QUIET + MINUTE, QUIET + 20 * MINUTE),
        spells=_outage(10 * MINUTE),
        events=((QUIET + 2 * MINUTE, Event.PURGE),),
    ),
    Scenario(
        name="forced-open",
        title="forced open and forgotten, 2 h",
        rate=1,
        lasts=2 * HOUR,
        events=((QUIET, Event.FORCE_OPEN),),
    ),
    Scenario(
        name="two-dependencies",
        title="two named dependencies in one handler, one dead 30 min",
        rate=5,
        lasts=60 * MINUTE,
        needs=((PAYMENTS,), (PAYMENTS, MAIL)),
        named=True,
        spells=_outage(30 * MINUTE, dependency=MAIL),
    ),
    Scenario(
        name="fifo",
        title="FIFO, 20 groups, total outage 3 min",
        rate=5,
        lasts=20 * MINUTE,
        keys=20,
        fifo=True,
        spells=_outage(3 * MINUTE),
    ),
    Scenario(
        name="fifo-poison-burst",
        title="FIFO, 20 groups, 22 poisonous messages in a row in one of them",
        rate=2,
        lasts=20 * MINUTE,
        tail=30 * MINUTE,
        keys=20,
        fifo=True,
        bursts=(Burst(begins=QUIET, ends=QUIET + 1, rate=22, key="e0", poison=True),),
    ),
    Scenario(
        name="fifo-theirs",
        title="FIFO, 20 groups, total outage 3 min (mapping not ours)",
        rate=5,
        lasts=20 * MINUTE,
        keys=20,
        fifo=True,
        ours=False,
        spells=_outage(3 * MINUTE),
    ),
)

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
