"""Permission sets of IAM Identity Center for the people who keep a deadletter app.

Deploy it in the account that manages Identity Center. A permission set attaches policies by their
names, so it can be assigned to each account that has the app in this region.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_sso as sso
from constructs import Construct

APP, REGION = "deadletter", "eu-west-1"

# Who runs retries neither approves those of others nor throws messages away: that takes two people.
SETS = {
    "OnCallRead": ("see how things stand", []),
    "OnCallAct": (
        "act in an outage, look at messages and retry them",
        ["BodyReader", "CircuitOperator", "RunOperator"],
    ),
    "RuleEditor": ("edit rules", ["RuleEditor"]),
    "EndpointEditor": ("keep webhook endpoints", ["EndpointEditor"]),
    "Approver": ("approve the retries of others", ["RunApprover"]),
    "Discarder": ("throw parked messages away", ["BodyReader", "DiscardOperator"]),
}

# Each set has these. Add DlqReader2 if `cdk synth` of the app names it, and only then.
READS = ["DlqReader"]


class SignIn(cdk.Stack):
    """A permission set for each kind of person; assign them to your groups and accounts."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        instance = cdk.CfnParameter(
            self, "InstanceArn", description="See `aws sso-admin list-instances`"
        )
        for name, (says, policies) in SETS.items():
            sso.CfnPermissionSet(
                self,
                name,
                instance_arn=instance.value_as_string,
                name=f"Deadletter{name}",
                description=f"For people who {says}",
                session_duration="PT8H",
                customer_managed_policy_references=[
                    sso.CfnPermissionSet.CustomerManagedPolicyReferenceProperty(
                        name=f"{APP}-{policy}-{REGION}"
                    )
                    for policy in (*READS, *policies)
                ],
            )


app = cdk.App()
SignIn(app, "DeadletterSignIn")
app.synth()
