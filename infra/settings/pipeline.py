"""One main queue, its DLQ, its parking lot, and how letters between them are judged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic import Field, model_validator

from deadletter.contract import (
    CIRCUIT,
    DEFAULT_PARKING,
    ENDPOINT_KEY,
    EVERYTHING,
    MAIN_DLQ,
    PIPELINE,
    REPLAY,
    Mode,
)

from ..arn import is_token, last_part
from ..duration import DAY, HOUR, MINUTE, written
from ..refusal import refuse
from .alarms import LATE, AlarmsSettings
from .circuit import CANARY_MARGIN, CircuitSettings
from .consumer import Consumer, FunctionConsumerSettings, NoConsumer, WebhookConsumer
from .kinds import (
    LONGEST_RETENTION,
    LONGEST_VISIBILITY,
    BodyText,
    CollisionText,
    Compared,
    Id,
    LedgerContextText,
    LedgerMessageText,
    ModeText,
    Owner,
    ParkedForText,
    Path,
    PipelineName,
    RateOrAuto,
    Seconds,
    Settings,
    TransportText,
)
from .policy import PolicySettings, RetrySettings
from .queues import VISIBILITY_PER_TIMEOUT, DeadLetterQueue, DedicatedQueue, MainQueue
from .replay import ReplaySettings
from .schedule import DrainSettings, ScheduleSettings

# What SQS sets anew when a letter is re-driven: with such a key it would be processed twice.
_OF_ONE_COPY = re.compile(
    r"\bsystem\W+(MessageDeduplicationId|SequenceNumber|SentTimestamp|Approximate\w+)"
)


def _without_default(node: dict[str, Any]) -> None:
    """Of a setting whose default depends on others, a schema has none."""
    node.pop("default", None)


class PipelineSettings(Settings):
    """One main queue, its DLQ, its parking lot, and how letters between them are judged."""

    name: PipelineName = Field(description="in the name of every resource of this pipeline")
    mode: ModeText = Field(
        default=PIPELINE.mode,
        description="observe decides, counts and reports, and moves nothing. It is the default if"
        " a queue is yours (`main_queue.arn` or `dlq.arn`), else enforce is",
        json_schema_extra=_without_default,
    )
    fifo: bool = Field(
        default=PIPELINE.fifo, description="whether the pipeline's queues are FIFO, all of them"
    )
    main_queue: MainQueue = Field(default=MainQueue(), description="what the consumer reads")
    dlq: DeadLetterQueue = Field(default=DeadLetterQueue(), description="receives failed messages")
    shared_dlq: bool = Field(
        default=False, description="whether another pipeline of this app may name the same DLQ"
    )
    consumer: Consumer = Field(default=WebhookConsumer(), description="who consumes the main queue")
    redrive: ScheduleSettings = Field(
        default=ScheduleSettings(), description="the run that drains the DLQ"
    )
    body: BodyText = Field(
        default=PIPELINE.body,
        description="whether a body that is not JSON makes a letter MALFORMED",
    )
    context: dict[str, Path] = Field(
        default_factory=dict, description="what rules match on: a name and where to find it"
    )
    policy: PolicySettings = Field(default=PolicySettings(), description="attempts and delays")
    policies: dict[Id, PolicySettings] = Field(
        default_factory=dict, description="other policies, which rules may name"
    )
    message_ttl: Seconds = Field(
        default=PIPELINE.message_ttl,
        ge=MINUTE,
        le=30 * DAY,
        description="age since the first send at which a letter is parked as EXPIRED",
    )
    expires: Path | None = Field(
        default=None,
        description="where the time is after which a message must not be sent any more: epoch"
        " seconds or milliseconds, or ISO 8601, in the body or in an attribute. It is parked as"
        " EXPIRED then. What is no time counts as none, and in UnreadableExpiry",
    )
    max_delay: Seconds = Field(
        default=PIPELINE.max_delay,
        ge=MINUTE,
        le=30 * DAY,
        description="the longest delay a rule may ask for",
    )
    poison_lives: int = Field(
        default=PIPELINE.poison_lives,
        ge=1,
        le=100,
        description="lives with the same failure after which a letter is POISON",
    )
    consumer_library: bool | None = Field(
        default=None,
        description="whether the consumer writes the ledger (silence then means SILENT): the"
        " webhook always does, another only if you say so",
    )
    circuit_key: Path | None = Field(
        default=None,
        description="where the dependency's name is. Else the webhook has one circuit for each"
        " endpoint (with `pipeline` one for all), any other consumer one for all",
    )
    circuit: CircuitSettings = Field(
        default=CircuitSettings(), description="when a circuit opens, and how it closes again"
    )
    idempotency_key: Path | None = Field(
        default=None,
        description="where the business key of a message is, so that none is processed twice"
        " with the same payload; else the MessageId of its first life. It is looked for in the"
        " body, then in what SNS, EventBridge, a pipe or a CloudEvent wraps (docs/consumer.md)",
    )
    idempotency_payload: Compared = Field(
        default=PIPELINE.idempotency_payload,
        description="what of two messages with one key is compared: all (the body without"
        " wrappers, and the attributes), none (the key alone decides), or a path to the part that"
        " a second publishing does not change",
    )
    collision: CollisionText | None = Field(
        default=PIPELINE.collision,
        description="what becomes of a message whose key belongs to a processed message that"
        " differs: park, or count (it is processed). Else count in the pipeline's first day,"
        " and park then",
    )
    idempotency_keep: Seconds = Field(
        default=PIPELINE.idempotency_keep,
        ge=MINUTE,
        le=365 * DAY,
        description="how long a message that was processed is remembered: longer than any copy"
        " of it can wait in the main queue, the DLQ and the parking lot, one after the other",
    )
    ledger_message: LedgerMessageText = Field(
        default=PIPELINE.ledger_message,
        description="whether the consumer library keeps the text of a failure, without what may"
        " be data, or no text: then ledger and logs have its kind, status and fingerprint only",
    )
    ledger_context: LedgerContextText = Field(
        default=PIPELINE.ledger_context,
        description="how the ledger keeps the values of `context`, which are content of messages,"
        " for `dlq groups` and `dlq explain`: as they are, as hashes, or not at all",
    )
    park_permanent: bool = Field(
        default=PIPELINE.park_permanent,
        description="whether the consumer library sends a permanent failure straight to the"
        " parking lot, its other receives unused",
    )
    retry: RetrySettings = Field(
        default=RetrySettings(),
        description="the delays between the receives of one life in the main queue",
    )
    refuse_when_open: bool = Field(
        default=PIPELINE.refuse_when_open,
        description="whether the consumer library gives messages back unprocessed while their"
        " circuit is open, and admits a growing rate when it has closed",
    )
    rate: RateOrAuto = Field(
        default=PIPELINE.rate,
        description="letters a second back to main; auto starts with 50, rises while the consumer"
        " keeps up and falls at the first sign of trouble",
    )
    max_rate: float = Field(
        default=PIPELINE.max_rate, gt=0, le=10_000, description="the highest rate that auto chooses"
    )
    backlog_limit: int = Field(
        default=PIPELINE.backlog_limit,
        ge=1,
        description="nothing goes back while main holds more than this",
    )
    workers: int = Field(
        default=PIPELINE.workers,
        ge=1,
        le=32,
        description="chunks of letters moved side by side; where a run waits for calls, up to 16",
    )
    drain: DrainSettings = Field(
        default=DrainSettings(), description="how a queue of thousands of letters is drained"
    )
    transport: TransportText = Field(
        default=PIPELINE.transport,
        description="how the calls that every letter needs go to AWS: thin needs less CPU time,"
        " boto3 makes all of them by boto3",
    )
    dedicated: dict[Id, DedicatedQueue] = Field(
        default_factory=dict, description="DLQs for isolated tenants, by the id that rules use"
    )
    parking: tuple[Id, ...] = Field(
        default=(), strict=False, description="ids of parking queues beside the default one"
    )
    parking_for: dict[ParkedForText, Id] = Field(
        default_factory=dict,
        description="which parking queue a letter goes to, if not default: by reason, such as"
        " `POISON`, or else by the category of its last failure: `transient`, `schema`,"
        " `business` or `integration`",
    )
    trusted_senders: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="unique ids of other roles whose Redrive attribute is trusted: that of"
        " your own consumer, if it uses the consumer library, because it parks letters itself"
        " (`aws iam get-role --role-name R --query Role.RoleId`)",
    )
    ordering_key: Path | None = Field(
        default=None,
        description="where the key is whose messages have to be processed in order: a replay run"
        " sends one letter of a key after the other. Else the message group in a FIFO pipeline,"
        " and no order in another",
    )
    sequence: Path | None = Field(
        default=None,
        description="where a message's place within its ordering key is, as a number or text;"
        " else the time of its first send",
    )
    replay: ReplaySettings = Field(
        default=ReplaySettings(),
        description="what a replay run does unless its plan says otherwise",
    )
    owner: Owner | None = Field(
        default=None, description="who is called for this pipeline, if not the app's `owner`"
    )
    alarms: AlarmsSettings = Field(default=AlarmsSettings(), description="when a person is called")

    @model_validator(mode="before")
    @classmethod
    def _observes_first(cls, given: Any) -> Any:
        """What lies in a queue of yours stays there until a person writes enforce."""
        if not isinstance(given, dict) or "mode" in given:
            return given
        queues = (given.get("main_queue"), given.get("dlq"))
        return {**given, "mode": Mode.OBSERVE} if any(map(_is_yours, queues)) else given

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
    def key_of_circuits(self) -> str | None:
        """Where the key of a message's own circuit is; None if all share the pipeline's."""
        if self.circuit_key is None and isinstance(self.consumer, WebhookConsumer):
            return ENDPOINT_KEY
        return self.circuit_key

    @property
    def pauses_consumer(self) -> bool:
        """Whether the consumer's mapping is disabled while the circuit is open."""
        if self.circuit.pause_consumer is None:
            return isinstance(self.consumer, WebhookConsumer)
        return self.circuit.pause_consumer

    @property
    def lease(self) -> int:
        """Seconds that a canary may take."""
        return self.circuit.lease or max(CIRCUIT.lease, 2 * self.consumer.timeout)

    @property
    def outcome_timeout(self) -> int:
        """Seconds after a send of a replay run at which its outcome counts as unknown."""
        life = self.visibility * self.main_queue.max_receive_count
        return self.replay.outcome_timeout or max(REPLAY.outcome_timeout, life)

    @property
    def expiry_warning(self) -> int:
        """Seconds before SQS drops a letter at which a person is called."""
        # A letter that is not rescued in time gets there; observe moves none to safety.
        default = 2 * DAY if self.mode == Mode.OBSERVE else 12 * HOUR
        return self.alarms.letter_expiry.before or default

    @property
    def room_late(self) -> int:
        """Seconds that a letter of the waiting room may be late before a person is called."""
        return self.alarms.waiting_room.late or max(LATE, 3 * self.redrive.every)

    @property
    def key_arns(self) -> Iterator[tuple[str, str]]:
        """Key and value of the customer keys of its own queues."""
        for name, queue in (("main_queue", self.main_queue), ("dlq", self.dlq)):
            if queue.kms_key_arn:
                yield f"{name}.kms_key_arn", queue.kms_key_arn

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
        if MAIN_DLQ in self.dedicated:
            raise refuse("dedicated", MAIN_DLQ, "ids other than dlq, which is the DLQ itself")
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
            name = last_part(queue.arn or "")
            if name and not is_token(name) and name.endswith(".fifo") != self.fifo:
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
        for key, path in (
            ("idempotency_key", self.idempotency_key or ""),
            ("idempotency_payload", self.idempotency_payload),
            ("ordering_key", self.ordering_key or ""),
            ("expires", self.expires or ""),
            ("sequence", self.sequence or ""),
        ):
            if of_one_copy := _OF_ONE_COPY.search(path):
                raise refuse(
                    key,
                    path,
                    f"a value that the producer wrote; {of_one_copy[1]} is another one in each"
                    " copy",
                )
        if self.idempotency_payload != EVERYTHING and self.idempotency_key is None:
            raise refuse(
                "idempotency_payload",
                self.idempotency_payload,
                f"{EVERYTHING}, because without idempotency_key no two messages share a key",
            )
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
                "circuit.pause_consumer",
                True,
                "false, because there is no consumer function to pause (consumer is none)",
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
        # A queue of yours may keep a message as long as SQS allows.
        main = LONGEST_RETENTION if self.main_queue.arn else self.main_queue.retention
        dlq = LONGEST_RETENTION if self.dlq.arn else self.dlq.retention
        queued = main + dlq, "the retentions of the main queue and the DLQ"
        # Each re-drive is a new message to SQS, with a new retention.
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
        for name, dedicated in self.dedicated.items():
            if self.redrive.timeout >= dedicated.every:
                raise refuse(
                    f"dedicated.{name}.every",
                    dedicated.every,
                    f"more than redrive.timeout, {written(self.redrive.timeout)}",
                )


def _is_yours(queue: object) -> bool:
    """Whether a queue, as it was typed or as it was read, has an ARN."""
    arn = queue.get("arn") if isinstance(queue, dict) else getattr(queue, "arn", None)
    return arn is not None
