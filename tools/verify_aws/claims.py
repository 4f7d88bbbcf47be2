"""What we claim about AWS: the list in claims.toml, each claim with its source."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

CLAIMS = Path(__file__).with_name("claims.toml")


@dataclass(frozen=True)
class AwsClaim:
    """One thing that AWS does, on which the product relies."""

    id: str
    says: str
    """What AWS does, in one sentence."""
    relies: str
    """What of ours would be wrong if it did not."""
    source: str
    """The address of AWS's page that says so."""
    watch: str = ""
    """How it shows in a real account, where an hour or a dollar is not enough."""
    tested: str = ""
    """The test that an emulator answers rightly, where one does."""
    step: str = ""
    """The step of the product's run that decides it."""
    if_false: str = ""
    """What happens to messages, bodies or pages if it is false, where safety rests on it."""

    @property
    def service(self) -> str:
        """The first part of the id, as AWS writes the service."""
        return SERVICES[self.id.partition("-")[0]]


SERVICES = {
    "sqs": "SQS",
    "lambda": "Lambda",
    "dynamodb": "DynamoDB",
    "states": "Step Functions",
    "scheduler": "EventBridge Scheduler",
    "events": "EventBridge",
    "cloudwatch": "CloudWatch",
    "logs": "CloudWatch Logs",
    "sns": "SNS",
    "iam": "IAM",
    "kms": "KMS",
    "s3": "S3",
    "ssm": "Systems Manager",
    "cloudformation": "CloudFormation",
}
"""The services, in the page's order, by the first part of a claim's id."""


def claims(path: Path = CLAIMS) -> dict[str, AwsClaim]:
    """All claims by id, in the file's order. Raises ValueError for an id that comes twice."""
    found: dict[str, AwsClaim] = {}
    for row in tomllib.loads(path.read_text())["claim"]:
        claim = AwsClaim(**row)
        if claim.id in found:
            raise ValueError(f"claims.toml: two claims are called {claim.id}; rename one of them")
        found[claim.id] = claim
    return found
