"""What a person may say about an app and its pipelines, and what is refused.

Durations are whole seconds, or text such as "15m". A wrong setting stops the
synthesis with one sentence (see `refusal`). What the runtime library also names
(modes, reasons, defaults) is repeated here, because `infra` doesn't import it; a
test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)
from pydantic_core import PydanticCustomError

from .arn import Arn, NotAnArn
from .duration import DAY, HOUR, MINUTE, seconds, written
from .refusal import refuse

Reason = Literal[
    "QUARANTINED", "MALFORMED", "EXPIRED", "PERMANENT", "POISON", "SILENT", "EXHAUSTED"
]

# The parking queue that every pipeline has.
DEFAULT_PARKING = "default"

# SQS keeps no message longer.
LONGEST_RETENTION = 14 * DAY

# SQS hides no message longer.
LONGEST_VISIBILITY = 12 * HOUR

# Lambda's rule for an event source mapping: a batch that is retried inside the
# mapping must not become visible to another poller meanwhile.
VISIBILITY_PER_TIMEOUT = 6

# Names add up: EventBridge Scheduler and Lambda allow 64 characters for
# "<app>-<pipeline>-dlq_<dedicated id>".
APP_LENGTH, PIPELINE_LENGTH, ID_LENGTH = 14, 28, 16

WORDS = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"


def _words(length: int) -> Any:
    return Field(
        pattern=WORDS,
        max_length=length,
        json_schema_extra={
            "allowed": "lower-case letters, digits and single hyphens, starting with a letter,"
            f" at most {length} characters"
        },
    )


def _arn(kind: str, pattern: str, example: str) -> Any:
    shape = re.compile(pattern)

    def check(text: str) -> str:
        try:
            arn = Arn.parse(text)
        except NotAnArn:
            arn = None
        if arn is None or arn.service != kind or not shape.fullmatch(arn.resource):
            raise PydanticCustomError("not_an_arn", "not the ARN of this kind of thing")
        return text

    return AfterValidator(check), Field(json_schema_extra={"allowed": f"an ARN like {example}"})


def _expression(text: str) -> str:
    try:
        jmespath.compile(text)
    except JMESPathError as error:
        raise PydanticCustomError("jmespath", "does not compile") from error
    return text


AppName = Annotated[str, _words(APP_LENGTH)]
PipelineName = Annotated[str, _words(PIPELINE_LENGTH)]
Id = Annotated[str, _words(ID_LENGTH)]
WRITTEN = BeforeValidator(seconds), Field(json_schema_extra={"unit": "seconds"})
Seconds = Annotated[int, *WRITTEN]
Port = Annotated[int, Field(ge=1, le=65535)]
Visibility = Annotated[int, Field(ge=0, le=LONGEST_VISIBILITY), *WRITTEN]
Period = Annotated[int, Field(ge=10, le=DAY), *WRITTEN]
QueueArn = Annotated[
    str,
    *_arn("sqs", r"[A-Za-z0-9_-]{1,75}(\.fifo)?", "arn:aws:sqs:eu-west-1:111122223333:orders"),
]
FunctionArn = Annotated[
    str,
    *_arn(
        "lambda",
        r"function:[A-Za-z0-9_-]{1,64}(:[A-Za-z0-9_$-]+)?",
        "arn:aws:lambda:eu-west-1:111122223333:function:orders",
    ),
]
TopicArn = Annotated[
    str, *_arn("sns", r"[A-Za-z0-9_-]{1,256}", "arn:aws:sns:eu-west-1:111122223333:pager")
]
MappingId = Annotated[
    str,
    Field(
        pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        json_schema_extra={"allowed": "a UUID such as 1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f"},
    ),
]
HealthUrl = Annotated[
    str,
    Field(
        # The function's environment is no place for what a query or a user may hold.
        pattern=r"^https://[A-Za-z0-9.-]+(:443)?(/[^\s?#]*)?$",
        max_length=500,
        json_schema_extra={
            "allowed": "an https URL on port 443, without query, such as https://api.example/health"
        },
    ),
]
KeyArn = Annotated[
    str,
    *_arn("kms", r"key/[A-Za-z0-9-]+", "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd"),
]
Path = Annotated[
    str,
    AfterValidator(_expression),
    Field(json_schema_extra={"allowed": "a JMESPath expression, such as body.tenant"}),
]


class Settings(BaseModel):
    """Frozen, exact about types, and refusing what it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class BackoffSettings(Settings):
    """How long a letter waits: min(cap, base * factor^(attempt - 1)), full jitter, a floor."""

    base: Seconds = Field(default=60, ge=1, le=DAY, description="ceiling of the first delay")
    factor: float = Field(
        default=2.0, ge=1, le=100, description="growth of the ceiling per attempt"
    )
    cap: Seconds = Field(default=6 * HOUR, ge=1, le=14 * DAY, description="ceiling of every delay")
    floor: Seconds = Field(default=5, ge=0, le=DAY, description="the shortest delay")

    @model_validator(mode="after")
    def _in_order(self) -> BackoffSettings:
        if self.cap < self.base:
            raise refuse("cap", self.cap, f"at least the base, {written(self.base)}")
        if self.floor > self.cap:
            raise refuse("floor", self.floor, f"at most the cap, {written(self.cap)}")
        return self


