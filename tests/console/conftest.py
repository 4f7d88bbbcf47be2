"""An app deployed into an AWS in memory, and `dlq` typed at it."""

from __future__ import annotations

import io
import json
import os
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, lru_cache
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, cast
from unittest.mock import Mock
from uuid import uuid4

import boto3
import botocore.session
import moto.core.models
import moto.core.responses as moto_responses
import pytest
from botocore import xform_name
from botocore.client import BaseClient
from botocore.session import Session
from moto import mock_aws
from typer.testing import CliRunner, Result

from console.cli.main import app
from console.operations import aws, item, letter_walk, words
from deadletter.aws.causes import DynamoDBCauses
from deadletter.aws.clients import Clients
from deadletter.aws.lease import DynamoDBLease
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.objects import S3RunObjects
from deadletter.aws.replay_runs import DynamoDBReplayPlans, DynamoDBReplayRuns
from deadletter.aws.replay_tickets import DynamoDBTickets
from deadletter.aws.run_letters import DynamoDBStatuses
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.aws.watch_store import DynamoDBWatchStore
from deadletter.aws.wiring.judging import router_for
from deadletter.aws.wiring.moving import answer_request
from deadletter.aws.wiring.world import World
from deadletter.contract import CHANGES, MAIN_DLQ, PARKED_LANE, Category, parking_source
from deadletter.failure.causes import FailedTry, Second
from deadletter.failure.failure import Failure
from deadletter.failure.ledger import AboutLetter
from deadletter.message import stamp
from deadletter.message.letter import Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.order import Order
from deadletter.redrive.report import Report
from deadletter.redrive.source_memory import SourceMemory
from deadletter.redrive.waiting_room import SHARDS, never
from deadletter.replay.manifest import Manifest, ManifestIndex, PartStatus, part_name
from deadletter.replay.names import Name, to_lines
from deadletter.replay.objects import DiscardedLetter, discarded_name
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.ticket import ReplayOutcome, Ticket
from deadletter.routing.decision import Hold
from deadletter.routing.wire import answer_event
from deadletter.settings.pipeline import pipeline_from_json
from deadletter.settings.resources import Resources, resources_from_environment
from deadletter.testing.fakes import MemoryDynamoDB, MemoryS3, MemorySqs, client_error
from deadletter.watch.row import WatchRow
from tests.samples import blame_for
from tests.tables import create_keyed_table, create_tables

REGION = "eu-west-1"
TRUSTED = "AIDAIT2UOQQY3AUEKVGXU"
"""The SenderId whose `Redrive` attribute is trusted: moto gives it to every message."""

ACCOUNT = "123456789012"  # moto's
BUCKET = "messages-bucket"


def redrive_policy(dlq: str, receives: int = 5) -> str:
    """The attribute RedrivePolicy of a queue with this DLQ."""
    target = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{dlq}"
    return json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": receives})


class Kept:
    """What the SDK makes, kept by everything that it is made from."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._kept: dict[str, Any] = {}

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        files = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
        if any(Path(os.environ.get(name, "/")).exists() for name in files):
            # A test with profiles of its own.
            return self._make(*arguments, **options)
        variables = [
            (name, value)
            for name, value in sorted(os.environ.items())
            if name.startswith("AWS_") and name not in files
        ]
        settings = vars(options["config"]) if options.get("config") else None
        key = repr((arguments, {**options, "config": settings}, variables))
        if key not in self._kept:
            self._kept[key] = self._make(*arguments, **options)
        return self._kept[key]


_loader = lru_cache(botocore.session.create_loader)
_sessions = Kept(boto3.Session)
_sessions_of_commands = Kept(aws._session)
_clients = Kept(Session.create_client)


@pytest.fixture(autouse=True, scope="module")
def _sessions_and_clients_are_made_once() -> Iterator[None]:
    """Making a client takes longer than most tests; moto hooks into all that exist."""
    with pytest.MonkeyPatch.context() as patch:
        # Those that are not kept need not parse megabytes of JSON anew.
        patch.setattr(botocore.session, "create_loader", _loader)
        # A function becomes a method: a client is known by its session too.
        patch.setattr(Session, "create_client", lambda *args, **options: _clients(*args, **options))
        patch.setattr(boto3, "Session", _sessions)
        patch.setattr(aws, "_session", _sessions_of_commands)
        yield


@pytest.fixture(autouse=True, scope="module")
def _moto_listens_to_boto3_alone() -> Iterator[None]:
    """At each start, moto would register a thousand addresses for `requests`, which is not used."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moto.core.models, "RESPONSES_METHODS", [])
        # It looks for the method of each request anew.
        for name in ("camelcase_to_underscores", "method_names_from_class"):
            patch.setattr(moto_responses, name, cache(getattr(moto_responses, name)))
        yield


