"""What goes wrong in the drill: one scene a pipeline, so that they happen side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deadletter.contract import DAY, HOUR, WATCH_ROW, Partition
from deadletter.signals.pages import Alarm
from deadletter.signals.troubles import TroubleKind
from sandbox.faults import Fault, denied_key, throttled_table
from tests.drill.stage import Stage

# The letters of most scenes: they lie in the DLQ when the trouble begins.
LETTERS = 3

# Messages that open the pipeline's circuit: ten failures in a row do.
OUTAGE = 12

# More letters than DlqDepth takes without a page.
BACKLOG = 140

# A rule with a typing mistake, as a person types it into the table.
MISTYPED = {"tenantId": "acme", "action": "QUARANTENE"}

Act = Callable[[Stage], None]


def nothing(_stage: Stage) -> None:
    """There is nothing to do."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One trouble, and how it is known and ended.

    name       of the pipeline where it happens
    trouble    in the words of the report
    rings      the alarms that ring, no more and no less, each with the reason that it is right
    card       the trouble of the one card that `dlq status` has then
    tells      what that card says of the cause
    outside    what is done before the card's command is typed, in the words of the report
    afterwards what is done when the pages have ended, so that all messages come to rest
    within     minutes after which all of its alarms ring, at the latest
    parked     letters that are parked when all is over
    """

    name: str
    trouble: str
    begin: Act
    rings: Mapping[Alarm, str]
    card: TroubleKind
    tells: str
    outside: str = "nothing"
    mend: Act = nothing
    afterwards: Act = nothing
    within: float
    parked: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)


# Dependency down


def take_the_dependency_down(stage: Stage) -> None:
    stage.receiver.statuses[stage.name] = 503
    stage.send(OUTAGE)
    stage.until(lambda: _circuit(stage) != "CLOSED", "the circuit opens")
    # The last of their lives ended just before the consumer was paused.
    stage.send(LETTERS, "Dlq")


def _circuit(stage: Stage) -> str:
    found = stage.deployed.dlq("show", f"circuit:{stage.name}")
    return str(found["circuits"][0]["state"])


def bring_the_dependency_back(stage: Stage) -> None:
    stage.receiver.statuses[stage.name] = 200


# Poison tenant


def send_poison(stage: Stage) -> None:
    def judge(body: bytes) -> int:
        return 422 if json.loads(body).get("poison") else 200

    stage.receiver.judges[stage.name] = judge
    stage.send(LETTERS, poison=True)
    stage.until(lambda: len(stage.deployed.held("ParkingLot")) == LETTERS, "the poison is parked")


def accept_poison(stage: Stage) -> None:
    del stage.receiver.judges[stage.name]


# What fails in the AWS around it


def fail(fault: Callable[[Stage], Fault]) -> Act:
    def begin(stage: Stage) -> None:
        stage.fail(fault(stage))
        stage.send(LETTERS, "Dlq")

    return begin


def throttle_the_table(stage: Stage) -> Fault:
    return throttled_table(stage.function("*"), stage.deployed.outputs["MessagesTableName"])


def deny_the_key(stage: Stage) -> Fault:
    queue = stage.deployed.url("Dlq").rpartition("/")[2]
    return denied_key(stage.function("redrive"), queue)


def work_again(stage: Stage) -> None:
    stage.fail()


def delete_schedule(role: str) -> Act:
    def begin(stage: Stage) -> None:
        stage.deployed.aws("scheduler").delete_schedule(Name=stage.function(role))
        stage.send(LETTERS, "Dlq")

    return begin


def throttle(role: str) -> Act:
    def begin(stage: Stage) -> None:
        stage.deployed.aws("lambda").put_function_concurrency(
            FunctionName=stage.function(role), ReservedConcurrentExecutions=0
        )
        stage.send(LETTERS, "Dlq")

    return begin


def disable_the_mapping(stage: Stage) -> None:
    functions = stage.deployed.aws("lambda")
    [mapping] = functions.list_event_source_mappings(FunctionName=stage.function("consumer"))[
        "EventSourceMappings"
    ]
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    stage.send(LETTERS)


# Letters and rules


def retain(queue: str, seconds: int) -> Act:
    def act(stage: Stage) -> None:
        stage.deployed.aws("sqs").set_queue_attributes(
            QueueUrl=stage.deployed.url(queue),
            Attributes={"MessageRetentionPeriod": str(seconds)},
        )

    return act


def let_letters_expire(stage: Stage) -> None:
    stage.send(LETTERS, "Dlq")
    retain("Dlq", 4 * HOUR)(stage)


def move_the_letters(stage: Stage) -> None:
    """What a team does in mode observe, where nothing is moved for it."""
    sqs, dlq, main = stage.deployed.aws("sqs"), *map(stage.deployed.url, ("Dlq", "MainQueue"))

    def moved() -> bool:
        for message in sqs.receive_message(QueueUrl=dlq, MaxNumberOfMessages=10).get(
            "Messages", ()
        ):
            sqs.send_message(QueueUrl=main, MessageBody=message["Body"])
            sqs.delete_message(QueueUrl=dlq, ReceiptHandle=message["ReceiptHandle"])
        return not stage.deployed.held("Dlq")

    stage.until(moved, "the letters are moved by hand")


def let_parked_letters_expire(stage: Stage) -> None:
    # A message that names no tenant is parked at once.
    stage.send(LETTERS, tenantId=None)
    stage.until(lambda: len(stage.deployed.held("ParkingLot")) == LETTERS, "the letters are parked")
    retain("ParkingLot", 4 * HOUR)(stage)


def mistype_a_rule(stage: Stage) -> None:
    stage.deployed.add_rule("stop-acme", **MISTYPED)


def deploy_a_defect(stage: Stage) -> None:
    stage.receiver.statuses[stage.name] = 500
    stage.send(BACKLOG)


def roll_back(stage: Stage) -> None:
    stage.receiver.statuses[stage.name] = 200


OLD = f"{LETTERS} letters wait in the DLQ for more than half an hour"

SCENES = (
    Scene(
        name="dependency-down",
        trouble=f"the dependency answers 503 for half an hour; {LETTERS} letters in the DLQ",
        begin=take_the_dependency_down,
        rings={
            Alarm.CIRCUIT_TROUBLE: "the circuit has been open for half an hour",
            Alarm.DLQ_AGE: f"{OLD}, by SQS's metric",
            Alarm.MESSAGE_AGE: f"{OLD}, by their own timestamps",
        },
        card=TroubleKind.CIRCUIT_OPEN,
        tells="has not been closed for",
        outside="the dependency works again",
        mend=bring_the_dependency_back,
        within=42,
        settings={"circuit_key": "pipeline"},
    ),
    Scene(
        name="poison-tenant",
        trouble=f"{LETTERS} messages of one tenant are refused with 422 among healthy traffic, and"
        " nobody looks at them for a week",
        begin=send_poison,
        rings={
            Alarm.PARKED_UNATTENDED: "they are parked, which is no page; it is one after seven"
            " days without anybody (the watch's row is aged by a week)",
        },
        card=TroubleKind.UNATTENDED,
        tells="a person has to look at",
        outside="the endpoint accepts such messages",
        mend=accept_poison,
        within=25,
        # A refused message is tried again by the pipeline's policy: here once, not six times.
        settings={"main_queue": {"max_receive_count": 1}, "policy": {"max_attempts": 1}},
    ),
    Scene(
        name="throttled-table",
        trouble="DynamoDB throttles each call of the pipeline on the messages table",
        begin=fail(throttle_the_table),
        rings={Alarm.REDRIVE_STALLED: "no run can do its work; no letter is old yet"},
        card=TroubleKind.TABLE_THROTTLED,
        tells="DynamoDB throttles",
        outside="the table takes the calls again",
        mend=work_again,
        within=15,
    ),
    Scene(
        name="denied-key",
        trouble="the redriver may no longer use the key of the DLQ",
        begin=fail(deny_the_key),
        rings={Alarm.REDRIVE_STALLED: "no run can receive a letter"},
        card=TroubleKind.RUNS_FAIL,
        tells="KMS.AccessDeniedException for sqs:ReceiveMessage",
        outside="the role may use the key again",
        mend=work_again,
        within=15,
    ),
    Scene(
        name="schedule-deleted",
        trouble="the redriver's schedule is deleted",
        begin=delete_schedule("dlq"),
        rings={Alarm.REDRIVE_STALLED: "no run has ended well for five minutes: none begins"},
        card=TroubleKind.NOT_STARTED,
        tells="its schedule deadletter-schedule-deleted-dlq is disabled or deleted",
        within=15,
    ),
    Scene(
        name="watch-deleted",
        trouble="the watch's schedule is deleted: all levels fall silent",
        begin=delete_schedule("watch"),
        rings={Alarm.REDRIVE_STALLED: "missing data: the watch is the heart that beats"},
        card=TroubleKind.NOT_STARTED,
        tells="its schedule deadletter-watch-deleted-watch is disabled or deleted",
        within=15,
    ),
    Scene(
        name="throttled-function",
        trouble="the router's reserved concurrency is set to 0",
        begin=throttle("route"),
        rings={Alarm.REDRIVE_STALLED: "no letter can be judged, so none moves"},
        card=TroubleKind.ROUTER_DOWN,
        tells="TooManyRequestsException for lambda:InvokeFunction",
        within=15,
    ),
    Scene(
        name="consumer-disabled",
        trouble="a person disables the consumer's event source mapping",
        begin=disable_the_mapping,
        rings={Alarm.REDRIVE_STALLED: "messages wait, and nothing consumes them"},
        card=TroubleKind.CONSUMER_DISABLED,
        tells="the consumer's mapping is disabled, not by us",
        within=20,
    ),
    Scene(
        name="letter-about-to-expire",
        trouble="mode observe: the DLQ's retention is set to four hours",
        begin=let_letters_expire,
        rings={Alarm.MESSAGE_EXPIRY: "SQS drops them within two days, and observe moves nothing"},
        card=TroubleKind.EXPIRES_UNMOVED,
        tells="SQS deletes the oldest message in the DLQ in",
        afterwards=move_the_letters,
        within=10,
        settings={"mode": "observe"},
    ),
    Scene(
        name="letter-rescued",
        trouble="mode enforce: the parking queue's retention is set to four hours",
        begin=let_parked_letters_expire,
        rings={
            Alarm.MESSAGE_EXPIRY: "SQS would drop them within twelve hours; it ends by itself,"
            " because the watch moves them into the waiting room"
        },
        card=TroubleKind.UNATTENDED,
        tells="in the parking queues",
        within=10,
        parked=LETTERS,
    ),
    Scene(
        name="bad-rule",
        trouble="a rule is typed into the table with the action QUARANTENE",
        begin=mistype_a_rule,
        rings={Alarm.RULE_TROUBLE: "it matches nothing, which its author does not know"},
        card=TroubleKind.RULE_INVALID,
        tells="invalid, and matching nothing: stop-acme",
        within=10,
    ),
    Scene(
        name="big-backlog",
        trouble=f"{BACKLOG} messages die of a defect of the consumer; 12 a minute go back",
        begin=deploy_a_defect,
        rings={Alarm.DLQ_DEPTH: "more than 100 letters for five minutes; none is old yet"},
        card=TroubleKind.DEEP,
        tells="are in the DLQ, more than 100",
        outside="the deployment is rolled back",
        mend=roll_back,
        within=25,
        settings={
            "rate": 0.2,
            # In trouble a message is received again after the queue's visibility time-out: with
            # several receives a third of the backlog would always be in the main queue.
            "main_queue": {"max_receive_count": 1},
            # The trouble is a defect that no breaker sees, and the pace is the downstream's.
            "circuit": {"failure_rate": 1.0, "minimum": 100_000, "consecutive": 0},
        },
    ),
)


def a_week_later(stage: Stage) -> None:
    """Let the letters that are parked have been unattended for a week longer, for the watch.

    Its row is aged, as `Deployed.age_the_last_run` does with a run: a week of the fast clock is
    17 hours. The watch may write its row at the same moment, so this is done until it holds.
    """
    table, key = (
        stage.deployed.outputs["MessagesTableName"],
        {"pk": {"S": Partition.LEASE.of(stage.name)}, "sk": {"S": WATCH_ROW}},
    )
    dynamodb = stage.deployed.aws("dynamodb")
    item = dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True)["Item"]
    row = json.loads(item["state"]["S"])
    young = [
        attended
        for attended in row.get("attended", {}).values()
        if attended["at"] > stage.sandbox.time() - 7.5 * DAY
    ]
    if not young:
        # It holds: a write more would only be in the way of the watch's own.
        return
    for attended in young:
        attended["at"] = stage.sandbox.time() - 8 * DAY
    # The watch goes on from the newest row that it knows.
    row["ran_at"] += 1
    dynamodb.update_item(
        TableName=table,
        Key=key,
        UpdateExpression="SET #state = :row",
        ConditionExpression="#state = :read",
        ExpressionAttributeNames={"#state": "state"},
        ExpressionAttributeValues={":row": {"S": json.dumps(row)}, ":read": item["state"]},
    )
