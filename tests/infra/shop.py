"""A CDK app of a team, with pipelines in a stack of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from infra.pipeline import RedrivePipeline
from infra.typed import PipelineSettings
from tests.infra.conftest import ARN
from tests.infra.templates import Stack, read

Stacks = Mapping[str, Stack]


class Shop:
    """An app of a team: its queues, its function, and the stack of its pipelines."""

    def __init__(self, folder: Path) -> None:
        self.app = cdk.App(outdir=str(folder), context={"aws:cdk:bundling-stacks": []})
        self.data, self.workers = cdk.Stack(self.app, "Data"), cdk.Stack(self.app, "Workers")
        self.heals = cdk.Stack(self.app, "Heals")
        self.dlq = sqs.Queue(self.data, "Dlq")
        dead_letters = sqs.DeadLetterQueue(queue=self.dlq, max_receive_count=5)
        self.queue = sqs.Queue(self.data, "Queue", dead_letter_queue=dead_letters)
        self.ship = self.function(self.workers)

    def function(self, stack: cdk.Stack) -> lambda_.Function:
        return lambda_.Function(
            stack,
            "Ship",
            code=lambda_.InlineCode("def handler(event, context): pass"),
            handler="index.handler",
            runtime=lambda_.Runtime.PYTHON_3_13,
        )

    def stacks(self) -> Stacks:
        return read(Path(self.app.synth().directory))

    def imported(self, name: str) -> sqs.IQueue:
        return sqs.Queue.from_queue_arn(self.heals, name, ARN.format("sqs", name))

    def pipeline(self) -> RedrivePipeline:
        """Pipeline orders over queues that are made elsewhere; its consumer has the library."""
        return RedrivePipeline(
            self.heals,
            "Orders",
            settings=PipelineSettings(name="orders", consumer="none", consumer_library=True),
            main_queue=self.imported("main"),
            dlq=self.imported("dlq"),
        )


def own_queues(folder: Path) -> Stacks:
    shop = Shop(folder)
    RedrivePipeline(shop.heals, "Orders", consumer="none")
    return shop.stacks()


def imported_queues(folder: Path) -> Stacks:
    shop = Shop(folder)
    shop.pipeline()
    return shop.stacks()


def granted_elsewhere(folder: Path) -> Stacks:
    shop = Shop(folder)
    shop.pipeline().grant_consume(shop.ship)
    return shop.stacks()


def granted_beside(folder: Path) -> Stacks:
    shop = Shop(folder)
    shop.pipeline().grant_consume(shop.function(shop.heals))
    return shop.stacks()


def two_pipelines(folder: Path) -> Stacks:
    shop = Shop(folder)
    shop.pipeline()
    RedrivePipeline(shop.heals, "Refunds")
    return shop.stacks()


def queues_of_another_stack(folder: Path) -> Stacks:
    shop = Shop(folder)
    RedrivePipeline(shop.heals, "Orders", main_queue=shop.queue)
    return shop.stacks()


STATES_OF_A_SHOP = (
    own_queues,
    imported_queues,
    granted_elsewhere,
    granted_beside,
    two_pipelines,
    queues_of_another_stack,
)
