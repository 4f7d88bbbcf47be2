"""The function behind Custom::FirstHeartbeat: the heartbeat of a watch that has not run yet."""

import os
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from deadletter.aws.wiring.judging import first_heartbeats_for
from deadletter.contract import Variable
from handlers.init import prepared
from handlers.runtime import world

logger = Logger(service="first-heartbeat")
resource = prepared(lambda: first_heartbeats_for(os.environ[Variable.APP], world()))


# The event holds a signed address: it is not logged, whatever the environment says.
@logger.inject_lambda_context(log_event=False)
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Do what CloudFormation asks for and answer it."""
    deadline = world().clock() + context.get_remaining_time_in_millis() / 1000
    beat = resource().handle(event, deadline)
    logger.info("first heartbeat", extra={"outcome": beat.outcome, "why": beat.why})
