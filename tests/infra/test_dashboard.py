"""What the dashboards of an app draw, and that CloudWatch draws it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from deadletter.signals.figures import GRAPHS, Count, Figure
from infra.dashboard import MOST_CHARACTERS, MOST_METRICS, MOST_WIDGETS, Size, pages, shortened
from infra.dashboard import body_of as rendered
from infra.refusal import Refused
from tests.dashboards import Drawn, metrics_of
from tests.infra.conftest import ORDERS, ROOT, Synthesize, typed
from tests.infra.templates import PSEUDO, Stack, Synthesis, filled, read
from tests.infra.test_permissions import COMMANDS, LOOKS

# The most metrics of one graph, and characters of a template.
MOST_OF_A_WIDGET, TEMPLATE = 500, 1_000_000

PAGE = ROOT / "docs" / "dashboard.md"

PIPELINES = ("orders", "order-events", "theirs", "watched")

# https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutQueryDefinition.html
MOST_OF_A_QUERY = 10_000

# What AWS publishes, and under which dimension.
OF_AWS = {"ApproximateAgeOfOldestMessage", "ApproximateNumberOfMessagesVisible"}

# The characters of a pipeline's band and its share of the head.
MOST_OF_A_PIPELINE = 6_300


def body_of(dashboard: Mapping[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(filled(dashboard["Properties"]["DashboardBody"]))
    return body


def widgets_of(synthesis: Synthesis) -> list[dict[str, Any]]:
    return [
        widget
        for _, dashboard in synthesis.of("AWS::CloudWatch::Dashboard")
        for widget in body_of(dashboard)["widgets"]
    ]


@pytest.fixture(scope="module")
def widgets(app: Synthesis) -> list[dict[str, Any]]:
    return widgets_of(app)


@pytest.fixture(scope="module")
def drawn(widgets: list[dict[str, Any]]) -> list[Drawn]:
    return list(metrics_of(widgets))


# Which metrics.


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_each_figure_is_drawn_in_the_graph_of_the_catalogue(
    drawn: list[Drawn], pipeline: str
) -> None:
    found = {
        (metric.name, metric.title, metric.options["stat"])
        for metric in drawn
        if metric.namespace == "Deadletter" and metric.dimensions["pipeline"] == pipeline
    }
    assert found == {
        (str(figure), f"{pipeline}: {figure.graph}", figure.statistic) for figure in Figure
    }


def test_our_figures_are_drawn_under_the_dimensions_that_they_are_published_with(
    drawn: list[Drawn],
) -> None:
    """A metric with other dimensions is another metric: its graph stays empty."""
    beside = {Figure.FAILURES_BY_CATEGORY: "category", Figure.MESSAGES: "source"}
    for metric in drawn:
        if metric.namespace == "Deadletter":
            third = {beside[Figure(metric.name)]} if metric.name in beside else set()
            assert set(metric.dimensions) == {"app", "pipeline"} | third, metric
            assert metric.dimensions["app"] == "deadletter"
    sources = {
        metric.dimensions["source"]
        for metric in drawn
        if "source" in metric.dimensions and metric.dimensions["pipeline"] == "orders"
    }
    assert sources == {"dlq", "vip", "slow", "parking:default", "parking:quarantine", "room"}


def test_the_metrics_of_sqs_are_about_the_queues_of_the_app(
    app: Synthesis, drawn: list[Drawn]
) -> None:
    queues = {filled(queue["Properties"]["QueueName"]) for _, queue in app.of("AWS::SQS::Queue")}
    native = [metric for metric in drawn if metric.namespace != "Deadletter"]
    assert {(metric.namespace, metric.name) for metric in native} == {
        ("AWS/SQS", name) for name in OF_AWS
    }
    assert {metric.dimensions["QueueName"] for metric in native} - queues == {
        *("their-main", "their-dlq")
    }


# Alarms.


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_band_begins_with_the_alarms_of_its_pipeline(
    app: Synthesis, widgets: list[dict[str, Any]], pipeline: str
) -> None:
    stack = app[f"Deadletter-{''.join(word.capitalize() for word in pipeline.split('-'))}"]
    names = {
        alarm["Properties"]["AlarmName"] for alarm in stack.of("AWS::CloudWatch::Alarm").values()
    }
    [shown] = [
        widget["properties"]["alarms"]
        for widget in widgets
        if widget["properties"].get("title") == f"{pipeline}: alarms"
    ]
    assert {arn.rpartition(":alarm:")[2] for arn in shown} == names
    assert len(names) == len(shown) == 9


def test_the_first_row_has_the_alarms_of_the_whole_app(
    app: Synthesis, widgets: list[dict[str, Any]]
) -> None:
    text, alarms, *_ = widgets
    shared = app["Deadletter-Shared"].of("AWS::CloudWatch::Alarm")
    assert (text["type"], text["y"], alarms["y"]) == ("text", 0, 0)
    assert set(alarms["properties"]["alarms"]) == {f"<{key}.Arn>" for key in shared}


def test_the_alarms_that_ring_stand_above_all_bands(thirty: Synthesis) -> None:
    """In a large app a band may be far below, or on another dashboard."""
    first, *others = [body_of(each) for _, each in thirty.of("AWS::CloudWatch::Dashboard")]
    ringing = [each for each in first["widgets"] if "states" in each["properties"]]
    assert not [each for body in others for each in body["widgets"] if "states" in each]
    assert {tuple(each["properties"]["states"]) for each in ringing} == {("ALARM",)}
    shown = [arn for each in ringing for arn in each["properties"]["alarms"]]
    assert len(shown) == len(set(shown)) == 9 * 30
    assert max(len(each["properties"]["alarms"]) for each in ringing) <= 100
    bands = [
        each["y"] for each in first["widgets"] if each["properties"].get("title") == "p0: flow"
    ]
    assert max(each["y"] for each in ringing) < min(bands)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_line_shows_where_each_alarm_rings(
    app: Synthesis, widgets: list[dict[str, Any]], pipeline: str
) -> None:
    alarms = {
        alarm["Properties"]["AlarmName"].removeprefix(f"deadletter-{pipeline}-"): alarm[
            "Properties"
        ]
        for _, alarm in app.of("AWS::CloudWatch::Alarm")
        if str(alarm["Properties"]["AlarmName"]).startswith(f"deadletter-{pipeline}-")
    }
    lines = {}
    for widget in widgets:
        properties = widget["properties"]
        if not properties.get("title", "").startswith(f"{pipeline}: "):
            continue
        metrics = {(each.name, tuple(each.dimensions.items())) for each in metrics_of([widget])}
        for line in properties.get("annotations", {}).get("horizontal", []):
            for name in line["label"].removesuffix(" pages").split(", "):
                where = tuple((each["Name"], each["Value"]) for each in alarms[name]["Dimensions"])
                assert (alarms[name]["MetricName"], where) in metrics, name
                lines[name] = line["value"]
    assert lines == {name: alarm["Threshold"] for name, alarm in alarms.items()}


def test_the_text_of_a_band_has_commands_that_people_who_may_read_can_type(
    widgets: list[dict[str, Any]],
) -> None:
    texts = [each["properties"]["markdown"] for each in widgets if each["type"] == "text"]
    commands = [
        command for text in texts for command in re.findall(r"`(dlq [a-z ]*[a-z])[` ]", text)
    ]
    assert len(texts) == 1 + len(PIPELINES)
    assert len(commands) >= len(texts)
    for command in commands:
        assert set(COMMANDS[command]) <= LOOKS, command


# Limits.


def test_thirty_pipelines_are_drawn_within_the_limits_of_cloudwatch(thirty: Synthesis) -> None:
    dashboards = [each for _, each in thirty.of("AWS::CloudWatch::Dashboard")]
    names = [filled(each["Properties"]["DashboardName"]) for each in dashboards]
    assert names == [
        f"deadletter-eu-west-1{'' if number == 1 else f'-{number}'}"
        for number in range(1, len(dashboards) + 1)
    ]
    shown = []
    for dashboard in dashboards:
        widgets = body_of(dashboard)["widgets"]
        assert len(widgets) <= MOST_WIDGETS
        assert len(list(metrics_of(widgets))) <= MOST_METRICS
        assert max(len(list(metrics_of([widget]))) for widget in widgets) <= MOST_OF_A_WIDGET
        titles = [widget["properties"].get("title", "") for widget in widgets]
        shown += [title.removesuffix(": alarms") for title in titles if title.endswith(": alarms")]
    assert shown == [f"p{number}" for number in range(30)]


def test_a_hundred_pipelines_have_dashboards_by_default(thirty: Synthesis) -> None:
    """Of the largest sort each, with dedicated DLQs and parking queues: here are thirty of them."""
    template = thirty["Deadletter-Shared"].template
    dashboards = thirty["Deadletter-Shared"].of("AWS::CloudWatch::Dashboard")
    bodies = [each["Properties"]["DashboardBody"]["Fn::Sub"][0] for each in dashboards.values()]
    of_a_pipeline = sum(map(len, bodies)) / 30
    assert of_a_pipeline <= MOST_OF_A_PIPELINE
    assert 100 * of_a_pipeline <= MOST_CHARACTERS
    drawn, whole = (len(json.dumps(each, indent=1)) for each in (dashboards, template))
    assert whole - drawn + 100 / 30 * drawn < TEMPLATE


def test_an_app_whose_dashboards_are_too_large_for_a_template_is_refused(
    synthesize: Synthesize, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.dashboard.MOST_CHARACTERS", 5_000)
    with pytest.raises(Refused, match="set dashboard to false"):
        synthesize({"pipelines": [ORDERS]})


def test_the_band_of_a_pipeline_is_never_torn_apart() -> None:
    def size(rows: Sequence[int]) -> Size:
        return Size(widgets=sum(rows))

    assert list(pages([100], [[200], [200], [1], [400]], size)) == [[100, 200, 200], [1, 400]]
    assert list(pages([1], [], size)) == [[1]]
    assert Size(500, 2500).fits
    assert not Size(501, 0).fits
    assert not Size(0, 2501).fits


# The text of a body.


def test_what_cloudformation_fills_in_is_known_to_the_template(app: Synthesis) -> None:
    shared = app["Deadletter-Shared"]
    for dashboard in shared.of("AWS::CloudWatch::Dashboard").values():
        body, variables = dashboard["Properties"]["DashboardBody"]["Fn::Sub"]
        assert "Token" not in body
        for name in re.findall(r"\$\{([^}]*)\}", body):
            assert name in {*PSEUDO, *variables} or name.partition(".")[0] in shared.resources, name


def test_graphs_lie_side_by_side_and_none_on_another(widgets: list[dict[str, Any]]) -> None:
    taken: set[tuple[int, int]] = set()
    for widget in widgets:
        cells = {
            (widget["x"] + x, widget["y"] + y)
            for x in range(widget["width"])
            for y in range(widget["height"])
        }
        assert not cells & taken
        assert widget["x"] + widget["width"] <= 24
        taken |= cells


def graph(*metrics: list[Any]) -> dict[str, Any]:
    return {"type": "metric", "properties": {"metrics": list(metrics)}}


def test_the_short_form_of_metrics_says_the_same() -> None:
    metrics: list[list[Any]] = [
        ["N", "A", "app", "x", {"stat": "Sum", "period": 60}],
        ["N", "B", "app", "x", {"stat": "Sum", "period": 60, "label": "b"}],
        ["N", "B", "app", "x", "source", "dlq", {"stat": "Maximum", "period": 60}],
        ["N", "B", "app", "x"],
    ]
    short = shortened(graph(*metrics))["properties"]
    assert short["metrics"] == [
        ["N", "A", "app", "x"],
        [".", "B", ".", ".", {"label": "b"}],
        ["N", "B", "app", "x", "source", "dlq", {"stat": "Maximum"}],
        ["N", "B", "app", "x", {"stat": "Average", "period": 300}],
    ]
    assert (short["stat"], short["period"]) == ("Sum", 60)


def test_cloudformation_fills_nothing_into_the_text_of_a_person() -> None:
    import aws_cdk as cdk
    from aws_cdk import aws_cloudwatch as cloudwatch

    text = cloudwatch.TextWidget(markdown=f"Owner: ${{USER}} in {cdk.Aws.REGION}")
    body = rendered([[text]], cdk.Stack(cdk.App(), "Any"))
    [widget] = json.loads(body)["widgets"]
    assert widget["properties"]["markdown"] == "Owner: ${!USER} in ${AWS::Region}"


def test_a_widget_without_metrics_stays_as_it_is() -> None:
    text = {"type": "text", "properties": {"markdown": "# Orders"}}
    assert shortened(text) == text


# Settings, and dashboards of others.


def test_an_app_may_have_no_dashboard(synthesize: Synthesize) -> None:
    without = synthesize({"dashboard": "false", "pipelines": [ORDERS]})
    assert not list(without.of("AWS::CloudWatch::Dashboard"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """A stack of somebody else, with the rows of one pipeline on a dashboard of theirs."""
    import aws_cdk as cdk
    from aws_cdk import aws_cloudwatch as cloudwatch

    from infra.dashboard import widgets as rows_of
    from infra.settings import AppDeployment

    folder = tmp_path_factory.mktemp("theirs")
    app = cdk.App(outdir=str(folder))
    stack = cdk.Stack(app, "Theirs")
    dashboard = cloudwatch.Dashboard(stack, "Ours", dashboard_name="checkout")
    dashboard.add_widgets(cloudwatch.TextWidget(markdown="# Checkout", width=24, height=1))
    for name in ("orders", "refunds"):
        settings, shop = typed(name), AppDeployment(app="shop")
        for row in rows_of(stack, settings=settings, app=shop):
            dashboard.add_widgets(*row)
    app.synth()
    return read(folder)["Theirs"]


def test_widgets_can_be_put_on_a_dashboard_of_yours(theirs: Stack) -> None:
    """They make no resource, and stand below what is there."""
    kinds = {resource["Type"] for resource in theirs.resources.values()}
    assert kinds - {"AWS::CDK::Metadata"} == {"AWS::CloudWatch::Dashboard"}
    [dashboard] = theirs.of("AWS::CloudWatch::Dashboard").values()
    widgets = body_of(dashboard)["widgets"]
    ours = [each for each in metrics_of(widgets) if each.namespace == "Deadletter"]
    assert {(each.dimensions["app"], each.dimensions["pipeline"]) for each in ours} == {
        ("shop", "orders"),
        ("shop", "refunds"),
    }
    assert {each.name for each in ours} == {str(each) for each in Figure}
    assert [each["y"] for each in widgets[1:3]] == [1, 1]


def test_a_saved_query_finds_what_no_graph_draws(app: Synthesis) -> None:
    """Of each pipeline, in the logs of all its functions."""
    queries = {
        found["Properties"]["Name"]: found["Properties"]
        for _, found in app.of("AWS::Logs::QueryDefinition")
    }
    assert queries.keys() == {f"deadletter/{name}/counted" for name in PIPELINES}
    orders = queries["deadletter/orders/counted"]
    # A reference to each group makes the query wait for it.
    groups = "".join(json.dumps(group) for group in orders["LogGroupNames"])
    assert all(name in groups for name in ("Redriver", "Router", "Watch", "Replay", "Dispatcher"))
    text = orders["QueryString"]
    assert 'filter app = "deadletter" and pipeline = "orders"' in text
    assert all(f" {count} > 0" in text for count in Count)
    assert not [figure for figure in Figure if f" {figure} > 0" in text]
    assert len(text) <= MOST_OF_A_QUERY


def test_the_example_of_the_documentation_synthesizes(tmp_path: Path) -> None:
    """In a checkout the package has another name than in the wheel."""
    [example] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert "from deadletter_cdk.dashboard import widgets" in example
    names: dict[str, Any] = {"OUT": str(tmp_path)}
    code = example.replace("deadletter_cdk", "infra").replace("cdk.App()", "cdk.App(outdir=OUT)")
    exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 - our own page
    [dashboard] = read(tmp_path)["Checkout"].of("AWS::CloudWatch::Dashboard").values()
    assert {
        each.dimensions["pipeline"]
        for each in metrics_of(body_of(dashboard)["widgets"])
        if each.namespace == "Deadletter"
    } == {"orders"}


def test_the_page_names_each_graph() -> None:
    text = PAGE.read_text()
    for title in GRAPHS:
        assert f"| {title} |" in text, title
