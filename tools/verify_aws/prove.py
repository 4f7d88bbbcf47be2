"""One run that proves the product: messages die, heal, are parked and replayed; a person is paged.

It deploys an app of its own beside whatever else the account has, as people deploy it; destroys it;
deploys it again over the tables and queues that stayed, now with boto3 for all calls; and removes
everything. The account has to be bootstrapped (`cdk bootstrap`); what the CDK CLI uploads into its
bucket there stays, as after each deployment. It calls AWS by boto3 and the CDK CLI only, with the
endpoint and credentials of its environment.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import jmespath
from botocore.exceptions import BotoCoreError, ClientError

from console.operations.doctor_checks import NOTE, DoctorFault
from deadletter.contract import (
    BOTO3_VARIABLE,
    CONSUMER_VARIABLE,
    DEFAULT_PARKING,
    MINUTE,
    app_parameter,
    consumer_policy_parameter,
    pipeline_parameter,
    pipeline_prefix,
    rules_table,
)
from deadletter.signals.pages import Alarm
from infra.prices import Price, Usage
from sandbox.progress import Standstill, until
from sandbox.server import parameter
from tools.verify_aws.account import PREFIX, AskedAccount, Stopped, allow, zipped
from tools.verify_aws.check import Check, longest
from tools.verify_aws.checks.functions import mapping
from tools.verify_aws.report import ProofStep
from tools.verify_aws.sweep import found

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "prove"
"""Where a run keeps its templates and the log of the CDK CLI, if it fails."""

PATIENCE = 300.0
"""Seconds without any movement after which a step has failed: the schedules start every minute."""

# By AWS's documentation a schedule starts within its minute, an alarm looks each minute, and a
# figure in a log line may be seen two minutes later. Our router remembers rules for a minute, a
# circuit waits for one at most between two canaries, and a deployment for three for its first
# heartbeat. What CloudFormation takes beside that is documented nowhere.
SCHEDULE = RULE = COOLDOWN = MINUTE
ALARM = HEARTBEAT = 3 * MINUTE

STEPS: Mapping[str, int] = {
    "deploy": HEARTBEAT,
    "doctor": 30,
    "page": SCHEDULE + ALARM,
    "rule": RULE + SCHEDULE,
    "outage": MINUTE,
    "heal": COOLDOWN + SCHEDULE,
    "park": RULE + SCHEDULE,
    "calm": ALARM,
    "remove": 0,
    "again": HEARTBEAT,
    "boto3": 30,
    "fail": MINUTE,
    "recover": COOLDOWN + SCHEDULE,
    "replay": 2 * MINUTE,
    "rest": 30,
}
"""The steps in their order, and the most seconds that each takes by documented times."""

MONTH_HOURS = 30 * 24

USED = Usage(
    {
        # Sold by the month, charged by the hour.
        Price.METRIC: 300 / MONTH_HOURS,
        Price.ALARM: 24 / MONTH_HOURS,
        Price.KEY: 2 / MONTH_HOURS,
        Price.SQS_REQUEST: 10_000,
        Price.READ_UNIT: 20_000,
        Price.WRITE_UNIT: 20_000,
        Price.INVOCATION: 2_000,
        Price.GB_SECOND: 2_000,
        Price.TRANSITION: 1_000,
        Price.SCHEDULED_START: 200,
        Price.EVENT: 1_000,
        Price.PUT_REQUEST: 200,
        Price.LOG_GB: 0.02,
        Price.KEY_REQUEST: 1_000,
    }
)
"""The most that a run uses."""


def most(checks: Collection[Check], proves: bool) -> tuple[float, int]:
    """The dollars and minutes that a run takes at most; the product is proved beside the checks."""
    dollars = sum(check.dollars for check in checks) + proves * USED.dollars
    seconds = max(longest(checks), proves * sum(STEPS.values()))
    return dollars, math.ceil(seconds / 60)


PIPELINE = "orders"

# An order that heals when its warehouse is back, and one that takes a second version.
CURED, STUBBORN = "cured", "stubborn"

SETTINGS: Mapping[str, Any] = {
    "name": PIPELINE,
    "context": {"kind": "body.kind"},
    "main_queue": {"max_receive_count": 1},
    "policy": {"max_attempts": 1, "backoff": {"base": 1, "cap": 1}},
    "circuit": {"minimum": 4, "consecutive": 4, "cooldown": 10},
    "consumer_library": True,
}

# What an outage kills, each by its first receive: enough to open the circuit, and one more.
KILLED = 5

CONSUMER_SECONDS = 10

# The consumer of a user: its warehouse may be down, and it takes what its version knows.
CONSUMER = """
import json
import os

