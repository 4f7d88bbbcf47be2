"""The calls in the emulator, with their callers: the record that permissions are compared with."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FILE = "calls.jsonl"
"""In the emulator's state folder: one line for each new kind of call."""


@dataclass(frozen=True, slots=True)
class Call:
    """One kind of call that was made in a role, however often.

    caller    the session's name: for a Lambda function, the function's
    action    as IAM names it, such as sqs:SendMessage
    resource  the ARN that was asked for
    allowed   whether the policies let it through
    """

    caller: str
    action: str
    resource: str
    allowed: bool


class Recorder:
    """Writes each kind of call once: a session makes thousands of calls of a hundred kinds."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen: set[Call] = set()

    def note(self, call: Call) -> None:
        if call not in self._seen:
            self._seen.add(call)
            with self._file.open("a") as lines:
                print(json.dumps(asdict(call)), file=lines, flush=True)


def recording(
    enforce: Callable[..., Any], caller_arn: Callable[[], str], recorder: Recorder
) -> Callable[..., Any]:
    """Do what *enforce* does, and note the calls that are made in a role.

    *enforce* is the emulator's judge: (access key, action, service, region, resource_arn=, …),
    None if the call may go on. *caller_arn* says who is calling now.
    """

    def judge(access_key: str, action: str, service: str, region: str, **more: Any) -> Any:
        group = str(more.get("resource_arn", "*"))
        if service == "logs" and ":log-group:" in group and ":log-stream:" not in group:
            # CloudWatch Logs asks about the streams of a group; policies name it with ":*".
            more["resource_arn"] = f"{group.removesuffix(':*')}:log-stream:"
        refused = enforce(access_key, action, service, region, **more)
        kind, *session = caller_arn().split(":")[5].split("/")
        if kind == "assumed-role":
            resource = more.get("resource_arn", "*")
            recorder.note(Call(session[-1], action, resource, allowed=refused is None))
        return refused

    return judge


def read(file: Path) -> list[Call]:
    """Read what was recorded; nothing yet is an empty list."""
    if not file.exists():
        return []
    return [Call(**json.loads(line)) for line in file.read_text().splitlines()]
