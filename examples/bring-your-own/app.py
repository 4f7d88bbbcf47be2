"""A shop with a queue, its DLQ and a consumer of its own, whose dead letters heal."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from aws_cdk.aws_lambda_event_sources import SqsEventSource
from constructs import Construct
from deadletter_cdk import ConsumerLayer, PipelineSettings, RedrivePipeline

TIMEOUT = cdk.Duration.seconds(25)

SHIP = Path(__file__).with_name("ship")


class Shop(cdk.Stack):
    """What the shop had before, and three statements."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        dead = sqs.Queue(self, "DeadOrders", retention_period=cdk.Duration.days(14))
        orders = sqs.Queue(
            self,
            "Orders",
            # Six times the function's timeout, as AWS advises.
            visibility_timeout=cdk.Duration.seconds(6 * TIMEOUT.to_seconds()),
            dead_letter_queue=sqs.DeadLetterQueue(queue=dead, max_receive_count=5),
        )
        ship = lambda_.Function(
            self,
            "Ship",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            handler="ship.handler",
            code=lambda_.Code.from_asset(str(SHIP)),
            timeout=TIMEOUT,
            # The first statement: the library that ship.py imports.
            layers=[ConsumerLayer(self, "Library")],
        )
        # Without report_batch_item_failures, Lambda deletes what the library gives back.
        ship.add_event_source(SqsEventSource(orders, report_batch_item_failures=True))

        pipeline = RedrivePipeline(
            self,
            "OrdersPipeline",
            main_queue=orders,
            dlq=dead,
            consumer=ship,
            consumer_library=True,
            # Mode observe: it moves none of these messages until this says mode="enforce", too.
            settings=PipelineSettings(name="orders"),
        )
        pipeline.grant_consume(ship)


app = cdk.App()
Shop(app, "Shop")
app.synth()
