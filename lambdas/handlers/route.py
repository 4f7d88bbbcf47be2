"""The router: reads rules, ledger and circuits, and decides. It cannot move letters."""

from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from deadletter.aws.wiring.route import clients, router_for
from deadletter.routing.direct_router import DirectRouter
from deadletter.routing.wire import answer_event
from handlers.init import in_init, whereabouts
from handlers.runtime import settings, transport, world

logger = Logger(service="route")
in_init(lambda: clients(transport(), whereabouts()))
router = cache(lambda: router_for(*settings(), clients(transport(), whereabouts()), world()))


@logger.inject_lambda_context
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Verdicts on the event's `letters`, or those of its `lanes` that may be released."""
    direct_router: DirectRouter = router()
    return answer_event(direct_router, event)