class RetrySettings(BackoffSettings):
    """How long a message is hidden after a failure in the main queue, by its receives."""

    base: Seconds = Field(default=10, ge=1, le=DAY, description="ceiling of the first delay")
    cap: Seconds = Field(
        default=15 * MINUTE,
        ge=1,
        le=LONGEST_VISIBILITY,
        description="ceiling of every delay; SQS hides no message longer than 12h",
    )
    floor: Seconds = Field(default=1, ge=0, le=DAY, description="the shortest delay")


class PolicySettings(Settings):
    """How often, and how far apart, a letter may be tried again."""

    max_attempts: int = Field(
        default=6, ge=1, le=1000, description="re-drives before a letter is parked as EXHAUSTED"
    )
    backoff: BackoffSettings = Field(
        default=BackoffSettings(), description="the delays between attempts"
    )


# The lease of a canary, unless the consumer may take longer.
SHORTEST_LEASE = 2 * MINUTE

# Seconds of it that finding a letter and hearing the consumer's answer take: a prober that
# has less left sends nothing, and the circuit would never close.
CANARY_MARGIN = 30


class CircuitSettings(Settings):
    """When a circuit opens, how long it stays open, and how it comes back."""

    failure_rate: float = Field(
        default=0.5, gt=0, le=1, description="part of the outcomes in the window that opens it"
    )
    window: Seconds = Field(
        default=2 * MINUTE, ge=10, le=HOUR, description="how far back outcomes count"
    )
    minimum: int = Field(
        default=20, ge=1, le=100_000, description="outcomes in the window below which no rate opens"
    )
    consecutive: int = Field(
        default=10,
        ge=0,
        le=100_000,
        description="failures in a row that open it too; 0: however many",
    )
    cooldown: Seconds = Field(
        default=30, ge=1, le=DAY, description="how long it stays open the first time"
    )
    cooldown_factor: float = Field(
        default=2.0, ge=1, le=100, description="growth of the cooldown with each failed canary"
    )
    cooldown_cap: Seconds = Field(
        default=10 * MINUTE, ge=1, le=DAY, description="the longest cooldown"
    )
    settle: Seconds = Field(
        default=10 * MINUTE,
        ge=0,
        le=DAY,
        description="opening again so soon after it closed, it goes on where it was",
    )
    lease: Seconds | None = Field(
        default=None,
        ge=10,
        le=DAY,
        description="how long a canary may take before another is sent:"
        f" {written(CANARY_MARGIN)} longer than consumer.timeout; the default is twice that"
        f" timeout, but at least {written(SHORTEST_LEASE)}",
    )
    successes: int = Field(
        default=2,
        ge=1,
        le=100,
        description="canaries in a row that close it; 1 lets a flapping dependency close it",
    )
    ramp: Seconds = Field(
        default=5 * MINUTE, ge=0, le=DAY, description="how long until the full rate is back"
    )
    pause_consumer: bool = Field(
        default=False,
        description="whether the consumer's event source mapping is disabled while it is open:"
        " of a function of yours it takes consumer.mapping_id",
    )
    health_url: HealthUrl | None = Field(
        default=None,
        description="asked with GET, over the public internet, where there is no message to try"
        " the dependency with; 2xx: it works",
    )

    @model_validator(mode="after")
    def _in_order(self) -> CircuitSettings:
        if self.cooldown_cap < self.cooldown:
            raise refuse(
                "cooldown_cap",
                self.cooldown_cap,
                f"at least the cooldown, {written(self.cooldown)}",
            )
        return self


