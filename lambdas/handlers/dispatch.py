"""The webhook dispatcher: the consumer that this project ships."""

import os
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from deadletter.aws.wiring.posting import consumer_clients, webhook_batch_for
from deadletter.contract import Variable
from deadletter.processing.lambda_event import invoker_of, records_of, seconds_left
from deadletter.settings.webhook import webhook_from_json
from handlers.init import prepared
from handlers.metrics import app, count_metric, write
from handlers.runtime import settings, world

logger = Logger(service="dispatch")
webhook = cache(lambda: webhook_from_json(os.environ[Variable.WEBHOOK]))
post_all = prepared(
    lambda: webhook_batch_for(*settings(), webhook(), consumer_clients(), world(), count_metric)
)


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Deliver a batch; returns the messages that were not delivered and stay in the queue."""
    deadline = world().clock() + seconds_left(context)
    result = post_all()(records_of(event), deadline=deadline, **invoker_of(context))
    write(result.metric_lines(app(), settings()[0].name, world().clock()))
    for line in result.log_lines():
        logger.warning(line["what"], extra=dict(line))
    return result.to_response()
