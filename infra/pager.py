"""The pager: the topic that alarms publish to."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

from . import here
from .encryption import customer_key
from .permissions import Permissions
from .settings import AppDeployment

# Actions on the key that IAM policies of the account may allow: CloudFormation creates, changes
# and deletes it by these. Without the second line KMS refuses the policy.
MANAGEMENT = (
    "kms:DescribeKey",
    *("kms:GetKeyPolicy", "kms:PutKeyPolicy", "kms:ListKeyPolicies"),
    *("kms:GetKeyRotationStatus", "kms:EnableKeyRotation", "kms:DisableKeyRotation"),
    *("kms:EnableKey", "kms:DisableKey", "kms:UpdateKeyDescription"),
    *("kms:ListResourceTags", "kms:TagResource", "kms:UntagResource"),
    *("kms:ScheduleKeyDeletion", "kms:CancelKeyDeletion"),
)


# The key is used by requests to SNS only, never directly.
_THROUGH_SNS = {"StringEquals": {"kms:ViaService": f"sns.{here.REGION}.{here.URL_SUFFIX}"}}


class Pager(Construct):
    """An SNS topic for alarms, yours or ours.

    Ours is encrypted with the customer's key, or with a key of its own: CloudWatch can't
    publish to a topic under alias/aws/sns, and reports no error.
    """

    topic_arn: str

    def __init__(self, scope: Construct, construct_id: str, *, app: AppDeployment) -> None:
        super().__init__(scope, construct_id)
        self._own_key: kms.Key | None = None
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
                conditions={"StringEquals": {"aws:SourceAccount": here.ACCOUNT_ID}},
            )
        )
        # By its name, as the queues: so that the app can change to another topic.
        self.topic_arn = here.arn("sns", name)

    def grant_test(self, permissions: Permissions) -> None:
        """Publish a test page, and see whether anybody has subscribed.

        Under a customer's key it takes the use of that key too; the key of a topic of yours is
        yours to grant.
        """
        actions = ["sns:Publish", "sns:ListSubscriptionsByTopic"]
        permissions.allow("TestPages", actions, [self.topic_arn])
        if self._own_key is not None:
            permissions.allow(
                "PagerKey",
                ["kms:Decrypt", "kms:GenerateDataKey"],
                [self._own_key.key_arn],
                _THROUGH_SNS,
            )

    def grant_examine(self, permissions: Permissions) -> None:
        """See under which key the topic is, and who may use a key that we made for it."""
        permissions.allow("PagerTopic", ["sns:GetTopicAttributes"], [self.topic_arn])
        if self._own_key is not None:
            actions = ["kms:DescribeKey", "kms:GetKeyPolicy"]
            permissions.allow("PagerKeyPolicy", actions, [self._own_key.key_arn])

    def _key(self, app: AppDeployment) -> kms.Key:
        """A key for alarms of this account, and for test pages of people who may publish them.

        In the policy of a key, the resource `*` is the key itself.
        """
        self._own_key = kms.Key(
            self,
            "Key",
            description=f"The alarms of {app.app}",
            enable_key_rotation=True,
            # SNS keeps no alarm after its delivery, so no data needs the key later.
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
                        conditions={"StringEquals": {"aws:SourceAccount": here.ACCOUNT_ID}},
                    ),
                    # SNS uses the key of an encrypted topic in the name of who publishes. This
                    # allows nobody anything yet: it takes an IAM policy that does too.
                    iam.PolicyStatement(
                        sid="TestPages",
                        principals=[iam.AccountRootPrincipal()],
                        actions=["kms:Decrypt", "kms:GenerateDataKey"],
                        resources=["*"],
                        conditions=_THROUGH_SNS,
                    ),
                ]
            ),
        )
        return self._own_key
