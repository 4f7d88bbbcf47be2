"""What the deployment and the runtime agree on: names, keys, figures, modes and defaults.

Standard library only. `infra` imports it, and it is the one
place of everything that both sides, or several packages, have to spell alike. Names in here
are wire names: they stand in deployed tables, alarms, dashboards and messages, and outlive
a deployment. All durations are whole seconds.

    Mode, Body, Reason     words of settings and letters
    Variable                          environment variables of our functions
    Table, MESSAGES, RULES, ...        tables, their keys and indexes
    Partition, lane_partition, ...    how keys are composed
    EventType                         what is announced on EventBridge
    BACKOFF, CIRCUIT, PIPELINE, ...   defaults of the settings
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR

END_OF_TIME = 2.0**40
"""Epoch seconds that no clock shows; only rescued letters are due so late."""

DEFAULT_APP = "deadletter"
"""The name of the app, first word of the name of every resource."""

EVERY_PIPELINE = "*"
"""The pipeline of a rule that applies to all of them, and of figures about no single one."""

MAIN = "main"
"""The main queue, among the queues that are looked at; the others are sources of runs."""

MAIN_DLQ = "dlq"
"""The id of the DLQ itself; other sources of a run are ids of dedicated DLQs."""

DEFAULT_PARKING = "default"
"""The id of the parking queue that every pipeline has."""

LOCKS_END = 12.0 * HOUR + MINUTE
"""Seconds from now by which every lock has ended: no queue hides a message, and so no process works
on it, for more than twelve hours. Clocks may differ by the rest."""

ROWS_KEPT = 45 * DAY
"""How long rows of letters and abandoned intents stay: longer than main queue, DLQ and
parking lot can keep a message one after the other (14 days each)."""


class Mode(StrEnum):
    """Whether a pipeline moves letters or only says what it would do."""

    ENFORCE = "enforce"
    OBSERVE = "observe"


class Body(StrEnum):
    """Whether a body that is not JSON makes a letter malformed, or is allowed."""

    JSON = "json"
    OPAQUE = "opaque"


class LedgerKeeps(StrEnum):
    """What the ledger keeps of a failure's text and of the context, which are content of messages.

    PLAIN: the text without what may be data, and the values. HASHED: hashes of the values. NONE: no
    text and no value.
    """

    PLAIN = "plain"
    HASHED = "hashed"
    NONE = "none"


class KeyPolicy(StrEnum):
    """Whether an ordering key of a replay run goes on or stops."""

    GO = "go"
    STOP = "stop"


EVERYTHING, NOTHING = "all", "none"
"""What `idempotency_payload` may be beside a JMESPath expression: the whole payload is compared,
or the key alone decides."""

PATH_FUNCTIONS = ("json", "powertools_json")
"""The functions of JMESPath paths in the settings beside the standard ones."""


class SchemaWord(StrEnum):
    """What follows a keyword of a JSON Schema."""

    VALUE = "value"
    SCHEMA = "schema"
    LIST = "list of schemas"
    BY_NAME = "schemas by name"
    NOTE = "note"
    """Nothing that is checked: a title, a description."""


SCHEMA_KEYWORDS: Mapping[str, SchemaWord] = {
    **dict.fromkeys(
        (
            *("$ref", "type", "enum", "const", "required", "dependentRequired", "uniqueItems"),
            *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
            *("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains"),
            *("minProperties", "maxProperties"),
        ),
        SchemaWord.VALUE,
    ),
    **dict.fromkeys(
        (
            *("items", "contains", "additionalProperties", "propertyNames"),
            *("not", "if", "then", "else"),
        ),
        SchemaWord.SCHEMA,
    ),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), SchemaWord.LIST),
    **dict.fromkeys(("properties", "$defs", "definitions", "dependentSchemas"), SchemaWord.BY_NAME),
    **dict.fromkeys(
        (
            *("$schema", "$id", "$comment", "title", "description", "default", "examples"),
            *("deprecated", "readOnly", "writeOnly", "format"),
            *("contentMediaType", "contentEncoding"),
        ),
        SchemaWord.NOTE,
    ),
}
"""The keywords of JSON Schema (2020-12) that a pipeline's schema may have.

