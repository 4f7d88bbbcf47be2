"""The router: reads rules, ledger and circuits, and decides. It cannot move letters.

It logs nothing: its answer says all. So it loads no logger, a fourth of its cold start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deadletter.aws.wiring.judging import router_clients, router_for
from deadletter.routing.direct_router import DirectRouter
from deadletter.routing.wire import answer_event
from handlers.init import by_boto3, prepared
from handlers.runtime import settings, world

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

router = prepared(lambda: router_for(*settings(), router_clients(by_boto3()), world()))


def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Verdicts on the event's `letters`, or those of its `lanes` that may be released."""
    direct_router: DirectRouter = router()
    return answer_event(direct_router, event)
