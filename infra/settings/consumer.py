"""What consumes the main queue: our webhook dispatcher, a function of yours, or neither."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from deadletter.contract import WEBHOOK

from ..duration import HOUR, MINUTE
from ..refusal import refuse
from .kinds import FunctionArn, MappingId, Port, Seconds, Settings


class WebhookConsumer(Settings):
    """The consumer that comes with the app: it posts each message to a registered endpoint."""

    kind: Literal["webhook"] = Field(default="webhook", description="what consumes the main queue")
    timeout: Seconds = Field(
        default=MINUTE, ge=1, le=900, description="of the function, a whole batch"
    )
    request_timeout: float = Field(
        default=WEBHOOK.request_timeout, gt=0, le=60, description="seconds that one POST may take"
    )
    batch_size: int = Field(default=10, ge=1, le=10, description="messages a batch")
    max_concurrency: int = Field(default=10, ge=2, le=1000, description="batches at once")
    ports: tuple[Port, ...] = Field(
        default=WEBHOOK.ports, strict=False, description="ports that an endpoint's URL may name"
    )
    allow_loopback: bool = Field(
        default=WEBHOOK.allow_loopback, description="post to this machine too: sandboxes only"
    )

    @model_validator(mode="after")
    def _outlives_a_batch(self) -> WebhookConsumer:
        # A function that is ended within a batch leaves the whole batch to be sent again.
        longest = self.timeout / self.batch_size
        if self.request_timeout >= longest:
            raise refuse(
                "request_timeout",
                self.request_timeout,
                f"less than the timeout shared by a batch, {self.timeout} / {self.batch_size}"
                f" = {longest:g} seconds",
            )
        return self


class FunctionConsumerSettings(Settings):
    """A consumer function of yours, with its own event source mapping."""

    kind: Literal["function"] = Field(
        default="function", description="what consumes the main queue"
    )
    function_arn: FunctionArn = Field(description="your function")
    timeout: Seconds = Field(
        default=30,
        ge=1,
        le=900,
        description="of your function, to check visibility, and how long a canary may take",
    )
    mapping_id: MappingId | None = Field(
        default=None,
        description="its mapping from the main queue, needed to pause it (UUID in"
        " `aws lambda list-event-source-mappings`)",
    )


class NoConsumer(Settings):
    """A consumer that is not a Lambda function."""

    kind: Literal["none"] = Field(default="none", description="what consumes the main queue")
    timeout: Seconds = Field(
        default=30, ge=1, le=2 * HOUR, description="of your consumer, to check visibility"
    )


def _consumer(value: object) -> object:
    if value == "none":
        return {"kind": "none"}
    if isinstance(value, dict) and "function_arn" in value:
        return {"kind": "function", **value}
    return value


Consumer = Annotated[
    Annotated[WebhookConsumer | FunctionConsumerSettings | NoConsumer, Field(discriminator="kind")],
    BeforeValidator(_consumer),
    Field(
        json_schema_extra={
            "allowed": "an object of kind webhook, function (with its function_arn) or none,"
            ' or just "none"'
        }
    ),
]