class QueueSettings(Settings):
    """A queue that you name by its ARN, or that is made for you."""

    arn: QueueArn | None = Field(default=None, description="your queue, which stays as it is")

    @model_validator(mode="after")
    def _yours_or_ours(self) -> Self:
        others = sorted(self.model_fields_set - {"arn"})
        if self.arn and others:
            key = others[0]
            raise refuse(key, getattr(self, key), "nothing beside arn: your queue stays as it is")
        return self


class MainQueue(QueueSettings):
    """The queue your consumer reads."""

    retention: Seconds = Field(
        default=4 * DAY, ge=MINUTE, le=LONGEST_RETENTION, description="how long SQS keeps a message"
    )
    visibility: Visibility | None = Field(
        default=None,
        description=f"at least {VISIBILITY_PER_TIMEOUT} times the consumer's timeout,"
        " which is also the default",
    )
    max_receive_count: int = Field(
        default=5,
        ge=1,
        le=1000,
        description="receives before a message becomes a letter; below 5, deliveries"
        " that Lambda throttled can use them up",
    )


class DeadLetterQueue(QueueSettings):
    """The queue that failed messages end in."""

    retention: Seconds = Field(
        default=LONGEST_RETENTION,
        ge=MINUTE,
        le=LONGEST_RETENTION,
        description="longer than the main queue's, because a standard queue counts from the"
        " first send",
    )


class DedicatedQueue(Settings):
    """A DLQ of its own for a tenant that a rule has isolated; nobody drains it by default."""

    enabled: bool = Field(default=False, description="whether its own schedule runs")
    every: Seconds = Field(
        default=MINUTE,
        ge=MINUTE,
        le=DAY,
        multiple_of=MINUTE,
        description="how often it is then drained",
    )


class WebhookConsumer(Settings):
    """The consumer that comes with the app: it posts each message to a registered endpoint."""

    kind: Literal["webhook"] = Field(default="webhook", description="what consumes the main queue")
    timeout: Seconds = Field(
        default=MINUTE, ge=1, le=900, description="of the function, a whole batch"
    )
    request_timeout: float = Field(
        default=5.0, gt=0, le=60, description="seconds that one POST may take"
    )
    batch_size: int = Field(default=10, ge=1, le=10, description="messages a batch")
    max_concurrency: int = Field(default=10, ge=2, le=1000, description="batches at once")
    ports: tuple[Port, ...] = Field(
        default=(443,), strict=False, description="ports that an endpoint's URL may name"
    )
    allow_loopback: bool = Field(
        default=False, description="post to this machine too: sandboxes only"
    )

    @model_validator(mode="after")
    def _outlives_a_batch(self) -> WebhookConsumer:
        # Killed in the middle, it would leave the whole batch to be sent again.
        longest = self.timeout / self.batch_size
        if self.request_timeout >= longest:
            raise refuse(
                "request_timeout",
                self.request_timeout,
                f"less than the timeout shared by a batch, {self.timeout} / {self.batch_size}"
                f" = {longest:g} seconds",
            )
        return self


