"""One run that proves the product: messages die, heal, are parked and replayed; a person is paged.

It deploys an app of its own beside whatever else the account has, and destroys it. The account has
to be bootstrapped (`cdk bootstrap`); what the CDK CLI uploads into its bucket there stays, as after
each deployment. It calls AWS by boto3 and the CDK CLI only, with the endpoint and credentials of
its environment.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from deadletter.contract import DEFAULT_PARKING, app_parameter, pipeline_parameter, pipeline_prefix
from deadletter.signals.pages import Alarm
from sandbox.progress import Standstill, until
from tools.verify_aws.account import PREFIX, ROLE_SECONDS, AskedAccount
from tools.verify_aws.check import Stopped
from tools.verify_aws.sweep import found

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "prove"
"""Where a run keeps its templates and the log of the CDK CLI, if it fails."""

DOLLARS, MINUTES = 0.10, 20
"""The most that a run costs and takes."""

PATIENCE = 300.0
"""Seconds without any movement after which a step has failed: the schedules start every minute."""

PIPELINE = "orders"

# An order that the first fix cures, and one that takes a second fix.
CURED, STUBBORN = "cured", "stubborn"

# SQS publishes the age of an empty queue late, and an alarm of ours waits for three minutes.
SETTINGS: Mapping[str, Any] = {
    "name": PIPELINE,
    "main_queue": {"max_receive_count": 1},
    "policy": {"max_attempts": 1, "backoff": {"base": 1, "cap": 1}},
    "alarms": {"age": 5},
    "tuning": {"policy.backoff.floor": 0, "alarms.age_looks": 1},
}

CONSUMER_SECONDS = 10

# The consumer of a user: it takes the kinds of orders that its version knows.
CONSUMER = """
import json
import os

import boto3

sqs = boto3.client("sqs")


def handler(event, context):
    for record in event["Records"]:
        order = json.loads(record["body"])
        if order["kind"] not in os.environ["TAKES"].split():
            # It is received again at once, and dies.
            sqs.change_message_visibility(
                QueueUrl=os.environ["MAIN"],
                ReceiptHandle=record["receiptHandle"],
                VisibilityTimeout=0,
            )
            raise RuntimeError("this version takes no order that is " + order["kind"])
        stamp = record["messageAttributes"].get("Redrive", {}).get("stringValue", "{}")
        said = {**order, "stamp": json.loads(stamp)}
        sqs.send_message(QueueUrl=os.environ["DONE"], MessageBody=json.dumps(said))