class Tables(MemoryDynamoDB):
    """Tables in memory, with what only commands and their tests ask of them."""

    recovery = "DISABLED"

    def delete_table(self, **request: Any) -> dict[str, Any]:
        del self._tables[request["TableName"]]
        return {}

    def update_continuous_backups(self, **_request: Any) -> dict[str, Any]:
        self.recovery = "ENABLED"
        return {}

    def describe_continuous_backups(self, **_request: Any) -> dict[str, Any]:
        recovery = {"PointInTimeRecoveryStatus": self.recovery}
        return {"ContinuousBackupsDescription": {"PointInTimeRecoveryDescription": recovery}}


class Queues(MemorySqs):
    """Queues in memory, with what only commands ask of them."""

    def get_queue_url(self, **request: Any) -> dict[str, Any]:
        is_ours = request.pop("QueueOwnerAWSAccountId", ACCOUNT) == ACCOUNT
        return super().get_queue_url(QueueName=request["QueueName"] if is_ours else "")

    def list_queues(self, **_request: Any) -> dict[str, Any]:
        return {"QueueUrls": [self._url + name for name in self._queues]}


class Buckets(MemoryS3):
    """Buckets in memory, with what only commands and their tests ask of them."""

    versioning: Mapping[str, Any] = {}

    def put_bucket_versioning(self, **request: Any) -> dict[str, Any]:
        self.versioning = request["VersioningConfiguration"]
        return {}

    def get_bucket_versioning(self, **_request: Any) -> dict[str, Any]:
        return dict(self.versioning)


class Parameters(dict[str, str]):
    """Systems Manager's parameters by name, ten a page."""

    def put_parameter(self, **request: Any) -> dict[str, Any]:
        self[request["Name"]] = request["Value"]
        return {}

    def get_parameter(self, **request: Any) -> dict[str, Any]:
        return {"Parameter": {"Value": self[request["Name"]]}}

    def get_parameters_by_path(self, **request: Any) -> dict[str, Any]:
        below = sorted(name for name in self if name.startswith(f"{request['Path']}/"))
        start = int(request.get("NextToken", 0))
        page = [{"Name": each, "Value": self[each]} for each in below[start : start + 10]]
        more = {"NextToken": str(start + 10)} if below[start + 10 :] else {}
        return {"Parameters": page, **more}


def as_sent(value: Any) -> Any:
    """What arrives of a member of a request: a text of a class of its own is a text."""
    match value:
        case dict():
            return {key: as_sent(each) for key, each in value.items()}
        case list() | tuple():
            return [as_sent(each) for each in value]
        case str():
            return str.__str__(value)
    return value


Models = dict[str, Any]


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch) -> Models:
    """By service: models that the contract holds against AWS answer the clients. moto is slow."""
    models: Models = {
        "dynamodb": Tables(time.time),
        "sqs": Queues(time.time, lambda: str(uuid4()), sender_id=TRUSTED, region=REGION),
        "s3": Buckets(time.time),
        "ssm": Parameters(),
    }
    one_at_a_time, elsewhere = threading.Lock(), BaseClient._make_api_call

    def call(client: BaseClient, operation: str, members: dict[str, Any]) -> Any:
        model = models.get(client.meta.service_model.service_name)
        if model is None:
            return elsewhere(client, operation, members)
        # Commands ask from several threads.
        with one_at_a_time:
            return getattr(model, xform_name(operation))(**as_sent(members))

    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    return models


