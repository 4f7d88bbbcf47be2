"""The checks, a module for each service; importing this package enters them all."""

from tools.verify_aws.checks import (
    alarms,
    deployed,
    events,
    functions,
    machines,
    queues,
    stores,
    tables,
)

__all__ = ["alarms", "deployed", "events", "functions", "machines", "queues", "stores", "tables"]
