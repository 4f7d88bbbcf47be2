"""Calls that fail in the emulator because a test says so: a throttled table, a key denied.

IAM can be told to refuse a call, so a missing permission needs no fault; so can the key of a queue
that has one (`sandbox.queue_keys`). These are for what the emulator never does by itself: DynamoDB
that throttles, or SQS that passes on the refusal of KMS for a queue without a key. A fault stands
where AWS would answer it, before the call has any effect.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any

from sandbox.queue_keys import DENIED, DENIED_TEXT

# Takes the faults from now on as a JSON list, which replaces those before; answers their number.
FAULTS_PATH = "/_sandbox/faults"

THROTTLED = "ThrottlingException"

READS = {f"dynamodb:{name}" for name in ("GetItem", "BatchGetItem", "Query", "Scan")}


@dataclass(frozen=True, slots=True)
class Fault:
    """Calls that fail. Wildcards are those of file names: `*`, `?`.

    caller    the function that calls; only calls in a role fail
    action    as IAM names it, such as sqs:ReceiveMessage; a batch is asked for by its single name
    resource  the end of the ARN that is asked for, such as table/deadletter-letters
    code      the code of the error that is answered, with the status 400
    message   its text
    """

    caller: str
    action: str
    resource: str
    code: str
    message: str

    def hits(self, caller: str, action: str, resource: str) -> bool:
        return (
            fnmatchcase(caller, self.caller)
            and fnmatchcase(action, self.action)
            and fnmatchcase(resource, f"*{self.resource}")
        )


def throttled_table(caller: str, table: str) -> Fault:
    """DynamoDB's answer to more requests than the table, or one of its partitions, can take."""
    return Fault(
        caller,
        "dynamodb:*",
        f":table/{table}*",
        THROTTLED,
        "Throughput exceeds the current capacity of your table or index.",
    )


def denied_key(caller: str, queue: str) -> Fault:
    """SQS's answer to a caller that may not use the key that encrypts the queue."""
    return Fault(
        caller,
        "sqs:ReceiveMessage",
        f":{queue}",
        DENIED,
        DENIED_TEXT,
    )


def written(faults: Sequence[Fault]) -> bytes:
    """The faults as they travel to the emulator."""
    return json.dumps([asdict(fault) for fault in faults]).encode()


class Faults:
    """The faults of an emulator at the moment."""

    def __init__(self) -> None:
        self._faults: Sequence[Fault] = ()

    def replace(self, text: bytes) -> int:
        """Take the faults that `written` has written; returns how many they are."""
        self._faults = [Fault(**fault) for fault in json.loads(text)]
        return len(self._faults)

    def of(self, caller: str, action: str, resource: str) -> Fault | None:
        """The first fault that hits this call."""
        return next((f for f in self._faults if f.hits(caller, action, resource)), None)

    @property
    def codes(self) -> set[str]:
        return {fault.code for fault in self._faults}


def failing(
    enforce: Callable[..., Any],
    caller_arn: Callable[[], str],
    faults: Faults,
    refuse: Callable[[str, str], Any],
    count: Callable[[str, str, int, str, Mapping[str, str]], object],
) -> Callable[..., Any]:
    """Do what *enforce* does, but let a call fail that is allowed and that a fault hits.

    *enforce* and *caller_arn* are those of `calls.recording`; *refuse* makes an answer of
    *enforce* from a code and a message; *count* adds to a metric of CloudWatch, where AWS does:
    it is given namespace, name, value, unit and dimensions.
    """

    def judge(access_key: str, action: str, service: str, region: str, **more: Any) -> Any:
        refused = enforce(access_key, action, service, region, **more)
        kind, *session = caller_arn().split(":")[5].split("/")
        if refused is not None or kind != "assumed-role":
            return refused
        resource = str(more.get("resource_arn", "*"))
        fault = faults.of(session[-1], action, resource)
        if fault is None:
            return None
        if fault.code == THROTTLED:
            table = {"TableName": resource.partition(":table/")[2].partition("/")[0]}
            kind = "Read" if action in READS else "Write"
            count("AWS/DynamoDB", f"{kind}ThrottleEvents", 1, "Count", table)
        return refuse(fault.code, fault.message)

    return judge


def with_its_status(
    answer: Callable[..., tuple[int, Mapping[str, str], bytes]], faults: Faults
) -> Callable[..., tuple[int, Mapping[str, str], bytes]]:
    """Answer as *answer* does, but a fault or a denied key with 400: IAM's refusals have 403."""

    def answer_with_status(*call: Any, **more: Any) -> tuple[int, Mapping[str, str], bytes]:
        status, headers, body = answer(*call, **more)
        refused = more.get("error_code") in {DENIED, *faults.codes}
        return 400 if refused else status, headers, body

    return answer_with_status