@pytest.fixture(autouse=True)
def _a_watched_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks at a run of orders it does what it was started for."""

    def pause(_seconds: float) -> None:
        client = boto3.client("dynamodb", REGION)
        runs = DynamoDBReplayRuns(client, "messages", "orders", time.time)
        plans = DynamoDBReplayPlans(client, "messages", "orders", time.time)
        for run in runs.all():
            plan = plans.plan(run.id)
            if run.is_live and run.state is not RunState.HELD and plan is not None:
                outcome = {"discard": "DISCARDED", "restore": "RESTORED"}.get(plan.destination)
                counts = {outcome or "RECOVERED": run.counted or 0}
                ended = replace(run, state=RunState.DONE, messages=run.counted, counts=counts)
                runs.change(run, replace(ended, generation=run.generation + 1))

    monkeypatch.setattr("console.cli.output.pause", pause)


@pytest.fixture(autouse=True)
def _a_clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the developer's own profile, region, credentials or terminal."""
    for name in (
        "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL",
        "DLQ_APP", "NO_COLOR", "FORCE_COLOR", "COLUMNS",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setattr(letter_walk, "POLL_SECONDS", 0)
    words.GIVEN.clear()


@dataclass
class Cloud:
    """What the tests put into AWS."""

    sqs: Any
    ssm: Any
    dynamodb: Any
    cloudwatch: Any
    s3: Any
    queues: Any
    app: str = "deadletter"
    urls: dict[str, str] = field(default_factory=dict)
    is_deployed: bool = False

    def queue(self, name: str, **attributes: str) -> str:
        url: str = self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        self.urls[name] = url
        return url

    def deploy(self, *pipelines: str, **settings: Any) -> None:
        """The parameters, tables and queues that the stacks make."""
        shared = {
            "messages_table": "messages", "circuits_table": "circuits", "rules_table": "rules",
            "audit_table": "audit", "audit_days": 400, "messages_bucket": BUCKET,
            "endpoints_table": "endpoints", "alarm_topic": "",
        }  # fmt: skip
        self.parameter(f"/{self.app}/app", json.dumps(shared))
        if not self.is_deployed:
            self.is_deployed = True
            self._tables()
            self.s3.create_bucket(
                Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
            )
        for name in pipelines:
            self.pipeline(name, **settings)
            self.watched(name)

    def pipeline(
        self,
        name: str,
        *,
        parking: Sequence[str] = ("default",),
        dedicated: Sequence[str] = (),
        mode: str = "enforce",
        context: Sequence[str] = (),
        policies: Sequence[str] = (),
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        described = {
            "main_url": self.queue(f"{name}-main"), "dlq_url": self.queue(f"{name}-dlq"),
            "parking": {key: self.queue(f"{name}-parking-{key}") for key in parking},
            "dedicated": {key: self.queue(f"{name}-dlq-{key}") for key in dedicated},
            "redrive_function": f"{name}-redrive", "router_function": f"{name}-router",
            "replay_machine": f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{name}-replay",
            "consumer_function": f"{name}-consumer", "fifo": False, "mode": mode,
            "terms": {"context": list(context), "dedicated": list(dedicated),
                      "policies": list(policies), "max_delay": 7 * 86_400},
            "pipeline": settings or {},
            "stacks": {"pipeline": f"Deadletter-{name}", "queues": f"Deadletter-{name}-Queues"},
            "every": {MAIN_DLQ: 60}, "memory": 512, "keys": [], "trusted_senders": [TRUSTED],
            "from_a_later_version": True,
        }  # fmt: skip
        self.parameter(f"/{self.app}/pipelines/{name}", json.dumps(described))

    def parameter(self, name: str, value: str) -> None:
        self.ssm.put_parameter(Name=name, Value=value, Type="String", Overwrite=True)

    def redeploy(self, path: str = "pipelines/orders", **values: Any) -> None:
        """These values of a parameter are others, as after another deployment."""
        name = f"/{self.app}/{path}"
        stored = json.loads(self.ssm.get_parameter(Name=name)["Parameter"]["Value"])
        self.parameter(name, json.dumps({**stored, **values}))

    def put(self, table: str, item: Mapping[str, Any]) -> None:
        self.dynamodb.put_item(TableName=table, Item=item)

    def waiting(self, pipeline: str, lane: str, letters: int, due: float = 1.0) -> None:
        """Letters that the redriver put into a lane of the waiting room."""
        for number in range(letters):
            letter = Letter(f"{lane}-{number}", "{}")
            self.admit(lane, letter, Stamp("first-life"), due=due, pipeline=pipeline)

    def admit(
        self,
        lane: str,
        letter: Letter,
        stamp: Stamp,
        *,
        due: float = 1.0,
        pipeline: str = "orders",
        **hold: Any,
    ) -> None:
        """A letter that the redriver has put into a lane of the waiting room."""
        held = Hold(lane, due, **{"because": "test", **hold})
        order = Order(ReceivedLetter(letter, "", 0.0), held, stamp)
        assert self._room(pipeline, self.s3).admit([order])

    def rescued(
        self,
        pipeline: str,
        reason: str,
        sent: int,
        key: str = "default",
        origin: str = "first-life",
    ) -> str:
        """A parked letter that was rescued from its queue: sent at `sent`, epoch seconds."""
        copy = f"rescued-{reason}-{sent}"
        why = Stamp(origin, attempt=3, first_sent=sent * 1000, decision="PARK",
                    reason=reason, because=f"it is {reason}", at=sent)  # fmt: skip
        letter = Letter(copy, "{}", system={"SentTimestamp": str(sent * 1000)})
        received = ReceivedLetter(letter, "", 0.0, parking_source(key))
        hold = Hold(PARKED_LANE, never(letter), "its queue was about to drop it")
        assert self._room(pipeline).admit([Order(received, hold, why)])
        return copy

    def _room(self, pipeline: str, s3: Any = None) -> DynamoDBWaitingRoom:
        return DynamoDBWaitingRoom(
            client=self.dynamodb,
            table="messages",
            # Small letters stay in DynamoDB.
            s3=s3,
            bucket=BUCKET,
            pipeline=pipeline,
            fifo=False,
            clock=lambda: 0.0,
        )

    def failed(
        self, pipeline: str, origin: str, about: AboutLetter | None = None, **facts: Any
    ) -> None:
        """A failure in the ledger, as the consumer library records it."""
        failure = {"at": time.time() - 3_600, "attempt": 0, "category": Category.TRANSIENT} | facts
        made = Failure(**{"blame": blame_for(failure), **failure})
        self.ledger(pipeline).failed(origin, made, about)

    def sudden(self, fingerprint: str, error_type: str = "ValidationError") -> DynamoDBCauses:
        """A cause that suddenly fails most messages of orders, so that it is held."""
        tokens = map(str, count())
        causes = DynamoDBCauses(self.dynamodb, "circuits", "orders", lambda: next(tokens))
        now = int(time.time())
        causes.count([Second(now - 1_800, 100)], now - 1_800)
        tries = tuple(FailedTry(fingerprint, error_type, letter) for letter in range(25))
        _, begun = causes.count([Second(now, 25, tries)], now)
        assert begun == (fingerprint,)
        return causes

    def recovered(self, pipeline: str, origin: str) -> None:
        """The consumer processed the letter, as the ledger says."""
        self.ledger(pipeline).recovered(origin, 0, time.time())

    def ledger(self, pipeline: str = "orders") -> DynamoDBLedger:
        return DynamoDBLedger(self.dynamodb, "messages", pipeline, time.time, 86_400)

    def circuit(self, pipeline: str, key: str, state: str, **more: Any) -> None:
        """A circuit as its breaker has left it."""
        row = {
            "pipeline": pipeline, "circuit_key": key, "state": str(state), "generation": 3,
            "opened_at": int(time.time()), "troubled": pipeline, **more,
        }  # fmt: skip
        self.put("circuits", item.stored(row))

    def alarm(self, name: str, state: str = "ALARM", **more: Any) -> None:
        """An alarm of CloudWatch in this state."""
        about: dict[str, Any] = {
            "Namespace": "AWS/SQS", "MetricName": "Age", "Statistic": "Maximum", "Period": 60,
            "EvaluationPeriods": 1, "Threshold": 0, "ComparisonOperator": "GreaterThanThreshold",
        }  # fmt: skip
        self.cloudwatch.put_metric_alarm(AlarmName=name, **{**about, **more})
        self.cloudwatch.set_alarm_state(AlarmName=name, StateValue=state, StateReason="test")

    def figure(self, metric: str, value: float, at: datetime, **of: str) -> None:
        """A figure of CloudWatch: of a queue if `of` says nothing else."""
        namespace = of.pop("namespace", "AWS/SQS")
        dimensions = [{"Name": name, "Value": text} for name, text in of.items()]
        point = {"MetricName": metric, "Dimensions": dimensions, "Timestamp": at, "Value": value}
        self.cloudwatch.put_metric_data(Namespace=namespace, MetricData=[point])

    def replay(self, run: ReplayRun, **plan: Any) -> ReplayRun:
        """A replay run as the command line and its execution have left it."""
        made = ReplayPlan(**{"pipeline": run.pipeline, "who": "ann", "why": "fixed", **plan})
        run = replace(run, id=run.id or made.run_id)
        starts = DynamoDBReplayPlans(self.dynamodb, "messages", run.pipeline, time.time)
        starts.store(made, [])
        if run.id != made.run_id:
            # The plan of another id: rows are copied under the id that the test wants.
            for row in self.dynamodb.scan(TableName="messages")["Items"]:
                if f"#run#{made.run_id}#plan" in row["pk"]["S"]:
                    key = row["pk"]["S"].replace(made.run_id, run.id)
                    self.put("messages", {**row, "pk": {"S": key}})
        assert self.replays(run.pipeline).create(run)
        return run

    def snapshot(self, run: ReplayRun, outcomes: Sequence[tuple[Name, ReplayOutcome]]) -> None:
        """The manifest of a run, and what became of its letters."""
        names = sorted((name for name, _ in outcomes), key=lambda name: name.sort_key)
        objects = S3RunObjects(self.s3, BUCKET, run.pipeline, run.id)
        statuses = DynamoDBStatuses(
            self.dynamodb, "messages", pipeline=run.pipeline, run=run.id, clock=time.time
        )
        by_copy = {name.copy: outcome for name, outcome in outcomes}
        shards = []
        for shard in range(SHARDS):
            own = [name for name in names if name.shard == shard]
            shards.append(len(own))
            if own:
                objects.put(part_name(shard, 0), to_lines(own))
                text = "".join(by_copy[name.copy] for name in own)
                statuses.write(shard, {0: PartStatus(text, "0" * len(text))})
        Manifest(objects).seal(ManifestIndex(tuple(shards), "hash"))

    def ticket(self, run: str, origin: str, copy: str, fate: ReplayOutcome, **facts: Any) -> None:
        """What a run notes of a message that it has sent or let go."""
        tickets = DynamoDBTickets(
            self.dynamodb, "messages", pipeline="orders", run=run, clock=time.time,
            in_parallel=lambda calls: [call() for call in calls],
        )  # fmt: skip
        noted = {"shard": 0, "position": 0, "attempt": 1, "at": time.time(), **facts}
        tickets.put([Ticket(run=run, origin=origin, copy=copy, fate=fate, **noted)])

    def discarded(self, run: str, letter: Letter, stamp: Stamp, **facts: Any) -> None:
        """The copy of a message that a run has thrown away."""
        given = {"home": "parking:default", "at": 1, "by": "ann", "because": "a test", **facts}
        copy = DiscardedLetter(letter=letter, stamp=stamp, **given)
        objects = S3RunObjects(self.s3, BUCKET, "orders", run)
        objects.put(discarded_name(letter.message_id), copy.to_bytes())

    def replays(self, pipeline: str) -> DynamoDBReplayRuns:
        return DynamoDBReplayRuns(self.dynamodb, "messages", pipeline, time.time)

    def rule(self, rule_id: str, pipeline: str = "orders", **columns: Any) -> None:
        """A rule as a person types it into the table."""
        self.put("rules", item.stored({"pipeline": pipeline, "rule_id": rule_id, **columns}))

    def rules(self) -> dict[str, dict[str, Any]]:
        """The rows of the rules table, by rule id."""
        rows = map(item.plain, self.dynamodb.scan(TableName="rules")["Items"])
        return {row["rule_id"]: row for row in rows}

    def letter(self, body: str, queue: str = "orders-dlq", **attributes: str) -> str:
        """A letter in a queue, as its producer sent it; its MessageId."""
        sent = self.sqs.send_message(
            QueueUrl=self.urls[queue],
            MessageBody=body,
            MessageAttributes={
                name: {"DataType": "String", "StringValue": value}
                for name, value in attributes.items()
            },
        )
        return str(sent["MessageId"])

    def visible(self, queue: str) -> int:
        name = "ApproximateNumberOfMessages"
        answer = self.sqs.get_queue_attributes(QueueUrl=self.urls[queue], AttributeNames=[name])
        return int(answer["Attributes"][name])

    def received(self, queue: str) -> int:
        """How often messages of a queue have been received: the sum over all of them."""
        messages = self.queues.snapshot()
        return sum(message.receive_count for message in messages if message.queue == queue)

    def watched(self, pipeline: str, **row: Any) -> None:
        """A run of the pipeline's watch, now if `row` says nothing else, and what it remembers."""
        now = time.time()
        remembered = WatchRow(**{"first_at": now, "ran_at": now, **row})
        DynamoDBWatchStore(self.dynamodb, "messages", pipeline).write(remembered)

    def remembers(self, pipeline: str, source: str, **memory: Any) -> None:
        """What the runs of a source have left."""
        lease = DynamoDBLease(self.dynamodb, "messages", pipeline, source, 1.0)
        lease.record(SourceMemory(**memory))

    def ran(self, pipeline: str, at: float, counts: Mapping[str, int]) -> None:
        """A run of the redriver that ended at `at`, epoch seconds."""
        lease = DynamoDBLease(self.dynamodb, "messages", pipeline, MAIN_DLQ, 1.0)
        bucket = lease.acquire("a run", at, at + 60)
        assert bucket is not None
        lease.give_back(
            "a run", bucket, Report(pipeline, MAIN_DLQ, "the source is empty", counts), at
        )

    def park(
        self,
        pipeline: str,
        reason: str | None,
        body: str = "{}",
        key: str = "default",
        queue: str | None = None,
        **more: Any,
    ) -> str:
        """A letter in a parking queue, or another, stamped as the redriver stamps it."""
        facts: dict[str, Any] = {
            "origin": "first-life", "attempt": 3, "first_sent": 1_000, "sender": "AROA:us",
            "decision": "PARK", "reason": reason, "because": f"it is {reason}", "at": 2,
        } | more  # fmt: skip
        attribute = stamp.attribute(Stamp(**facts))
        carried = {"DataType": attribute.data_type, "StringValue": attribute.value}
        sent = self.sqs.send_message(
            QueueUrl=self.urls[queue or f"{pipeline}-parking-{key}"],
            MessageBody=body,
            MessageAttributes={stamp.NAME: carried} if reason else {},
        )
        return str(sent["MessageId"])

    def _tables(self) -> None:
        create_tables(self.dynamodb)
        changes = {CHANGES.name: (CHANGES.partition, str(CHANGES.sort))}
        create_keyed_table(self.dynamodb, "audit", ("pk", "sk"), changes, whole=[CHANGES.name])


@pytest.fixture
def cloud(in_memory: Models) -> Iterator[Cloud]:
    """An empty AWS account."""
    with mock_aws():
        session: Any = boto3.Session(region_name=REGION)
        clients = map(session.client, ("sqs", "ssm", "dynamodb", "cloudwatch", "s3"))
        yield Cloud(*clients, in_memory.get("sqs"))


Dlq = Callable[..., Result]


@pytest.fixture
def dlq() -> Iterator[Dlq]:
    """Types a command line, and more words behind it; `answers` is what the person types then.

    `ends` is how it has to end, `says` what has to be in standard output, and `refuses` what has
    to be in standard error, wherever it breaks its lines; of several texts each.

    A command that fails does not wait for what it asked in threads: the fixture does, for they
    may only ask the AWS of the test.
    """

    def typed(
        line: str = "",
        *more: str,
        env: Mapping[str, str] | None = None,
        answers: str = "",
        ends: int | None = None,
        says: str | Sequence[str] = (),
        refuses: str | Sequence[str] = (),
    ) -> Result:
        words = [*shlex.split(line), *more]
        done = CliRunner().invoke(app, words, env=env, input=answers, prog_name="dlq")
        if ends is not None:
            assert done.exit_code == ends, done.output
        for texts, stream in ((says, "stdout"), (refuses, "stderr")):
            shown = getattr(done, stream)
            joined = " ".join(shown.split())
            for text in (texts,) if isinstance(texts, str) else texts:
                assert text in shown or text in joined, done.output
        return done

    before = set(threading.enumerate())
    with mock_aws():
        yield typed
        for thread in set(threading.enumerate()) - before:
            if thread.name.endswith("(run)"):
                thread.join(60)


class FakeMachine:
    """The state machine of replay runs: what was started, and which approvals were answered."""

    def __init__(self) -> None:
        self.started: list[dict[str, Any]] = []
        self.answered: list[str] = []
        self.running: list[str] | None = None
        """The names of running executions; None if the caller may not list them."""
        self.raises: BaseException | None = None

    def list_executions(self, **_request: Any) -> dict[str, Any]:
        if self.running is None:
            raise client_error("ListExecutions", "AccessDeniedException", "may not")
        return {"executions": [{"name": name} for name in self.running]}

    def start_execution(self, **request: Any) -> dict[str, Any]:
        if self.raises is not None:
            raise self.raises
        if request["name"] in [execution["name"] for execution in self.started]:
            raise client_error("StartExecution", "ExecutionAlreadyExists", "")
        self.started.append(request)
        return {}

    def send_task_success(self, **request: Any) -> dict[str, Any]:
        if self.raises is not None:
            raise self.raises
        self.answered.append(request["taskToken"])
        return {}


class FakeLambda:
    """The Lambda functions, as their caller sees them.

    Each router is the real one, and the redriver where it is asked for no run; the others answer
    with `report`.
    """

    def __init__(self, report: Any = None, *, function_error: str | None = None) -> None:
        self.report = report
        self.environments: dict[str, dict[str, Any]] = {}
        self.routes = False
        self.answers_requests = True
        self.function_error = function_error
        self.invoked: list[tuple[str, Any]] = []
        self.raises: BaseException | None = None
        self.machine = FakeMachine()
        self.consumer_changed = "2026-11-18T03:40:00.000+0000"
        self.consumer_version = ""
        self.consumer_code = "q1Zx0rJv8mD2nT4kP6sW9yB3cF5hL7gR1uE0iO2aQ4M="

    def configure(self, pipeline: str, **settings: Any) -> None:
        """What the stacks write into the environment of a pipeline's router."""
        self.environments[f"{pipeline}-router"] = {
            "Variables": {
                "PIPELINE": json.dumps({"name": pipeline, **settings}),
                "MESSAGES_TABLE": "messages",
                "RULES_TABLE": "rules",
                "CIRCUITS_TABLE": "circuits",
                "TRUSTED_SENDERS": json.dumps([TRUSTED]),
            }
        }

    def get_function_configuration(self, **request: Any) -> dict[str, Any]:
        if self.raises is not None:
            raise self.raises
        if request["FunctionName"].endswith("-consumer"):
            return {
                "LastModified": self.consumer_changed,
                "CodeSha256": self.consumer_code,
                "Version": "7",
                "Environment": {"Variables": {"DEADLETTER_VERSION": self.consumer_version}},
                "FunctionArn": f"arn:aws:lambda:{REGION}:123456789012:function:consumer:live",
            }
        return {"Environment": self.environments[request["FunctionName"]]}

    def _route(self, request: Mapping[str, Any]) -> Any:
        variables = self.environments[request["FunctionName"]]["Variables"]
        dynamodb, nothing = boto3.client("dynamodb", REGION), cast(Any, None)
        router = router_for(
            pipeline_from_json(variables["PIPELINE"]),
            resources_from_environment(variables),
            Clients(nothing, nothing, dynamodb, dynamodb, nothing, nothing),
            World(time.time, lambda _: None, str, Random(1)),
        )
        return answer_event(router, json.loads(request["Payload"]))

    def _redrive(self, function: str, event: Mapping[str, Any]) -> Any:
        """What the redriver's function does beside its runs; None if the event asks for a run."""
        pipeline = function.removesuffix("-redrive")
        configured = self.environments.get(f"{pipeline}-router", {}).get("Variables", {})
        dynamodb, nothing = boto3.client("dynamodb", REGION), cast(Any, None)
        return answer_request(
            pipeline_from_json(configured.get("PIPELINE", json.dumps({"name": pipeline}))),
            Resources(messages_table="messages", messages_bucket=BUCKET),
            Clients(nothing, nothing, dynamodb, dynamodb, boto3.client("s3", REGION), nothing),
            World(time.time, lambda _: None, str, Random(1)),
            event,
        )

    def invoke(self, **request: Any) -> dict[str, Any]:
        event = json.loads(request["Payload"])
        self.invoked.append((request["FunctionName"], event))
        if self.raises is not None:
            raise self.raises
        if request["FunctionName"].endswith("-redrive") and self.answers_requests:
            answer = self._redrive(request["FunctionName"], event)
            if answer is not None:
                return {"StatusCode": 200, "Payload": io.BytesIO(json.dumps(answer).encode())}
        if self.routes and request["FunctionName"].endswith("-router"):
            return {"Payload": io.BytesIO(json.dumps(self._route(request)).encode())}
        report = self.report if isinstance(self.report, bytes) else json.dumps(self.report).encode()
        error = {"FunctionError": self.function_error} if self.function_error else {}
        return {"StatusCode": 200, "Payload": io.BytesIO(report), **error}


def refusing(operation: str, says: str = "not allowed") -> Mock:
    """A function that AWS refuses this operation."""
    return Mock(side_effect=client_error(operation, "AccessDeniedException", says))


def connecting(monkeypatch: pytest.MonkeyPatch, **replaced: Callable[[Any], Any]) -> None:
    """From now on these clients are others, each made of the one before."""
    real = aws.connect

    def connect(profile: str | None, region: str | None) -> aws.Aws:
        clients = real(profile, region)
        for name, another in replaced.items():
            clients.__dict__[name] = another(getattr(clients, name))
        return clients

    monkeypatch.setattr(aws, "connect", connect)


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> FakeLambda:
    """Stands in for Lambda behind the one factory that clients come from."""
    fake = FakeLambda({"ended_well": True})
    connecting(monkeypatch, lambda_=lambda _: fake, stepfunctions=lambda _: fake.machine)
    return fake


def routed(cloud: Cloud, functions: FakeLambda, settings: Any = None, **deployed: Any) -> Cloud:
    """Pipeline orders, whose router answers."""
    cloud.deploy("orders", settings=settings, **deployed)
    functions.configure("orders", **(settings or {}))
    functions.routes = True
    return cloud


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person sits at the terminal."""
    monkeypatch.setattr("console.cli.asking.interactive", lambda: True)
