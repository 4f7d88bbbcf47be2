"""What happens in the demo besides the mail: two rules typed, an endpoint mended, one rule deleted."""

from collections.abc import Callable
from dataclasses import dataclass

from sandbox.demo.events import HEALTHY, RECOVERING, REFUSING, SNAPSHOT_TYPE, TENANTS
from sandbox.demo.look import Look
from sandbox.demo.pipeline import Pipeline
from sandbox.demo.receiver import Receiver

# Long enough for letters to come back into the outage and fail again.
OUTAGE_SECONDS = 40.0

HOLD_RULE = "hold-snapshots"
QUARANTINE_RULE = f"quarantine-{REFUSING}"


@dataclass(frozen=True, slots=True)
class Step:
    """Something that is done once, as soon as *when* is true, and told in the words of *says*."""

    when: Callable[[Look], bool]
    act: Callable[[], None]
    says: str


def script(pipeline: Pipeline, receiver: Receiver) -> list[Step]:
    """The steps in no particular order: each waits for what it looks out for."""

    def register() -> None:
        for tenant in TENANTS:
            pipeline.register(tenant, receiver.url(tenant))

    def hold() -> None:
        pipeline.add_rule(
            HOLD_RULE,
            messageType=SNAPSHOT_TYPE,
            action="HOLD",
            reason="a megabyte each: not before the endpoint is back",
        )

    def quarantine() -> None:
        pipeline.add_rule(
            QUARANTINE_RULE,
            tenantId=REFUSING,
            action="QUARANTINE",
            reason="answers 422 to whatever is sent again",
        )

    return [
        Step(
            at_once,
            register,
            f"{HEALTHY}'s endpoint is well, {RECOVERING}'s answers 503, {REFUSING}'s refuses all"
            " with 422",
        ),
        Step(at_once, hold, f"rule {HOLD_RULE} typed: a snapshot that failed has to wait"),
        Step(
            refused_again,
            quarantine,
            f"{REFUSING} refuses what was re-driven: rule {QUARANTINE_RULE} typed",
        ),
        Step(outage_is_over, receiver.mend, f"{RECOVERING}'s endpoint is up again"),
        Step(
            recovered,
            lambda: pipeline.remove_rule(HOLD_RULE),
            f"{RECOVERING} takes events: rule {HOLD_RULE} deleted",
        ),
    ]


def at_once(_: Look) -> bool:
    return True


def refused_again(look: Look) -> bool:
    """A letter of the bad tenant came back, and is refused as before."""
    return any(one.tenant == REFUSING and one.attempt > 1 for one in look.visits)


def outage_is_over(look: Look) -> bool:
    """The snapshot, too, has failed, and waits in the waiting room, its body in S3."""
    return look.at >= OUTAGE_SECONDS and any(one.in_bucket for one in look.seated)


def recovered(look: Look) -> bool:
    return any(one.tenant == RECOVERING and one.accepted for one in look.visits)
