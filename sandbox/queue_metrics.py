"""The three AWS/SQS metrics that a pager lives on, which the emulator does not publish.

ApproximateNumberOfMessagesVisible, ApproximateNumberOfMessagesNotVisible and
ApproximateAgeOfOldestMessage, for every queue, from a look at the messages that
receives nothing and changes no receive count.

The age follows SQS: it counts from the send, in a dead-letter queue from the
move; a message received three times and not deleted no longer counts (for FIFO
queues it does). When a message was moved is nowhere written down, so it is when
this feeder first saw it: late by one interval at most. AWS publishes once a
minute; sums and sample counts over a period therefore differ, maximum, average
and minimum do not.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

# What Sandbox.queues returns: the messages of each queue, by queue name.
Queues = Mapping[str, Sequence[Mapping[str, Any]]]

# From this receive on, SQS leaves an undeleted message out of the age.
RECEIVES_THAT_HIDE_AGE = 3

# PutMetricData takes so many datapoints a call.
MAX_DATAPOINTS = 1000


@dataclass(frozen=True, slots=True)
class MeasuredDepth:
    """What CloudWatch knows of one queue; *age* in seconds, 0 for an empty queue."""

    queue: str
    visible: int
    not_visible: int
    age: float


@dataclass(frozen=True, slots=True)
class Arrival:
    """When a message came into a queue (epoch seconds), and how often it had been received."""

    at: float
    receives: int


class Gauge:
    """Turns looks at the queues into depths; remembers when moved messages arrived."""

    def __init__(self) -> None:
        self._arrivals: dict[tuple[str, str], Arrival] = {}

    def read(self, queues: Queues, *, now: float) -> list[MeasuredDepth]:
        """Measure every queue of one look taken at *now*, epoch seconds."""
        arrivals: dict[tuple[str, str], Arrival] = {}
        depths = []
        for queue, messages in queues.items():
            ages = [0.0]
            for message in messages:
                key = (queue, message["MessageId"])
                arrival = arrivals[key] = self._arrivals.get(key) or _arrival(message, now)
                received_here = message["ReceiveCount"] - arrival.receives
                if received_here < RECEIVES_THAT_HIDE_AGE or queue.endswith(".fifo"):
                    ages.append(now - arrival.at)
            hidden = [message for message in messages if not message["IsVisible"]]
            depths.append(
                MeasuredDepth(
                    queue=queue,
                    visible=len(messages) - len(hidden),
                    # Hidden and never received: delayed, which SQS counts elsewhere.
                    not_visible=sum(message["ReceiveCount"] > 0 for message in hidden),
                    age=max(ages),
                )
            )
        self._arrivals = arrivals
        return depths


def _arrival(message: Mapping[str, Any], now: float) -> Arrival:
    system = message["Attributes"]
    if "DeadLetterQueueSourceArn" in system:
        return Arrival(at=now, receives=message["ReceiveCount"])
    return Arrival(at=int(system["SentTimestamp"]) / 1000, receives=0)


def metric_data(depths: Sequence[MeasuredDepth]) -> Iterator[dict[str, Any]]:
    """Write *depths* as PutMetricData wants them."""
    for depth in depths:
        for name, unit, value in (
            ("ApproximateNumberOfMessagesVisible", "Count", depth.visible),
            ("ApproximateNumberOfMessagesNotVisible", "Count", depth.not_visible),
            ("ApproximateAgeOfOldestMessage", "Seconds", depth.age),
        ):
            yield {
                "MetricName": name,
                "Dimensions": [{"Name": "QueueName", "Value": depth.queue}],
                "Unit": unit,
                "Value": value,
            }


class QueueMetrics:
    """A thread that looks every *interval* seconds and publishes; a context manager.

    *clock* is that of the queues. Leaving it waits for the look under way and raises what the
    thread died of.
    """

    def __init__(
        self,
        look: Callable[[], Queues],
        cloudwatch: Any,
        *,
        interval: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._look = look
        self._cloudwatch = cloudwatch
        self._interval = interval
        self._clock = clock
        self._gauge = Gauge()
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="queue-metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    def publish(self, *, now: float) -> None:
        """Take one look and publish it."""
        data = list(metric_data(self._gauge.read(self._look(), now=now)))
        for start in range(0, len(data), MAX_DATAPOINTS):
            self._cloudwatch.put_metric_data(
                Namespace="AWS/SQS", MetricData=data[start : start + MAX_DATAPOINTS]
            )

    def _run(self) -> None:
        try:
            while True:
                self.publish(now=self._clock())
                if self._stop.wait(self._interval):
                    return
        except Exception as error:  # handed to whoever leaves the context
            self._error = error