class FunctionConsumerSettings(Settings):
    """A consumer function of yours, with its own event source mapping."""

    kind: Literal["function"] = Field(
        default="function", description="what consumes the main queue"
    )
    function_arn: FunctionArn = Field(description="your function")
    timeout: Seconds = Field(
        default=30,
        ge=1,
        le=900,
        description="of your function, to check visibility, and how long a canary may take",
    )
    mapping_id: MappingId | None = Field(
        default=None,
        description="its mapping from the main queue, which can be paused then (UUID in"
        " `aws lambda list-event-source-mappings`)",
    )


class NoConsumer(Settings):
    """Something that isn't a Lambda function consumes the main queue."""

    kind: Literal["none"] = Field(default="none", description="what consumes the main queue")
    timeout: Seconds = Field(
        default=30, ge=1, le=2 * HOUR, description="of whatever it is, to check visibility"
    )


def _consumer(value: object) -> object:
    if value == "none":
        return {"kind": "none"}
    if isinstance(value, dict) and "function_arn" in value:
        return {"kind": "function", **value}
    return value


Consumer = Annotated[
    Annotated[WebhookConsumer | FunctionConsumerSettings | NoConsumer, Field(discriminator="kind")],
    BeforeValidator(_consumer),
    Field(
        json_schema_extra={
            "allowed": "an object of kind webhook, function (with its function_arn) or none,"
            ' or just "none"'
        }
    ),
]


class ScheduleSettings(Settings):
    """The run that drains the DLQ."""

    every: Seconds = Field(
        default=MINUTE, ge=MINUTE, le=DAY, multiple_of=MINUTE, description="how often it starts"
    )
    timeout: Seconds = Field(default=55, ge=10, le=840, description="shorter than `every`")
    memory: int = Field(default=512, ge=128, le=10240, description="megabytes, which also buy CPU")

    @model_validator(mode="after")
    def _ends_before_the_next(self) -> ScheduleSettings:
        if self.timeout >= self.every:
            raise refuse("timeout", self.timeout, f"less than redrive.every, {written(self.every)}")
        return self


class AlarmSettings(Settings):
    """A metric looked at `periods` times in a row, each time over one `period`."""

    period: Period = Field(default=MINUTE, description="10s, 30s or whole minutes")
    periods: int = Field(default=1, ge=1, le=1440, description="breaching periods in a row")

    @model_validator(mode="after")
    def _evaluates(self) -> AlarmSettings:
        _check_period(self.period)
        if self.period * self.periods > DAY:
            raise refuse("periods", self.periods, f"at most {DAY // self.period}, a day in all")
        return self


def _check_period(period: int) -> None:
    if period % MINUTE and period not in (10, 30):
        raise refuse("period", period, "10s, 30s or whole minutes")


class DlqAgeAlarm(AlarmSettings):
    """Letters get old: they are not brought back, or not fast enough."""

    threshold: Seconds = Field(
        default=HOUR, ge=1, le=LONGEST_RETENTION, description="age of the oldest"
    )
    periods: int = Field(default=5, ge=1, le=1440, description="breaching periods in a row")


class DlqDepthAlarm(AlarmSettings):
    """Many letters at once: something is failing for everybody."""

    threshold: int = Field(default=100, ge=1, description="letters in the DLQ")
    periods: int = Field(default=5, ge=1, le=1440, description="breaching periods in a row")


class DominantFailureAlarm(AlarmSettings):
    """One and the same failure makes up most of the dead letters: a defect, not an accident."""

    threshold: int = Field(
        default=1,
        ge=1,
        description="letters of a run that failed alike; counted if they are more than 10 and"
        " more than half of it",
    )


class LedgerUnavailableAlarm(AlarmSettings):
    """Failures that the consumer library could not write down."""

    threshold: int = Field(default=1, ge=1, description="failures not written, a period")
    # A table that throttles for a moment loses a reason or two; five minutes lose the picture.
    periods: int = Field(default=5, ge=1, le=1440, description="breaching periods in a row")


class ParkingLotAlarm(AlarmSettings):
    """Letters that automation has given up."""

    threshold: int = Field(default=1, ge=1, description="letters in a parking queue")


# How long a circuit may be open before a person is called.
CIRCUIT_OPEN = 30 * MINUTE


