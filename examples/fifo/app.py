"""A FIFO queue: the pipeline and its parking lot are FIFO too, and groups stay in order."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from deadletter_cdk import PipelineSettings, RedrivePipeline


class Ledger(cdk.Stack):
    """A queue of bookings that a container polls, and its pipeline."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        dead = sqs.Queue(self, "DeadBookings", fifo=True, retention_period=cdk.Duration.days(14))
        bookings = sqs.Queue(
            self,
            "Bookings",
            fifo=True,
            visibility_timeout=cdk.Duration.minutes(3),
            dead_letter_queue=sqs.DeadLetterQueue(queue=dead, max_receive_count=5),
        )
        # It sees that its queues are FIFO.
        RedrivePipeline(
            self,
            "BookingsPipeline",
            main_queue=bookings,
            dlq=dead,
            consumer="none",
            settings=PipelineSettings(name="bookings"),
        )


app = cdk.App()
Ledger(app, "Ledger")
app.synth()
