"""What a person may say about an app and its pipelines: the declarations of the deployment.

What the functions read too is declared where they read it: `deadletter.settings.pipeline`. Here is
what only the deployment reads. `infra.checked` reads typed settings, `infra.fits` says what fits
together, and a wrong setting stops the synthesis with one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import ConfigDict

from deadletter.circuit.state import CircuitPolicy
from deadletter.contract import DAY, DEFAULT_APP, DEFAULT_PARKING, MINUTE, WATCH
from deadletter.settings.pipeline import Pipeline, ReplayPolicy
from deadletter.settings.setting import (
    Constant,
    Derived,
    Id,
    Line,
    Minutes,
    Seconds,
    Setting,
    ValueKind,
)

from .duration import written

# A key that no declaration has is a mistake; the objects within follow.
STRICT = ConfigDict(extra="forbid")

# SQS keeps a message at most this long.
LONGEST_RETENTION = 14 * DAY


# What boto3 reads in a network of one's own; any other variable could break a function.
NetworkVariable = Literal[
    "AWS_CA_BUNDLE",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_CLOUDWATCH",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_ENDPOINT_URL_EVENTBRIDGE",
    "AWS_ENDPOINT_URL_LAMBDA",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL_SECRETS_MANAGER",
    "AWS_ENDPOINT_URL_SFN",
    "AWS_ENDPOINT_URL_SQS",
    "AWS_ENDPOINT_URL_SSM",
    "AWS_USE_FIPS_ENDPOINT",
    "HTTPS_PROXY",
    "NO_PROXY",
]


class ConsumerKind(StrEnum):
    """What consumes the main queue: our webhook dispatcher, a function of yours, or neither."""

    WEBHOOK = "webhook"
    FUNCTION = "function"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class BroughtQueue:
    """A queue that may be yours already."""

    arn: Annotated[str | None, ValueKind.QUEUE_ARN, Setting(first=True)] = None
    """Your queue, which is not changed."""
    kms_key_arn: Annotated[str | None, ValueKind.KEY_ARN, Setting()] = None
    """The customer managed key of your queue, if it has one: our roles may then use it,
    through SQS only; the app needs a kms_key_arn of its own too."""


@dataclass(frozen=True, slots=True)
class MainQueue(BroughtQueue):
    """The queue your consumer reads."""

    retention: Annotated[Seconds, Setting(least=MINUTE, most=LONGEST_RETENTION)] = 4 * DAY
    """How long SQS keeps a message."""
    # Six times the consumer's timeout: Lambda's rule for a mapping.
    visibility: Derived[int] = 0
    max_receive_count: Annotated[int, Setting(least=1, most=1000)] = 5
    """Receives before a message is dead; below 5, deliveries that Lambda throttled
    can use them up."""


@dataclass(frozen=True, slots=True)
class DeadLetterQueue(BroughtQueue):
    """The queue that receives failed messages."""

    # A standard queue counts from the first send, so the longest that SQS knows is right.
    retention: Constant[int] = LONGEST_RETENTION


@dataclass(frozen=True, slots=True)
class ConsumerDeployment:
    """What consumes the main queue."""

    kind: Annotated[ConsumerKind, Setting(first=True)] = ConsumerKind.WEBHOOK
    """Webhook posts each message to a registered endpoint, function is one of yours with a
    mapping of its own, none is anything else."""
    function_arn: Annotated[str | None, ValueKind.FUNCTION_ARN, Setting(first=True)] = None
    """Your function."""
    timeout: Annotated[Seconds, Setting(least=1, most=7200, first=True, depends=True)] = MINUTE
    """Of the webhook's whole batch (1m), of your function (30s, at most 15m), or of another
    consumer (30s): for the visibility, and how long a canary may take."""
    mapping_id: Annotated[str | None, ValueKind.UUID, Setting()] = None
    """The mapping of your function from the main queue, which an open circuit then disables (UUID
    in `aws lambda list-event-source-mappings`)."""
    request_timeout: Annotated[float, Setting(above=0, most=60)] = 5.0
    """Seconds that one POST of the webhook may take."""
    max_concurrency: Annotated[int, Setting(least=2, most=1000)] = 10
    """Batches of the webhook at once."""
    # As many as SQS gives at once.
    batch_size: Constant[int] = 10
    # The port that an endpoint's URL may name.
    ports: Constant[tuple[int, ...]] = (443,)
    # Posts to this machine too: sandboxes only.
    allow_loopback: Constant[bool] = False

    @property
    def is_webhook(self) -> bool:
        return self.kind == ConsumerKind.WEBHOOK

    @property
    def is_function(self) -> bool:
        """Whether it is a function of yours."""
        return self.kind == ConsumerKind.FUNCTION


@dataclass(frozen=True, slots=True)
class Schedule:
    """The run that drains the DLQ."""

    every: Annotated[Minutes, Setting(least=MINUTE, most=DAY)] = MINUTE
    """How often it starts."""
    # Shorter than the shortest `every`; a run begins no chunk in its last ten seconds.
    timeout: Constant[int] = 55
    memory: Annotated[int, Setting(least=128, most=10240)] = 512
    """Megabytes of a run, which also buy CPU."""


@dataclass(frozen=True, slots=True)
class CircuitDeployment(CircuitPolicy):
    """When a circuit opens, how long it stays open, and how it comes back."""

    health_url: Annotated[str | None, ValueKind.URL, Setting()] = None
    """Requested with GET, over the public internet, before a message is tried; 2xx: it works.
    Any other answer, or none within five seconds: it is down, no message is tried, and a
    run holds itself."""


@dataclass(frozen=True, slots=True)
class ReplayDeployment(ReplayPolicy):
    """What a replay run does unless its plan says otherwise."""

    schema: Annotated[str | None, Setting()] = None
    """A file with the JSON Schema of bodies, by its path from the folder of cdk.json: a run
    takes no message whose body does not conform. Regular expressions are not supported."""


@dataclass(frozen=True, slots=True)
class Alarms:
    """When a person is called; what is no setting is the same for all."""

    age: Annotated[Seconds, Setting(least=1, most=LONGEST_RETENTION)] = 30 * MINUTE
    """Age of the oldest message of the DLQ, by SQS's metric and by what messages say."""
    depth: Annotated[int, Setting(least=1)] = WATCH.depth
    """More messages in the DLQ than this."""
    # Looks at the age by SQS's metric in a row, each over one period.
    age_looks: Constant[int] = 3
    age_period: Constant[int] = MINUTE
    # The others are those of the watch: see WatchDefaults.
    depth_looks: Constant[int] = WATCH.depth_looks
    circuit_open_after: Constant[int] = WATCH.circuit_open_after
    flapping_times: Constant[int] = WATCH.flapping_times
    flapping_within: Constant[int] = WATCH.flapping_within
    open_circuits: Constant[int] = WATCH.open_circuits
    open_circuits_for: Constant[int] = WATCH.open_circuits_for
    parked_after: Constant[int] = WATCH.parked_after
    room_late: Derived[int] = WATCH.room_late
    letter_expiry: Derived[int] = WATCH.letter_expiry

    @property
    def texts(self) -> dict[str, str]:
        """What pages name, as people read it."""
        lengths = ("age", "letter_expiry", "circuit_open_after", "parked_after")
        texts = {name: written(getattr(self, name)) for name in lengths}
        return {**texts, "depth": str(self.depth)}


