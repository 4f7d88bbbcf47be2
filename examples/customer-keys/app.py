"""Queues under a key of their own: what comes out of them is kept under a key, too."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from deadletter_cdk import DeadletterApp, PipelineSettings, RedrivePipeline


class Clinic(cdk.Stack):
    """Two queues under one key, and a pipeline whose letters are kept under another."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        key = kms.Key(self, "Key", enable_key_rotation=True)
        dead = sqs.Queue(
            self,
            "DeadResults",
            retention_period=cdk.Duration.days(14),
            encryption=sqs.QueueEncryption.KMS,
            encryption_master_key=key,
        )
        results = sqs.Queue(
            self,
            "Results",
            visibility_timeout=cdk.Duration.minutes(3),
            dead_letter_queue=sqs.DeadLetterQueue(queue=dead, max_receive_count=5),
            encryption=sqs.QueueEncryption.KMS,
            encryption_master_key=key,
        )
        # Tables, bucket, parking lot, topic and logs of the pipelines. Its policy lets the services
        # use it that do so in their own name: CloudWatch, SNS and CloudWatch Logs.
        kept = kms.Key(self, "KeyOfLetters", enable_key_rotation=True)
        shared = DeadletterApp(self, "Deadletter", key=kept)
        # The keys of its queues it knows from them.
        RedrivePipeline(
            self,
            "ResultsPipeline",
            shared=shared,
            main_queue=results,
            dlq=dead,
            consumer="none",
            settings=PipelineSettings(name="results"),
        )


app = cdk.App()
Clinic(app, "Clinic")
app.synth()
