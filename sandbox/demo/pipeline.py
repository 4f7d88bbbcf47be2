"""The deployed pipeline, as its producer and its on-call engineer reach it: over AWS's APIs."""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deadletter.aws.circuits import DynamoDBCircuits
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.circuit.state import Circuit
from deadletter.contract import (
    BODIES,
    DEFAULT_APP,
    DEFAULT_PARKING,
    ENDPOINTS,
    RULES,
    Partition,
    app_parameter,
    pipeline_parameter,
)
from deadletter.failure.failure import Failure
from deadletter.message import stamp
from deadletter.message.letter import Letter, from_api, utf8
from deadletter.webhook.endpoint import DEFAULT_ENDPOINT
from sandbox.demo.events import Event, batches, digest, entry
from sandbox.demo.reconcile import ParkedEvent
from sandbox.server import Sandbox, parameter

# Until the first canary goes; each that fails makes the next one wait longer.
COOLDOWN_SECONDS = 3

# Seconds that a busy machine may need, four times what a quiet one does: of the consumer's
# function, of one of the five POSTs of its batch, of the right to send a canary, which outlives the
# function by half a minute, and until a circuit that has closed counts as closed for good. Nothing
# in the demo waits for them to pass, so a quiet machine has them, too: others would be other
# templates, and a busy machine would have to make them just then.
TIMEOUT = 120
REQUEST_TIMEOUT = 20
LEASE = 240
SETTLE = 240

# Longer than a look at the whole parking lot takes, so that no letter is seen twice.
HIDDEN_SECONDS = 300

# A poll this long asks all of SQS's servers.
POLL_SECONDS = 1


def settings() -> Mapping[str, Any]:
    """The settings, compressed in time; the code is the code: what fails once is dead soon."""
    return {
        "name": "orders",
        "context": {"tenantId": "body.tenantId", "messageType": "body.type"},
        "consumer": {
            "kind": "webhook",
            "timeout": TIMEOUT,
            "request_timeout": REQUEST_TIMEOUT,
            # Each is a process here, and a laptop has few cores.
            "max_concurrency": 2,
        },
        "main_queue": {"max_receive_count": 1},
        "circuit": {
            "failure_rate": 0.95,
            "minimum": 30,
            "consecutive": 15,
            "cooldown": COOLDOWN_SECONDS,
        },
        # On a slow machine letters fail more than once before the circuit opens, and a life takes
        # seconds here.
        "poison_lives": 20,
        # More attempts than patience lasts for.
        "policy": {"max_attempts": 20, "backoff": {"base": 1, "cap": 4}},
        "tuning": {
            "consumer.batch_size": 5,
            "consumer.allow_loopback": True,
            "retry.base": 1,
            "retry.cap": 1,
            "retry.floor": 0,
            "policy.backoff.floor": 0,
            "circuit.window": 12,
            "circuit.cooldown_factor": 1.5,
            "circuit.cooldown_cap": 8,
            "circuit.settle": SETTLE,
            "circuit.lease": LEASE,
            "circuit.ramp": 5,
            "workers": 2,
        },
    }


