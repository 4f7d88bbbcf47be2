"""Strings that stand for message content and secrets, and every place they must not get to.

The tests put them into bodies, attributes, endpoints' URLs and what becomes the text of an
exception. At the end of the session everything that the app wrote where people and
machines look is read, and none of them may be there.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sandbox.server import Sandbox

# Letters of one case and digits: no way of quoting changes them.
_SESSION = uuid.uuid4().hex

BODY = f"canary-body-{_SESSION}"
ATTRIBUTE = f"canary-attribute-{_SESSION}"
URL = f"canary-url-{_SESSION}"
SECRET = f"canary-secret-{_SESSION}"

ALL = (BODY, ATTRIBUTE, URL, SECRET)

SEEN = f"canary-seen-{_SESSION}"
"""Written into a log on purpose, to see that it would be found."""

Aws = Callable[[str], Any]
Text = tuple[str, str]
"""Where something was written, and what."""

# The options by which a person asks the command line for what is in a message.
MEANT_TO_SHOW = frozenset({"--body", "--show-body"})

# Tables that hold them because they are for it.
KEEPS_URLS = "-endpoints"

# Columns that are the letter itself, and those values of it that `ledger` keeps.
LETTER_ITSELF = ("message", "context", "endpoint")


class Heard:
    """What the command line and the functions answered over the session."""

    def __init__(self) -> None:
        self._texts: list[Text] = []

    def __iter__(self) -> Iterator[Text]:
        return iter(self._texts)

    def command(self, words: Sequence[str], output: str) -> None:
        if not MEANT_TO_SHOW.intersection(words):
            self._texts.append((f"dlq {' '.join(words)}", output))

    def answer(self, function: str, payload: Any) -> None:
        self._texts.append((f"answer of {function}", json.dumps(payload)))


HEARD = Heard()


def forms(canary: str) -> Iterator[str]:
    """A canary as it is, and as it looks within base64, whatever stands before it."""
    yield canary
    for offset in range(3):
        coded = base64.b64encode(b"\0" * offset + canary.encode()).decode()
        # The first and last characters depend on the neighbours.
        yield coded[4:-4]


def leaks(texts: Iterable[Text], canaries: Iterable[str] = ALL) -> list[str]:
    """Where which canary is, each place once."""
    looked_for = [(secret, form) for secret in canaries for form in forms(secret)]
    found = {
        f"{canary.rpartition('-')[0]} in {where}"
        for where, text in texts
        for canary, form in looked_for
        if form in text
    }
    return sorted(found)


def logs(aws: Aws) -> Iterator[Text]:
    """Every line that the functions wrote."""
    client = aws("logs")
    for page in client.get_paginator("describe_log_groups").paginate():
        for group in page["logGroups"]:
            name = group["logGroupName"]
            for events in client.get_paginator("filter_log_events").paginate(logGroupName=name):
                yield from ((f"log {name}", event["message"]) for event in events["events"])


def metrics(aws: Aws) -> Iterator[Text]:
    """The name and dimensions of every metric."""
    for page in aws("cloudwatch").get_paginator("list_metrics").paginate():
        for metric in page["Metrics"]:
            yield f"metric {metric['Namespace']} {metric['MetricName']}", json.dumps(metric)


def alarms(aws: Aws) -> Iterator[Text]:
    """The alarms, with the reasons for their states."""
    for page in aws("cloudwatch").get_paginator("describe_alarms").paginate():
        for alarm in page["MetricAlarms"]:
            yield f"alarm {alarm['AlarmName']}", json.dumps(alarm, default=str)


def rows(aws: Aws) -> Iterator[Text]:
    """Every row of every table: ledger, journal, circuits, rules and their history."""
    client = aws("dynamodb")
    for table in client.list_tables()["TableNames"]:
        if KEEPS_URLS in table:
            continue
        for page in client.get_paginator("scan").paginate(TableName=table):
            for item in page["Items"]:
                said = {key: row for key, row in item.items() if key not in LETTER_ITSELF}
                yield f"table {table}", json.dumps(said, default=_plain)


def parameters(aws: Aws) -> Iterator[Text]:
    """What the app says of itself."""
    pages = aws("ssm").get_paginator("get_parameters_by_path").paginate(Path="/", Recursive=True)
    for page in pages:
        for parameter in page["Parameters"]:
            yield f"parameter {parameter['Name']}", parameter["Value"]


def messages(sandbox: Sandbox) -> Iterator[Text]:
    """What we wrote onto letters, and what subscribers to alarms and events were sent."""
    for queue, held in sandbox.queues().items():
        for message in held:
            if queue.startswith("deadletter-"):
                yield f"stamp in {queue}", json.dumps(_stamps(message), default=_plain)
            else:
                yield f"message to {queue}", json.dumps(message, default=_plain)


def everything(sandbox: Sandbox, aws: Aws) -> Iterator[Text]:
    """Each place where no canary may be. The emulator keeps no traces."""
    for look in (logs, metrics, alarms, rows, parameters):
        yield from look(aws)
    yield from messages(sandbox)
    yield from HEARD


def _stamps(message: Mapping[str, Any]) -> Any:
    return message.get("MessageAttributes", {}).get("Redrive")


def _plain(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