import boto3
from deadletter.consumer import Transient, consumer

sqs = boto3.client("sqs")


@consumer
def handler(record):
    order = json.loads(record["body"])
    if os.environ["WAREHOUSE"] == "down":
        raise Transient("the warehouse is down")
    if order["kind"] not in os.environ["TAKES"].split():
        raise RuntimeError("this version takes no order that is " + order["kind"])
    stamp = record["messageAttributes"].get("Redrive", {}).get("stringValue", "{}")
    said = {**order, "stamp": json.loads(stamp)}
    sqs.send_message(QueueUrl=os.environ["DONE"], MessageBody=json.dumps(said))
"""

LIBRARY = (ROOT / "lambdas" / "deadletter", Path(jmespath.__file__).parent)

RULE_ID = "stop-stubborn"

# The functions whose calls the thin client makes, unless a variable says otherwise.
THIN = ("redrive", "route", "replay", "probe")

# What `dlq` says where a function, or AWS, gave no answer in time.
AGAIN = ("Try again: ", "no answer within ")

TAIL_LINES = 20


class Unproved(Exception):
    """A step did not do what the product promises; the text says what was seen."""


class Cdk:
    """The CDK CLI of this project, for one app; *folder* keeps its templates and its log."""

    def __init__(
        self, folder: Path, environment: Mapping[str, str], rest: Callable[[float], None]
    ) -> None:
        self._out, self._log = folder / "cdk.out", folder / "cdk.log"
        self._environment = {
            **environment,
            # There is no terminal at which a person could answer or watch a cursor.
            "CI": "true",
            "NO_COLOR": "1",
            "CDK_REQUIRE_APPROVAL": "never",
            # The set-up puts Node beside Python where the system's is missing or too old.
            "PATH": f"{Path(sys.executable).parent}:{environment.get('PATH', os.defpath)}",
        }
        self._rest = rest
        folder.mkdir(parents=True)

    def deploy(self, context: Mapping[str, str]) -> None:
        """Synthesize and deploy all stacks; raises Unproved with the CLI's last lines."""
        app = shlex.join([sys.executable, "app.py"])
        said = [f"--context={key}={value}" for key, value in context.items()]
        self._cdk("deploy", "--all", f"--app={app}", f"--output={self._out}", *said)

    def take_over(self) -> None:
        """Deploy the same again, over what stayed."""
        assembly = f"--assembly={self._out}"
        self._run([sys.executable, "-m", "tools.retained", "--import", assembly])

    def destroy(self) -> None:
        """Destroy what `deploy` made; nothing if it was ended before there were templates."""
        if (self._out / "manifest.json").exists():
            self._cdk("destroy", "--all", "--force", f"--app={self._out}")

    def _cdk(self, *arguments: str) -> None:
        self._run([ROOT / "node_modules" / ".bin" / "cdk", *arguments])

    def _run(self, command: list[str | Path]) -> None:
        with self._log.open("a") as log:
            # Ctrl-C at a terminal ends this program, which then destroys what it made.
            cli = subprocess.Popen(
                command,
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                while cli.poll() is None:
                    self._rest(0.2)
            except BaseException:
                os.killpg(cli.pid, signal.SIGKILL)
                cli.wait()
                raise
        if cli.returncode:
            tail = "\n".join(self._log.read_text().splitlines()[-TAIL_LINES:])
            typed = shlex.join(map(str, command))
            raise Unproved(f"{typed} ended with status {cli.returncode}:\n{tail}")


class Proof:
    """An app in an account, with a consumer, a pager and what they were sent."""

    def __init__(
        self, account: AskedAccount, run: str, environment: Mapping[str, str], patience: float
    ) -> None:
        self.app = f"{PREFIX}-{run}"
        self.folder = FOLDER / self.app
        # What is gone as soon as the app is destroyed.
        self._account, self._life = account, account.another()
        self._environment, self._patience = environment, patience
        self._cdk = Cdk(self.folder, environment, self._life.pause)
        self._sqs = account.client("sqs")
        self._queues: dict[str, str] = {}
        self._function = self._role = self._done = self._pages = ""
        self._takes, self._sent = CURED, 0
        self._taken: list[dict[str, Any]] = []
        self._seen: set[str] = set()
        self._states: dict[str, str] = {}

    @property
    def steps(self) -> Mapping[str, Callable[[], str]]:
        """The steps in their order; each returns what was seen, or raises Unproved."""
        again = {"fail": self.outage, "recover": self.heal, "rest": self.calm}
        return {name: again.get(name) or getattr(self, name) for name in STEPS}

    def deploy(self) -> str:
        """The app, and a consumer of its main queue."""
        account = self._account
        self._done, self._pages = account.queue("done"), account.queue("pages")
        logs = [f"logs:{what}" for what in ("CreateLogGroup", "CreateLogStream", "PutLogEvents")]
        self._function = account.function(
            CONSUMER,
            [allow(["sqs:SendMessage"], account.queue_arn(self._done)), allow(logs, "*")],
            Code={"ZipFile": zipped(CONSUMER, *LIBRARY)},
            Timeout=CONSUMER_SECONDS,
            MemorySize=256,
        )
        known = account.client("lambda").get_function(FunctionName=self._function)["Configuration"]
        self._role = known["Role"].rpartition("/")[2]
        role = account.client("iam").get_role(RoleName=self._role)["Role"]
        consumer = {
            "kind": "function",
            "function_arn": known["FunctionArn"],
            "timeout": CONSUMER_SECONDS,
        }
        settings = {**SETTINGS, "consumer": consumer, "trusted_senders": [role["RoleId"]]}
        account.remove(f"app {self.app}", self._end)
        self._life.remove("the stacks", self._destroy)
        self._cdk.deploy(
            {"app": self.app, "dashboard": "false", "pipelines": json.dumps([settings])}
        )
        self._connect()
        return f"app {self.app} in {account.region}"

    def doctor(self) -> str:
        """What a person is told to look at first finds nothing."""
        by_boto3 = self._examined()
        _require(not by_boto3, f"boto3 makes all calls of {by_boto3}")
        return "`dlq doctor` finds nothing; the thin client makes the calls of each message"

    def page(self) -> str:
        """A rule that is typed wrongly into the table pages a person."""
        self._type_rule("PURGE")
        self._until(lambda: "ALARM" in self._paged().values(), "a page of the broken rule")
        return f"{', '.join(self._paged())} rang for a broken rule"

    def rule(self) -> str:
        """The rule is mended in the table, and holds the next message that it names."""
        self._type_rule("HOLD")
        self._send(STUBBORN)

        def held() -> bool:
            listed = self._dlq("list", "--in", f"rule:{RULE_ID}", *_OF)["messages"]
            return len(listed) == 1

        self._until(held, "the stubborn message waits for its rule")
        return "a rule typed as an item holds the stubborn message"

    def outage(self) -> str:
        """The warehouse is down: messages die, the circuit opens, and nothing goes back."""
        self._release(warehouse="down")
        for _ in range(KILLED):
            self._send(CURED)
        self._sent += KILLED
        self._until(lambda: self._circuit() != "CLOSED", "the circuit opens")
        self._until(lambda: not self._depth("main"), "the messages have died")
        return f"{KILLED} messages failed, and the circuit opened"

    def heal(self) -> str:
        """The warehouse is back: a canary closes the circuit, and scheduled runs send the rest."""
        self._release()
        self._until(lambda: self._circuit() == "CLOSED", "a canary closes the circuit")
        self._until(lambda: self._processed()[CURED] == self._sent, "all of them are processed")
        attempts = [each["stamp"].get("attempt", 0) for each in self._taken[-KILLED:]]
        _require(1 in attempts, f"processed, but none sent back by a run: attempts {attempts}")
        self._until_empty()
        return "a canary closed the circuit, and all were sent back and processed"

    def park(self) -> str:
        """The rule is deleted from the table, and what it held uses up its attempts."""
        self._account.client("dynamodb").delete_item(
            TableName=rules_table(self.app), Key=self._rule_key
        )

        def parked() -> bool:
            self._dlq("retry", "--auto", *_OF, *_SAID)
            return self._depth("parking") == 1

        self._until(parked, "the stubborn message is parked")
        [letter] = self._dlq("list", "--in", "parked", "--look", *_OF)["messages"]
        _require(letter["reason"] == "RETRIES_EXHAUSTED", f"parked for {letter['reason']}")
        return "the stubborn message is parked: RETRIES_EXHAUSTED"

    def calm(self) -> str:
        """Each page ends by itself, and nothing waits or was taken twice."""
        self._until(lambda: set(self._paged().values()) <= {"OK"}, "the pages end", self._paged)
        self._until_empty()
        kinds = self._processed()
        _require(kinds[CURED] == self._sent, f"{self._sent} were sent, processed: {dict(kinds)}")
        _require(kinds[STUBBORN] < 2, "the stubborn message was processed twice")
        return "each page has ended, and each message was processed once"

    def remove(self) -> str:
        """The app is destroyed; its tables, queues and bucket stay, and so does the message."""
        if left := self._life.clear():
            raise Unproved("; ".join(left))
        ours = self._found(("dynamodb", "s3", "cloudformation"))
        stay = Counter(what.split()[0] for what, _ in ours)
        _require(stay.keys() == {"table", "bucket"}, f"what stayed: {dict(stay)}")
        _require(self._depth("parking") == 1, "the parked message is gone")
        return f"{stay['table']} tables, the bucket and the parked message stayed"

    def again(self) -> str:
        """The app is deployed over what stayed."""
        self._life.remove("the stacks", self._destroy)
        self._cdk.take_over()
        self._connect()
        return "CloudFormation took over what stayed"

    def boto3(self) -> str:
        """A person gives all calls to boto3, and is told so."""
        functions = self._account.client("lambda")
        names = {f"{pipeline_prefix(self.app, PIPELINE)}{role}" for role in THIN}
        for name in names:
            known = functions.get_function_configuration(FunctionName=name)["Environment"]
            self._configure(name, {**known["Variables"], BOTO3_VARIABLE: "1"})
        by_boto3 = self._examined()
        _require(by_boto3 == names, f"boto3 makes all calls of {by_boto3}")
        return "`dlq doctor` finds nothing else"

    def replay(self) -> str:
        """A second version is deployed, and what stayed parked is planned, approved and sent."""
        self._takes = f"{CURED} {STUBBORN}"
        self._release()
        asked = ("retry", "--in", "parked", "--all", "--approve")
        [run] = [str(each["run"]) for each in self._dlq(*asked, *_OF, *_SAID)["runs"]]

        def state() -> str:
            return str(self._dlq("show", run)["run"]["run"]["state"])

        self._until(lambda: state() == "WAITING_APPROVAL", f"run {run} asks for approval")
        self._dlq("run", "approve", run, *_SAID)
        self._until(lambda: self._processed()[STUBBORN], "the released message is processed")
        self._until(lambda: state() == "DONE", f"run {run} has ended", state)
        report = self._dlq("show", run)["outcomes"]
        _require(
            (report["messages"], report["unaccounted"]) == (1, 0), f"the run's report: {report}"
        )
        return f"the parked message was approved and processed; run {run} accounts for it"

    def require_nothing(self, services: Collection[str]) -> None:
        """Remove what is left of this run in these services; raises Unproved if something stays."""

        def left() -> list[str]:
            ours = list(self._found(services))
            for _, remove in ours:
                # A table is changed before it can be deleted, and a function that was still
                # running has made its log group anew: asked again until it is gone.
                with suppress(BotoCoreError, ClientError):
                    remove()
            return [what for what, _ in ours]

        # What is deleted is listed for a while.
        self._until(lambda: not left(), "nothing is left", marks=left)

    def _found(self, services: Collection[str]) -> Iterator[tuple[str, Callable[[], object]]]:
        return (each for each in found(self._account, services) if self._is_ours(each[0]))

    def _is_ours(self, name: str) -> bool:
        return any(own in name.lower() for own in (self.app, self.app.replace("-", "")))

    def _end(self) -> None:
        if left := self._life.clear():
            raise Unproved("; ".join(left))

    def _stacks(self) -> dict[str, str]:
        """The status of each stack of the app."""
        pages = self._account.client("cloudformation").get_paginator("describe_stacks").paginate()
        return {
            stack["StackName"]: stack["StackStatus"]
            for page in pages
            for stack in page["Stacks"]
            if self._is_ours(stack["StackName"])
        }

    def _at_work(self) -> list[str]:
        """The stacks that CloudFormation is changing."""
        return [
            name
            for name, status in self._stacks().items()
            # A change set that nothing executes is in review.
            if status.endswith("_IN_PROGRESS") and status != "REVIEW_IN_PROGRESS"
        ]

    def _destroy(self) -> None:
        # After an interruption CloudFormation goes on.
        self._until(lambda: not self._at_work(), "CloudFormation is at rest", self._at_work)
        unprotect = self._account.client("cloudformation").update_termination_protection
        for name in self._stacks():
            unprotect(StackName=name, EnableTerminationProtection=False)
        self._cdk.destroy()

    def _connect(self) -> None:
        """Give the consumer its policy and its queue, and a person the pages."""
        account, life = self._account, self._life
        iam, ssm = account.client("iam"), account.client("ssm")
        own = parameter(ssm, pipeline_parameter(self.app, PIPELINE))
        parking = own["parking"][DEFAULT_PARKING]
        self._queues = {"main": own["main_url"], "dlq": own["dlq_url"], "parking": parking}
        self._subscribe()
        policy = ssm.get_parameter(Name=consumer_policy_parameter(self.app, PIPELINE))
        attached = {"RoleName": self._role, "PolicyArn": policy["Parameter"]["Value"]}
        life.remove("the consumer's policy", lambda: iam.detach_role_policy(**attached))
        iam.attach_role_policy(**attached)
        self._release()
        mapping(
            life,
            own["main_url"],
            self._function,
            BatchSize=1,
            FunctionResponseTypes=["ReportBatchItemFailures"],
        )

    def _examined(self) -> set[str]:
        """The functions whose calls boto3 makes; raises Unproved if anything else is found."""
        answer = self._dlq("doctor", *_OF)
        # Each message shall die by its first receive.
        known = {DoctorFault.FEW_RECEIVES.check}
        faults = [
            f"{each['subject']}: {each['says']}"
            for each in answer["findings"]
            if each["level"] != NOTE and each["check"] not in known
        ]
        if wrong := [*faults, *answer["unchecked"]]:
            raise Unproved("; ".join(wrong))
        by_boto3 = DoctorFault.BY_BOTO3.check
        return {each["subject"] for each in answer["findings"] if each["check"] == by_boto3}

    @property
    def _rule_key(self) -> dict[str, Any]:
        return {"pipeline": {"S": PIPELINE}, "rule_id": {"S": RULE_ID}}

    def _type_rule(self, action: str) -> None:
        """Put the rule into its table as a person types it in the console of DynamoDB."""
        says = {"kind": {"S": STUBBORN}, "action": {"S": action}}
        self._account.client("dynamodb").put_item(
            TableName=rules_table(self.app), Item={**self._rule_key, **says}
        )

    def _send(self, kind: str) -> None:
        body = json.dumps({"kind": kind})
        self._sqs.send_message(QueueUrl=self._queues["main"], MessageBody=body)

    def _circuit(self) -> str:
        circuits = self._dlq("circuit", "list", *_OF)["circuits"]
        return next(str(each["state"]) for each in circuits if each["key"] == PIPELINE)

    def _subscribe(self) -> None:
        arn = self._account.queue_arn(self._pages)
        policy = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    **allow(["sqs:SendMessage"], arn),
                    "Principal": {"Service": "sns.amazonaws.com"},
                }
            ],
        }
        self._sqs.set_queue_attributes(
            QueueUrl=self._pages, Attributes={"Policy": json.dumps(policy)}
        )
        topic = parameter(self._account.client("ssm"), app_parameter(self.app))["alarm_topic"]
        self._account.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)

    def _release(self, warehouse: str = "up") -> None:
        """Put a version of the consumer into production."""
        named = {CONSUMER_VARIABLE: f"{self.app}/{PIPELINE}", "DONE": self._done}
        self._configure(self._function, {**named, "TAKES": self._takes, "WAREHOUSE": warehouse})

    def _configure(self, function: str, variables: Mapping[str, str]) -> None:
        functions = self._account.client("lambda")
        functions.update_function_configuration(
            FunctionName=function, Environment={"Variables": variables}
        )

        def updated() -> bool:
            version = functions.get_function_configuration(FunctionName=function)
            return bool(version.get("LastUpdateStatus", "Successful") == "Successful")

        self._until(updated, f"{function} is updated")

    def _dlq(self, *words: str) -> Any:
        """What the command line answers."""

        def typed() -> Any:
            try:
                done = subprocess.run(
                    [Path(sys.executable).with_name("dlq"), "--app", self.app, "--json", *words],
                    env=dict(self._environment),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=self._patience,
                )
            except subprocess.TimeoutExpired as error:
                # A run is watched, even if no function of the app moves it.
                raise Unproved(f"dlq {' '.join(words)} has no answer") from error
            if any(word in done.stderr for word in AGAIN):
                return None
            _require(
                done.returncode in (0, 1) and bool(done.stdout),
                f"dlq {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}",
            )
            return json.loads(done.stdout)

        return self._until(typed, f"dlq {' '.join(words)} answers")

    def _depth(self, queue: str) -> int:
        """How many messages a queue holds, hidden and late ones too."""
        names = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]
        answer = self._sqs.get_queue_attributes(QueueUrl=self._queues[queue], AttributeNames=names)
        return sum(int(answer["Attributes"][name]) for name in names)

    def _processed(self) -> Counter[str]:
        """How often each order was processed so far."""
        self._taken += self._received(self._done)
        return Counter(str(each["kind"]) for each in self._taken)

    def _paged(self) -> Mapping[str, str]:
        """The state of each alarm that a person was told of so far."""
        for each in self._received(self._pages):
            notice = json.loads(each["Message"])
            if Alarm.RULE_TROUBLE in notice.get("AlarmName", ""):
                self._states[notice["AlarmName"]] = notice["NewStateValue"]
        return self._states

    def _received(self, url: str) -> list[dict[str, Any]]:
        answer = self._sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        # SQS itself may deliver one of them twice.
        new = [each for each in answer.get("Messages", []) if each["MessageId"] not in self._seen]
        for message in new:
            self._seen.add(message["MessageId"])
            self._sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return [json.loads(message["Body"]) for message in new]

    def _until_empty(self) -> None:
        """Wait until no message is on its way: a consumer deletes one after it has processed it."""
        self._until(lambda: not self._depth("main") + self._depth("dlq"), "the queues are empty")

    def _until(
        self,
        condition: Callable[[], T | None],
        what: str,
        marks: Callable[[], object] | None = None,
    ) -> T:
        """Wait as long as anything moves; raises Unproved at a standstill."""
        try:
            return until(
                condition,
                what,
                marks=marks or (lambda: {queue: self._depth(queue) for queue in self._queues}),
                standstill=self._patience,
                clock=self._account.clock,
                rest=self._life.pause,
            )
        except Standstill as standstill:
            raise Unproved(str(standstill)) from standstill


