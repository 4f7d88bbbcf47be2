"""What people on call can do with the managed policies of the stack, and what they can't."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import boto3
import pytest

from console.cli.exit import Exit
from deadletter.aws.causes import DynamoDBCauses
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.contract import Category, delay_lane, run_object
from deadletter.failure.causes import CauseHold
from deadletter.failure.failure import Failure
from deadletter.message.letter import Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.order import Order
from deadletter.replay.objects import DiscardedLetter, discarded_name
from deadletter.routing.decision import Hold
from sandbox.progress import until
from sandbox.server import ACCOUNT, REGION, Sandbox
from tests.e2e.deployed import Deployed, event
from tests.e2e.receiver import Receiver
from tests.e2e.replay_pipeline import ReplayPipeline
from tests.infra.test_permissions import COMMANDS, needed
from tools.commands_page import commands

POLICIES = (
    *("DlqReader", "BodyReader", "RuleEditor", "CircuitOperator", "EndpointEditor"),
    *("RunOperator", "RunApprover", "DiscardOperator"),
)

# Needs no permission.
WHO_AM_I = "sts:GetCallerIdentity"

# Granted to people, and not asked of the emulator by what the tests type.
NOT_TYPED: dict[str, str] = {
    "cloudwatch:PutAlarmMuteRule": "the emulator knows no mute rules, and dlq asks for one first",
    "cloudwatch:DeleteAlarmMuteRule": "the emulator knows no mute rules",
    **dict.fromkeys(
        ("kms:Decrypt", "kms:GenerateDataKey"),
        "SNS asks for the topic's key; the emulator does not",
    ),
    **dict.fromkeys(
        ("kms:DescribeKey", "kms:GetKeyPolicy"), "the topic of the sandbox has no key of the app's"
    ),
    "s3:PutObject": "an edit is kept once its run has its messages, and the open circuit holds it",
    "logs:StopQuery": "queries are stopped only if they take too long",
}


@dataclass(frozen=True)
class OnCall:
    """People who sign in with roles that have the stack's managed policies and nothing else.

    `words` are what the names in braces stand for in what they type.
    """

    orders: Deployed
    tenant: str
    words: Mapping[str, str]

    def credentials(self, policies: Sequence[str], session: str) -> dict[str, str]:
        """Sign in with these policies; the recorder names the calls by `session`."""
        iam, name = self.orders.aws("iam"), f"on-call-{uuid.uuid4().hex[:8]}"
        principal = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
        trust = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]
        for policy in policies:
            for output, arn in self.orders.outputs.items():
                # One that would be too large goes on in others with a number.
                if re.fullmatch(rf"{policy}\d*PolicyArn", output):
                    iam.attach_role_policy(RoleName=name, PolicyArn=arn)
        answer = self.orders.aws("sts").assume_role(RoleArn=role["Arn"], RoleSessionName=session)
        found = answer["Credentials"]
        return {
            "AWS_ACCESS_KEY_ID": found["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": found["SecretAccessKey"],
            "AWS_SESSION_TOKEN": found["SessionToken"],
        }

    def type(
        self, words: Sequence[str], credentials: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Type a command, its words in braces filled in; `{fresh}` is a new name each time."""
        fresh = f"r-{uuid.uuid4().hex[:8]}"
        filled = [word.format(**self.words, fresh=fresh) for word in words]
        return self.orders.command(filled, credentials)


