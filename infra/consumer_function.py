"""The Lambda function that consumes the main queue, as the probe and the pause see it."""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk

from . import here
from .consumer import DispatcherFunction
from .function import function_arn
from .permissions import Permissions
from .settings import AppDeployment, PipelineDeployment

# The tag remembers what was paused where the circuit's row is lost.
PAUSE_AND_RESUME = [
    "lambda:GetEventSourceMapping",
    "lambda:UpdateEventSourceMapping",
    "lambda:ListTags",
    "lambda:TagResource",
    "lambda:UntagResource",
]


@dataclass(frozen=True, slots=True)
class ConsumerFunction:
    """`arn` is invoked; `mapping_id` is empty if the settings name no mapping to pause."""

    arn: str
    timeout: int
    mapping_id: str

    @classmethod
    def of(
        cls, app: AppDeployment, settings: PipelineDeployment, dispatcher: DispatcherFunction | None
    ) -> ConsumerFunction | None:
        """The dispatcher, or the function that the settings name; None if no function consumes."""
        if dispatcher is not None:
            # By its name: the functions that may change its mapping trust its role.
            arn = function_arn(app, settings.name, "consumer")
            mapping = dispatcher.mapping.event_source_mapping_id
            return cls(arn, int(settings.consumer.timeout), mapping)
        consumer = settings.consumer
        if consumer.function_arn:
            yours, timeout = consumer.function_arn, int(consumer.timeout)
            return cls(yours, timeout, consumer.mapping_id or "")
        return None

    def grant_mapping(self, permissions: Permissions) -> None:
        """See and change its mapping, whether or not the pipeline pauses it now.

        A mapping that was paused before a deployment without pauses has to be put back.
        """
        if not self.mapping_id:
            return
        mapping = here.arn("lambda", f"event-source-mapping:{self.mapping_id}")
        # By its id: calls about tags know no function to make a condition of.
        permissions.allow("Mapping", PAUSE_AND_RESUME, [mapping])


def function_name(arn: str) -> str:
    """The name in a function's ARN, a text or a token."""
    # The colons of an ARN, if only some of its parts are tokens.
    parts = arn.split(":") if ":" in arn else cdk.Fn.split(":", arn, 7)
    return parts[6]
