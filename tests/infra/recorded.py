"""What can happen to a pipeline, scene by scene, and what its functions call meanwhile.

Each scene has an account in memory of its own, made of the templates; the functions are the real
handlers. What each asks IAM for is kept, with the function that asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest

from deadletter.aws import stack_request
from deadletter.aws.dynamodb import stored
from deadletter.aws.replay_runs import DynamoDBReplayPlans, DynamoDBReplayRuns
from deadletter.aws.waiting_room import INLINE_BYTES
from deadletter.aws.wiring import posting
from deadletter.circuit.transitions import Tripped
from deadletter.contract import DAY, Partition, run_object
from deadletter.message.letter import from_api, from_json, to_event
from deadletter.redrive import redriver
from deadletter.replay.edit_request import EditRequest
from deadletter.replay.machine import MOST_LOOPS
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run import ReplayRun, aborted
from deadletter.webhook.http import HttpResponse
from tests.infra.templates import Synthesis, parameter
from tests.judge import Asked, operations, questions
from tests.scenarios.account import Account, Fault, Function
from tests.scenarios.stage import Stage

PIPELINE = "orders"
TABLE = "deadletter-messages"

# Where a letter of this size waits, its body is in the bucket.
LARGE = "x" * INLINE_BYTES

GOOD = '{"tenantId": "good"}'
LARGE_GOOD = f'{{"tenantId": "good", "large": "{LARGE}"}}'

SECRET = "whsec_" + "c2VjcmV0" * 6
MOST_STEPS = 60


class RecordedAccount(Account):
    """An account that keeps what IAM is asked for, with the function whose call it is."""

    def __init__(self, app: Synthesis) -> None:
        super().__init__(pipelines=[PIPELINE])
        self.registration = parameter(app, f"/deadletter/pipelines/{PIPELINE}")
        self.asked: dict[str, dict[str, Asked]] = {}

    def refuse(
        self, function: str, service: str, operation: str, arguments: Mapping[str, Any]
    ) -> None:
        if operation in operations(service):
            for asked in questions(service, operation, arguments):
                self.asked.setdefault(function, {})[repr(asked)] = asked
        super().refuse(function, service, operation, arguments)

    def client(self, service: str, function: Function) -> Any:
        match service:
            case "secretsmanager":
                return SimpleNamespace(get_secret_value=lambda **_: {"SecretString": SECRET})
            case "ssm":
                return _Registrations(self, function)
            case "stepfunctions":
                return _Machines(super().client(service, function))
        return super().client(service, function)


class _Registrations:
    """The parameters that say which pipelines there are."""

    def __init__(self, account: RecordedAccount, function: Function) -> None:
        self._account = account
        self._function = function

    def get_paginator(self, operation: str) -> Any:
        def paginate(**arguments: Any) -> list[dict[str, Any]]:
            self._account.refuse(self._function.name, "ssm", operation, arguments)
            value = json.dumps(self._account.registration)
            return [{"Parameters": [{"Name": f"/deadletter/pipelines/{PIPELINE}", "Value": value}]}]

        return SimpleNamespace(paginate=paginate)


class _Machines:
    """Step Functions: the account executes outages, and the scenes replay runs."""

    def __init__(self, of_outages: Any) -> None:
        self._of_outages = of_outages

    def start_execution(self, **arguments: Any) -> Any:
        if arguments["stateMachineArn"].endswith("-replay"):
            return {}
        return self._of_outages.start_execution(**arguments)

    def list_executions(self, **arguments: Any) -> Any:
        if arguments["stateMachineArn"].endswith("-replay"):
            return {"executions": []}
        return self._of_outages.list_executions(**arguments)

    def send_task_success(self, **_: Any) -> Any:
        return {}


class Place:
    """One pipeline in an account of its own, with its dispatcher and its endpoints."""

    def __init__(self, app: Synthesis) -> None:
        self.account = RecordedAccount(app)
        self.account.deploy(app)
        self.stage = Stage(self.account, PIPELINE)
        self.machine = str(self.account.registration["replay_machine"])
        self.statuses: dict[str, int] = {}
        client: Any = self.account.dynamodb
        self.runs = DynamoDBReplayRuns(client, TABLE, PIPELINE, self.account.clock)
        self.starts = DynamoDBReplayPlans(client, TABLE, PIPELINE, self.account.clock)
        self.register("good", 200)

    def invoke(self, role: str, **event: Any) -> Any:
        """Invoke a function of the pipeline."""
        return self.account.start(self.stage.function(role), event)

    def redrive(self, source: str = "dlq", **event: Any) -> None:
        self.invoke("redrive", source=source, asked=True, **event)

    def put(self, table: str, item: Mapping[str, Any]) -> None:
        self.account.dynamodb.put_item(TableName=f"deadletter-{table}", Item=stored(item))

    # The endpoints, and the dispatcher that posts there.

    def register(self, tenant: str, status: int) -> None:
        """An endpoint of a tenant that answers with this status."""
        self.statuses[tenant] = status
        keys = {"tenant": tenant, "endpoint": "default", "enabled": True}
        url, secrets = f"https://{tenant}.example/in", ["deadletter/webhooks/one"]
        self.put("endpoints", {**keys, "url": url, "secrets": secrets})

    def post(self, destination: Any, _body: bytes, _headers: Any) -> HttpResponse:
        status = self.statuses[destination.host.partition(".")[0]]
        return HttpResponse(status, "30" if status == 429 else None)

    def consume(self) -> None:
        """The dispatcher takes everything that is visible, once."""
        while messages := self.stage.receive(self.stage.main):
            arn = self.stage.resources.main_arn
            records = [
                to_event(from_api(each), receipt_handle=each["ReceiptHandle"], source_arn=arn)
                for each in messages
            ]
            answer = self.invoke("consumer", Records=records)
            failed = {each["itemIdentifier"] for each in answer["batchItemFailures"]}
            for each in messages:
                if each["MessageId"] not in failed:
                    self.stage.consumer_sqs.delete_message(
                        QueueUrl=self.stage.main, ReceiptHandle=each["ReceiptHandle"]
                    )

    @contextmanager
    def without(self, role: str) -> Iterator[None]:
        """A function is throttled meanwhile."""
        name = self.stage.function(role)
        self.account.throttled.add(name)
        yield
        self.account.throttled.discard(name)

    # Replay runs, and as much of their state machine as a scene needs.

    def plan(self, **more: Any) -> ReplayRun:
        """A run that a person plans and starts."""
        now = self.account.clock()
        plan = ReplayPlan(
            pipeline=PIPELINE,
            created=now,
            expires=now + DAY,
            rate=50.0,
            canary=(1,),
            ramp=(1.0,),
            ramp_seconds=20.0,
            outcome_timeout=120.0,
            who="ann",
            why="fixed",
            **more,
        )
        self.starts.store(plan, None)
        return self.runs.create(
            ReplayRun(
                id=plan.run_id,
                pipeline=PIPELINE,
                created=now,
                started=now,
                expires=plan.expires,
            )
        )

    def replay(self, **more: Any) -> ReplayRun:
        """A run from its plan to its end."""
        return self.execute(self.plan(**more))

    def execute(self, run: ReplayRun, *, until: str = "done", loops: int = 0) -> ReplayRun:
        """The steps of a run until one says `until`; returns the run as it is then."""
        event = {"run": run.id, "execution": run.execution, "loops": loops}
        step, more = "preflight", {}
        for _ in range(MOST_STEPS):
            answer = self.invoke("replay", step=step, **event, **more)
            event["loops"], step, more = answer["loops"], answer["next"], {}
            if step in (until, "done", "hand over"):
                break
            if step == "approval":
                self.invoke("replay", step=step, token=self.machine, **event)
                said = {"approved": True, "by": "ben", "because": "it is right"}
                step, more = "approved", {"approval": said}
            elif step in ("work", "wait"):
                if step == "work":
                    self.invoke("replay", step=step, **event)
                    self.consume()
                self.account.minutes(1)
                step = "judge"
        else:
            raise AssertionError(f"{self.runs.read(run.id)} does not end")
        now = self.runs.read(run.id)
        assert now is not None
        return now


# The scenes.


def messages_are_posted(place: Place) -> None:
    """Endpoints that take a message, are busy, gone or unknown; and a message that is no JSON."""
    for tenant, status in (("gone", 410), ("busy", 429), ("wrong", 404)):
        place.register(tenant, status)
    for tenant in (*place.statuses, "unknown"):
        place.stage.send(json.dumps({"tenantId": tenant}))
    place.stage.send("{")
    for _ in range(6):
        place.consume()
        place.account.minutes(7)


def letters_are_moved(place: Place) -> None:
    """Letters of each decision, small and large, and a letter that is judged without its stamp."""
    rules: Mapping[str, Mapping[str, Any]] = {
        "held": {"action": "HOLD"},
        "vip": {"action": "DEDICATED_DLQ", "queue": "vip"},
        "slow": {"action": "DEDICATED_DLQ", "queue": "slow"},
        "bad": {"action": "QUARANTINE"},
        "few": {"action": "HOLD", "max_matches": 1},
    }
    for tenant, columns in rules.items():
        place.stage.add_rule(tenant, tenantId=tenant, **columns)
    for tenant in ("good", *rules, *rules):
        for large in ({}, {"large": LARGE}):
            place.stage.die(body=json.dumps({"tenantId": tenant, **large}))
    place.stage.die(body="{")
    place.stage.die(body=GOOD, attributes=10)
    place.account.minutes(3)
    for tenant in ("vip", "slow"):
        place.stage.delete_rule(tenant)
        place.redrive(tenant)
    place.account.minutes(30)
    place.stage.delete_rule("held")
    place.account.minutes(5)


def a_queue_is_deep(place: Place) -> None:
    """More letters than one run has the time for: it starts the next one."""
    # A run that begins a chunk in the eleventh second before its end finds that its locks, which
    # are whole seconds, are too short to send it; here no time passes until it has seen all.
    place.account.functions[place.stage.function("redrive")].timeout = 26
    for number in (1, 1_100):
        place.stage.put(place.stage.dlq, number, GOOD)
        place.redrive()


def letters_are_let_go(place: Place) -> None:
    """What is received and can't be moved is made visible again: by runs of each kind."""
    queues = {"dlq": place.stage.dlq, **place.stage.resources.dedicated}
    for source, url in queues.items():
        place.stage.put(url, 3)
        with place.without("route"):
            place.redrive(source)
    for source, url in place.stage.resources.parking.items():
        queues[f"parking:{source}"] = url
        place.stage.put(url, 3)
    unwritten = Fault("dynamodb", frozenset({"put_item"}), "ThrottlingException")
    with place.account.fault(unwritten):
        for source in queues:
            place.invoke("redrive", source=source, rescue=True)
    place.account.minutes(10)
    for source in queues:
        place.stage.put(queues[source], 3)
        run = place.plan(source=source)
        with place.account.fault(unwritten):
            event = {"run": run.id, "execution": run.execution, "loops": 0}
            for step in ("preflight", "snapshot"):
                place.invoke("replay", step=step, **event)
        now = place.runs.read(run.id)
        assert now is not None
        place.runs.change(now, aborted(now, at=place.account.clock(), by="ann", because="enough"))


