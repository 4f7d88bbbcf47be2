"""The rule checker: checks each edit of the rules table when it is made, and keeps those of
endpoints.
"""

from dataclasses import asdict
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from deadletter.aws.wiring.judging import check_clients, edits_handler_for
from deadletter.contract import EVERY_PIPELINE
from deadletter.signals.figures import Count, Figure
from handlers.init import prepared
from handlers.metrics import count_metric_of
from handlers.runtime import resources, world

logger = Logger(service="check-rules")
handle = prepared(lambda: edits_handler_for(resources(), check_clients(), world()))


@logger.inject_lambda_context
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Check a batch of edits. Lambda retries from an edit that could not be handled."""
    checked = handle()(event["Records"])
    for refusal in checked.refusals:
        logger.warning("rule refused", extra={"rule": asdict(refusal)})
        for name in refusal.refused_by:
            count_metric_of(name, Count.RULE_INVALID, 1)
        if EVERY_PIPELINE in refusal.refused_by and not refusal.disabled:
            # No watch reads the rule of a pipeline that does not exist.
            count_metric_of(EVERY_PIPELINE, Figure.RULE_TROUBLE, 1)
    if checked.failed:
        logger.error("edit not handled", extra={"sequence": checked.failed, "why": checked.why})
    return checked.to_response()
