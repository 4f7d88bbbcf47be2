"""Where an app's pipelines keep what they know: five tables and a bucket."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import Aws
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from constructs import Construct

from deadletter.contract import (
    ANY,
    AUDIT,
    BODIES,
    CIRCUITS,
    ENDPOINTS,
    LANES,
    LETTERS,
    RULES,
    TROUBLED,
    Table,
    body_object,
)

from .encryption import customer_key
from .findings import acknowledge
from .settings import AppSettings


class Storage(Construct):
    """Ledger, waiting room and journal; rules and their history; circuits; webhook endpoints;
    large bodies.
    """

    letters: dynamodb.Table
    rules: dynamodb.Table
    audit: dynamodb.Table
    circuits: dynamodb.Table
    endpoints: dynamodb.Table
    bucket: s3.Bucket
    bucket_name: str

    def __init__(self, scope: Construct, construct_id: str, *, app: AppSettings) -> None:
        super().__init__(scope, construct_id)
        self._app = app
        self._key = customer_key(self, app)
        self.letters = self._table("Letters", LETTERS)
        self.letters.add_global_secondary_index(
            index_name=LANES.name,
            partition_key=_text(LANES.partition),
            sort_key=dynamodb.Attribute(name=str(LANES.sort), type=dynamodb.AttributeType.NUMBER),
            projection_type=dynamodb.ProjectionType.KEYS_ONLY,
        )
        self.rules = self._table("Rules", RULES, stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES)
        self.audit = self._table("Audit", AUDIT)
        self.circuits = self._table("Circuits", CIRCUITS)
        self.circuits.add_global_secondary_index(
            index_name=TROUBLED.name,
            partition_key=_text(TROUBLED.partition),
            projection_type=dynamodb.ProjectionType.KEYS_ONLY,
        )
        self.endpoints = self._table("Endpoints", ENDPOINTS)
        # By its name, as the queues: so that a role's permission can be read.
        self.bucket_name = f"{app.app}-letters-{Aws.ACCOUNT_ID}-{Aws.REGION}"
        self.bucket = self._bucket()
        acknowledge(
            self.bucket,
            "AwsSolutions::AwsSolutions-S1",
            because="CloudTrail's data events say who read a body, for those who switch them on;"
            " access logs would be one more bucket to guard",
        )

    def bodies(self, pipeline: str) -> str:
        """The ARN of all objects of one pipeline, one a letter."""
        return f"arn:{Aws.PARTITION}:s3:::{self.bucket_name}/{body_object(pipeline, ANY)}"

    def _table(
        self,
        construct_id: str,
        table: Table,
        *,
        stream: dynamodb.StreamViewType | None = None,
    ) -> dynamodb.Table:
        managed = dynamodb.TableEncryption.AWS_MANAGED
        return dynamodb.Table(
            self,
            construct_id,
            partition_key=_text(table.partition),
            sort_key=_text(table.sort),
            time_to_live_attribute=table.expiry,
            stream=stream,
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED if self._key else managed,
            encryption_key=self._key,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=not self._app.ephemeral,
            removal_policy=cdk.RemovalPolicy.DESTROY
            if self._app.ephemeral
            else cdk.RemovalPolicy.RETAIN,
        )

    def _bucket(self) -> s3.Bucket:
        managed = s3.BucketEncryption.S3_MANAGED
        # As with the queues: a first deployment that failed leaves no name behind.
        kept = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
        return s3.Bucket(
            self,
            "Bodies",
            bucket_name=self.bucket_name,
            encryption=s3.BucketEncryption.KMS if self._key else managed,
            encryption_key=self._key,
            bucket_key_enabled=True if self._key else None,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    prefix=BODIES,
                    # No expiration: a letter may be held for longer than anybody thought,
                    # and the few bodies that nothing names cost cents.
                    abort_incomplete_multipart_upload_after=cdk.Duration.days(1),
                )
            ],
            removal_policy=cdk.RemovalPolicy.DESTROY if self._app.ephemeral else kept,
        )


def only(*partitions: str, exactly: bool = False) -> dict[str, dict[str, list[str]]]:
    """The condition that just these partitions of a table are touched.

    In a partition's name `*` stands for any text, unless `exactly` that name is meant.
    """
    operator = "ForAllValues:StringEquals" if exactly else "ForAllValues:StringLike"
    return {operator: {"dynamodb:LeadingKeys": list(partitions)}}


def _text(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)