No regular expressions: a hostile body can make one run for hours.
"""

SCHEMA_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
"""The types of JSON Schema."""


class Reason(StrEnum):
    """Why automation has given a letter up and a person has to look at it."""

    QUARANTINED = "QUARANTINED"
    MALFORMED = "MALFORMED"
    EXPIRED = "EXPIRED"
    PERMANENT = "PERMANENT"
    POISON = "POISON"
    CRASH = "CRASH"
    RETRIES_EXHAUSTED = "RETRIES_EXHAUSTED"
    KEY_CONFLICT = "KEY_CONFLICT"
    RUN_FAILED = "RUN_FAILED"
    """It came back from a replay run that has ended."""
    RUN_ABORTED = "RUN_ABORTED"
    """It was left over when its replay run ended early."""


class Blame(StrEnum):
    """What a failure speaks of: the dependency, its configuration, or neither of them.

    CONFIGURATION is a missing permission, an invalid key or an endpoint that does not exist: a
    person has to repair it, and until then every message fails. NEITHER is the message, the
    code, the machine, or unknown.
    """

    DEPENDENCY = "dependency"
    CONFIGURATION = "configuration"
    NEITHER = "neither"


class Course(NamedTuple):
    """What becomes of the messages that fail in a category, where no rule says otherwise.

    is_permanent  no further attempt can cure it: the message is parked at once
    is_poison     the same failure in several attempts is the message's own fault, and parks it
    blame         what such a failure speaks of; None: its error says it
    """

    is_permanent: bool = False
    is_poison: bool = True
    blame: Blame | None = None


_USUAL = Course()


class Category(StrEnum):
    """Who can cure a failure: time, the producer, the business, or the dependency's owner.

    `failure.classify` says which failure is of which, `signals.causes` what a person does.
    """

    course: Course

    def __new__(cls, name: str, course: Course = _USUAL) -> Category:
        category = str.__new__(cls, name)
        category._value_, category.course = name, course
        return category

    TRANSIENT = "transient"
    SCHEMA = "schema", Course(is_permanent=True, blame=Blame.NEITHER)
    BUSINESS = "business", Course(is_permanent=True, blame=Blame.NEITHER)
    INTEGRATION = "integration", Course(is_poison=False)


PARKED_FOR = (*Reason, *Category)
"""The keys of `parking_for`: each reason, and the category of the failure that is parked."""


def parking_for(queues: Mapping[str, str], reason: str, category: str | None = None) -> str:
    """The id of the parking queue for a reason, else for the category of the last failure."""
    return queues.get(reason) or queues.get(category or "", DEFAULT_PARKING)


# Environment


class Variable(StrEnum):
    """The environment variables of our functions.

    All but PIPELINE and WEBHOOK are fields of `Resources`, in upper case.
    """

    APP = "APP"
    """The name of the app, the first dimension of our metrics, and in our events."""
    PIPELINE = "PIPELINE"
    """The pipeline's settings that differ from the defaults, as JSON."""
    WEBHOOK = "WEBHOOK"
    """The webhook dispatcher's settings, as JSON."""
    MAIN_URL = "MAIN_URL"
    MAIN_ARN = "MAIN_ARN"
    DLQ_URL = "DLQ_URL"
    DLQ_ARN = "DLQ_ARN"
    PARKING = "PARKING"
    """URLs of the parking queues by id, as JSON."""
    DEDICATED = "DEDICATED"
    """URLs of the dedicated DLQs by id, as JSON."""
    MESSAGES_TABLE = "MESSAGES_TABLE"
    MESSAGES_BUCKET = "MESSAGES_BUCKET"
    RULES_TABLE = "RULES_TABLE"
    CIRCUITS_TABLE = "CIRCUITS_TABLE"
    ENDPOINTS_TABLE = "ENDPOINTS_TABLE"
    AUDIT_TABLE = "AUDIT_TABLE"
    AUDIT_DAYS = "AUDIT_DAYS"
    """Days that a change of a rule is kept."""
    REGISTRATIONS = "REGISTRATIONS"
    """The folder of parameters with one parameter per pipeline."""
    ROUTER_FUNCTION = "ROUTER_FUNCTION"
    REDRIVE_FUNCTION = "REDRIVE_FUNCTION"
    TRUSTED_SENDERS = "TRUSTED_SENDERS"
    """Unique ids of the roles whose `Redrive` attribute is believed, as a JSON list."""
    CIRCUIT_MACHINE = "CIRCUIT_MACHINE"
    """The ARN of the state machine that runs outages."""
    REPLAY_MACHINE = "REPLAY_MACHINE"
    """The ARN of the state machine that runs replays."""
    CONSUMER_FUNCTION = "CONSUMER_FUNCTION"
    CONSUMER_MAPPING = "CONSUMER_MAPPING"
    CONSUMER_TIMEOUT = "CONSUMER_TIMEOUT"
    """Seconds that the consumer may take."""
    HEALTH_URL = "HEALTH_URL"
    REPLAY_DAYS = "REPLAY_DAYS"
    """Days that letters are kept as replay runs took them."""
    REPLAY_SCHEMA = "REPLAY_SCHEMA"
    """The JSON Schema of bodies for replay runs: JSON, compressed by zlib, in base64."""
    REDRIVE_EVERY = "REDRIVE_EVERY"
    """Seconds between two runs of the redriver."""
    WATCH = "WATCH"
    """When a person is called, where it differs from WATCH of the defaults, as JSON."""