class CircuitOpenAlarm(Settings):
    """The pipeline's circuit does not close: what the consumer depends on stays down."""

    after: Seconds | None = Field(
        default=None,
        ge=MINUTE,
        le=DAY,
        multiple_of=MINUTE,
        description="how long it has not been closed: at least redrive.every, which is the default"
        f" if it is longer than {written(CIRCUIT_OPEN)}",
    )


class CircuitFlappingAlarm(AlarmSettings):
    """The pipeline's circuit opens again and again: it closes too early, or for nothing."""

    threshold: int = Field(default=3, ge=1, description="outages a period")
    period: Period = Field(default=HOUR, description="10s, 30s or whole minutes")


class OpenCircuitsAlarm(AlarmSettings):
    """Dependencies of many keys are down at once; needs circuit_key."""

    threshold: int = Field(default=10, ge=1, description="circuits of single keys that are open")
    periods: int = Field(default=5, ge=1, le=1440, description="breaching periods in a row")


class CircuitBreakerFailedAlarm(AlarmSettings):
    """Executions of the circuit breaker's state machine that failed."""

    # One is replaced within two minutes; so is each of those that fail as well.
    threshold: int = Field(default=2, ge=1, description="failed executions a period")
    period: Period = Field(default=15 * MINUTE, description="10s, 30s or whole minutes")


class ErrorsAlarm(AlarmSettings):
    """Invocations of one of our functions that failed."""

    threshold: int = Field(default=1, ge=1, description="failed invocations a period")
    # One failed run heals itself a minute later; three in a row do not.
    periods: int = Field(default=3, ge=1, le=1440, description="breaching periods in a row")


class HeartbeatAlarm(Settings):
    """The schedule has stopped: no run at all within a period."""

    period: Period | None = Field(
        default=None,
        description="longer than redrive.every, which is also taken five times as the default",
    )

    @model_validator(mode="after")
    def _evaluates(self) -> HeartbeatAlarm:
        _check_period(self.period or MINUTE)
        return self


class AlarmsSettings(Settings):
    """When a person is called."""

    dlq_age: DlqAgeAlarm = Field(default=DlqAgeAlarm(), description="alarm DlqAge")
    dlq_depth: DlqDepthAlarm = Field(default=DlqDepthAlarm(), description="alarm DlqDepth")
    parking_lot: ParkingLotAlarm = Field(
        default=ParkingLotAlarm(), description="alarm ParkingLotNotEmpty, one a parking queue"
    )
    dominant_failure: DominantFailureAlarm = Field(
        default=DominantFailureAlarm(), description="alarm DominantFailure"
    )
    ledger_unavailable: LedgerUnavailableAlarm = Field(
        default=LedgerUnavailableAlarm(), description="alarm LedgerUnavailable"
    )
    circuit_open: CircuitOpenAlarm = Field(
        default=CircuitOpenAlarm(), description="alarm CircuitOpen"
    )
    circuit_flapping: CircuitFlappingAlarm = Field(
        default=CircuitFlappingAlarm(), description="alarm CircuitFlapping"
    )
    open_circuits: OpenCircuitsAlarm = Field(
        default=OpenCircuitsAlarm(), description="alarm OpenCircuits"
    )
    circuit_breaker_failed: CircuitBreakerFailedAlarm = Field(
        default=CircuitBreakerFailedAlarm(), description="alarm CircuitBreakerFailed"
    )
    redrive_errors: ErrorsAlarm = Field(default=ErrorsAlarm(), description="alarm RedriveErrors")
    router_errors: ErrorsAlarm = Field(default=ErrorsAlarm(), description="alarm RouterErrors")
    heartbeat: HeartbeatAlarm = Field(
        default=HeartbeatAlarm(), description="alarm RedriveHeartbeat"
    )


