"""The webhook dispatcher: the consumer that we ship."""

import os
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from deadletter.aws.clients import clients
from deadletter.aws.compose import dispatcher_for
from deadletter.settings import webhook_from_json
from handlers.edge import settings, world

logger = Logger(service="dispatch")
webhook = cache(lambda: webhook_from_json(os.environ["WEBHOOK"]))
dispatcher = cache(lambda: dispatcher_for(*settings(), webhook(), clients(), world()))


@logger.inject_lambda_context
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Deliver a batch; what was not delivered is named, and stays in the queue."""
    failed = [one for one in dispatcher().dispatch(event["Records"]) if one.failure]
    for one in failed:
        logger.warning("not delivered", extra={"message_id": one.message_id, "why": one.failure})
    return {"batchItemFailures": [{"itemIdentifier": one.message_id} for one in failed]}