@dataclass(frozen=True, slots=True)
class Vpc:
    """Your subnets, in which all functions of the app then run."""

    subnet_ids: Annotated[tuple[Annotated[str, ValueKind.SUBNET], ...], Setting(least=1)]
    """Private subnets, best in several zones."""
    security_group_ids: Annotated[
        tuple[Annotated[str, ValueKind.SECURITY_GROUP], ...], Setting(least=1)
    ]
    """What the functions may reach: HTTPS, port 443."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineDeployment(Pipeline):
    """One main queue, its DLQ, its parking lot, and how letters between them are judged."""

    __pydantic_config__ = STRICT

    circuit: Annotated[CircuitDeployment, Setting()] = field(default_factory=CircuitDeployment)
    replay: Annotated[ReplayDeployment, Setting()] = field(default_factory=ReplayDeployment)
    main_queue: Annotated[MainQueue, Setting()] = MainQueue()
    """What the consumer reads."""
    dlq: Annotated[DeadLetterQueue, Setting()] = DeadLetterQueue()
    """Receives failed messages."""
    dedicated: Annotated[Mapping[Id, bool], Setting()] = field(default_factory=dict)  # type: ignore[assignment]
    """DLQs of their own for tenants that a rule isolates, by the id that rules use; and
    whether a schedule drains it, each minute."""
    consumer: Annotated[
        ConsumerDeployment,
        Setting(
            allowed="an object of kind webhook, function (with its function_arn) or none, or just"
            ' "none"'
        ),
    ] = ConsumerDeployment()
    """Who consumes the main queue."""
    redrive: Annotated[Schedule, Setting()] = Schedule()
    """The run that drains the DLQ."""
    trusted_senders: Annotated[tuple[str, ...], Setting()] = ()
    """Unique ids of other roles whose Redrive attribute is trusted: that of your own consumer,
    if it uses the library, because it parks messages itself
    (`aws iam get-role --role-name R --query Role.RoleId`)."""
    owner: Annotated[Line | None, Setting()] = None
    """Who is called for this pipeline, if not the app's `owner`."""
    alarms: Annotated[Alarms, Setting()] = Alarms()
    """When a person is called."""
    tuning: Annotated[Mapping[str, Any], Setting()] = field(default_factory=dict)
    """In an app that is ephemeral: any value by its path, whatever its limits."""

    @property
    def parking_ids(self) -> tuple[str, ...]:
        """The ids of the parking queues beside the default one."""
        return tuple(dict.fromkeys(id_ for id_ in self.parking.values() if id_ != DEFAULT_PARKING))


