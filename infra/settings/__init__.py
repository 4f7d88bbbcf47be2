"""What a person may say about an app and its pipelines, and what is refused.

    app         AppSettings: what the pipelines of a deployment share
    pipeline    PipelineSettings: one pipeline, and the checks between its settings
    queues      main queue, DLQ, dedicated DLQs
    consumer    the webhook dispatcher, a function of yours, or neither
    schedule    the run that drains the DLQ
    policy      attempts and delays
    replay      what a replay run does
    circuit     when a circuit opens and closes
    alarms      when a person is called
    vpc         where the functions run
    kinds       kinds of values: durations, names, ARNs

A wrong setting stops the synthesis with one sentence (see `refusal`).
"""

from .alarms import AlarmsSettings
from .app import AppSettings
from .circuit import CANARY_MARGIN, CircuitSettings
from .consumer import Consumer, FunctionConsumerSettings, NoConsumer, WebhookConsumer
from .kinds import LONGEST_RETENTION
from .pipeline import PipelineSettings
from .policy import BackoffSettings, PolicySettings, RetrySettings
from .queues import DeadLetterQueue, DedicatedQueue, MainQueue, QueueSettings
from .replay import ReplaySettings
from .schedule import ScheduleSettings
from .vpc import VpcSettings

__all__ = [
    "CANARY_MARGIN",
    "LONGEST_RETENTION",
    "AlarmsSettings",
    "AppSettings",
    "BackoffSettings",
    "CircuitSettings",
    "Consumer",
    "DeadLetterQueue",
    "DedicatedQueue",
    "FunctionConsumerSettings",
    "MainQueue",
    "NoConsumer",
    "PipelineSettings",
    "PolicySettings",
    "QueueSettings",
    "ReplaySettings",
    "RetrySettings",
    "ScheduleSettings",
    "VpcSettings",
    "WebhookConsumer",
]
