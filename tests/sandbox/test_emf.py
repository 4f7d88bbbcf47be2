"""Metrics are found in log lines as CloudWatch finds them."""

import json

from sandbox.emf import Datapoint, datapoints

LINE = {
    "_aws": {
        "Timestamp": 1,
        "CloudWatchMetrics": [
            {
                "Namespace": "Deadletter",
                "Dimensions": [["pipeline"], ["pipeline", "service"]],
                "Metrics": [{"Name": "Held", "Unit": "Count"}],
            }
        ],
    },
    "pipeline": "orders",
    "service": "redrive",
    "Held": [3.0],
}


ORDERS = {"pipeline": "orders"}


def test_a_metric_counts_once_under_each_of_its_dimension_sets():
    log = f"START RequestId: 1\n{json.dumps(LINE)}\nEND RequestId: 1"
    assert list(datapoints(log)) == [
        Datapoint("Deadletter", "Held", "Count", ORDERS, 3.0, at=0.001),
        Datapoint("Deadletter", "Held", "Count", {**ORDERS, "service": "redrive"}, 3.0, at=0.001),
    ]


def test_lines_that_only_look_like_metrics_are_passed_over():
    truncated = json.dumps(LINE)[:-5]
    without_its_value = json.dumps({name: LINE[name] for name in LINE if name != "Held"})
    foreign = '{"CloudWatchMetrics": 1}'
    log = "\n".join([truncated, without_its_value, foreign, '{"level": "INFO"}', json.dumps(LINE)])
    assert len(list(datapoints(log))) == 2


def test_a_metric_is_of_the_time_that_its_line_names():
    metrics = {"CloudWatchMetrics": [{"Namespace": "Try", "Metrics": [{"Name": "Held"}]}]}
    for stamp, at in (({"Timestamp": 1_000_500}, 1000.5), ({}, None)):
        [point] = datapoints(json.dumps({"_aws": metrics | stamp, "Held": 1}))
        assert point.at == at