class PipelineSettings(Settings):
    """One main queue, its DLQ, its parking lot, and how letters between them are judged."""

    name: PipelineName = Field(description="in the name of everything this pipeline owns")
    mode: Literal["enforce", "observe"] = Field(
        default="enforce", description="observe decides, counts and reports, and moves nothing"
    )
    fifo: bool = Field(
        default=False, description="whether the pipeline's queues are FIFO, all of them"
    )
    main_queue: MainQueue = Field(default=MainQueue(), description="what the consumer reads")
    dlq: DeadLetterQueue = Field(default=DeadLetterQueue(), description="where failed messages end")
    shared_dlq: bool = Field(
        default=False, description="whether another pipeline of this app may name the same DLQ"
    )
    consumer: Consumer = Field(default=WebhookConsumer(), description="who consumes the main queue")
    redrive: ScheduleSettings = Field(
        default=ScheduleSettings(), description="the run that drains the DLQ"
    )
    body: Literal["json", "opaque"] = Field(
        default="json", description="whether a body that is not JSON makes a letter MALFORMED"
    )
    context: dict[str, Path] = Field(
        default_factory=dict, description="what rules match on: a name and where to find it"
    )
    policy: PolicySettings = Field(default=PolicySettings(), description="attempts and delays")
    policies: dict[Id, PolicySettings] = Field(
        default_factory=dict, description="other policies, which rules may name"
    )
    message_ttl: Seconds = Field(
        default=12 * DAY,
        ge=MINUTE,
        le=30 * DAY,
        description="age since the first send at which a letter is parked as EXPIRED",
    )
    max_delay: Seconds = Field(
        default=7 * DAY, ge=MINUTE, le=30 * DAY, description="the longest delay a rule may ask for"
    )
    poison_lives: int = Field(
        default=3,
        ge=1,
        le=100,
        description="lives with one and the same failure that make a POISON",
    )
    consumer_library: bool | None = Field(
        default=None,
        description="whether the consumer writes the ledger (silence then means SILENT): the"
        " webhook always does, another only if you say so",
    )
    circuit_key: Path | None = Field(
        default=None, description="where the dependency's name stands; else one circuit for all"
    )
    circuit: CircuitSettings = Field(
        default=CircuitSettings(), description="when a circuit opens, and how it closes again"
    )
    idempotency_key: Path | None = Field(
        default=None,
        description="where the business key of a message stands, so that no key is processed"
        " twice; else the MessageId of its first life",
    )
    idempotency_keep: Seconds = Field(
        default=45 * DAY,
        ge=MINUTE,
        le=365 * DAY,
        description="how long a message that was processed is remembered: longer than any copy"
        " of it can wait in the main queue, the DLQ and the parking lot, one after the other",
    )
    park_permanent: bool = Field(
        default=True,
        description="whether the consumer library sends a permanent failure straight to the"
        " parking lot, its other receives unused",
    )
    retry: RetrySettings = Field(
        default=RetrySettings(),
        description="the delays between the receives of one life in the main queue",
    )
    refuse_when_open: bool = Field(
        default=False,
        description="whether the consumer library gives messages back unprocessed while their"
        " circuit is open",
    )
    rate: float = Field(default=50.0, gt=0, le=10_000, description="letters a second back to main")
    burst: int = Field(
        default=500, ge=1, le=100_000, description="letters that may go back at once"
    )
    backlog_limit: int = Field(
        default=10_000, ge=1, description="nothing goes back while main holds more than this"
    )
    workers: int = Field(default=4, ge=1, le=32, description="chunks of letters moved side by side")
    dedicated: dict[Id, DedicatedQueue] = Field(
        default_factory=dict, description="DLQs for isolated tenants, by the id that rules use"
    )
    parking: tuple[Id, ...] = Field(
        default=(), strict=False, description="ids of parking queues beside the default one"
    )
    parking_for: dict[Reason, Id] = Field(
        default_factory=dict, description="which parking queue a reason goes to, if not default"
    )
    trusted_senders: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="unique ids of other roles whose Redrive attribute is believed: that of"
        " your own consumer, if it uses the consumer library, because it parks letters itself"
        " (`aws iam get-role --role-name R --query Role.RoleId`)",
    )
    alarms: AlarmsSettings = Field(default=AlarmsSettings(), description="when a person is called")

    @model_validator(mode="after")
    def _fits_together(self) -> PipelineSettings:
        self._check_names()
        self._check_queues()
        self._check_times()
        self._check_consumer()
        return self

    @property
    def visibility(self) -> int:
        """Seconds that the main queue hides a message from other receivers."""
        given = self.main_queue.visibility
        return self._least_visibility if given is None else given

    @property
    def writes_ledger(self) -> bool:
        """Whether the consumer uses the consumer library."""
        if self.consumer_library is None:
            return isinstance(self.consumer, WebhookConsumer)
        return self.consumer_library

    @property
    def lease(self) -> int:
        """Seconds that a canary may take."""
        return self.circuit.lease or max(SHORTEST_LEASE, 2 * self.consumer.timeout)

    @property
    def heartbeat(self) -> int:
        """Seconds without a run after which the schedule counts as stopped."""
        return self.alarms.heartbeat.period or min(5 * self.redrive.every, DAY)

    @property
    def circuit_open(self) -> int:
        """Seconds of an open circuit after which a person is called."""
        return self.alarms.circuit_open.after or max(CIRCUIT_OPEN, self.redrive.every)

    @property
    def arns(self) -> Iterator[tuple[str, str]]:
        """Key and value of every ARN that must lie where the pipeline is deployed."""
        if self.main_queue.arn:
            yield "main_queue.arn", self.main_queue.arn
        if self.dlq.arn:
            yield "dlq.arn", self.dlq.arn
        if isinstance(self.consumer, FunctionConsumerSettings):
            yield "consumer.function_arn", self.consumer.function_arn

    @property
    def _least_visibility(self) -> int:
        return min(VISIBILITY_PER_TIMEOUT * self.consumer.timeout, LONGEST_VISIBILITY)

    def _check_names(self) -> None:
        if self.name == "shared":
            raise refuse("name", self.name, "any other name; the stack of that name is taken")
        if "dlq" in self.dedicated:
            raise refuse("dedicated", "dlq", "ids other than dlq, which is the DLQ itself")
        if DEFAULT_PARKING in self.parking:
            raise refuse("parking", self.parking, "ids other than default, which is always there")
        if len(set(self.parking)) < len(self.parking):
            raise refuse("parking", self.parking, "each id once")
        known = (DEFAULT_PARKING, *self.parking)
        for reason, parking in self.parking_for.items():
            if parking not in known:
                raise refuse(f"parking_for.{reason}", parking, f"{', '.join(known)} (see parking)")

    def _check_queues(self) -> None:
        for key, queue in (("main_queue.arn", self.main_queue), ("dlq.arn", self.dlq)):
            if queue.arn and queue.arn.endswith(".fifo") != self.fifo:
                kind = "a FIFO queue" if self.fifo else "a standard queue"
                raise refuse(key, queue.arn, f"{kind}, because fifo is {str(self.fifo).lower()}")
        if self.main_queue.arn and self.main_queue.arn == self.dlq.arn:
            raise refuse("dlq.arn", self.dlq.arn, "another queue than main_queue.arn")
        both_ours = not self.main_queue.arn and not self.dlq.arn
        if both_ours and self.dlq.retention <= self.main_queue.retention:
            raise refuse(
                "dlq.retention",
                self.dlq.retention,
                f"more than main_queue.retention, {written(self.main_queue.retention)}",
            )
        if self.visibility < self._least_visibility:
            raise refuse(
                "main_queue.visibility",
                self.visibility,
                f"at least {VISIBILITY_PER_TIMEOUT} times consumer.timeout,"
                f" {written(self._least_visibility)}",
            )

    def _check_consumer(self) -> None:
        if isinstance(self.consumer, WebhookConsumer) and not self.writes_ledger:
            raise refuse("consumer_library", False, "true, because the webhook writes the ledger")
        if self.lease < self.consumer.timeout + CANARY_MARGIN:
            raise refuse(
                "circuit.lease",
                self.lease,
                f"at least {written(CANARY_MARGIN)} more than consumer.timeout,"
                f" {written(self.consumer.timeout + CANARY_MARGIN)}",
            )
        if self.circuit.pause_consumer and isinstance(self.consumer, NoConsumer):
            raise refuse(
                "circuit.pause_consumer", True, "false, because consumer is none: nothing to pause"
            )
        unknown = (
            isinstance(self.consumer, FunctionConsumerSettings) and self.consumer.mapping_id is None
        )
        if self.circuit.pause_consumer and unknown:
            raise refuse(
                "circuit.pause_consumer",
                True,
                "false, unless consumer.mapping_id says which mapping is paused",
            )
        # What is not ours may keep a message as long as SQS can.
        main = LONGEST_RETENTION if self.main_queue.arn else self.main_queue.retention
        dlq = LONGEST_RETENTION if self.dlq.arn else self.dlq.retention
        queued = main + dlq, "the retentions of the main queue and the DLQ"
        # Re-driven again and again, a copy is a new message to SQS each time.
        redriven = self.message_ttl, "message_ttl"
        longest, why = max(queued, redriven)
        least = longest + LONGEST_RETENTION
        if self.idempotency_keep < least:
            raise refuse(
                "idempotency_keep",
                self.idempotency_keep,
                f"at least {why} and the parking lot's {written(LONGEST_RETENTION)},"
                f" {written(least)}",
            )

    def _check_times(self) -> None:
        caps = {"policy.backoff.cap": self.policy.backoff.cap} | {
            f"policies.{name}.backoff.cap": policy.backoff.cap
            for name, policy in self.policies.items()
        }
        for key, delay in ({"max_delay": self.max_delay} | caps).items():
            if self.message_ttl < delay:
                raise refuse(
                    "message_ttl",
                    self.message_ttl,
                    f"at least the longest delay, {key} = {written(delay)}",
                )
        for name, one in self.dedicated.items():
            if self.redrive.timeout >= one.every:
                raise refuse(
                    f"dedicated.{name}.every",
                    one.every,
                    f"more than redrive.timeout, {written(self.redrive.timeout)}",
                )
        if self.circuit_open < self.redrive.every:
            raise refuse(
                "alarms.circuit_open.after",
                self.circuit_open,
                f"at least redrive.every, {written(self.redrive.every)}",
            )
        if self.heartbeat <= self.redrive.every:
            raise refuse(
                "alarms.heartbeat.period",
                self.heartbeat,
                f"more than redrive.every, {written(self.redrive.every)}",
            )


