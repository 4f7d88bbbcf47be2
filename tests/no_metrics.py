"""A CloudWatch without a metric, for what asks one while it is measured for something else."""

from __future__ import annotations

from typing import Any


class NoMetrics:
    """CloudWatch of an account in which no metric was published yet."""

    def get_metric_data(self, **_: Any) -> Any:
        return {"MetricDataResults": []}
