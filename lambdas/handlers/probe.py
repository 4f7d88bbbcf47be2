"""The probe: sends one canary, and judges the dependency by its result."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from deadletter.aws.wiring.moving import clients, outage_clients, prober_for, renew
from deadletter.outage.steps import execution_from_json
from handlers.init import by_boto3, prepared
from handlers.metrics import count_metric
from handlers.runtime import settings, world

logger = Logger(service="probe")
prober = prepared(
    lambda: prober_for(*settings(), clients(by_boto3()), outage_clients(), world(), count_metric)
)


@logger.inject_lambda_context
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Send one canary if the permit is free; returns the execution's next step."""
    renew(clients(by_boto3()), settings()[1])
    step = prober().probe(execution_from_json(event["outage"])).to_json()
    logger.info("probe", extra={"outage": event["outage"]["generation"], "step": step})
    return step
