"""Where a page goes: the topic that alarms publish to."""

from __future__ import annotations

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.encryption import customer_key
from infra.settings import AppSettings


class Pager(Construct):
    """An SNS topic for alarms, yours or ours.

    Ours is encrypted with the customer's key or not at all: CloudWatch can't
    publish to a topic under alias/aws/sns, and nothing would say so.
    """

    topic_arn: str

    def __init__(self, scope: Construct, construct_id: str, *, app: AppSettings) -> None:
        super().__init__(scope, construct_id)
        if app.alarm_topic_arn:
            self.topic_arn = app.alarm_topic_arn
            return
        name = f"{app.app}-alarms"
        topic = sns.Topic(
            self,
            "Topic",
            topic_name=name,
            master_key=customer_key(self, app),
            enforce_ssl=True,
        )
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsOfThisAccount",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
            )
        )
        # By its name, as the queues: the app may change to another topic one day.
        self.topic_arn = f"arn:{Aws.PARTITION}:sns:{Aws.REGION}:{Aws.ACCOUNT_ID}:{name}"