"""

# What `dlq` says where a function, or AWS, gave no answer in time.
AGAIN = ("Try again: ", "no answer within ")

TAIL_LINES = 20


class Unproved(Exception):
    """A step did not do what the product promises; the text says what was seen."""


@dataclass(frozen=True, slots=True)
class ProofStep:
    """A step of the run; `fault` is empty if it did what the product promises."""

    name: str
    seconds: float
    seen: str
    fault: str = ""

    def __str__(self) -> str:
        verdict = f"FAILED: {self.fault}" if self.fault else self.seen
        return f"{self.name:<8} {self.seconds:4.0f} s  {verdict}"


class Cdk:
    """The CDK CLI of this project, for one app; *folder* keeps its templates and its log."""

    def __init__(
        self, folder: Path, environment: Mapping[str, str], rest: Callable[[float], None]
    ) -> None:
        self._out, self._log = folder / "cdk.out", folder / "cdk.log"
        self._environment = {
            **environment,
            # The set-up puts Node beside Python where the system's is missing or too old.
            "PATH": f"{Path(sys.executable).parent}:{environment.get('PATH', os.defpath)}",
        }
        self._rest = rest
        folder.mkdir(parents=True)

    def deploy(self, context: Mapping[str, str]) -> None:
        """Synthesize and deploy all stacks; raises Unproved with the CLI's last lines."""
        app = shlex.join([sys.executable, "app.py"])
        said = [f"--context={key}={value}" for key, value in context.items()]
        made = [f"--app={app}", f"--output={self._out}", *said]
        self._run("deploy", "--all", "--require-approval=never", *made)

    def destroy(self) -> None:
        """Destroy what `deploy` made; nothing if it was ended before there were templates."""
        if (self._out / "manifest.json").exists():
            self._run("destroy", "--all", "--force", f"--app={self._out}")

    def _run(self, *arguments: str) -> None:
        with self._log.open("a") as log:
            # Ctrl-C at a terminal ends this program, which then destroys what it made.
            cli = subprocess.Popen(
                [ROOT / "node_modules" / ".bin" / "cdk", "--ci", "--no-color", *arguments],
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
            raise Unproved(f"cdk {arguments[0]} ended with status {cli.returncode}:\n{tail}")


class Proof:
    """An app in an account, with a consumer, a pager and what they were sent."""

    def __init__(
        self, account: AskedAccount, run: str, environment: Mapping[str, str], patience: float
    ) -> None:
        self.app = f"{PREFIX}-{run}"
        self.folder = FOLDER / self.app
        self._account, self._environment, self._patience = account, environment, patience
        self._cdk = Cdk(self.folder, environment, account.pause)
        self._sqs = account.client("sqs")
        self._queues: dict[str, str] = {}
        self._function = self._done = self._pages = ""
        self._taken: list[dict[str, Any]] = []
        self._states: list[str] = []

    @property
    def steps(self) -> Mapping[str, Callable[[], str]]:
        """The steps in their order; each returns what was seen, or raises Unproved."""
        names = ("deploy", "die", "page", "heal", "park", "replay", "calm")
        return {name: getattr(self, name) for name in names}

    def deploy(self) -> str:
        """The app, and a consumer of its main queue."""
        account = self._account
        self._done, self._pages = account.queue("done"), account.queue("pages")
        mine = f"arn:aws:sqs:*:*:{self.app}-{PIPELINE}-main"
        takes = ["ReceiveMessage", "DeleteMessage", "GetQueueAttributes", "ChangeMessageVisibility"]
        self._function = account.function(
            CONSUMER,
            [
                _allow([f"sqs:{action}" for action in takes], mine),
                _allow(["sqs:SendMessage"], account.queue_arn(self._done)),
            ],
            Timeout=CONSUMER_SECONDS,
            MemorySize=256,
        )
        logs, group = account.client("logs"), f"/aws/lambda/{self._function}"
        account.remove(f"log group {group}", lambda: logs.delete_log_group(logGroupName=group))
        known = account.client("lambda").get_function(FunctionName=self._function)
        arn = known["Configuration"]["FunctionArn"]
        consumer = {"kind": "function", "function_arn": arn, "timeout": CONSUMER_SECONDS}
        account.remove(f"app {self.app}", self._destroy)
        self._cdk.deploy(
            {
                "app": self.app,
                "ephemeral": "true",
                "dashboard": "false",
                "pipelines": json.dumps([{**SETTINGS, "consumer": consumer}]),
            }
        )
        own = self._parameter(pipeline_parameter(self.app, PIPELINE))
        parking = own["parking"][DEFAULT_PARKING]
        self._queues = {"main": own["main_url"], "dlq": own["dlq_url"], "parking": parking}
        self._subscribe()
        self._release("nothing")
        self._map(account.queue_arn(own["main_url"]))
        return f"app {self.app} in {account.region}"

    def die(self) -> str:
        """Two messages die, and a person holds them: nothing goes back into the failure."""
        self._dlq("circuit", "open", *_OF, *_SAID, "--expires", "1h", "--yes")
        for kind in (CURED, STUBBORN):
            self._sqs.send_message(
                QueueUrl=self._queues["main"], MessageBody=json.dumps({"kind": kind})
            )
        self._until(lambda: self._depth("dlq") == 2, "both messages are in the DLQ")
        return "2 messages are in the DLQ"

    def page(self) -> str:
        """A person is paged, because they lie there."""
        self._until(lambda: "ALARM" in self._paged(), f"a page of {self._alarm}")
        _require(self._depth("dlq") == 2, "the messages have not stayed in the DLQ")
        return f"{self._alarm} rang"

    def heal(self) -> str:
        """The fix is deployed, the circuit closed, and the next scheduled run sends both back."""
        self._release(CURED)
        self._dlq("circuit", "close", *_OF, *_SAID, "--expires", "1h", "--yes")
        self._dlq("circuit", "release", *_OF, *_SAID, "--yes")
        self._until(lambda: self._processed()[CURED], "the cured message is processed")
        [order] = [each for each in self._taken if each["kind"] == CURED]
        attempt = order["stamp"].get("attempt")
        _require(attempt == 1, f"processed, but not sent back by a run: attempt {attempt}")
        return "the cured message was sent back by the schedule, and processed"

    def park(self) -> str:
        """The other one has used up its attempts."""

        def parked() -> bool:
            self._dlq("retry", "--auto", *_OF, *_SAID, "--yes")
            return self._depth("parking") == 1

        self._until(parked, "the stubborn message is parked")
        [letter] = self._dlq("list", "--in", "parked", "--look", *_OF)["messages"]
        _require(letter["reason"] == "RETRIES_EXHAUSTED", f"parked for {letter['reason']}")
        return "the stubborn message is parked: RETRIES_EXHAUSTED"

    def replay(self) -> str:
        """A second fix is deployed, and a person releases what is parked."""
        self._release(f"{CURED} {STUBBORN}")
        # Held, for a run that goes on is watched until its end.
        answer = self._dlq("retry", "--in", "parked", "--all", "--hold", *_OF, *_SAID, "--yes")
        [run] = [str(each["run"]) for each in answer["runs"]]
        self._dlq("run", "resume", run, *_SAID, "--yes")
        self._until(lambda: self._processed()[STUBBORN], "the released message is processed")

        def ended() -> bool:
            return bool(self._dlq("show", run)["run"]["run"]["empty"])

        self._until(ended, f"run {run} has ended")
        report = self._dlq("show", run)["outcomes"]
        _require(
            (report["messages"], report["unaccounted"]) == (1, 0), f"the run's report: {report}"
        )
        return f"the stubborn message was processed; run {run} accounts for it"

    def calm(self) -> str:
        """The page ends by itself, and nothing is left or was taken twice."""
        self._until(lambda: self._paged()[-1:] == ["OK"], f"{self._alarm} is OK")
        depths = {queue: self._depth(queue) for queue in self._queues}
        _require(not any(depths.values()), f"messages are left: {depths}")
        processed = self._processed()
        _require(processed == {CURED: 1, STUBBORN: 1}, f"processed: {dict(processed)}")
        return f"{self._alarm} ended; each message was processed once, and none is left"

    def require_nothing(self, services: Collection[str]) -> None:
        """Raise Unproved if the account still has something of this run, of these services."""

        def left() -> list[str]:
            ours = [each for each in found(self._account, services) if self._is_ours(each[0])]
            for what, remove in ours:
                # A function that was still running has written into it, and so made it anew.
                if what.startswith("log group"):
                    remove()
            return [what for what, _ in ours]

        # What is deleted is listed for a while.
        self._until(lambda: not left(), "nothing is left", marks=left)

    @property
    def _alarm(self) -> str:
        return f"{pipeline_prefix(self.app, PIPELINE)}{Alarm.DLQ_AGE}"

    def _is_ours(self, name: str) -> bool:
        return any(own in name.lower() for own in (self.app, self.app.replace("-", "")))

    def _at_work(self) -> list[str]:
        """The stacks that CloudFormation is changing."""
        pages = self._account.client("cloudformation").get_paginator("describe_stacks").paginate()
        return [
            stack["StackName"]
            for page in pages
            for stack in page["Stacks"]
            if self._is_ours(stack["StackName"])
            and stack["StackStatus"].endswith("_IN_PROGRESS")
            # A change set that nothing executes.
            and stack["StackStatus"] != "REVIEW_IN_PROGRESS"
        ]

    def _destroy(self) -> None:
        # After an interruption CloudFormation goes on.
        self._until(lambda: not self._at_work(), "CloudFormation is at rest", self._at_work)
        s3 = self._account.client("s3")
        # CloudFormation deletes no bucket with objects in it.
        for name in (bucket["Name"] for bucket in s3.list_buckets().get("Buckets", [])):
            if name.startswith(self.app):
                for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name):
                    for each in page.get("Contents", []):
                        s3.delete_object(Bucket=name, Key=each["Key"])
        self._cdk.destroy()

    def _parameter(self, name: str) -> dict[str, Any]:
        answer = self._account.client("ssm").get_parameter(Name=name)
        said: dict[str, Any] = json.loads(answer["Parameter"]["Value"])
        return said

    def _subscribe(self) -> None:
        arn = self._account.queue_arn(self._pages)
        policy = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    **_allow(["sqs:SendMessage"], arn),
                    "Principal": {"Service": "sns.amazonaws.com"},
                }
            ],
        }
        self._sqs.set_queue_attributes(
            QueueUrl=self._pages, Attributes={"Policy": json.dumps(policy)}
        )
        topic = self._parameter(app_parameter(self.app))["alarm_topic"]
        self._account.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)

    def _release(self, takes: str) -> None:
        """Put a version of the consumer into production."""
        functions = self._account.client("lambda")
        variables = {"TAKES": takes, "MAIN": self._queues["main"], "DONE": self._done}
        functions.update_function_configuration(
            FunctionName=self._function, Environment={"Variables": variables}
        )

        def updated() -> bool:
            version = functions.get_function_configuration(FunctionName=self._function)
            return bool(version.get("LastUpdateStatus", "Successful") == "Successful")

        self._until(updated, "the consumer is updated")

    def _map(self, queue: str) -> None:
        functions = self._account.client("lambda")

        def mapped() -> str:
            try:
                answer = functions.create_event_source_mapping(
                    EventSourceArn=queue, FunctionName=self._function, BatchSize=1
                )
            except ClientError as error:
                # The role is too new.
                if "permissions" in str(error):
                    return ""
                raise
            return str(answer["UUID"])

        uuid = self._account.until(mapped, ROLE_SECONDS, "the consumer reads the main queue", 3)
        self._account.remove(
            f"mapping {uuid}", lambda: functions.delete_event_source_mapping(UUID=uuid)
        )
        self._until(
            lambda: functions.get_event_source_mapping(UUID=uuid)["State"] == "Enabled",
            "the consumer's mapping is enabled",
        )

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
                done.returncode in (0, 1),
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

    def _paged(self) -> list[str]:
        """The states of the alarm that a person was told so far."""
        notices = [json.loads(each["Message"]) for each in self._received(self._pages)]
        self._states += [
            str(each["NewStateValue"]) for each in notices if each.get("AlarmName") == self._alarm
        ]
        return self._states

    def _received(self, url: str) -> list[dict[str, Any]]:
        answer = self._sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        messages = answer.get("Messages", [])
        for message in messages:
            self._sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return [json.loads(message["Body"]) for message in messages]

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
                rest=self._account.pause,
            )
        except Standstill as standstill:
            raise Unproved(str(standstill)) from standstill