class NotPublished(Exception):
    """SQS refused an event; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Seated:
    """A letter in the waiting room: its first MessageId, and whether its body lies in S3."""

    origin: str
    in_bucket: bool


class DemoPipeline:
    """One pipeline of the app in *sandbox*, found by its parameters as `dlq` finds it."""

    def __init__(self, sandbox: Sandbox, name: str) -> None:
        self._sandbox = sandbox
        self._name = name
        self._sqs, self._s3 = sandbox.client("sqs"), sandbox.client("s3")
        self._dynamodb, self._logs = sandbox.client("dynamodb"), sandbox.client("logs")
        self._lambda = sandbox.client("lambda")
        ssm = sandbox.client("ssm")
        self._app = parameter(ssm, app_parameter(DEFAULT_APP))
        own = parameter(ssm, pipeline_parameter(DEFAULT_APP, name))
        self._own = {**own, "parking_url": own["parking"][DEFAULT_PARKING]}

    def register(self, tenant: str, url: str) -> None:
        """Say where a tenant wants its events."""
        self._put(
            "endpoints_table",
            {ENDPOINTS.partition: tenant, ENDPOINTS.sort: DEFAULT_ENDPOINT, "url": url},
        )

    def add_rule(self, rule_id: str, **columns: str) -> None:
        """Type a rule into the rules table, as raw attributes."""
        self._put("rules_table", {RULES.partition: self._name, RULES.sort: rule_id, **columns})

    def send(self, events: Sequence[Event]) -> Mapping[str, Event]:
        """Send *events* to the main queue; returns them by their MessageIds.

        Raises NotPublished.
        """
        sent: dict[str, Event] = {}
        for batch in batches(events):
            answer = self._sqs.send_message_batch(
                QueueUrl=self._own["main_url"],
                Entries=[entry(place, event) for place, event in enumerate(batch)],
            )
            if failed := answer.get("Failed"):
                raise NotPublished(f"{batch[int(failed[0]['Id'])].event_id}: {failed[0]['Code']}")
            sent |= {entry["MessageId"]: batch[int(entry["Id"])] for entry in answer["Successful"]}
        return sent

    def start_run(self) -> None:
        """Start a run of the redriver, as the schedule does: it is not waited for."""
        self._lambda.invoke(
            FunctionName=self._own["redrive_function"], InvocationType="Event", Payload=b"{}"
        )

    def reports(self) -> list[Mapping[str, Any]]:
        """Read the report of every run so far, the schedule's too, from the function's log."""
        pages = self._logs.get_paginator("filter_log_events").paginate(
            logGroupName=f"/aws/lambda/{self._own['redrive_function']}",
            filterPattern='"run ended"',
        )
        return [
            json.loads(event["message"])["report"] for page in pages for event in page["events"]
        ]

    def depths(self) -> tuple[int, int, int]:
        """Count what is in DLQ, main queue and parking lot: visible, in flight and delayed."""
        dlq, main, parking = (
            sum(self._depth(self._own[queue])) for queue in ("dlq_url", "main_url", "parking_url")
        )
        return dlq, main, parking

    def seated(self) -> list[Seated]:
        """Look into the waiting room."""
        pages = self._dynamodb.get_paginator("scan").paginate(
            TableName=self._app["messages_table"], FilterExpression="attribute_exists(lane)"
        )
        items = [item for page in pages for item in page["Items"]]
        if not items:
            return []
        listed = self._s3.list_objects_v2(Bucket=self._app["messages_bucket"], Prefix=BODIES)
        objects = {entry["Key"] for entry in listed.get("Contents", [])}
        return [_seated(item, objects) for item in items]

    def circuits(self, tenants: Sequence[str]) -> Mapping[str, Circuit]:
        """Look at the circuits of the tenants' endpoints."""
        table = self._app["circuits_table"]
        keys = {tenant: f"{tenant}/{DEFAULT_ENDPOINT}" for tenant in tenants}
        circuits = DynamoDBCircuits(self._dynamodb, table, self._name).read([*keys.values()])
        return {tenant: circuits[key] for tenant, key in keys.items()}

    def failures(self, origins: Collection[str]) -> Mapping[str, Sequence[Failure]]:
        """The failures that the ledger keeps, by the first MessageIds of their letters."""
        return {origin: row.failures for origin, row in self._ledger().rows([*origins]).items()}

    def recovered(self) -> list[str]:
        """The first MessageIds of the letters that were processed after all, by the ledger."""
        prefix = Partition.LEDGER.of(self._name, "")
        pages = self._dynamodb.get_paginator("scan").paginate(
            TableName=self._app["messages_table"],
            FilterExpression="attribute_exists(recovered_at) AND begins_with(pk, :rows)",
            ExpressionAttributeValues={":rows": {"S": prefix}},
        )
        return [item["pk"]["S"].removeprefix(prefix) for page in pages for item in page["Items"]]

    def parked(self) -> list[ParkedEvent]:
        """Read the whole parking lot, delete nothing of it, and show it again to who comes next."""
        url = self._own["parking_url"]
        letters: list[Letter] = []
        handles: list[str] = []
        while True:
            messages = self._sqs.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=10,
                VisibilityTimeout=HIDDEN_SECONDS,
                WaitTimeSeconds=POLL_SECONDS,
                MessageAttributeNames=["All"],
                MessageSystemAttributeNames=["All"],
            ).get("Messages", [])
            letters += map(from_api, messages)
            handles += (message["ReceiptHandle"] for message in messages)
            if messages:
                continue
            visible, _seen, delayed = self._depth(url)
            # A letter without room for the Redrive attribute is kept back for a few
            # seconds, in a parking lot too.
            if not visible + delayed:
                break
        for handle in handles:
            self._sqs.change_message_visibility(
                QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0
            )
        return self._with_reasons(letters)

    def on_its_way(self) -> list[str]:
        """Digests of the bodies in the main queue and the DLQ, looked at without receiving."""
        names = [self._own[url].rsplit("/", 1)[-1] for url in ("main_url", "dlq_url")]
        queues = self._sandbox.queues()
        return [digest(utf8(message["Body"])) for name in names for message in queues[name]]

    def _put(self, table: str, columns: Mapping[str, str]) -> None:
        item = {name: {"S": value} for name, value in columns.items()}
        self._dynamodb.put_item(TableName=self._app[table], Item=item)

    def _depth(self, url: str) -> tuple[int, int, int]:
        """Messages that are visible, in flight, delayed."""
        kinds = ("", "NotVisible", "Delayed")
        names = [f"ApproximateNumberOfMessages{kind}" for kind in kinds]
        answer = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)
        visible, in_flight, delayed = (int(answer["Attributes"][name]) for name in names)
        return visible, in_flight, delayed

    def _ledger(self) -> DynamoDBLedger:
        """The ledger. It is only read, so nothing is kept."""
        table = self._app["messages_table"]
        return DynamoDBLedger(self._dynamodb, table, self._name, time.time, keep_seconds=0)

    def _with_reasons(self, letters: Sequence[Letter]) -> list[ParkedEvent]:
        """Read why each letter was parked: off the letter, else out of the ledger."""
        rows = self._ledger().rows(
            [copy.message_id for copy in letters if stamp.NAME not in copy.attributes]
        )
        parked = []
        for letter in letters:
            attributes = dict(letter.attributes)
            own = attributes.pop(stamp.NAME, None)
            row = rows.get(letter.message_id)
            mark = stamp.parse(own.value) if own else row and row.stamp
            reason = (mark and mark.reason) or "unknown"
            parked.append(ParkedEvent(digest(utf8(letter.body)), reason, attributes))
        return parked


def _seated(item: Mapping[str, Any], objects: Collection[str]) -> Seated:
    mark = stamp.parse(item["stamp"]["S"])
    assert mark is not None
    return Seated(mark.origin, in_bucket="object" in item and item["object"]["S"] in objects)
