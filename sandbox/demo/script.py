"""What happens in the demo besides the mail: rules are typed and deleted, an endpoint is mended."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sandbox.demo.events import HEALTHY, RECOVERING, REFUSING, SNAPSHOT_TYPE, TENANTS
from sandbox.demo.look import Look
from sandbox.demo.pipeline import DemoPipeline
from sandbox.demo.receiver import Receiver

# Long enough for letters to come back into the outage and fail again.
OUTAGE_SECONDS = 40.0

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
    yield f"{HEALTHY}'s endpoint is well, {RECOVERING}'s answers 503, {REFUSING}'s always 422"
    pipeline.add_rule(
        HOLD_RULE,
        messageType=SNAPSHOT_TYPE,
        action="HOLD",
        reason="a megabyte each: not before the endpoint is back",
    )
    yield f"rule {HOLD_RULE} typed: a snapshot that fails has to wait"


def steps(pipeline: DemoPipeline, receiver: Receiver) -> list[ScriptStep]:
    """List what happens while the mail is on its way; each waits for its moment."""
    return [
        ScriptStep(
            refused_again,
            lambda: pipeline.add_rule(
                QUARANTINE_RULE,
                tenantId=REFUSING,
                action="QUARANTINE",
                reason="answers 422 to whatever is sent again",
            ),
            f"{REFUSING} refuses re-driven letters, too: rule {QUARANTINE_RULE} typed",
        ),
        ScriptStep(
            circuit_opened,
            _nothing,
            f"{RECOVERING} takes nothing: its circuit opens, and only its letters wait",
        ),
        ScriptStep(
            healthy_goes_on,
            _nothing,
            f"{HEALTHY} goes on taking events meanwhile",
        ),
        ScriptStep(outage_is_over, receiver.mend, f"{RECOVERING}'s endpoint is up again"),
        ScriptStep(circuit_closed, _nothing, "canaries came through: the circuit closes"),
        ScriptStep(
            recovered,
            lambda: pipeline.remove_rule(HOLD_RULE),
            f"{RECOVERING} takes events: rule {HOLD_RULE} deleted",
        ),
    ]


def _nothing() -> None:
    """Do nothing: what the step tells of happens by itself."""


def circuit_opened(look: Look) -> bool:
    return not look.circuit.is_closed


def healthy_goes_on(look: Look) -> bool:
    """The latest event went to the healthy tenant, while another's circuit is open."""
    latest = look.visits[-1] if look.visits else None
    return not look.circuit.is_closed and latest is not None and latest.tenant == HEALTHY


def circuit_closed(look: Look) -> bool:
    """It has been open, and is not any more."""
    return look.circuit.is_closed and look.circuit.closed_at > 0


def refused_again(look: Look) -> bool:
    """A letter of the bad tenant came back, and is refused as before."""
    return any(visit.tenant == REFUSING and visit.attempt > 1 for visit in look.visits)


def outage_is_over(look: Look) -> bool:
    """It has lasted, the snapshot sits in the waiting room, and the circuit has opened."""
    waits = any(letter.in_bucket for letter in look.seated)
    return look.at >= OUTAGE_SECONDS and waits and look.circuit.outage > 0


def recovered(look: Look) -> bool:
    """The endpoint that was down has taken an event."""
    return any(visit.tenant == RECOVERING and visit.accepted for visit in look.visits)
