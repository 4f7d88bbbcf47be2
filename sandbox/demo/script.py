"""What happens in the demo besides the mail: rules are typed and deleted, an endpoint is mended.

Nothing happens by the clock. Each step waits for what was seen, so a slow machine tells the same
story, in the same order.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from sandbox.demo.events import HEALTHY, RECOVERING, REFUSING, SNAPSHOT_TYPE, TENANTS, named
from sandbox.demo.look import Look
from sandbox.demo.pipeline import DemoPipeline
from sandbox.demo.receiver import Receiver
from sandbox.demo.settings import COOLDOWN_SECONDS

HOLD_RULE = "hold-snapshots"
QUARANTINE_RULE = f"quarantine-{REFUSING}"


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """Something that is done once, as soon as *when* is true, and told in the words of *says*."""

    when: Callable[[Look], bool]
    act: Callable[[], None]
    says: str


def prepare(pipeline: DemoPipeline, receiver: Receiver) -> Iterator[str]:
    """Set the scene before the first event is sent, and tell of it."""
    for tenant in TENANTS:
        pipeline.register(tenant, receiver.url(tenant))
    yield (
        f"three tenants: {named(HEALTHY)} answers 200, {named(RECOVERING)} 503,"
        f" {named(REFUSING)} always 422"
    )
    pipeline.add_rule(
        HOLD_RULE,
        messageType=SNAPSHOT_TYPE,
        action="HOLD",
        reason="a megabyte each: not before the endpoint is back",
    )
    yield f"rule {HOLD_RULE} typed: a snapshot that fails has to wait (HOLD)"


def steps(
    pipeline: DemoPipeline,
    *,
    later: Collection[str],
    send_later: Callable[[], None],
    mend: Callable[[], None],
) -> Sequence[Sequence[ScriptStep]]:
    """List what happens while the mail is on its way, in threads that do not wait for each other.

    *later* are the digests of the events that *send_later* sends; *mend* ends the outage.
    """

    def healthy_goes_on(look: Look) -> bool:
        """An event that was sent while the circuit was open has reached the healthy tenant."""
        return any(
            visit.tenant == HEALTHY and visit.accepted and visit.digest in later
            for visit in look.visits
        )

    outage = [
        ScriptStep(
            circuit_opened,
            send_later,
            f"{named(RECOVERING)} takes nothing: its circuit opens, and its letters wait;"
            f" {len(later)} more events are sent",
        ),
        ScriptStep(
            healthy_goes_on,
            _nothing,
            f"{named(HEALTHY)} takes its events meanwhile: each endpoint has its own circuit",
        ),
        ScriptStep(
            canary_failed,
            _nothing,
            f"one of {named(RECOVERING)}'s letters went first, the canary, and failed again:"
            " all others go on waiting",
        ),
        ScriptStep(
            only_waiting,
            mend,
            f"all others have settled; {named(RECOVERING)}'s wait, the snapshot with its megabyte"
            " in S3; now the endpoint is up again",
        ),
        ScriptStep(
            circuit_closed,
            lambda: pipeline.remove_rule(HOLD_RULE),
            "canaries came through: the circuit closes, the waiting letters go;"
            f" rule {HOLD_RULE} deleted",
        ),
    ]
    refusal = [
        ScriptStep(
            refused_again,
            lambda: pipeline.add_rule(
                QUARANTINE_RULE,
                tenantId=REFUSING,
                action="QUARANTINE",
                reason="answers 422 to whatever is sent again",
            ),
            f"{named(REFUSING)} refuses re-driven letters, too: rule {QUARANTINE_RULE} typed,"
            " a person decides on them",
        ),
    ]
    return [outage, refusal]


def _nothing() -> None:
    """Do nothing: what the step tells of happens by itself."""


def circuit_opened(look: Look) -> bool:
    """It has been open, whatever it is by now."""
    return look.circuit.outage > 0


def canary_failed(look: Look) -> bool:
    """A letter went into the outage again and failed, which makes the next cooldown longer."""
    return look.circuit.cooldown > COOLDOWN_SECONDS


def only_waiting(look: Look) -> bool:
    """Nothing is on its way but what waits, the snapshot with it."""
    snapshot_waits = any(letter.in_bucket for letter in look.seated)
    return snapshot_waits and not look.main and not look.dlq


def circuit_closed(look: Look) -> bool:
    """It has been open, and is not any more."""
    return look.circuit.is_closed and look.circuit.closed_at > 0


def refused_again(look: Look) -> bool:
    """A letter of the bad tenant came back, and is refused as before."""
    return any(visit.tenant == REFUSING and visit.attempt > 1 for visit in look.visits)
