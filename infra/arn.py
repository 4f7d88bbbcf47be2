"""ARNs: partition, service, region, account and name of a resource."""

from __future__ import annotations

from dataclasses import dataclass

# The part of a queue's URL after "sqs.<region>.". The isolated partitions (aws-iso and
# others) are left out: they could not be tested.
URL_SUFFIXES = {
    "aws": "amazonaws.com",
    "aws-us-gov": "amazonaws.com",
    "aws-cn": "amazonaws.com.cn",
}


# How the CDK writes what only the deployment knows into a text.
_UNKNOWN = "${Token["


def is_token(text: str) -> bool:
    """Whether only the deployment knows all of the text: a token of the CDK is in it."""
    return _UNKNOWN in text


def last_part(arn: str) -> str:
    """The name in an ARN; of an ARN that is one token, all of it."""
    return arn.rpartition(":")[2]


class NotAnArn(ValueError):
    """The text is not an ARN of one of the partitions in URL_SUFFIXES."""


@dataclass(frozen=True, slots=True)
class Arn:
    """`arn:<partition>:<service>:<region>:<account>:<resource>`, taken apart."""

    partition: str
    service: str
    region: str
    account: str
    resource: str

    @classmethod
    def parse(cls, text: str) -> Arn:
        """The parts of `text`; raises NotAnArn if one is missing."""
        prefix, *parts = text.split(":", 5)
        if prefix != "arn" or len(parts) != 5 or not all(parts) or parts[0] not in URL_SUFFIXES:
            raise NotAnArn(text)
        return cls(*parts)

    @property
    def queue_url(self) -> str:
        """The URL of the queue this ARN names, by the rule that SQS follows."""
        suffix = URL_SUFFIXES[self.partition]
        return f"https://sqs.{self.region}.{suffix}/{self.account}/{self.resource}"
