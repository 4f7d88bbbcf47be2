"""Many pipelines of one app, each in a stack of its own, beside one for what they share.

`cdk deploy --all --concurrency 8` deploys eight of them at a time.
"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct
from deadletter_cdk import AppSettings, DeadletterApp, PipelineSettings, RedrivePipeline

# By name, with the team that is called.
PIPELINES = {
    "orders": "team checkout",
    "payments": "team checkout",
    "shipments": "team logistics",
    "returns": "team logistics",
}


class Shared(cdk.Stack):
    """Tables, bucket, topic and dashboard of all pipelines."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self.deadletter = DeadletterApp(self, "Deadletter", settings=AppSettings(app="shop"))


class Team(cdk.Stack):
    """One pipeline: deployed and removed without the others."""

    def __init__(self, scope: Construct, construct_id: str, *, name: str, shared: Shared) -> None:
        super().__init__(scope, construct_id)
        RedrivePipeline(
            self,
            "Pipeline",
            shared=shared.deadletter,
            consumer="none",
            settings=PipelineSettings(name=name, owner=PIPELINES[name]),
        )


app = cdk.App()
shared = Shared(app, "Shop-Shared")
for name in PIPELINES:
    Team(app, f"Shop-{name.title()}", name=name, shared=shared)
app.synth()