def letters_are_rescued(place: Place) -> None:
    """Old letters, parked ones too: the watch has them rescued before SQS drops them."""
    for url in (place.stage.dlq, *place.stage.resources.parking.values()):
        place.stage.put(url, 3)
    for source in ("dlq", "parking:default", "parking:quarantine"):
        place.invoke("redrive", source=source, rescue=True)
    place.stage.hold_circuit()
    place.stage.put(place.stage.dlq, 3)
    place.account.tick(13 * 1_440)
    place.account.minutes(3)


def bodies_without_a_letter_are_deleted(place: Place) -> None:
    minute = crc32(PIPELINE.encode()) % DAY
    place.account.clock.advance((minute - place.account.clock()) % DAY + 1)
    place.invoke("redrive")


def an_endpoint_is_down(place: Place) -> None:
    """A circuit of its own opens. Its canaries are letters of the DLQ and of its lane."""
    place.register("good", 503)
    with place.without("redrive"):
        for body in (GOOD, LARGE_GOOD):
            place.stage.send(body)
        for _ in range(6):
            place.consume()
            place.account.minutes(7)
        for _ in range(12):
            place.stage.send(GOOD)
        place.consume()
        place.account.minutes(5)
        place.register("good", 200)
        place.account.minutes(30)


def the_pipeline_stands_still(place: Place) -> None:
    """Its own circuit opens: the consumer is paused until a canary has come through.

    Canaries are letters that have waited long enough, and messages of the main queue.
    """
    place.stage.add_rule("later", tenantId="good", action="DELAYED_REDRIVE", delay_seconds=1_200)
    place.stage.die(body=GOOD)
    place.account.minutes(2)
    place.stage.delete_rule("later")
    place.stage.put(place.stage.dlq, 2, GOOD)
    place.invoke("redrive", rescue=True)
    place.stage.put(place.stage.dlq, 2, GOOD)
    place.stage.trip()
    place.stage.breaker.apply("good", Tripped())
    place.account.probing = True
    place.stage.send(GOOD)
    with place.without("redrive"):
        place.account.minutes(50)


