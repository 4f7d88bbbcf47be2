"""The deployed pipeline as its users reach it: queues, tables, functions, the command line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from deadletter.aws.dynamodb import plain
from deadletter.aws.rules import REMEMBERED
from deadletter.contract import DEFAULT_APP, MAIN_DLQ, Partition, pipeline_prefix
from deadletter.failure.ledger import LedgerRow, row_from_item
from sandbox.alarms import MINUTE, SHORT_MINUTE
from sandbox.progress import STANDSTILL_SECONDS, until
from sandbox.server import Sandbox
from tests.e2e import canaries, stranger

T = TypeVar("T")

# The policy that a test adds to a role.
DENIED = "denied"

CHECK_RULES = "deadletter-check-rules"

# How many times as fast the app's clock is as the machine's, where that has time for the app: its
# minutes last six seconds, as those of alarms do in a sandbox on the machine's clock.
SPEED = MINUTE / SHORT_MINUTE

# What a command says if a function that it asks, or AWS, gave no answer: on a busy machine.
AGAIN = ("Try again: ", "no answer within ")

# Ten hours of the app are one of the machine.
_SAID = ("--reason", "a test", "--expires", "12h")


def event(tenant: str, **more: Any) -> str:
    """A message of a tenant, with content in it that must stay secret."""
    return json.dumps({"tenantId": tenant, "note": canaries.BODY, **more}, ensure_ascii=False)


def rows(*partitions: str) -> dict[str, Any]:
    """What a statement says of everything in these partitions of tables and indexes."""
    condition = {"ForAnyValue:StringLike": {"dynamodb:LeadingKeys": list(partitions)}}
    return {"Action": "dynamodb:*", "Resource": "*", "Condition": condition}


# What a test has to do to see every letter of a queue: nothing of it may come back meanwhile.
_LOOK_SECONDS = 300


@dataclass(frozen=True)
class Deployed:
    """One pipeline of the deployed app."""

    sandbox: Sandbox
    aws: Callable[[str], Any]
    outputs: Mapping[str, str]
    name: str = "orders"

    def url(self, queue: str) -> str:
        """The URL of `MainQueue`, `Dlq` or `ParkingLot`."""
        title = "".join(word.capitalize() for word in self.name.split("-"))
        return self.outputs[f"{title}{queue}Url"]

    @property
    def app(self) -> dict[str, Any]:
        """What the app says of itself in its parameter: tables, bucket, topic."""
        found = self.aws("ssm").get_parameter(Name="/deadletter/app")
        said: dict[str, Any] = json.loads(found["Parameter"]["Value"])
        return said

    def until(
        self,
        condition: Callable[[], T | None],
        what: str,
        *,
        standstill: float = STANDSTILL_SECONDS,
    ) -> T:
        """Wait for what the app does; a slow machine is waited for, a standstill is not.

        The seconds are the machine's at the clock's full speed: where that is slower, so is all
        that is waited for.
        """
        return until(
            condition,
            what,
            marks=self.marks,
            standstill=standstill,
            clock=lambda: self.sandbox.time() / SPEED,
        )

    def marks(self) -> object:
        """What moves while the app is at work, and not because a test looks.

        These are the messages of the app's queues, how often the main queues' have been received,
        and how often each function has run that no test invokes in a loop. Where people are paged
        alarms ring and end, whatever a test waits for.
        """
        messages = {
            queue: sorted(
                (message["MessageId"], message["ReceiveCount"] if queue.endswith("-main") else 0)
                for message in held
            )
            for queue, held in self.sandbox.queues().items()
            if queue.startswith(f"{DEFAULT_APP}-")
        }
        return messages, [self._invocations(function) for function in self._functions()]

    def _functions(self) -> list[str]:
        names = [name for name in self.outputs if name.endswith("MainQueueUrl")]
        pipelines = [self.outputs[name].rpartition("/")[2].removesuffix("-main") for name in names]
        steps = ("consumer", "circuit", "probe")
        ours = [f"{name}-{step}" for name in pipelines for step in steps]
        return [*ours, CHECK_RULES, stranger.FUNCTION]

    def invoked(self, role: str) -> bool:
        """Whether the function that plays this role in any pipeline, or in the app, has run."""
        names = [each for each in self._all_functions() if each.endswith(f"-{role}")]
        return any(self._invocations(name) for name in names)

    def _all_functions(self) -> list[str]:
        pages = self.aws("lambda").get_paginator("list_functions").paginate()
        return [each["FunctionName"] for page in pages for each in page["Functions"]]

    def _invocations(self, function: str) -> float:
        dimensions = [{"Name": "FunctionName", "Value": function}]
        return self._sum("AWS/Lambda", "Invocations", dimensions)

    def send(self, body: str, queue: str = "MainQueue", **options: Any) -> str:
        """Send a message; one without attributes of its own gets one that must stay secret."""
        planted = {"note": {"DataType": "String", "StringValue": canaries.ATTRIBUTE}}
        options = {"MessageAttributes": planted, **options}
        answer = self.aws("sqs").send_message(QueueUrl=self.url(queue), MessageBody=body, **options)
        return str(answer["MessageId"])

    def reschedule(self, **changes: Any) -> None:
        """Change the schedule of the runs, which the tests stop when they begin."""
        client = self.aws("scheduler")
        found = client.get_schedule(Name=f"deadletter-{self.name}-dlq")
        kept = ("Name", "FlexibleTimeWindow", "ScheduleExpression", "State", "Target")
        client.update_schedule(**{name: found[name] for name in kept} | changes)

    def redrive(self, **event: Any) -> dict[str, Any]:
        """One run of the redriver, as `dlq retry --auto` starts it."""
        answer = self.aws("lambda").invoke(
            FunctionName=f"deadletter-{self.name}-redrive",
            Payload=json.dumps({"source": "dlq", "asked": True, **event}),
        )
        report: dict[str, Any] = json.loads(answer["Payload"].read())
        assert "FunctionError" not in answer, report
        canaries.HEARD.answer("redrive", report)
        return report

    def redrive_until(self, done: Callable[[dict[str, Any]], Any], what: str) -> dict[str, Any]:
        """Run after run, until one report is as wanted."""

        def run() -> dict[str, Any] | None:
            report = self.redrive()
            return report if done(report) else None

        return self.until(run, what)

    def settle(self) -> None:
        """Run after run, until the tests before have left nothing on its way."""

        def settled() -> bool:
            if self.held("MainQueue") or self.held("Dlq"):
                self.redrive()
                return False
            return True

        self.until(settled, "nothing is on its way")

    def item(self, origin: str) -> dict[str, Any]:
        """A letter's row of the ledger as it is stored; empty if it has none."""
        answer = self.aws("dynamodb").get_item(
            TableName=self.outputs["MessagesTableName"],
            Key={"pk": {"S": f"{self.name}#ledger#{origin}"}, "sk": {"S": "ledger"}},
            ConsistentRead=True,
        )
        found: dict[str, Any] = answer.get("Item", {})
        return found

    def row(self, origin: str) -> LedgerRow:
        """What the ledger says of a letter."""
        return row_from_item(plain(self.item(origin)))

    def counted(self, metric: str) -> float:
        """How much of a metric of this pipeline there has been."""
        dimensions = {"app": "deadletter", "pipeline": self.name}
        named = [{"Name": name, "Value": value} for name, value in dimensions.items()]
        return self._sum("Deadletter", metric, named)

    def _sum(self, namespace: str, metric: str, dimensions: Sequence[Mapping[str, str]]) -> float:
        now = datetime.fromtimestamp(self.sandbox.time(), UTC)
        # By the fast clock a session lasts for hours, and nothing may leave between two readings.
        answer = self.aws("cloudwatch").get_metric_statistics(
            Namespace=namespace,
            MetricName=metric,
            Dimensions=dimensions,
            StartTime=now - timedelta(days=1),
            EndTime=now + timedelta(minutes=1),
            Period=3600,
            Statistics=["Sum"],
        )
        return float(sum(point["Sum"] for point in answer["Datapoints"]))

    def parked(self, marker: str) -> list[dict[str, Any]]:
        """The parked letters whose body names `marker`, given back at once."""
        # Receiving all that other tests have parked is work, and who waits asks often.
        if not any(marker in message["Body"] for message in self.held("ParkingLot")):
            return []
        sqs, url = self.aws("sqs"), self.url("ParkingLot")
        found: dict[str, dict[str, Any]] = {}
        while messages := sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            VisibilityTimeout=_LOOK_SECONDS,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        ).get("Messages"):
            for message in messages:
                found[message["MessageId"]] = message
        for entry in found.values():
            sqs.change_message_visibility(
                QueueUrl=url, ReceiptHandle=entry["ReceiptHandle"], VisibilityTimeout=0
            )
        return [entry for entry in found.values() if marker in entry["Body"]]

    def held(self, queue: str) -> list[dict[str, Any]]:
        """The messages of a queue, seen without receiving them."""
        return self.sandbox.queues().get(self.url(queue).rpartition("/")[2], [])

    def dead(self, message_id: str) -> bool:
        """Whether this message lies in the DLQ."""
        return any(message["MessageId"] == message_id for message in self.held("Dlq"))

    def stamp_of(self, message: Mapping[str, Any]) -> dict[str, Any]:
        stamp: dict[str, Any] = json.loads(message["MessageAttributes"]["Redrive"]["StringValue"])
        return stamp

    def add_rule(self, rule_id: str, **columns: str) -> None:
        """Type a rule into the table the way a person does in the console: raw attributes."""
        item = {"pipeline": {"S": self.name}, "rule_id": {"S": rule_id}}
        self.aws("dynamodb").put_item(
            TableName=self.outputs["RulesTableName"],
            Item={**item, **{name: {"S": value} for name, value in columns.items()}},
        )

    def until_ruled(self, bodies: Mapping[str, str]) -> None:
        """Ask the router, which moves nothing, until all of its environments know some rules.

        `bodies` are those of letters that the rules match, by rule id. An answer speaks for
        one environment; another one may still use what it read just before, for as long as a
        reading is used.
        """
        asked = self.sandbox.time()
        letters = [
            {"id": rule, "body": body, "attributes": {}, "system": {}}
            for rule, body in bodies.items()
        ]

        def known() -> bool:
            answer = self.aws("lambda").invoke(
                FunctionName=f"deadletter-{self.name}-route",
                Payload=json.dumps({"letters": letters}),
            )
            said = json.loads(answer["Payload"].read())
            refused = {rule["rule"] for rule in said["refused_rules"]}
            judged = {verdict["decision"].get("rule") for verdict in said["verdicts"]}
            return bodies.keys() <= refused | judged and self.sandbox.time() - asked > REMEMBERED

        self.until(known, f"the router knows rules {', '.join(bodies)}")

    def remove_rule(self, rule_id: str) -> None:
        self.aws("dynamodb").delete_item(
            TableName=self.outputs["RulesTableName"],
            Key={"pipeline": {"S": self.name}, "rule_id": {"S": rule_id}},
        )

    def register(self, tenant: str, url: str, secrets: Sequence[str] = ()) -> None:
        """Name a tenant's endpoint in the registry."""
        row = {"tenant": {"S": tenant}, "endpoint": {"S": "default"}, "url": {"S": url}}
        listed = {"secrets": {"L": [{"S": secret} for secret in secrets]}} if secrets else {}
        self.aws("dynamodb").put_item(TableName=self.app["endpoints_table"], Item=row | listed)

    def waiting(self) -> list[dict[str, Any]]:
        """The items of this pipeline's letters in the waiting room."""
        pages = (
            self.aws("dynamodb")
            .get_paginator("scan")
            .paginate(
                TableName=self.outputs["MessagesTableName"],
                FilterExpression="attribute_exists(#copy)",
                ExpressionAttributeNames={"#copy": "copy"},
            )
        )
        return [
            item
            for page in pages
            for item in page["Items"]
            if item["pk"]["S"].startswith(f"{self.name}#")
        ]

    def deny(self, role: str, statement: Mapping[str, Any]) -> None:
        """Deny something to the function that plays `role`, whatever else its role allows."""
        document = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", **statement}]}
        self.aws("iam").put_role_policy(
            RoleName=self._iam_role(role), PolicyName=DENIED, PolicyDocument=json.dumps(document)
        )

    def permit(self, role: str) -> None:
        """End what `deny` began."""
        self.aws("iam").delete_role_policy(RoleName=self._iam_role(role), PolicyName=DENIED)

    def _iam_role(self, role: str) -> str:
        found = self.aws("lambda").get_function_configuration(
            FunctionName=f"deadletter-{self.name}-{role}"
        )
        return str(found["Role"]).rpartition("/")[2]

    def age_the_last_run(self, seconds: float) -> None:
        """Let the last run of the DLQ that ended well have ended so long ago."""
        self.aws("dynamodb").update_item(
            TableName=self.outputs["MessagesTableName"],
            Key={"pk": {"S": Partition.LEASE.of(self.name)}, "sk": {"S": MAIN_DLQ}},
            UpdateExpression="SET ended_well_at = :then",
            ExpressionAttributeValues={":then": {"N": str(int(self.sandbox.time() - seconds))}},
        )

    def alarm(self, name: str) -> str:
        """The state of one of the pipeline's alarms."""
        found = self.aws("cloudwatch").describe_alarms(
            AlarmNames=[pipeline_prefix(DEFAULT_APP, self.name) + name]
        )
        return str(found["MetricAlarms"][0]["StateValue"])

    def hold(self) -> None:
        """Open the pipeline's circuit by hand: what lies in the DLQ stays there."""
        self._circuit("open", self.name, *_SAID)

    def let_go(self, key: str | None = None) -> None:
        """Close a circuit that was held open, without waiting for a canary."""
        self._circuit("close", key or self.name, *_SAID)
        self._circuit("release", key or self.name, *_SAID[:2])

    def _circuit(self, *words: str) -> None:
        self.dlq("circuit", *words, "--pipeline", self.name, "--yes")

    def dlq(self, *words: str) -> Any:
        """What the command line says, as JSON."""

        said: list[str] = []

        def typed() -> subprocess.CompletedProcess[str] | None:
            done = self.command(["--json", *words])
            said[:] = [done.stderr]
            return None if any(word in done.stderr for word in AGAIN) else done

        what = "the functions that the command asks answer"
        done = until(typed, what, marks=lambda: tuple(said))
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)

    def command(
        self, words: Sequence[str], credentials: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the command line as root, or with other credentials."""
        done = self.sandbox.dlq(words, credentials)
        canaries.HEARD.command(words, done.stdout + done.stderr)
        return done
