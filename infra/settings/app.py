"""One deployment: what its pipelines share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from deadletter.contract import DEFAULT_APP

from .kinds import AppName, KeyArn, Owner, Settings, TopicArn
from .pipeline import PipelineSettings
from .vpc import VpcSettings


class AppSettings(Settings):
    """One deployment: what its pipelines share."""

    app: AppName = Field(default=DEFAULT_APP, description="first word of every name")
    pipelines: tuple[PipelineSettings, ...] = Field(
        default=(), strict=False, description="in any order"
    )
    ephemeral: bool = Field(
        default=False, description="a sandbox: deleting the stacks deletes all data"
    )
    alarm_topic_arn: TopicArn | None = Field(
        default=None,
        description="your topic for alarms, else one is created; never under alias/aws/sns",
    )
    kms_key_arn: KeyArn | None = Field(
        default=None,
        description="your key for queues, tables, bucket, topic and logs; for its policy see below",
    )
    log_retention_days: Literal[1, 7, 14, 30, 90, 180, 365, 731, 1827, 3653] = Field(
        default=90, description="days that logs are kept"
    )
    audit_days: int = Field(
        default=400, ge=1, le=3650, description="days that the audit table keeps a change"
    )
    replay_days: int = Field(
        default=30,
        ge=0,
        le=3650,
        description="days that letters are kept as replay runs took them, so that a run can be"
        " repeated; 0 keeps none",
    )
    runbook: str = Field(
        default="docs/runbook.md",
        # CloudWatch's limit for a whole description is 1024 characters.
        max_length=500,
        description="address that alarm descriptions name",
        json_schema_extra={"allowed": "text of at most 500 characters"},
    )
    owner: Owner = Field(
        default="nobody is named: set `owner`",
        description="who is called: a team, a channel or a rota, named in alarm descriptions",
    )
    dashboard: bool = Field(
        default=True,
        description="whether CloudWatch dashboards are made; beyond the three that an account has"
        " free, each costs $3 a month",
    )
    vpc: VpcSettings | None = Field(
        default=None,
        description="subnets and security groups of yours in which all functions run; for what they"
        " have to reach see below",
    )
    tags: dict[str, str] = Field(default_factory=dict, description="on every resource")

    @property
    def arns(self) -> Iterator[tuple[str, str]]:
        """Key and value of every ARN that must lie in the region of the app."""
        if self.alarm_topic_arn:
            yield "alarm_topic_arn", self.alarm_topic_arn
        if self.kms_key_arn:
            yield "kms_key_arn", self.kms_key_arn