VERSION_VARIABLE = "DEADLETTER_VERSION"
"""The environment variable in which a team names its consumer's version: a commit, an image."""

BOTO3_VARIABLE = "DEADLETTER_BOTO3"
"""The environment variable, set to 1 on a function of ours, that makes boto3 make all its calls."""

CONSUMER_VARIABLE = "DEADLETTER"
"""The environment variable of a team's own consumer: `<app>/<pipeline>`, or `off`."""


# Parameters of Systems Manager


def app_folder(app: str) -> str:
    """The folder of all parameters of the app."""
    return f"/{app}"


def app_parameter(app: str) -> str:
    """The parameter with what the app's pipelines share."""
    return f"{app_folder(app)}/app"


def consumer_policy_parameter(app: str, pipeline: str) -> str:
    """The parameter with the ARN of the managed policy for a team's own consumer."""
    return f"{app_folder(app)}/policies/{pipeline}/consumer"


def rule_checker(app: str) -> str:
    """The function that checks each edit of the rules table."""
    return f"{app}-check-rules"


def rules_table(app: str) -> str:
    """The table of rules."""
    return f"{app}-rules"


def pipelines_folder(app: str) -> str:
    """The folder of the pipelines' parameters."""
    return f"{app_folder(app)}/pipelines"


def pipeline_parameter(app: str, pipeline: str) -> str:
    """The parameter of one pipeline."""
    return f"{pipelines_folder(app)}/{pipeline}"


# Tables


class Index(NamedTuple):
    """An index of a table: its name and its key attributes; a sort key is a number.

    `projected` are the attributes that it holds beside the keys.
    """

    name: str
    partition: str
    sort: str | None = None
    projected: tuple[str, ...] = ()


class Table(NamedTuple):
    """A table's key attributes, both texts, and the attribute with its expiry (epoch seconds)."""

    partition: str
    sort: str
    expiry: str | None = None


MESSAGES = Table("pk", "sk", expiry="ttl")
"""Ledger, waiting room, journal and leases: see `Partition`."""

RULES = Table("pipeline", "rule_id")
"""Routing rules; the partition is a pipeline's name or EVERY_PIPELINE."""

AUDIT = Table("pk", "sk", expiry="ttl")
"""Who changed what. Each change of a rule, from the stream of the rules table: partition
`<pipeline>#<rule_id>`, sort key `<time>#<sequence>`. Each change that a person makes with `dlq`:
partition `change_partition`, sort key `<time>#<id>`, and its end beside it, `<time>#<id>#end`."""

