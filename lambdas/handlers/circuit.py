"""The circuit function: the steps of an outage, except for the canary."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from deadletter.aws.wiring.judging import consumer_steps_for, outage_clients
from deadletter.outage.steps import execution_from_json
from handlers.init import prepared
from handlers.metrics import count_metric
from handlers.runtime import settings, world

logger = Logger(service="circuit")
steps = prepared(lambda: consumer_steps_for(*settings(), outage_clients(), world(), count_metric))


@logger.inject_lambda_context
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Take one step of the outage; returns the execution's next step."""
    step = steps().take(event["step"], execution_from_json(event["outage"])).to_json()
    logger.info(event["step"], extra={"outage": event["outage"]["generation"], "step": step})
    return step
