"""The body of a dashboard as a short text: the body of thirty pipelines has to fit into a template.

The CDK writes every metric in full and one part of a `Fn::Join` for every region. Here a part
that repeats the metric before is a ".", the statistic and the period of most metrics stand
once at their widget, and what CloudFormation fills in is written as `Fn::Sub` has it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch

# What CloudWatch takes where a metric says nothing, and what the CDK leaves out.
DEFAULTS: Mapping[str, Any] = {"stat": "Average", "period": 300}

# The time that a dashboard shows at first.
SHOWN = "-PT12H"

# A part of a metric that is the same as in the metric before.
SAME = "."


def body_of(
    rows: Sequence[Sequence[cloudwatch.IWidget]],
    stack: cdk.Stack,
    variables: dict[str, Any] | None = None,
) -> str:
    """The body of a dashboard with these rows, for `Fn.sub`.

    What `Fn::Sub` cannot say itself, such as the last part of an ARN, is added to `variables`.
    """
    found = {} if variables is None else variables
    in_rows: list[Any] = [cloudwatch.Row(*row) for row in rows]
    column = cloudwatch.Column(*in_rows)
    column.position(0, 0)
    drawn = [shortened(_as_sub(widget, found)) for widget in stack.resolve(column.to_json())]
    return _text({"start": SHOWN, "widgets": drawn})


def shortened(widget: Mapping[str, Any]) -> dict[str, Any]:
    """The widget with its metrics in CloudWatch's short form; others are as they came."""
    properties = dict(widget["properties"])
    metrics = properties.get("metrics")
    if not metrics:
        return {**widget, "properties": properties}
    full = [_in_full(metric) for metric in metrics]
    most_common = {
        name: Counter(metric[-1][name] for metric in full if _is_read(metric)).most_common(1)[0][0]
        for name in DEFAULTS
    }
    return {
        **widget,
        "properties": {**properties, **most_common, "metrics": list(_short(full, most_common))},
    }


def _in_full(metric: Sequence[Any]) -> list[Any]:
    """A metric with all its options; an expression as it came."""
    if not _is_read(metric):
        return list(metric)
    *name, last = metric
    options = {**DEFAULTS, **last} if isinstance(last, Mapping) else dict(DEFAULTS)
    return [*name, options] if isinstance(last, Mapping) else [*name, last, options]


def _short(metrics: Sequence[list[Any]], at_widget: Mapping[str, Any]) -> Iterator[list[Any]]:
    before: Sequence[Any] = ()
    for metric in metrics:
        if not _is_read(metric):
            yield metric
            before = ()
            continue
        *name, options = metric
        others = {key: value for key, value in options.items() if at_widget.get(key) != value}
        same = len(before) == len(name)
        short = [
            SAME if same and part == before[place] else part for place, part in enumerate(name)
        ]
        yield [*short, others] if others else short
        before = name


def _is_read(metric: Sequence[Any]) -> bool:
    """Whether it is a metric, and not an expression."""
    return isinstance(metric[0], str)


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _as_sub(value: Any, variables: dict[str, Any]) -> Any:
    """A resolved value with its references as `Fn::Sub` writes them."""
    match value:
        case {"Ref": name}:
            return f"${{{name}}}"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"${{{name}.{attribute}}}"
        case {"Fn::Join": [separator, parts]}:
            return separator.join(_as_sub(part, variables) for part in parts)
        case {"Fn::Select": _}:
            found = (name for name, other in variables.items() if other == value)
            name = next(found, f"Part{len(variables)}")
            variables[name] = value
            return f"${{{name}}}"
        case Mapping():
            return {key: _as_sub(item, variables) for key, item in value.items()}
        case list():
            return [_as_sub(item, variables) for item in value]
        case str():
            return value.replace("${", "${!")
        case float() if value.is_integer():
            return int(value)
    return value
