"""Webhooks: the consumer comes with the pipeline, and posts each message to its endpoint."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct
from deadletter_cdk import PipelineSettings, RedrivePipeline


class Webhooks(cdk.Stack):
    """Queues, dispatcher and pipeline: nothing is brought."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        pipeline = RedrivePipeline(
            self,
            "Webhooks",
            consumer={"kind": "webhook", "request_timeout": 5},
            settings=PipelineSettings(name="webhooks", context={"tenantId": "body.tenantId"}),
        )
        # Where the producers send to.
        cdk.CfnOutput(self, "WebhooksQueue", value=pipeline.queues.main.url)


app = cdk.App()
Webhooks(app, "Webhooks")
app.synth()