CIRCUITS = Table("pipeline", "circuit_key", expiry="ttl")
"""One item per dependency; the sort key is the pipeline's name or a value of its circuit key."""

ENDPOINTS = Table("tenant", "endpoint")
"""Where the webhook dispatcher posts."""

LANES = Index("lanes", partition="lane", sort="due")
"""The waiting letters by lane and due time: partition `lane_partition`, sort key epoch seconds."""

CAUSES = Index(
    "causes",
    partition="causes",
    sort="fingerprint",
    projected=(
        *("seen", "first_at", "life", "category", "blame", "error_type", "words", "http_status"),
        *("context", "endpoint", "size"),
    ),
)
"""The letters that fail, by cause: partition `cause_partition`, and the sort key is a text. A row
of the ledger has the partition's attribute as long as its letter may come back."""

CAUSE_SHARDS = 8

CHANGES = Index("changes", partition="pipeline", sort="happened")
"""The changes of one pipeline, or of EVERY_PIPELINE, by time: of rules, and by `dlq`. `happened` is
epoch seconds; `at` in the history of rules is a text."""

TROUBLED = Index("troubled", partition="troubled")
"""The circuits that need care, by pipeline: an item has the attribute as long as its circuit
is not closed, is forced, or has a consumer paused. In good times the index is empty."""

ANY = "*"
"""In place of the last part of a key: the pattern of IAM for all such keys."""


class Partition(StrEnum):
    """The kinds of partitions in the messages table; `of` composes the key of one."""

    LEDGER = "ledger"
    """`<pipeline>#ledger#<origin id>`: why and when one letter failed."""
    CLAIM = "done"
    """`<pipeline>#done#<idempotency key>`: a message that is processed, or was."""
    LINE = "line"
    """`<pipeline>#line#<hash of the ordering key>`: who is handled (sort key `head`), and each
    message of the key that waits."""
    MATCHES = "matches"
    """`<pipeline>#matches`, sort key `rule_counts_key`: how often a version of a rule matched."""
    BOOK = "book"
    """See `book_partition`."""
    JOURNAL = "journal"
    """`<pipeline>#journal`, sort key the slot: what is about to be sent."""
    LEASE = "lease"
    """`<pipeline>#lease`, sort key the source: who runs now, how the last run ended, and what
    runs know of the source; sort key WATCH_ROW: what the watch knows of all sources."""
    OBSERVED = "observed"
    """`<pipeline>#observed`, sort key the source: what mode observe would have done."""
    LANES = "lanes"
    """`<pipeline>#lanes`, sort key the lane: which lanes the waiting room has."""
    LETTER = "message"
    """`<pipeline>#message#<copy id>`: one waiting letter."""
    GROUP = "group"
    """`<pipeline>#group#<home>#<hash of the group>`: the waiting letters of a FIFO group."""
    RUNS = "runs"
    """`<pipeline>#runs`, sort key the run's id: the state and the pace of one replay run."""
    RUN = "run"
    """What belongs to one replay run: `<pipeline>#run#<id>#plan` (`…#discard` if the run throws
    letters away), `…#approval` (the token of the task that waits for a person, and his answer),
    `…#status` (what became of the letters of a part of its manifest), `…#<n>` (tickets, sort
    key `<origin>#<copy>`) and `…#restored` (sort key the copy: a letter that the run threw away and
    that is back). Plans, discards and approvals are partitions of their own because IAM tells who
    may write them by nothing else."""

    def of(self, pipeline: str, *ids: str) -> str:
        """The key of a partition of this kind."""
        return "#".join((pipeline, self.value, *ids))


WAITING_FIGURES = ("pk", "sk", "copy", "home", "stamp", "lane", "due", "because")
"""The attributes of a waiting letter's item that hold nothing of the letter itself: people who may
not read bodies are granted these and no others."""


_KEY = ("pk", "sk", "ttl")

CLAIM_FIGURES = (*_KEY, "status", "until", "origin")
"""The attributes of a claim that say what became of a message: the others are hashes of it."""

