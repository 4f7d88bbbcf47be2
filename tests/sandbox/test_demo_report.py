"""What the report says is what was seen; one letter that was healed is told of."""

import subprocess
from dataclasses import replace

from deadletter.circuit.state import Circuit, State
from deadletter.contract import Category
from deadletter.failure.failure import Failure
from sandbox.alarms import SHORT_MINUTE
from sandbox.demo.chronicle import Chronicle, open_times, sample, thinned
from sandbox.demo.events import HEALTHY, RECOVERING, REFUSING, plan
from sandbox.demo.look import Look
from sandbox.demo.reconcile import DELIVERED
from sandbox.demo.report import MOST_LINES, ToldLetter, causes, choose, explained, tenants

EVENTS = plan(seed=1)
ORIGINS = {f"id-{event.event_id}": event for event in EVENTS}
BUSY = Failure(1.0, 0, Category.TRANSIENT, "EndpointBusy", http_status=503)
OPEN = Look(1.04, circuits={RECOVERING: Circuit("birch/default", State.OPEN)})


def of(tenant: str) -> list[str]:
    return [origin for origin, event in ORIGINS.items() if event.tenant == tenant][1:]


class Display:
    """Remembers what it was given."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.shown: list[Look] = []
        self.tell, self.show = self.told.append, self.shown.append


def test_what_is_told_and_seen_is_passed_on_and_written_down_with_its_time():
    display, now = Display(), [0.0]
    chronicle = Chronicle(display, lambda: now[0])  # type: ignore[arg-type]  # two of its methods
    chronicle.outage_began()
    now[0] = 7.04
    chronicle.tell("the circuit opens")
    chronicle.person_did("rule typed")
    chronicle.saw(OPEN)
    chronicle.outage_ended()
    assert display.told == ["the circuit opens", "rule typed"]
    assert display.shown == [OPEN]
    assert chronicle.timeline == [
        {"at": 7.0, "text": "the circuit opens"},
        {"at": 7.0, "text": "rule typed", "person": True},
    ]
    assert chronicle.samples == [sample(OPEN)]
    assert chronicle.outage == {"began": 0.0, "ended": 7.0}
    assert chronicle.outage_minutes == 7.0 / SHORT_MINUTE


def test_a_sample_has_the_state_of_each_tenants_circuit():
    assert sample(OPEN)["circuits"] == {HEALTHY: "CLOSED", RECOVERING: "OPEN", REFUSING: "CLOSED"}


def test_a_circuit_is_open_from_the_look_that_saw_it_to_the_look_that_saw_it_closed():
    looks = [Look(0), replace(OPEN, at=1), replace(OPEN, at=2), Look(3), replace(OPEN, at=4)]
    samples = [sample(look) for look in looks]
    assert open_times(samples, RECOVERING) == [{"from": 1, "to": 3}, {"from": 4, "to": 4}]
    assert open_times(samples, HEALTHY) == []


def test_many_samples_are_thinned_and_keep_their_ends():
    samples = [sample(Look(at)) for at in range(1000)]
    few = thinned(samples)
    assert len(few) == 400
    assert (few[0], few[-1]) == (samples[0], samples[-1])
    assert thinned(samples[:9]) == samples[:9]


def test_each_tenant_has_its_role_and_what_became_of_its_events():
    healed, parked = ORIGINS[of(RECOVERING)[0]], ORIGINS[of(REFUSING)[0]]
    ends = {healed.digest: DELIVERED, parked.digest: "QUARANTINED"}
    found = {row["name"]: row for row in tenants(EVENTS, ends, OPEN)}
    assert (found[RECOVERING]["role"], found[RECOVERING]["circuit"]) == ("down", "OPEN")
    assert (found[RECOVERING]["delivered"], found[RECOVERING]["parked"]) == (1, 0)
    assert (found[REFUSING]["delivered"], found[REFUSING]["parked"]) == (0, 1)


def test_causes_are_counted_by_the_first_failure_and_say_what_became_of_the_letters():
    first, second, third = of(RECOVERING)[:3]
    failures = {
        first: [BUSY, BUSY],
        second: [BUSY],
        third: [Failure(1.0, 0, Category.TRANSIENT, "RefusedWhileOpen"), BUSY],
    }
    ends = {ORIGINS[first].digest: DELIVERED, ORIGINS[second].digest: "EXPIRED"}
    assert causes(ORIGINS, failures, ends) == [
        {
            "cause": "HTTP 503",
            "tenant": RECOVERING,
            "failures": 3,
            "ended": "1 parked as EXPIRED, 1 delivered",
        },
        {
            "cause": "the circuit was not closed",
            "tenant": RECOVERING,
            "failures": 2,
            "ended": "1 lost",
        },
    ]


def test_the_letter_of_most_lives_that_was_healed_is_told_of():
    first, second, lost = of(RECOVERING)[:3]
    again = replace(BUSY, attempt=1)
    failures = {
        first: [BUSY, BUSY, BUSY],
        second: [BUSY, again],
        lost: [BUSY, again, again],
        of(REFUSING)[0]: [BUSY, again, again],
    }
    healed = {ORIGINS[origin].digest for origin in (first, second, of(REFUSING)[0])}
    assert choose(ORIGINS, failures, healed) == second
    assert choose(ORIGINS, failures, set()) is None


def test_a_letter_is_told_of_by_the_real_command():
    typed = []

    def dlq(words):
        typed.append(words)
        return subprocess.CompletedProcess(words, 0, "its life\n", "")

    assert explained("id-1", dlq) == ToldLetter("id-1", "dlq show id-1", "its life\n")
    assert typed == [["show", "id-1"]]


def test_a_long_life_is_shortened_and_says_where_the_rest_is():
    whole = "\n".join(map(str, range(MOST_LINES)))
    assert ToldLetter("id", "dlq show id", whole).shown == whole
    shown = ToldLetter("id", "dlq show id", whole + "\nx\ny").shown.splitlines()
    assert len(shown) == MOST_LINES
    assert shown[-1] == "… 3 more lines: dlq show id"
