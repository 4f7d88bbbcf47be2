"""The settings of a pipeline, from the environment of its functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from deadletter.circuit.state import CircuitPolicy
from deadletter.contract import (
    DAY,
    EVERYTHING,
    FIRST_RATE,
    MINUTE,
    ROWS_KEPT,
    Body,
    LedgerKeeps,
    Mode,
    Variable,
)
from deadletter.settings.backoff import Backoff
from deadletter.settings.json_fields import as_object, build, changed, json_object
from deadletter.settings.setting import Constant, Derived, Id, Path, Seconds, Setting, ValueKind

RETRY = Backoff(base=10, cap=15 * MINUTE, floor=1)
"""The delays between the receives of one life: a minute's trouble is over within the life, and a
quarter of an hour is the longest that a message hides for one failure."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of attempts of a letter, and the delays between them.

    `max_attempts` counts re-drives since a person last released the letter; the
    first life in the main queue does not count.
    """

    backoff: Annotated[Backoff, Setting()] = field(default_factory=Backoff)
    """The delays between attempts."""
    max_attempts: Annotated[int, Setting(least=1, most=1000, first=True)] = 6
    """Retries before a message is parked as RETRIES_EXHAUSTED."""


@dataclass(frozen=True, slots=True)
class ReplayPolicy:
    """What a replay run does unless its plan says otherwise.

    `outcome_timeout` is the seconds after a send until its outcome counts as unknown.
    """

    approve_above: Annotated[int | None, Setting(least=0)] = None
    """A run of more messages waits until a person approves it; unset, none does for its size."""
    outcome_timeout: Derived[float] = 30 * MINUTE


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One main queue, its DLQ, its parking lot, and how letters between them are judged.

    All durations are seconds; paths are JMESPath expressions over the document. `message_ttl`
    counts from the first send of the letter's first life.
    """

    name: Annotated[str, ValueKind.PIPELINE_NAME, Setting(first=True)]
    """In the name of every resource of this pipeline."""
    mode: Annotated[Mode, Setting(first=True, depends=True)] = Mode.ENFORCE
    """Observe decides, counts and reports, and moves nothing. It is the default if a queue is
    yours, else enforce is."""
    fifo: Annotated[bool, Setting()] = False
    """Whether the pipeline's queues are FIFO, all of them."""
    body: Annotated[Body, Setting()] = Body.JSON
    """Whether a body that is not JSON makes a message MALFORMED."""
    context: Annotated[Mapping[str, Path], Setting(first=True)] = field(default_factory=dict)
    """What rules match on: a name and where to find it. tenantId is the tenant of dlq, messageType
    the type."""
    policy: Annotated[RetryPolicy, Setting()] = field(default_factory=RetryPolicy)
    """Attempts and delays."""
    policies: Annotated[Mapping[Id, RetryPolicy], Setting()] = field(default_factory=dict)
    """Other policies, by the name that rules use; each as `policy`."""
    message_ttl: Annotated[Seconds, Setting(least=MINUTE, most=30 * DAY, first=True)] = 12 * DAY
    """Age since the first send at which a message is parked as EXPIRED."""
    expires: Annotated[Path | None, Setting()] = None
    """Where the time is after which a message must not be sent any more: epoch seconds or
    milliseconds, or ISO 8601. It is parked as EXPIRED then. An unreadable time is ignored, and
    counted in UnreadableExpiry."""
    poison_lives: Annotated[int, Setting(least=1, most=100)] = 3
    """Attempts with the same failure after which a message is POISON."""
    consumer_library: Annotated[bool, Setting(first=True, depends=True)] = False
    """Whether the consumer records its failures (silence then means CRASH): the webhook always
    does, another only if you say so."""
    circuit_key: Annotated[Path | None, Setting(first=True)] = None
    """Where the dependency's name is. Else the webhook has one circuit for each endpoint
    (with `pipeline` one for all), any other consumer one for all."""
    circuit: Annotated[CircuitPolicy, Setting()] = field(default_factory=CircuitPolicy)
    """When a circuit opens, and how it closes again."""
    idempotency_key: Annotated[Path | None, Setting(first=True)] = None
    """Where the business key of a message is, so that none is processed twice with the same
    payload; else its first MessageId. It is looked for in the body, then in what
    SNS, EventBridge, a pipe or a CloudEvent wraps (docs/consumer.md)."""
    # Longer than any copy waits in main queue, DLQ and parking lot, one after the other.
    idempotency_keep: Constant[float] = ROWS_KEPT
    idempotency_payload: Annotated[str, ValueKind.COMPARED, Setting()] = EVERYTHING
    """What of two messages with one key is compared: all (the body without wrappers, and the
    attributes), none (the key alone decides), or a path to the part that a second publishing
    does not change."""
    ledger: Annotated[LedgerKeeps, Setting()] = LedgerKeeps.PLAIN
    """What is kept of a failure's text and of the values of `context`, which are content of
    messages, for `dlq groups` and `dlq show`: plain (the text without what may be data),
    hashed (the same, and hashes of the values), or none."""
    # One schedule for all: see RETRY.
    retry: Constant[Backoff] = RETRY
    rate: Annotated[float, Setting(above=0, most=10000)] = 500.0
    """The highest rate, in messages a second back to main: it starts with 50, rises while the
    consumer keeps up, and falls at the first sign of trouble."""
    # A rate that does not change: benches and simulations measure by it.
    fixed_rate: Constant[float | None] = None
    # Above it, what goes back only waits in another queue.
    backlog_limit: Constant[int] = 10_000
    # Chunks side by side: what one run can wait for. With half as many, calls of 10 to 100 ms cost
    # two fifths of the speed (ADR 47); with more, the processor is the limit.
    workers: Constant[int] = 16
    parking: Annotated[Mapping[Annotated[str, ValueKind.PARKED_FOR], Id], Setting()] = field(
        default_factory=dict
    )
    """The id of the parking queue, made for it, that a message goes to if not to `default`: by
    reason, such as `POISON`, or else by the category of its last failure, such as `schema`."""
    ordering_key: Annotated[Path | None, Setting()] = None
    """Where the key is whose messages are processed [in order](consumer-reference.md#in-order),
    which takes the consumer library. Else the message group in a FIFO pipeline, and no order in
    another."""
    sequence: Annotated[Path | None, Setting()] = None
    """Where a message's place within its ordering key is, as a number or text: once it is
    processed, an older one is skipped. Else the time of its first send, and none is."""
    replay: Annotated[ReplayPolicy, Setting()] = field(default_factory=ReplayPolicy)
    """What a replay run does unless its plan says otherwise."""
    dedicated: Derived[tuple[str, ...]] = ()

    @property
    def first_rate(self) -> float:
        """Letters per second of a run that knows nothing of the runs before it."""
        return self.fixed_rate or min(FIRST_RATE, self.rate)


def pipeline_from_json(text: str) -> Pipeline:
    """The pipeline in the environment variable PIPELINE, which the deployment wrote.

    Raises BadSettings with the invalid key: a function with invalid settings must not run.
    """
    where = Variable.PIPELINE
    data = json_object(where, text)
    policies = {
        name: changed(RetryPolicy(), f"{where}.policies.{name}", as_object(name, policy))
        for name, policy in as_object("policies", data.pop("policies", {})).items()
    }
    name = {key: data.pop(key) for key in ("name",) if key in data}
    pipeline = build(Pipeline, where, {**name, "policies": policies})
    return changed(pipeline, where, data)