def a_pause_is_forgotten(place: Place) -> None:
    """The circuit's row is lost while the consumer is paused: only the tag tells of the pause."""
    place.stage.trip()
    place.account.probing = True
    place.account.minutes(2)
    for item in place.account.dynamodb.items("deadletter-circuits"):
        key = {name: item[name] for name in ("pipeline", "circuit_key")}
        place.account.dynamodb.delete_item(TableName="deadletter-circuits", Key=key)
    place.account.minutes(20)


def runs_take_and_send_letters(place: Place) -> None:
    stage = place.stage
    for source, url in place.stage.resources.parking.items():
        stage.put(url, 3, LARGE_GOOD)
        place.replay(source=f"parking:{source}", approve=True)
    for source, url in stage.resources.dedicated.items():
        stage.put(url, 3, GOOD)
        place.replay(source=source)
        stage.put(stage.dlq, 3, GOOD)
        place.replay(destination=source)


def letters_of_runs_are_parked(place: Place) -> None:
    """A letter that a rule quarantines, and one that can't be read."""
    place.stage.put(place.stage.dlq, 3, GOOD)
    place.stage.put(place.stage.dlq, 1, "{")
    run = place.execute(place.plan(), until="work")
    place.stage.add_rule("bad", tenantId="good", action="QUARANTINE")
    place.execute(run)


