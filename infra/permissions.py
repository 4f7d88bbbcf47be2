"""Grants: queues, tables and functions say what may be done with them, roles receive it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from aws_cdk import aws_iam as iam

from . import here


@dataclass(frozen=True, slots=True)
class Grant:
    """Actions on resources: one statement of a policy, called `sid` there."""

    sid: str
    actions: Sequence[str]
    resources: Sequence[str]
    conditions: Mapping[str, object] = field(default_factory=dict)

    def is_within(self, other: Grant) -> bool:
        """Whether `other` allows all of this."""
        return (
            set(self.actions) <= set(other.actions)
            and set(self.resources) <= set(other.resources)
            and self.conditions == other.conditions
        )

    def as_json(self) -> dict[str, object]:
        """The grant as a statement of a policy in JSON."""
        return {
            "Sid": self.sid,
            "Effect": "Allow",
            "Action": list(self.actions),
            "Resource": list(self.resources),
            **({"Condition": dict(self.conditions)} if self.conditions else {}),
        }

    def statement(self) -> iam.PolicyStatement:
        """The grant as a statement that allows it."""
        return iam.PolicyStatement.from_json(self.as_json())


class Permissions:
    """The grants to one role, in the order in which they were made."""

    def __init__(self) -> None:
        self._grants: list[Grant] = []

    def allow(
        self,
        sid: str,
        actions: Sequence[str],
        resources: Sequence[str],
        conditions: Mapping[str, object] | None = None,
    ) -> None:
        """Add a grant; without resources there is nothing to grant."""
        if resources:
            self._grants.append(Grant(sid, actions, resources, conditions or {}))

    @property
    def grants(self) -> Sequence[Grant]:
        """What was granted so far."""
        return tuple(self._grants)

    def statements(self) -> list[iam.PolicyStatement]:
        """The grants as statements of a policy."""
        return [grant.statement() for grant in self._grants]

    def document(self) -> iam.PolicyDocument:
        """The grants as a policy."""
        # In one call to the CDK: a hundred pipelines have seven thousand statements.
        statements = [grant.as_json() for grant in self._grants]
        return iam.PolicyDocument.from_json({"Version": "2012-10-17", "Statement": statements})

    def beyond(self, others: Sequence[Grant]) -> list[Grant]:
        """The grants that `others` do not have already, with ids that these do not have."""
        taken = {grant.sid for grant in others}
        return [
            replace(grant, sid=f"{grant.sid}Too") if grant.sid in taken else grant
            for grant in self._grants
            if not any(grant.is_within(other) for other in others)
        ]


def partitions(*names: str, exactly: bool = False) -> dict[str, dict[str, list[str]]]:
    """The condition that only these partitions of a table are touched.

    In a name `*` stands for any text, unless `exactly` that name is meant.
    """
    operator = "ForAllValues:StringEquals" if exactly else "ForAllValues:StringLike"
    return {operator: {"dynamodb:LeadingKeys": list(names)}}


def only_attributes(*names: str, reads: bool = True) -> dict[str, dict[str, object]]:
    """The condition that of an item only these attributes are named, the key's among them.

    Who `reads` has to name them: who names none is shown all.
    """
    asked: dict[str, dict[str, object]] = {
        "ForAllValues:StringEquals": {"dynamodb:Attributes": list(names)}
    }
    if reads:
        asked["StringEquals"] = {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"}
    return asked


def rows(names: Sequence[str], attributes: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """The condition that only these partitions are written, and only these attributes in them.

    In both `*` stands for any text and `?` for any character. Without the second half a role
    could put its rows into any index, and so into the lanes and causes of other pipelines.
    """
    said = {"dynamodb:LeadingKeys": list(names), "dynamodb:Attributes": list(attributes)}
    return {"ForAllValues:StringLike": said}


def grant_put_events(permissions: Permissions) -> None:
    """Put events on the account's default bus."""
    permissions.allow("Events", ["events:PutEvents"], [here.arn("events", "event-bus/default")])


def grant_traces(permissions: Permissions, *, sampling: bool = False) -> None:
    """Write traces; with `sampling`, also read which requests to trace."""
    rules = ["xray:GetSamplingRules", "xray:GetSamplingTargets"] if sampling else []
    # None of these actions can be limited to a resource.
    permissions.allow(
        "Traces", ["xray:PutTraceSegments", "xray:PutTelemetryRecords", *rules], ["*"]
    )
