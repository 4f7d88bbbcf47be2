"""Who is called: a queue that is subscribed to the app's alarms."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deadletter.contract import DEFAULT_APP

ALARM, OK = "ALARM", "OK"


@dataclass(frozen=True, slots=True)
class Page:
    """A change of an alarm's state as the pager heard it; `at` in seconds of the app's clock."""

    alarm: str
    state: str
    at: float


class Pager:
    """The pages so far. A thread listens from `start` to `stop`."""

    def __init__(
        self,
        aws: Callable[[str], Any],
        topic: str,
        clock: Callable[[], float],
        queue: str = "pager",
    ) -> None:
        self._sqs, self._clock = aws("sqs"), clock
        self._pages: list[Page] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="pager", daemon=True)
        self._url = self._sqs.create_queue(QueueName=queue)["QueueUrl"]
        found = self._sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])
        arn = found["Attributes"]["QueueArn"]
        allow = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}}
        statement = allow | {"Action": "sqs:SendMessage", "Resource": arn}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        self._sqs.set_queue_attributes(QueueUrl=self._url, Attributes={"Policy": policy})
        aws("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def heard(self, pipeline: str, since: float = 0.0) -> list[Page]:
        """The pages about one pipeline, with the names of alarms behind its prefix."""
        prefix = f"{DEFAULT_APP}-{pipeline}-"
        return [
            Page(page.alarm.removeprefix(prefix), page.state, page.at)
            for page in tuple(self._pages)
            if page.alarm.startswith(prefix) and page.at >= since
        ]

    def all(self) -> list[Page]:
        return list(self._pages)

    def _listen(self) -> None:
        while not self._stop.wait(0.5):
            found = self._sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10)
            for message in found.get("Messages", ()):
                notice = json.loads(json.loads(message["Body"])["Message"])
                page = Page(notice["AlarmName"], notice["NewStateValue"], self._clock())
                self._pages.append(page)
                self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