@dataclass(frozen=True, slots=True, kw_only=True)
class AppDeployment:
    """One deployment: what its pipelines share."""

    __pydantic_config__ = STRICT

    app: Annotated[str, ValueKind.APP_NAME, Setting()] = DEFAULT_APP
    """First word of every name."""
    pipelines: Annotated[tuple[PipelineDeployment, ...], Setting()] = ()
    """In any order."""
    ephemeral: Annotated[bool, Setting()] = False
    """A sandbox: deleting the stacks deletes all data."""
    alarm_topic_arn: Annotated[str | None, ValueKind.TOPIC_ARN, Setting(first=True)] = None
    """Your topic for alarms, else one is created; never under alias/aws/sns."""
    kms_key_arn: Annotated[str | None, ValueKind.KEY_ARN, Setting()] = None
    """Your key for queues, tables, bucket, topic and logs; for its policy see below."""
    log_retention_days: Annotated[
        Literal[1, 7, 14, 30, 90, 180, 365, 731, 1827, 3653], Setting()
    ] = 90
    """Days that logs are kept."""
    # As long as an audit looks back, and a month.
    audit_days: Constant[int] = 400
    replay_days: Annotated[int, Setting(least=0, most=3650)] = 30
    """Days that messages are kept as runs took them, so that a run can be repeated; 0 keeps
    none."""
    # CloudWatch's limit for a whole description is 1024 characters.
    runbook: Annotated[str, Setting(most=500)] = "docs/runbook.md"
    """Address that alarm descriptions name."""
    owner: Annotated[Line, Setting(first=True)] = "no owner is named: set `owner`"
    """Who is called: a team, a channel or a rota, named in alarm descriptions."""
    dashboard: Annotated[bool, Setting()] = True
    """Whether CloudWatch dashboards are made; beyond the three that an account has free, each
    costs $3 a month."""
    architecture: Annotated[Literal["arm64", "x86_64"], Setting()] = "arm64"
    """Of all functions: x86_64 where a region has no arm64; its seconds cost a quarter more."""
    environment: Annotated[Mapping[NetworkVariable, str], Setting()] = field(default_factory=dict)
    """Variables of all functions for a network of yours: AWS_USE_FIPS_ENDPOINT, AWS_ENDPOINT_URL
    and that of a service (AWS_ENDPOINT_URL_SQS), HTTPS_PROXY, NO_PROXY, AWS_CA_BUNDLE."""
    reserve_watch: Annotated[bool, Setting()] = False
    """Whether each pipeline's monitor keeps an execution of the account for itself: a minute in
    which it is throttled is a missing figure. Lambda refuses it where too few would be left for
    all other functions, so a first deployment goes without; `dlq doctor --account` says whether
    the account can spare them."""
    vpc: Annotated[Vpc | None, Setting()] = None
    """Subnets and security groups of yours in which all functions run; for what they have to
    reach see below."""