WRITTEN_ATTRIBUTES: Mapping[Partition, tuple[str, ...]] = {
    # Failures are in slots: a digit for the life, one for the receive.
    Partition.LEDGER: (
        *(*_KEY, "f?_?", "f??_?", "tried", CAUSES.partition, str(CAUSES.sort), *CAUSES.projected),
        *("trace", "recovered_at", "recovered_attempt", "recovered_as", "ended_attempt"),
        *("ended_at", "ended_as", "ended_reason", "parked_at", "parked_as", "parked_rule"),
    ),
    Partition.CLAIM: (*CLAIM_FIGURES, "own", "payload", "content", "tries", "attempt"),
    Partition.LINE: (*_KEY, "own", "place", "origin", "claim", "by", "same", "done?", "at"),
    Partition.BOOK: (*_KEY, "version"),
    Partition.MATCHES: ("pk", "sk"),
    Partition.JOURNAL: (
        *(*_KEY, "own", "seq", "expires", "targets", "plans", "sent", "ids"),
        *("home", "lost"),
    ),
    Partition.LEASE: (*_KEY, "state", "ran_at"),
    Partition.LANES: (*_KEY, "touched", "review", "paid"),
    Partition.LETTER: (*WAITING_FIGURES, "message", "object"),
    Partition.RUNS: (
        *(*_KEY, "state", "generation", "resume_to", "step", "allowance", "rate", "burst", "paid"),
        *("counted", "messages", "manifest", "counts", "restart", "created", "started", "changed"),
        *("step_began", "known_before", "failed_before", "expires", "resumed_at", "resumed_in"),
        *("leave_to", "because", "by", "approved_by", "left", "told", "bid", "at"),
    ),
    Partition.RUN: (*_KEY, "plan", "keys"),
}
"""The attributes of each kind of row that roles beside the redriver's write. IAM lets them name
no others: a row with the key of an index would be in a lane, or among the causes, of any
pipeline. In a name `?` stands for one character."""

APPROVAL_ATTRIBUTES = (*_KEY, "approved", "by", "because", "at")
"""The attributes of an approval that a person writes: its token and the question are not his."""


def every_partition(pipeline: str) -> str:
    """The pattern of IAM for all partitions of one pipeline in the messages table."""
    return f"{pipeline}#{ANY}"


def lane_partition(pipeline: str, lane: str, shard: int | None = None) -> str:
    """The key of one shard of a lane in the index; without `shard`, what all its keys begin with.

    A lane is `due`, `delay:<rule id>`, `rule:<id>`, `circuit:<key>`, `run:<id>`, `parked` or
    `dedicated:<id>`.
    """
    return f"{pipeline}|{lane}" if shard is None else f"{pipeline}|{lane}|{shard}"


CHANGED_BY = "#by#"


def book_partition(pipeline: str) -> str:
    """The partition with the version of a pipeline's rules, or of those of EVERY_PIPELINE.

    The rule checker writes another version for each edit, so that a router has to read the rules
    only when they have changed. It is `<pipeline>#book`; `#book` belongs to EVERY_PIPELINE.
    """
    return Partition.BOOK.of("" if pipeline == EVERY_PIPELINE else pipeline)


BOOK_ROW = "version"
"""The sort key of the version in a `book_partition`."""


def rule_counts_key(rule_id: str, version: str) -> str:
    """The sort key of the counts of one version of a rule."""
    return f"{rule_id}#{version}"


def change_partition(user_id: str) -> str:
    """The key of the changes that one caller makes, by the UserId that STS gives.

    IAM knows it as `aws:userid`: people can write in their own partition only. No pipeline's
    name begins with #.
    """
    return f"{CHANGED_BY}{user_id}"


def cause_partition(pipeline: str, shard: int | None = None) -> str:
    """The key of one shard of a pipeline's failing letters in the index of causes.

    Without `shard`, what all its keys begin with.
    """
    return f"{pipeline}|" if shard is None else f"{pipeline}|{shard}"


