"""Where a page goes: the topic that alarms publish to."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

from .encryption import customer_key
from .settings import AppSettings

# What the account's own policies may allow of the key: CloudFormation makes, changes and
# deletes it by these. Without the second line KMS would refuse the policy.
MANAGEMENT = (
    "kms:DescribeKey",
    *("kms:GetKeyPolicy", "kms:PutKeyPolicy", "kms:ListKeyPolicies"),
    *("kms:GetKeyRotationStatus", "kms:EnableKeyRotation", "kms:DisableKeyRotation"),
    *("kms:EnableKey", "kms:DisableKey", "kms:UpdateKeyDescription"),
    *("kms:ListResourceTags", "kms:TagResource", "kms:UntagResource"),
    *("kms:ScheduleKeyDeletion", "kms:CancelKeyDeletion"),
)


class Pager(Construct):
    """An SNS topic for alarms, yours or ours.

    Ours is encrypted with the customer's key, or with one made for it, because
    CloudWatch can't publish to a topic under alias/aws/sns, and nothing would say so.
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
            master_key=customer_key(self, app) or self._key(app),
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

    def _key(self, app: AppSettings) -> kms.Key:
        """A key that CloudWatch may use for alarms of this account, and nobody for anything else.

        In the policy of a key, the resource `*` is the key itself.
        """
        return kms.Key(
            self,
            "Key",
            description=f"The alarms of {app.app}",
            enable_key_rotation=True,
            # Alarms are gone when they are delivered; nothing is left to be read.
            removal_policy=cdk.RemovalPolicy.DESTROY,
            policy=iam.PolicyDocument(
                statements=[
                    iam.PolicyStatement(
                        sid="Management",
                        principals=[iam.AccountRootPrincipal()],
                        actions=list(MANAGEMENT),
                        resources=["*"],
                    ),
                    iam.PolicyStatement(
                        sid="AlarmsOfThisAccount",
                        principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                        actions=["kms:Decrypt", "kms:GenerateDataKey"],
                        resources=["*"],
                        conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
                    ),
                ]
            ),
        )
