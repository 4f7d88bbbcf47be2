"""The watch: it looks at every queue, lane, run and circuit of its pipeline once a minute."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from deadletter.aws.wiring.judging import watch_clients, watch_for
from deadletter.watch.observation import metric_lines
from handlers.init import prepared
from handlers.metrics import app, write
from handlers.runtime import settings, world

logger = Logger(service="watch")
watch = prepared(lambda: watch_for(*settings(), watch_clients(), world()))


@logger.inject_lambda_context
def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Look once, publish what it means, and start the rescues that are due."""
    minute = watch().run()
    write(metric_lines(minute.points, app=app(), pipeline=settings()[0].name))
    if minute.trouble:
        logger.warning("trouble", extra=minute.trouble)
    return minute.trouble