def circuit_lane(key: str) -> str:
    """The lane of the letters that wait for a circuit."""
    return f"circuit:{key}"


CONFIG_SUFFIX = "#config"
DEPENDENCY_PREFIX = "dependency/"


def config_key(key: str) -> str:
    """The key of the circuit for configuration failures, beside the ordinary circuit `key`."""
    return f"{key}{CONFIG_SUFFIX}"


def with_config_keys(keys: Iterable[str]) -> list[str]:
    """The keys in their order, each with the key of the circuit for configuration behind it."""
    return [each for key in keys for each in (key, config_key(key))]


def is_config_key(key: str) -> bool:
    """True for the key of a circuit for configuration failures."""
    return key.endswith(CONFIG_SUFFIX)


def dependency_key(name: str) -> str:
    """The key of the circuit of a dependency that a handler names."""
    return f"{DEPENDENCY_PREFIX}{name}"


def is_reserved_key(key: str) -> bool:
    """True for what only we may use as a sort key of the circuits table, no message's value."""
    return is_config_key(key) or key.startswith((DEPENDENCY_PREFIX, "#"))


CAUSES_ROW = "#causes"
"""The sort key, in the circuits table, of the row with a pipeline's causes of failure."""


COLLISIONS_ROW = "#collisions"
"""The sort key, in the circuits table, of the row with a pipeline's idempotency collisions."""


def rule_lane(rule_id: str) -> str:
    """The lane of the letters that a rule holds back for as long as it is in force."""
    return f"rule:{rule_id}"


def delay_lane(rule_id: str) -> str:
    """The lane of the letters that wait for the delay which a rule gave them."""
    return f"delay:{rule_id}"


DUE_LANE = "due"
"""The lane of the letters that wait for a delay which no rule gave."""


def is_of_delays(lane: str) -> bool:
    """Whether the letters of a lane wait for a delay: time alone lets them leave."""
    return lane == DUE_LANE or lane.startswith(delay_lane(""))


JUDGED_LANES = (circuit_lane(""), rule_lane(""))
"""What the names of lanes begin with whose letters leave when the router says so, whatever their
due time."""

PARKED_LANE = "parked"
"""The lane of parked letters that were rescued from their queue's retention. It never opens:
only a person takes letters out of it."""


def dedicated_lane(id_: str) -> str:
    """The lane of the letters that were rescued from a dedicated DLQ's retention.

    It opens only for the runs of that DLQ.
    """
    return f"dedicated:{id_}"


def parking_source(id_: str) -> str:
    """The id of a parking queue as a source of a run, beside "dlq" and a dedicated DLQ's id."""
    return f"parking:{id_}"


def run_lane(run: str) -> str:
    """The lane of the letters in the custody of a replay run.

    It opens by the state of its run alone, never by a due time.
    """
    return f"run:{run}"


SHARED_ROW = "shared"

SHARED_ATTRIBUTES = (*_KEY, "turn_ends", "mapping_at", "late", "undelivered", "failed", "why")

WATCH_ROW = "watch"
"""Beside the sources' leases: what the watch remembers from minute to minute."""

BODIES = "waiting/"
"""What the names of objects in the bucket begin with: bodies of waiting letters."""


def body_object(pipeline: str, copy: str) -> str:
    """The name of the object with the body of one waiting letter."""
    return f"{BODIES}{pipeline}/{copy}"


REPLAYS = "replay/"
"""What the names of objects in the bucket begin with: pages, manifests and reports of runs."""


def run_object(pipeline: str, run: str, *names: str) -> str:
    """The name of an object of one replay run."""
    return "/".join((f"{REPLAYS}{pipeline}", run, *names))


ORIGINALS = "originals/"
"""What the names of objects in the bucket begin with that keep letters as runs took them."""


def originals_object(pipeline: str, run: str, *names: str) -> str:
    """The name of an object with letters that one replay run took.

    Beside the run's other objects, because a lifecycle rule knows prefixes alone.
    """
    return "/".join((f"{ORIGINALS}{pipeline}", run, *names))


