"""The function of replay runs: one step of a run, or the work of one worker."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from deadletter.aws.wiring.replaying import clients, renew_connections, replay_steps_for
from deadletter.replay.machine import replay_event
from handlers.init import by_boto3, prepared
from handlers.metrics import count_metric
from handlers.runtime import settings, world

logger = Logger(service="replay")
steps = prepared(
    lambda: replay_steps_for(
        *settings(), clients(by_boto3()), world(), count_metric, note_bad_row=logger.warning
    )
)


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Take one step of the run; returns the execution's next step."""
    deadline = world().clock() + context.get_remaining_time_in_millis() / 1000
    renew_connections(clients(by_boto3()))
    step = dict(steps().take(replay_event(event), deadline))
    logger.info(event["step"], extra={"run": event["run"], "step": step})
    return step