def letters_of_runs_die_again(place: Place) -> None:
    """The redriver asks whether their run takes them back, and lets go those of an ended one."""
    place.register("good", 503)
    place.stage.put(place.stage.dlq, 3, GOOD)
    run = place.execute(place.plan(), until="work")
    place.invoke("replay", run=run.id, execution=run.execution, loops=0, step="work")
    for _ in range(2):
        place.stage.bury([letter.message_id for letter in place.stage.held(place.stage.main)])
        place.account.minutes(2)


def runs_go_on(place: Place) -> None:
    """A run of so many rounds that another execution goes on; the old one is asked no more."""
    place.stage.put(place.stage.dlq, 3, GOOD)
    run = place.plan(approve=True)
    place.execute(run, loops=MOST_LOOPS + 1)
    event = {"run": run.id, "execution": run.execution, "loops": 0}
    place.invoke("replay", step="approval", token=place.machine, **event)


def runs_deliver_and_repeat(place: Place) -> None:
    place.register("wrong", 404)
    place.stage.put(place.stage.dlq, 3, '{"tenantId": "wrong"}')
    place.replay(destination="deliver")
    place.stage.put(place.stage.dlq, 3, GOOD)
    run = place.replay()
    place.replay(source=f"originals:{run.id}", accept="again")


def runs_discard_and_restore(place: Place) -> None:
    place.stage.put(place.stage.dlq, 3, LARGE_GOOD)
    run = place.replay(destination="discard")
    place.replay(source=f"discarded:{run.id}", destination="restore")
    place.replay(source="lane:parked", destination="discard", forget=True, keep_export=False)


def runs_end_early(place: Place) -> None:
    """A person edits a letter of a run, and aborts it; of another the item is lost."""
    for number in range(2):
        place.stage.put(place.stage.dlq, 3, GOOD)
        run = place.execute(place.plan(hold=True), until="wait")
        if number == 0:
            edit(place, run)
            clock = place.account.clock
            place.runs.change(run, aborted(run, at=clock(), by="ann", because="enough"))
            place.execute(run)
        else:
            key = {"pk": Partition.RUNS.of(PIPELINE), "sk": run.id}
            place.account.dynamodb.delete_item(TableName=TABLE, Key=stored(key))
            place.account.minutes(3)