REPORT_DAYS = 90
"""Days that lists and reports of replay runs are kept, and the letters that these discarded: a
quarter, in which somebody asks what became of a letter, or wants it back."""

DISCARDED = "discarded/"
"""What the names of objects of a run begin with that keep a letter which it threw away."""

EDITS = "edits/"
"""What the names of objects of a run begin with that keep both versions of an edited letter."""

EDITED = ".edit"
"""What the names of objects end with, beside the bodies of waiting letters, that hold a large
letter as it was edited."""


# Metrics

NAMESPACE = "Deadletter"
"""The namespace of all our metrics."""

APP_DIMENSION = "app"
"""Their first dimension: stages of one account are apps of their own."""

DIMENSION = "pipeline"
"""Their second dimension; its value is the pipeline's name, or EVERY_PIPELINE."""

SOURCE_DIMENSION = "source"
"""The third dimension of figures about one queue or lane: "dlq", the id of a dedicated DLQ,
"parking:<id>", or "room:<kind>" with the first word of the lane's name."""

CATEGORY_DIMENSION = "category"
"""The third dimension of FailuresByCategory; its values are those of Category."""

CIRCUIT_LEVELS: Mapping[str, int] = {"CLOSED": 0, "HALF_OPEN": 1, "OPEN": 2}
"""States of a circuit as the figure `CircuitState`, which alarms can compare."""


def pipeline_prefix(app: str, pipeline: str) -> str:
    """What the names of a pipeline's resources, alarms among them, begin with."""
    return f"{app}-{pipeline}-"


# Events

EVENT_SOURCE = "deadletter"
"""The source of our events on the account's default bus."""

EVENT_VERSION = 1
"""The version in each event's detail."""


class EventType(StrEnum):
    """The detail types of our events; `deadletter.events.schema` has their fields."""

    CAUSE_APPEARED = "CauseAppeared"
    CAUSE_OVER = "CauseOver"
    MESSAGES_RECOVERED = "MessagesRecovered"
    MESSAGES_PARKED = "MessagesParked"
    MESSAGES_EXPIRE_SOON = "MessagesExpireSoon"
    CIRCUIT_STATE_CHANGED = "CircuitStateChanged"
    RUN_STATE_CHANGED = "RunStateChanged"
    RULE_REFUSED = "RuleRefused"


RESPONSE = "deadletter"
"""The key in a consumer's response under which the library says what a batch means."""


# Defaults of the settings


FIRST_RATE = 50.0
"""Letters per second that a pipeline begins with: most consumers bear it."""

MOST_SHARDS = 8
"""Runs that drain one queue at the same time, at most."""


class WatchDefaults(NamedTuple):
    """When levels of the watch call a person: the settings `alarms` of a pipeline.

    depth                letters that the DLQ may hold
    depth_looks          looks in a row in which it holds more, or will not be empty in time
    room_late            seconds that a letter of the waiting room may be late
    circuit_open_after   seconds for which a circuit may be open, or held without an end
    flapping_times       openings of the pipeline's circuit within `flapping_within` seconds
    open_circuits        circuits of single keys that are not closed for `open_circuits_for` seconds
    parked_after         seconds that parked letters may wait while none of them leaves
    letter_expiry        seconds before SQS drops a letter
    scheduled            the ids of the dedicated DLQs that a schedule drains
    """

    depth: int = 100
    depth_looks: int = 5
    room_late: int = 15 * MINUTE
    circuit_open_after: int = 30 * MINUTE
    flapping_times: int = 3
    flapping_within: int = HOUR
    open_circuits: int = 10
    open_circuits_for: int = 5 * MINUTE
    parked_after: int = 7 * DAY
    letter_expiry: int = 12 * HOUR
    scheduled: tuple[str, ...] = ()


WATCH = WatchDefaults()


ENDPOINT_KEY = "join('/', [context.tenantId, to_string(not_null(context.endpointId, 'default'))])"
"""The key of a message's circuit in a pipeline of the webhook dispatcher: its endpoint, as
`tenant/endpoint`. A message that names no tenant has none, and so the pipeline's circuit."""