class AppSettings(Settings):
    """One deployment: what its pipelines share."""

    app: AppName = Field(default="deadletter", description="first word of every name")
    pipelines: tuple[PipelineSettings, ...] = Field(
        default=(), strict=False, description="in any order"
    )
    ephemeral: bool = Field(
        default=False, description="a sandbox: everything may be deleted, data included"
    )
    alarm_topic_arn: TopicArn | None = Field(
        default=None,
        description="your topic for alarms, else one is made; never under alias/aws/sns",
    )
    kms_key_arn: KeyArn | None = Field(
        default=None,
        description="your key for queues, tables, bucket, topic and logs; what its policy has to"
        " say stands below",
    )
    log_retention_days: Literal[1, 7, 14, 30, 90, 180, 365, 731, 1827, 3653] = Field(
        default=90, description="days that logs are kept"
    )
    audit_days: int = Field(
        default=400, ge=1, le=3650, description="days that each change of a rule is kept"
    )
    runbook: str = Field(
        default="docs/runbook.md", description="address that alarm descriptions name"
    )
    tags: dict[str, str] = Field(default_factory=dict, description="on every resource")

    @property
    def arns(self) -> Iterator[tuple[str, str]]:
        """Key and value of every ARN that must lie in the region of the app."""
        if self.alarm_topic_arn:
            yield "alarm_topic_arn", self.alarm_topic_arn
        if self.kms_key_arn:
            yield "kms_key_arn", self.kms_key_arn


def pascal_case(name: str) -> str:
    """How a name is written in stack ids and outputs: order-events is OrderEvents."""
    return "".join(word.capitalize() for word in name.split("-"))
