"""What happens in the demo besides the mail: a rule stands, more is sent, an endpoint is mended.

Nothing happens by the clock. Each step waits for what was seen, so a slow machine tells the same
story, in the same order.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sandbox.demo.events import HEALTHY, RECOVERING, REFUSING, TENANTS, named
from sandbox.demo.look import Look
from sandbox.demo.pipeline import COOLDOWN_SECONDS, DemoPipeline
from sandbox.demo.receiver import Receiver

QUARANTINE_RULE = f"quarantine-{REFUSING}"


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """Something that is done once, as soon as *when* is true, and told in the words of *says*."""

    when: Callable[[Look], bool]
    act: Callable[[], None]
    says: str


def register(pipeline: DemoPipeline, receiver: Receiver) -> str:
    """Say where the tenants want their events, and tell of it."""
    for tenant in TENANTS:
        pipeline.register(tenant, receiver.url(tenant))
    return (
        f"three tenants: {named(HEALTHY)} answers 200, {named(RECOVERING)} 503,"
        f" {named(REFUSING)} always 422"
    )


def type_rule(pipeline: DemoPipeline) -> str:
    """Type the rule for the tenant that is known to refuse, and tell of it."""
    pipeline.add_rule(
        QUARANTINE_RULE,
        tenantId=REFUSING,
        action="QUARANTINE",
        reason="answers 422 to whatever is sent, since yesterday",
    )
    return (
        f"{named(REFUSING)} has refused everything since yesterday: a person has typed rule"
        f" {QUARANTINE_RULE}, so what fails there waits for a decision"
    )


def steps(
    *,
    later: Collection[str],
    send_later: Callable[[], None],
    mend: Callable[[], None],
) -> Sequence[ScriptStep]:
    """List what happens while the mail is on its way; the app does the rest by itself.

    *later* are the digests of the events that *send_later* sends; *mend* ends the outage.
    """

    def healthy_goes_on(look: Look) -> bool:
        """An event that was sent while the circuit was open has reached the healthy tenant."""
        return any(
            visit.tenant == HEALTHY and visit.accepted and visit.digest in later
            for visit in look.visits
        )

    return [
        ScriptStep(
            circuit_opened,
            send_later,
            f"{named(RECOVERING)} takes nothing: its circuit opens, and its messages wait;"
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
            f"one of {named(RECOVERING)}'s messages went first, the canary, and failed again:"
            " all others go on waiting",
        ),
        ScriptStep(
            only_waiting,
            mend,
            f"all others have settled; {named(RECOVERING)}'s wait, the one of a megabyte"
            " in S3; now the endpoint is up again",
        ),
        ScriptStep(
            circuit_closed,
            _nothing,
            "canaries came through: the circuit closes, the waiting messages go",
        ),
    ]


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