def _require(holds: bool, seen: str) -> None:
    if not holds:
        raise Unproved(seen)


def _allow(actions: list[str], resource: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": resource}


_OF = ("--pipeline", PIPELINE)
_SAID = ("--reason", "a proof")


def prove(
    account: AskedAccount,
    run: str,
    say: Callable[[ProofStep], None],
    *,
    environment: Mapping[str, str],
    services: Collection[str],
    patience: float = PATIENCE,
) -> bool:
    """Take each step until one fails, and destroy all that was made. Returns if all went well.

    `say` hears each step as it ends. `services` are asked for what is left.
    """
    proof = Proof(account, run, environment, patience)
    left: list[str] = []
    with account.opened(left):
        # What is entered first is called last.
        account.remove("the account", partial(proof.require_nothing, services))
        proved = all(_taken(account.clock, *step, say) for step in proof.steps.items())
        began = account.clock()
    ended = ProofStep("destroy", account.clock() - began, "nothing is left", "; ".join(left))
    say(ended)
    if proved and not left:
        shutil.rmtree(proof.folder)
    return proved and not left


def _taken(
    clock: Callable[[], float], name: str, step: Callable[[], str], say: Callable[[ProofStep], None]
) -> bool:
    """Take a step and say how it ended; True if it did what the product promises."""
    began, seen, fault = clock(), "", ""
    try:
        seen = step()
    except Stopped:
        fault = "interrupted"
    except Exception as error:
        # Whatever it is, the step is named, and what was made is destroyed.
        fault = str(error) if isinstance(error, Unproved) else f"{type(error).__name__}: {error}"
    say(ProofStep(name, clock() - began, seen, fault))
    return not fault