def edit(place: Place, run: ReplayRun) -> None:
    """A person asks the redriver's function for the edit of a letter."""
    item = place.stage.waiting()[0]
    before = from_json(json.loads(item["message"]["B"]))
    request = EditRequest(
        run=run.id,
        generation=run.generation,
        place=(item["pk"]["S"], item["sk"]["S"]),
        shard=int(item["lane"]["S"].rpartition("|")[2]),
        origin=item["copy"]["S"],
        before=before,
        after=replace(before, body='{"tenantId": "wrong"}'),
        accept=False,
        by="ann",
        because="a typing mistake",
        at=place.account.clock(),
    )
    place.account.s3.put_object(
        Bucket=place.stage.resources.messages_bucket,
        Key=run_object(PIPELINE, run.id, request.record),
        Body=request.to_bytes(),
    )
    place.invoke("redrive", edit={"run": run.id, "records": [request.record]})


def rules_and_endpoints_are_edited(place: Place) -> None:
    keys: dict[str, Any] = {"pipeline": PIPELINE, "rule_id": "new"}
    place.put("messages", {"pk": Partition.MATCHES.of(PIPELINE), "sk": "new#1", "matched": 1})
    rules = [{**keys, "tenantId": "x", "action": action} for action in ("HOLD", "HALT")]
    for rule in rules:
        place.put("rules", rule)
        is_changed(place, keys, NewImage=stored(rule))
    is_changed(place, keys, OldImage=stored(rules[0]))
    keys = {"tenant": "acme", "endpoint": "default"}
    is_changed(place, keys, NewImage=stored({**keys, "url": "https://acme.example/in"}))


def is_changed(place: Place, keys: Mapping[str, Any], **images: Any) -> None:
    """The stream of a table shows a change to the rule checker."""
    change = {
        "ApproximateCreationDateTime": place.account.clock(),
        "SequenceNumber": "1",
        "Keys": stored(keys),
        **images,
    }
    records = [{"eventID": "e", "dynamodb": change}]
    place.account.start("deadletter-check-rules", {"Records": records})


def a_pipeline_is_deployed(place: Place) -> None:
    request = {
        "RequestType": "Create",
        "StackId": "s",
        "RequestId": "r",
        "LogicalResourceId": "l",
        "ResponseURL": "https://answer.example",
        "ResourceProperties": {"Pipeline": PIPELINE},
    }
    place.account.start("deadletter-first-heartbeat", request)


SCENES: tuple[Callable[[Place], None], ...] = (
    messages_are_posted,
    letters_are_moved,
    a_queue_is_deep,
    letters_are_let_go,
    letters_are_rescued,
    bodies_without_a_letter_are_deleted,
    an_endpoint_is_down,
    the_pipeline_stands_still,
    a_pause_is_forgotten,
    runs_take_and_send_letters,
    letters_of_runs_are_parked,
    letters_of_runs_die_again,
    runs_go_on,
    runs_deliver_and_repeat,
    runs_discard_and_restore,
    runs_end_early,
    rules_and_endpoints_are_edited,
    a_pipeline_is_deployed,
)


def record(app: Synthesis, patch: pytest.MonkeyPatch) -> Mapping[str, Sequence[Asked]]:
    """What each function asks IAM for while every scene happens."""
    places: list[Place] = []
    patch.setattr(posting, "HttpsClient", lambda *_, **__: places[-1].post)
    patch.setattr(stack_request, "put_over_https", lambda _bundle: lambda *_: None)
    # A hundred letters, and not thousands, are enough for another run.
    patch.setattr(redriver, "ENOUGH_LETTERS", 100)
    asked: dict[str, dict[str, Asked]] = {}
    for scene in SCENES:
        places.append(Place(app))
        scene(places[-1])
        assert places[-1].account.errors == [], scene.__name__
        for function, of_scene in places[-1].account.asked.items():
            asked.setdefault(function, {}).update(of_scene)
    return {
        function.removeprefix("deadletter-").removeprefix(f"{PIPELINE}-"): list(of_all.values())
        for function, of_all in asked.items()
    }