def _require(holds: bool, seen: str) -> None:
    if not holds:
        raise Unproved(seen)


_OF = ("--pipeline", PIPELINE)
_SAID = ("--reason", "a proof", "--yes")


def prove(
    account: AskedAccount,
    run: str,
    say: Callable[[str], None],
    *,
    environment: Mapping[str, str],
    services: Collection[str],
    patience: float = PATIENCE,
) -> list[ProofStep]:
    """Take each step until one fails, and remove all that was made, which is the last step.

    `say` hears of each step as it begins and ends. `services` are asked for what is left.
    """
    proof = Proof(account, run, environment, patience)
    taken: list[ProofStep] = []
    left: list[str] = []

    def ended(step: ProofStep) -> bool:
        taken.append(step)
        say(str(step))
        return not step.fault

    with account.opened(left):
        # What is entered first is called last.
        account.remove("the account", partial(proof.require_nothing, services))
        for name, step in proof.steps.items():
            say(f"step {name} begins")
            if not ended(_taken(account.clock, name, step)):
                break
        say("step destroy begins")
        began = account.clock()
    ended(ProofStep("destroy", account.clock() - began, "nothing is left", "; ".join(left)))
    if not any(step.fault for step in taken):
        shutil.rmtree(proof.folder)
    return taken


def _taken(clock: Callable[[], float], name: str, step: Callable[[], str]) -> ProofStep:
    """Take a step; its fault is empty if it did what the product promises."""
    began, seen, fault = clock(), "", ""
    try:
        seen = step()
    except Stopped:
        fault = "interrupted"
    except Exception as error:
        # Whatever it is, the step is named, and what was made is destroyed.
        fault = str(error) if isinstance(error, Unproved) else f"{type(error).__name__}: {error}"
    return ProofStep(name, clock() - began, seen, fault)
