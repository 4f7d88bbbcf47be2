"""The account that is asked: what a check makes there has our prefix and is removed again."""

from __future__ import annotations

import io
import json
import re
import secrets
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

PREFIX = "dlq-verify"
"""What every name begins with that a run makes; the run's six letters and digits follow."""

# The stacks of an app, and what CloudFormation names in them, have another spelling.
_OURS = re.compile(rf"(?:{PREFIX}-|{PREFIX.replace('-', '')})[0-9a-f]{{6}}[-/]", re.IGNORECASE)

# Refusals that speak of the person who runs the checks, not of the claim.
NOT_ALLOWED = {
    "AccessDenied",
    "AccessDeniedException",
    "AuthorizationError",
    "AuthorizationErrorException",
    "ExpiredToken",
    "UnauthorizedOperation",
    "UnrecognizedClientException",
}

# IAM tells the other services of a new role within seconds, sometimes half a minute.
ROLE_SECONDS = 60


class Differs(Exception):
    """AWS does something else than we claim; the text says what was seen."""


class Unclear(Exception):
    """AWS's answer says nothing about the claim: a missing permission, a time-out."""


class Stopped(Exception):
    """A person ended the run: the check gives up and removes what it made."""


class AskedAccount:
    """Makes ephemeral resources and remembers how each is removed.

    `pause` waits for so many seconds; `clock` gives monotonic seconds;
    a poll of an empty queue waits for `poll_seconds`, 20 at most.
    """

    def __init__(
        self,
        client: Callable[[str], Any],
        *,
        run: str,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        poll_seconds: int = 1,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.client = client
        self._wait = pause
        self._stopped = stopped
        self._removing = False
        self.clock = clock
        self.poll_seconds = poll_seconds
        self._run = run
        self._numbers = count(1)
        self._removals: list[tuple[str, Callable[[], object]]] = []

    def another(self) -> AskedAccount:
        """The same account for another check; its names differ from those of this one."""
        return AskedAccount(
            self.client,
            run=f"{self._run}-{next(self._numbers)}",
            pause=self._wait,
            clock=self.clock,
            poll_seconds=self.poll_seconds,
            stopped=self._is_stopped,
        )

    def pause(self, seconds: float) -> None:
        """Wait; raises Stopped if a person ended the run, unless it is for a removal."""
        if self._is_stopped():
            raise Stopped
        self._wait(seconds)

    def _is_stopped(self) -> bool:
        return self._stopped() and not self._removing

    @property
    def region(self) -> str:
        """The region whose endpoints are asked."""
        return str(self.client("sqs").meta.region_name)

    def name(self, kind: str = "x") -> str:
        """A name that nothing in the account has, in letters that every service takes."""
        return f"{PREFIX}-{self._run}-{kind}-{next(self._numbers)}"

    def remove(self, what: str, removal: Callable[[], object]) -> None:
        """Call `removal` when the check has ended, however it ends; last made, first removed."""
        self._removals.append((what, removal))

    @contextmanager
    def opened(self, left: list[str]) -> Iterator[AskedAccount]:
        """The account for one check. What could not be removed is added to `left`."""
        try:
            yield self
        finally:
            left += self.clear()

    def clear(self) -> list[str]:
        """Remove what was made so far; returns what could not be removed."""
        left = []
        self._removing = True
        while self._removals:
            what, removal = self._removals.pop()
            try:
                removal()
            except Exception as error:
                # Whatever it is, the others are removed all the same.
                if code_of(error) not in GONE:
                    left.append(f"{what}: {error}")
        self._removing = False
        return left

    def until(self, look: Callable[[], Any], seconds: float, what: str, every: float = 1) -> Any:
        """The first true answer of `look`; raises Unclear if none comes in `seconds`."""
        end = self.clock() + seconds
        while True:
            answer = look()
            if answer:
                return answer
            if self.clock() >= end:
                raise Unclear(f"{what}: not within {seconds:g} s")
            self.pause(every)

    def created(self, what: str, create: Callable[..., Any], *early: str, **arguments: Any) -> Any:
        """The answer to a call that takes a new role.

        It is made again while AWS refuses the role in one of these words: it is too new.
        """

        def answer() -> Any:
            try:
                return create(**arguments)
            except ClientError as error:
                if any(word in str(error) for word in early):
                    return None
                raise

        return self.until(answer, ROLE_SECONDS, f"{what} is created", every=3)

    def log_group(self) -> str:
        """The name of a new log group."""
        logs, name = self.client("logs"), self.name("log")
        logs.create_log_group(logGroupName=name)
        self.remove(f"log group {name}", lambda: logs.delete_log_group(logGroupName=name))
        return name

    def queue(self, kind: str = "queue", **attributes: str) -> str:
        """The URL of a new queue."""
        sqs = self.client("sqs")
        suffix = ".fifo" if attributes.get("FifoQueue") == "true" else ""
        url = str(
            sqs.create_queue(QueueName=self.name(kind) + suffix, Attributes=attributes)["QueueUrl"]
        )
        self.remove(f"queue {url}", lambda: sqs.delete_queue(QueueUrl=url))
        return url

    def queue_arn(self, url: str) -> str:
        """The ARN of a queue."""
        answer = self.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return str(answer["Attributes"]["QueueArn"])

    def table(self, index: bool = False) -> str:
        """The name of a new table with the keys `pk` and `sk`; with an index named `other`."""
        dynamodb, name = self.client("dynamodb"), self.name("table")
        letters = ["pk", "sk", *(["other"] if index else [])]
        more: dict[str, Any] = {}
        if index:
            more["GlobalSecondaryIndexes"] = [
                {
                    "IndexName": "other",
                    "KeySchema": [{"AttributeName": "other", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ]
        dynamodb.create_table(
            TableName=name,
            KeySchema=[
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[{"AttributeName": n, "AttributeType": "S"} for n in letters],
            BillingMode="PAY_PER_REQUEST",
            **more,
        )
        self.remove(f"table {name}", lambda: dynamodb.delete_table(TableName=name))
        self.until(
            lambda: dynamodb.describe_table(TableName=name)["Table"]["TableStatus"] == "ACTIVE",
            120,
            f"table {name} is active",
        )
        return name

    def role(self, service: str | None, statements: list[Mapping[str, Any]]) -> str:
        """The ARN of a new role for a service; without one, for the person who runs this."""
        iam, name = self.client("iam"), self.name("role")
        mine = self.client("sts").get_caller_identity()["Account"]
        who = {"Service": service} if service else {"AWS": f"arn:aws:iam::{mine}:root"}
        trust = {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Principal": who, "Action": "sts:AssumeRole"}],
        }
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))["Role"]
        self.remove(f"role {name}", lambda: iam.delete_role(RoleName=name))
        if statements:
            policy = {"Version": "2012-10-17", "Statement": statements}
            iam.put_role_policy(RoleName=name, PolicyName="this", PolicyDocument=json.dumps(policy))
            self.remove(
                f"policy of {name}",
                lambda: iam.delete_role_policy(RoleName=name, PolicyName="this"),
            )
        return str(role["Arn"])

    def acting_as(self, role: str) -> Callable[[str], Any]:
        """Clients with the rights of a role, as soon as it may be assumed."""
        import boto3

        def assume() -> Any:
            try:
                return self.client("sts").assume_role(RoleArn=role, RoleSessionName=PREFIX)
            except ClientError as error:
                if code_of(error) == "AccessDenied":
                    return None
                raise

        answer = self.until(assume, ROLE_SECONDS, f"{role} may be assumed", every=3)
        keys = answer["Credentials"]
        session: Any = boto3.Session(
            keys["AccessKeyId"],
            keys["SecretAccessKey"],
            keys["SessionToken"],
            region_name=self.region,
        )
        return lambda service: session.client(service)

    def function(self, code: str, statements: list[Mapping[str, Any]], **settings: Any) -> str:
        """The name of a new function: `code` is a module with a function `handler`."""
        function, name = self.client("lambda"), self.name("function")
        role = self.role("lambda.amazonaws.com", statements)
        logs, group = self.client("logs"), f"/aws/lambda/{name}"
        self.remove(f"log group {group}", lambda: logs.delete_log_group(logGroupName=group))
        self.remove(f"function {name}", lambda: function.delete_function(FunctionName=name))

        given = {
            "FunctionName": name,
            "Runtime": "python3.13",
            "Architectures": ["arm64"],
            "Role": role,
            "Handler": "index.handler",
            "Code": {"ZipFile": zipped(code)},
            **settings,
        }
        self.created(name, function.create_function, "assumed", **given)
        self.until(
            lambda: (
                function.get_function(FunctionName=name)["Configuration"].get("State", "Active")
                == "Active"
            ),
            120,
            f"{name} is active",
        )
        return name


GONE = {
    "AWS.SimpleQueueService.NonExistentQueue",
    "NoSuchEntity",
    "NotFoundException",
    "ParameterNotFound",
    "QueueDoesNotExist",
    "ResourceNotFound",
    "ResourceNotFoundException",
    "StateMachineDoesNotExist",
}
"""Codes that mean: there is nothing to remove."""


def allow(
    actions: str | list[str],
    resource: str | list[str],
    condition: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A statement of a policy."""
    said = {"Effect": "Allow", "Action": actions, "Resource": resource}
    return said if condition is None else {**said, "Condition": condition}


def zipped(code: str, *packages: Path) -> bytes:
    """A function's archive with a module, `index`, and these packages."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("index.py", code)
        for package in packages:
            for module in sorted(package.rglob("*.py")):
                file.write(module, module.relative_to(package.parent))
    return archive.getvalue()


def code_of(error: Exception) -> str:
    """The code of a refusal; "" if AWS never answered."""
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else ""


def refused(call: Callable[..., object], *codes: str, **arguments: Any) -> str:
    """The code with which a call is refused; raises Differs if it is taken or has another code.

    Without `codes` any refusal will do that is not about permissions.
    """
    try:
        call(**arguments)
    except ClientError as error:
        code = code_of(error)
        if code in codes:
            return code
        if code in NOT_ALLOWED:
            raise Unclear(f"not allowed to ask: {error}") from error
        if codes:
            raise Differs(f"refused with {code}, not with {' or '.join(codes)}") from error
        return code
    raise Differs(f"{call.__name__} was taken, not refused")


def taken(call: Callable[..., Any], **arguments: Any) -> Any:
    """The answer to a call; raises Differs if it is refused, but for a missing permission."""
    try:
        return call(**arguments)
    except ClientError as error:
        if code_of(error) in NOT_ALLOWED:
            raise Unclear(f"not allowed to ask: {error}") from error
        raise Differs(f"{call.__name__} was refused: {error}") from error


def is_ours(name: str) -> bool:
    """True if a run gave this name: a queue `dlq-verify-orders` is somebody else's."""
    return _OURS.match(name) is not None


def new_run() -> str:
    """An id for one run: six letters and digits."""
    return secrets.token_hex(3)


def expect(holds: bool, seen: str) -> None:
    """Raise Differs with what was seen unless the claim holds."""
    if not holds:
        raise Differs(seen)


def quietly(call: Callable[..., object], **arguments: Any) -> None:
    """Make a call whose refusal does not matter."""
    with suppress(ClientError):
        call(**arguments)
