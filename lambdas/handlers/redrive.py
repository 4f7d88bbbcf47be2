"""The redriver: one run per minute and one whenever a person asks, recalls, and edits."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from deadletter.aws.wiring.moving import answer_request, redriver_for, run_clients, sweep_orphans
from deadletter.contract import MAIN_DLQ
from deadletter.redrive.redriver import run_as_asked
from handlers.init import by_boto3, in_init
from handlers.metrics import app, count_metric, report_lines, write
from handlers.runtime import settings, world

logger = Logger(service="redrive")
in_init(lambda: redriver_for(*settings(), run_clients(by_boto3()), world()))


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Drain `source` (default: the DLQ) or `rescue` it; with `dry_run`, move nothing.

    `asked` says that a person started the run: it does not wait. A run may start others as
    shards of its drain, and the next one. `recall` and `edit` ask for no run.
    """
    deadline = world().clock() + context.get_remaining_time_in_millis() / 1000
    made, home = run_clients(by_boto3()), event.get("source", MAIN_DLQ)
    if (answer := answer_request(*settings(), made, world(), event)) is not None:
        return answer
    redriver = redriver_for(*settings(), made, world(), home=home, count_metric=count_metric)
    report = run_as_asked(redriver, event, deadline)
    write(report_lines(report, app(), world().clock()))
    if (orphans := sweep_orphans(*settings(), made, world(), event, deadline)) is not None:
        logger.info("orphaned bodies deleted", extra={"orphans": orphans})
    logger.info("run ended", extra={"report": report.to_json()})
    return report.to_json()