@pytest.fixture(scope="module")
def on_call(
    sandbox: Sandbox,
    aws: Callable[[str], Any],
    outputs: Mapping[str, str],
    receiver: Receiver,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[OnCall]:
    """A letter that stays in the DLQ, some in the parking lot, a tenant with a secret.

    Two of the parked letters are in replay runs that wait for an approval.
    """
    orders = Deployed(sandbox, aws, outputs)
    tenant, folder = f"t-{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("rules")
    secret = f"deadletter/webhooks/{tenant}"
    value = "whsec_" + base64.b64encode(os.urandom(32)).decode()
    aws("secretsmanager").create_secret(Name=secret, SecretString=value)
    orders.register(tenant, receiver.url(tenant), [secret])
    # Without a subscriber `dlq doctor --send-page` publishes nothing.
    pages = aws("sqs").create_queue(QueueName="pages-of-people-on-call")["QueueUrl"]
    arn = aws("sqs").get_queue_attributes(QueueUrl=pages, AttributeNames=["QueueArn"])
    topic = orders.app["alarm_topic"]
    aws("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn["Attributes"]["QueueArn"])
    rules = {
        name: {"pipeline": "*", "rule_id": name, "tenantId": tenant, "action": "DEFAULT"}
        for name in ("kept", "pruned")
    }
    for name, kept in (("both", ["kept", "pruned"]), ("one", ["kept"])):
        (folder / f"{name}.json").write_text(json.dumps([rules[rule] for rule in kept]))
    aws("dynamodb").put_item(
        TableName=outputs["CircuitsTableName"],
        Item={key: {"S": text} for key, text in UNREADABLE.items()},
    )
    causes = DynamoDBCauses(
        aws("dynamodb"), outputs["CircuitsTableName"], "orders", lambda: uuid.uuid4().hex
    )
    now = sandbox.time()
    held = {CAUSE: CauseHold(now, now + 36_000, "ValidationError")}
    causes.change(lambda before: replace(before, holds={**before.holds, **held}), now)
    orders.settle()
    orders.add_rule("shown", tenantId="of-no-message", action="HOLD")
    _delay(orders, tenant)
    parked = {name: _park(orders, tenant) for name in ("parked", "released", "discarded")}
    thrown = {name: _throw_away(orders, tenant) for name in ("thrown", "still_thrown")}
    chosen, runs = {}, {}
    # One after the other: a run takes along what it leaves out, and puts it into lane `parked`.
    for run in ("run", "other", "third"):
        chosen[run] = _park(orders, tenant)
        runs[run] = _waiting_run(orders, aws, chosen[run])
    # A run that an open circuit holds takes no letter.
    orders.hold()
    letter = orders.send(event(tenant), "Dlq")
    words = {"tenant": tenant, "letter": letter, "folder": str(folder)}
    words["failed"] = _failed(orders, outputs)
    yield OnCall(orders, tenant, {**words, **parked, **thrown, **runs, "kept": chosen["run"]})
    # A run that waits, or that the open circuit holds, would outlive these tests.
    for row in orders.dlq("run", "list", "orders")["runs"]:
        if row["state"] not in ("ABORTED", "DONE", "BROKEN"):
            orders.dlq("run", "abort", row["run"], *DECIDED)
    orders.let_go()

    def delivered() -> list[str]:
        orders.redrive()
        return receiver.bodies[tenant]

    orders.until(delivered, "the letter is delivered")


def _delay(orders: Deployed, tenant: str) -> None:
    """Put a letter into the waiting room, as the delay of a rule does."""
    room = DynamoDBWaitingRoom(
        client=orders.aws("dynamodb"),
        table=orders.outputs["MessagesTableName"],
        s3=orders.aws("s3"),
        bucket=orders.app["messages_bucket"],
        pipeline="orders",
        fifo=False,
        clock=orders.sandbox.time,
    )
    now, copy = orders.sandbox.time(), str(uuid.uuid4())
    letter = Letter(copy, event(tenant), {}, {"SentTimestamp": str(int(now * 1000))})
    hold = Hold(delay_lane("later"), now + 86_400, "a test", "later")
    stamp = Stamp(copy, 0, int(now * 1000), decision="HOLD", rule="later", at=int(now))
    assert room.admit([Order(ReceivedLetter(letter, "", 0.0), hold, stamp)])


def _park(orders: Deployed, tenant: str) -> str:
    """Put a letter without secrets into the parking lot, as an edit shows it. Returns its id."""
    body = json.dumps({"tenantId": tenant, "orderId": uuid.uuid4().hex})
    return orders.send(body, "ParkingLot", MessageAttributes={})


def _throw_away(orders: Deployed, tenant: str) -> str:
    """The copy of a letter that a run has discarded long ago. Returns the id of its first life."""
    copy, origin = str(uuid.uuid4()), str(uuid.uuid4())
    letter = Letter(
        copy, event(tenant), {}, {"SentTimestamp": str(int(orders.sandbox.time() * 1000))}
    )
    kept = DiscardedLetter(
        letter=letter,
        home="parking:default",
        stamp=Stamp(origin, reason="POISON", decision="HOLD", run=LONG_AGO),
        at=int(orders.sandbox.time()),
        by="user/ann",
        because="a test",
    )
    orders.aws("s3").put_object(
        Bucket=orders.app["messages_bucket"],
        Key=run_object("orders", LONG_AGO, discarded_name(copy)),
        Body=kept.to_bytes(),
    )
    return origin


def _failed(orders: Deployed, outputs: Mapping[str, str]) -> str:
    """A failure in the ledger, of a letter that is nowhere. Returns its id."""
    origin, now = str(uuid.uuid4()), orders.sandbox.time()
    table = outputs["MessagesTableName"]
    ledger = DynamoDBLedger(orders.aws("dynamodb"), table, "orders", orders.sandbox.time, 36_000)
    ledger.failed(origin, Failure(now, 0, Category.TRANSIENT, request_id=str(uuid.uuid4())))
    return origin


def _waiting_run(orders: Deployed, aws: Callable[[str], Any], letter: str) -> str:
    """Start a run that takes one parked letter, and wait until it asks for approval."""
    choice = (letter, "--in", "parked", "--rate", "1", "--approve")
    started = orders.dlq("retry", *choice, *PIPELINE, *DECIDED)
    run = str(started["runs"][0]["run"])
    pipeline = ReplayPipeline(orders.sandbox, aws, orders.name)

    def state() -> str:
        return str(pipeline.run(run).get("state", {}).get("S", ""))

    until(
        lambda: state() == "WAITING_APPROVAL" or None,
        f"run {run} waits for an approval",
        marks=lambda: pipeline.run(run),
    )
    return run


PIPELINE = ("--pipeline", "orders")
SAID = ("--reason", "a test", "--expires", "12h", "--yes")
DECIDED = ("--reason", "a test", "--yes")
CAUSE = "0123456789abcdef"
LONG_AGO = "ffffffffffffffff"
UNREADABLE = {"pipeline": "orders", "circuit_key": "broken", "state": "ajar"}

# What is typed of each command, in this order.
TYPED: dict[str, list[tuple[str, ...]]] = {
    "dlq status": [("status",), ("status", "orders"), ("status", "orders", "--flow")],
    "dlq show": [
        ("show", "{parked}", "--body", "--look"),
        ("show", "orders"),
        # In the custody of the run that waits.
        ("show", "{kept}"),
        ("show", "{failed}", "--logs"),
        ("show", "{letter}", "--look", "--rules"),
        ("show", "{run}"),
        ("show", "rule:shown"),
        ("show", "circuit:orders"),
        ("show", f"cause:{CAUSE[:8]}"),
    ],
    "dlq groups": [
        ("groups", "orders"),
        ("groups", "orders", "--by", "tenant"),
        ("groups", "orders", "--in", "parked", "--look"),
        ("groups", "orders", "-f", "tenant={tenant}"),
    ],
    # It asks whether there is a rule, and the emulator knows none: see the test of its refusal.
    "dlq mute": [("mute", "orders", "--for", "2h", "--reason", "a test")],
    "dlq doctor": [
        ("doctor", "orders"),
        ("doctor", "orders", "--removal"),
        ("doctor", "--send-page"),
    ],
    "dlq list": [
        ("list", *PIPELINE, "-f", "tenant={tenant}", "--look", "--body"),
        ("list", *PIPELINE, "--limit", "3"),
        ("list", *PIPELINE, "--in", "rule:later"),
        ("list", "{parked}", *PIPELINE, "--look", "--out", "{folder}/{fresh}.jsonl"),
    ],
    "dlq discard": [("discard", "{discarded}", *PIPELINE, *DECIDED)],
    "dlq restore": [("restore", "{thrown}", *PIPELINE, *DECIDED)],
    # Its runs are those of a discard, and would take the letters of the commands below.
    "dlq forget": [("forget", "{failed}", *PIPELINE, "--dry-run")],
    "dlq run list": [("run", "list")],
    # From here on the run is not in the state of the commands above. The open circuit holds it.
    "dlq run approve": [("run", "approve", "{run}", *DECIDED)],
    "dlq run hold": [("run", "hold", "{run}", "--reason", "a test")],
    "dlq run resume": [("run", "resume", "{run}", *DECIDED)],
    "dlq run abort": [("run", "abort", "{run}", *DECIDED)],
    "dlq run reject": [("run", "reject", "{other}", *DECIDED)],
    "dlq rules list": [("rules", "list"), ("rules", "list", "--yaml")],
    "dlq rules test": [
        ("rules", "test", "-f", "tenant={tenant}", *PIPELINE),
        ("rules", "test", "-f", "tenant={tenant}", *PIPELINE, "--look"),
        ("rules", "test", "--file", "{folder}/both.json"),
    ],
    "dlq rules add": [
        ("rules", "add", "{fresh}", "--action", "default", "-f", "tenant=t", *PIPELINE, *SAID)
    ],
    "dlq rules apply": [
        ("rules", "apply", "{folder}/both.json", *DECIDED),
        (
            *("rules", "apply", "{folder}/one.json", "--reason", "a test"),
            *("--prune", "--confirm", "deadletter"),
        ),
    ],
    "dlq rules disable": [
        ("rules", "disable", "kept", "--pipeline", "*", "--reason", "a test", "--yes")
    ],
    "dlq rules remove": [
        ("rules", "remove", "kept", "--pipeline", "*", "--reason", "a test", "--yes")
    ],
    # It brings back what was removed.
    "dlq rules undo": [("rules", "undo", "kept", "--pipeline", "*", "--reason", "a test", "--yes")],
    "dlq audit": [
        ("audit", "orders"),
        ("audit", "-f", "by~dlq-circuit-release", "-f", "text~circuit"),
    ],
    "dlq circuit list": [("circuit", "list")],
    # It is held open already, so that the letter stays.
    "dlq circuit open": [("circuit", "open", *PIPELINE, *SAID)],
    "dlq circuit close": [("circuit", "close", "broken", *PIPELINE, *SAID)],
    "dlq circuit release": [("circuit", "release", "broken", *PIPELINE, *DECIDED)],
    "dlq endpoint list": [("endpoint", "list")],
    "dlq endpoint disable": [("endpoint", "disable", "{tenant}", *DECIDED)],
    "dlq endpoint add": [
        (
            *("endpoint", "add", "{tenant}/{fresh}", "--url", "https://hooks.example/in"),
            *("--secret", "deadletter/webhooks/{tenant}", *DECIDED),
        ),
        ("endpoint", "add", "{tenant}", "--dry-run"),
        ("endpoint", "add", "{tenant}", "--post", *DECIDED),
    ],
    "dlq retry": [
        ("retry", "{released}", "--in", "parked", *PIPELINE, "--hold", *DECIDED),
        ("retry", "--in", "rule:later", *PIPELINE, *DECIDED),
        ("retry", "--in", "waiting", "-f", "tenant={tenant}", *PIPELINE, *DECIDED),
        ("retry", "--in", "run:{run}", "-f", "outcome=left", *PIPELINE, "--hold", *DECIDED),
        ("retry", "--in", "run:{run}", "--again", *PIPELINE, "--hold", *DECIDED),
        ("retry", "--auto", *PIPELINE, *DECIDED),
    ],
    "dlq help": [("help", "policies")],
    # It ends by Ctrl-C alone; tests/console/web opens it.
    "dlq ui": [("ui", "--help")],
    "dlq init": [("init", "--file", "{folder}/cdk.json")],
}

# Typed with credentials that have nothing to do with the app's policies.
OWN_PROFILE = {"dlq init"}


def _no_longer_asks(on_call: OnCall, run: str) -> None:
    def state() -> str:
        return str(on_call.orders.dlq("show", run)["run"]["run"]["state"])

    until(lambda: state() != "WAITING_APPROVAL" or None, f"run {run} is approved", marks=state)


def asked(sandbox: Sandbox, session: str, *, allowed: bool) -> set[str]:
    """The actions that one session was allowed, or was not."""
    return {
        call.action
        for call in sandbox.calls()
        if call.caller == session and call.allowed is allowed and call.action != WHO_AM_I
    }


def test_each_command_works_with_the_policies_of_the_table_and_takes_what_it_says(
    sandbox: Sandbox, on_call: OnCall
) -> None:
    """Every command that there is, in the order of `TYPED`: each fault names its command."""
    assert TYPED.keys() == commands().keys() == COMMANDS.keys()
    faults = {command: _typed(sandbox, on_call, command) for command in TYPED}
    assert {command: fault for command, fault in faults.items() if fault} == {}


def _typed(sandbox: Sandbox, on_call: OnCall, command: str) -> str:
    """What is wrong with a command, typed with the policies that it takes; empty if nothing is."""
    taken, session = COMMANDS[command], command.replace(" ", "-")
    own = command in OWN_PROFILE
    credentials = {} if own else on_call.credentials(list(taken), session)
    for words in TYPED[command]:
        done = on_call.type(words, credentials)
        if done.returncode not in (Exit.DONE, Exit.ATTENTION):
            return f"{' '.join(words)} ended with {done.returncode}: {done.stderr}"
    if command == "dlq run approve":
        # The run's execution writes the answer into its item: what is typed next is about that.
        _no_longer_asks(on_call, on_call.words["run"])
    if denied := asked(sandbox, session, allowed=False):
        return f"was denied {sorted(denied)}"
    in_the_table = {
        action for reached in taken.values() for what in reached.values() for action in what
    }
    more = asked(sandbox, session, allowed=True) - in_the_table
    return f"asked for more than the table says: {sorted(more)}" if more else ""


def test_a_mistyped_circuit_is_refused_and_the_known_ones_are_named(on_call: OnCall) -> None:
    credentials = on_call.credentials(["DlqReader", "CircuitOperator"], "mistyped")
    for command in ("open", "close"):
        done = on_call.type(("circuit", command, "brokn", *PIPELINE, *SAID), credentials)
        assert done.returncode == Exit.ABSENT, done.stderr
        assert "no circuit 'brokn': it has " in done.stderr
        assert "broken" in done.stderr


def test_alarms_are_not_muted_where_cloudwatch_knows_no_mute_rules(
    sandbox: Sandbox, on_call: OnCall
) -> None:
    credentials = on_call.credentials(["DlqReader", "CircuitOperator"], "muted")
    for words in TYPED["dlq mute"][0], ("mute", "orders"), ("mute", "orders", "--end"):
        done = on_call.type(words, credentials)
        assert done.returncode == Exit.ATTENTION, done.stdout + done.stderr
        assert "does not know GetAlarmMuteRule (InvalidAction)" in done.stderr
        assert "does not disable alarm actions instead" in done.stderr
    assert asked(sandbox, "muted", allowed=False) == set()


def test_a_change_is_read_back_with_its_author_and_nobody_can_record_one_for_another(
    sandbox: Sandbox, on_call: OnCall
) -> None:
    credentials = on_call.credentials(["DlqReader", "CircuitOperator"], "ann")
    done = on_call.type(("circuit", "open", *PIPELINE, *SAID), credentials)
    assert done.returncode == Exit.DONE, done.stderr
    asked = ("audit", "orders", "-f", "by=ann", "-f", "text~circuit", "--json")
    changes = json.loads(on_call.type(asked, credentials).stdout)["changes"]
    assert [change["command"] for change in changes] == ["circuit open"]
    [change] = changes
    assert (change["target"], change["why"]) == ("circuit orders", "a test")
    assert (change["outcome"], change["after"]["forced"]) == ("done", "OPEN")
    assert change["who"].endswith("/ann")
    assert change["user_id"].endswith(":ann")

    table = boto3.Session(
        aws_access_key_id=credentials["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=credentials["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=credentials["AWS_SESSION_TOKEN"],
        region_name=REGION,
    ).client("dynamodb", endpoint_url=sandbox.endpoint, verify=sandbox.environment["AWS_CA_BUNDLE"])
    other = change["user_id"].replace(":ann", ":bob")
    for partition in (f"#by#{other}", "#by#", "orders#a-rule"):
        forged = {"pk": {"S": partition}, "sk": {"S": "1"}}
        with pytest.raises(table.exceptions.ClientError, match="AccessDenied"):
            table.put_item(TableName=on_call.orders.app["audit_table"], Item=forged)


# Policies -> a command that takes another one.
REFUSED = [
    (("DlqReader",), "dlq rules add"),
    (("DlqReader",), "dlq rules remove"),
    (("DlqReader",), "dlq rules apply"),
    (("DlqReader",), "dlq retry"),
    (("DlqReader",), "dlq circuit open"),
    (("DlqReader",), "dlq endpoint add"),
    (("DlqReader", "CircuitOperator"), "dlq rules add"),
    # Who acts in an outage neither redirects a tenant's events nor signs in our name.
    (("DlqReader", "CircuitOperator"), "dlq endpoint add"),
    (("DlqReader", "EndpointEditor"), "dlq circuit open"),
    (("DlqReader", "RuleEditor"), "dlq retry"),
    (("DlqReader", "RuleEditor"), "dlq circuit open"),
    (("DlqReader", "BodyReader"), "dlq retry"),
    (("DlqReader", "BodyReader", "CircuitOperator"), "dlq retry"),
    # Who sees what happens sees no letter. `dlq show` shows all else, and says what it could not.
    (("DlqReader",), "dlq list"),
    # Who runs replays neither approves them nor throws letters away, and the other way round.
    (("DlqReader", "BodyReader", "RunOperator"), "dlq run approve"),
    (("DlqReader", "BodyReader", "RunOperator"), "dlq run reject"),
    (("DlqReader", "BodyReader", "RunOperator"), "dlq discard"),
    (("DlqReader", "BodyReader", "RunOperator"), "dlq restore"),
    (("DlqReader", "DiscardOperator"), "dlq restore"),
    (("DlqReader", "BodyReader", "DiscardOperator"), "dlq retry"),
    (("DlqReader", "BodyReader", "RunApprover", "DiscardOperator"), "dlq run abort"),
]


# By now the run and the letters that were typed above are at their end: these are not.
STILL_THERE = {
    **dict.fromkeys(("{run}", "{other}"), "{third}"),
    **dict.fromkeys(("{released}", "{discarded}"), "{parked}"),
    "{thrown}": "{still_thrown}",
}


def test_each_command_is_refused_without_the_policy_that_it_takes(
    sandbox: Sandbox, on_call: OnCall
) -> None:
    faults = {
        f"{command} with {', '.join(policies)}": _refused(sandbox, on_call, policies, command)
        for policies, command in REFUSED
    }
    assert {case: fault for case, fault in faults.items() if fault} == {}


def _refused(sandbox: Sandbox, on_call: OnCall, policies: tuple[str, ...], command: str) -> str:
    """What is wrong with the refusal of a command; empty if nothing is."""
    session = f"{'-'.join(policies)}-{command.replace(' ', '-')}"
    words = [STILL_THERE.get(word, word) for word in TYPED[command][0]]
    done = on_call.type(words, on_call.credentials(policies, session))
    if done.returncode != Exit.UNREACHABLE or "AWS refuses " not in done.stderr:
        return f"ended with {done.returncode}: {done.stdout}{done.stderr}"
    others = {
        action
        for policy in COMMANDS[command].keys() - set(policies)
        for what in COMMANDS[command][policy].values()
        for action in what
    }
    denied = asked(sandbox, session, allowed=False)
    return "" if denied and denied <= others else f"was denied {sorted(denied)}"


def client(on_call: OnCall, service: str, policies: Sequence[str], session: str) -> Any:
    """A client of somebody who calls AWS himself."""
    credentials, sandbox = on_call.credentials(policies, session), on_call.orders.sandbox
    person: Any = boto3.Session(
        aws_access_key_id=credentials["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=credentials["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=credentials["AWS_SESSION_TOKEN"],
        region_name=REGION,
    )
    ca = sandbox.environment["AWS_CA_BUNDLE"]
    return person.client(service, endpoint_url=sandbox.endpoint, verify=ca)


def test_who_runs_replays_writes_no_approval_and_no_plan_that_discards(on_call: OnCall) -> None:
    """Nor by hand: the rows lie where IAM lets only others write."""
    table = on_call.orders.outputs["MessagesTableName"]
    runner = client(on_call, "dynamodb", ("DlqReader", "BodyReader", "RunOperator"), "by-hand")
    run = on_call.words["third"]

    def approve() -> Any:
        return runner.update_item(
            TableName=table,
            Key={"pk": {"S": f"orders#run#{run}#approval"}, "sk": {"S": "approval"}},
            UpdateExpression="SET approved = :yes",
            ExpressionAttributeValues={":yes": {"BOOL": True}},
        )

    def token() -> Any:
        key = {"pk": {"S": f"orders#run#{run}#approval"}, "sk": {"S": "approval"}}
        return runner.batch_get_item(RequestItems={table: {"Keys": [key]}})

    def discard() -> Any:
        item = {"pk": {"S": f"orders#run#{run}#discard"}, "sk": {"S": "plan"}, "plan": {"S": "x"}}
        return runner.batch_write_item(RequestItems={table: [{"PutRequest": {"Item": item}}]})

    def expire() -> Any:
        """DynamoDB would delete the letter."""
        return runner.update_item(
            TableName=table,
            Key={"pk": {"S": "orders#message#any"}, "sk": {"S": "message"}},
            UpdateExpression="SET #ttl = :now",
            ExpressionAttributeNames={"#ttl": "ttl"},
            ExpressionAttributeValues={":now": {"N": "1"}},
        )

    for act in (approve, token, discard, expire):
        with pytest.raises(runner.exceptions.ClientError, match="AccessDenied"):
            act()


def test_who_sees_no_bodies_reads_of_a_waiting_letter_what_holds_none(on_call: OnCall) -> None:
    table = on_call.orders.outputs["MessagesTableName"]
    reader = client(on_call, "dynamodb", ("DlqReader",), "figures")
    key = {"pk": {"S": "orders#message#any"}, "sk": {"S": "message"}}

    def read(*names: str) -> Any:
        asked = {
            "ProjectionExpression": ", ".join(f"#{name}" for name in names),
            "ExpressionAttributeNames": {f"#{name}": name for name in names},
        }
        request = {"Keys": [key], **(asked if names else {})}
        return reader.batch_get_item(RequestItems={table: request})

    assert read("pk", "sk", "stamp", "lane")["Responses"] == {table: []}
    for names in ((), ("message",), ("pk", "sk", "stamp", "message")):
        with pytest.raises(reader.exceptions.ClientError, match="AccessDenied"):
            read(*names)
    calls: list[Callable[[], Any]] = [
        lambda: reader.scan(TableName=table),
        lambda: reader.get_item(TableName=table, Key=key),
    ]
    for call in calls:
        with pytest.raises(reader.exceptions.ClientError, match="AccessDenied"):
            call()


def test_a_letter_is_explained_to_who_sees_no_bodies_as_far_as_the_ledger_goes(
    sandbox: Sandbox, on_call: OnCall
) -> None:
    credentials = on_call.credentials(["DlqReader"], "explained")
    done = on_call.type(TYPED["dlq show"][1], credentials)
    assert done.returncode in (Exit.DONE, Exit.ATTENTION), done.stderr
    assert asked(sandbox, "explained", allowed=False) <= {"dynamodb:BatchGetItem"}


def test_a_rule_is_added_by_who_sees_no_bodies(sandbox: Sandbox, on_call: OnCall) -> None:
    credentials = on_call.credentials(["DlqReader", "RuleEditor"], "unseen")
    done = on_call.type(TYPED["dlq rules add"][0], credentials)
    assert done.returncode in (Exit.DONE, Exit.ATTENTION), done.stderr
    assert asked(sandbox, "unseen", allowed=False) == set()


def test_people_on_call_can_not_touch_a_message(on_call: OnCall) -> None:
    sqs = client(on_call, "sqs", POLICIES, "everything")
    url = on_call.orders.url("Dlq")
    calls: list[Callable[[], Any]] = [
        lambda: sqs.send_message(QueueUrl=url, MessageBody="{}"),
        lambda: sqs.delete_message(QueueUrl=url, ReceiptHandle="any"),
        lambda: sqs.purge_queue(QueueUrl=url),
    ]
    for call in calls:
        with pytest.raises(sqs.exceptions.ClientError, match="AccessDenied"):
            call()


@pytest.mark.usefixtures("on_call")
def test_all_that_people_are_granted_is_used(sandbox: Sandbox) -> None:
    if not asked(sandbox, "dlq-status", allowed=True):
        pytest.skip("only all commands use everything")
    granted = set().union(*(what for policy in POLICIES for what in needed(policy).values()))
    used = set().union(*(asked(sandbox, typed.replace(" ", "-"), allowed=True) for typed in TYPED))
    assert granted - used - NOT_TYPED.keys() == set()
    assert NOT_TYPED.keys() & used == set()
