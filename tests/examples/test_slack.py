"""The Slack example: each line is filled from fields that each such event has."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from deadletter.contract import EventType
from deadletter.events.schema import BY_TYPE
from examples.slack import app as slack

README = Path(slack.__file__).with_name("README.md")


@pytest.fixture(scope="module")
def template() -> Template:
    app = cdk.App()
    stack = slack.SlackNews(app, "Slack", workspace="T0123456789", channel="C0123456789")
    return Template.from_stack(stack)


@pytest.fixture(scope="module")
def transformers(template: Template) -> dict[str, Mapping[str, Any]]:
    """How each rule makes its line, by the type of event that it matches."""
    found = {}
    for rule in template.find_resources("AWS::Events::Rule").values():
        pattern = rule["Properties"]["EventPattern"]
        assert pattern["source"] == ["deadletter"]
        [event_type] = pattern["detail-type"]
        [target] = rule["Properties"]["Targets"]
        found[event_type] = target["InputTransformer"]
    return found


def line(transformer: Mapping[str, Any], detail: Mapping[str, Any]) -> str:
    """The line as EventBridge makes it of one event."""
    paths = transformer["InputPathsMap"]

    def value(name: re.Match[str]) -> str:
        return str(detail[paths[name[1]].removeprefix("$.detail.")])

    notification = json.loads(re.sub(r"<([\w-]+)>", value, transformer["InputTemplate"]))
    assert set(notification) == {"version", "source", "content"}
    assert (notification["version"], notification["source"]) == ("1.0", "custom")
    assert notification["content"].pop("textType") == "client-markdown"
    text: str = notification["content"].pop("description")
    assert notification["content"] == {}
    return text


def test_there_is_a_line_for_each_type_of_event(
    transformers: Mapping[str, Mapping[str, Any]],
) -> None:
    assert set(transformers) == set(EventType)


@pytest.mark.parametrize("event_type", EventType)
def test_a_line_is_filled_from_fields_that_each_such_event_has(
    transformers: Mapping[str, Mapping[str, Any]], event_type: str
) -> None:
    required = {field.name for field in BY_TYPE[event_type].fields if not field.is_optional}
    paths = transformers[event_type]["InputPathsMap"]
    assert set(paths.values()) <= {f"$.detail.{name}" for name in required}


@pytest.mark.parametrize("event_type", EventType)
def test_the_readme_shows_the_line(
    transformers: Mapping[str, Mapping[str, Any]], event_type: str
) -> None:
    shown = line(transformers[event_type], BY_TYPE[event_type].example)
    assert "<" not in shown
    assert len(shown) < 250
    assert f"\n{shown}\n" in README.read_text()


def test_eventbridge_may_write_to_the_topic_and_the_channel_may_do_nothing(
    template: Template,
) -> None:
    [policy] = template.find_resources("AWS::SNS::TopicPolicy").values()
    senders = [
        statement["Principal"]["Service"]
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
    ]
    assert set(senders) == {"events.amazonaws.com"}
    [channel] = template.find_resources("AWS::Chatbot::SlackChannelConfiguration").values()
    assert "AWSDenyAll" in json.dumps(channel["Properties"]["GuardrailPolicies"])
    assert len(channel["Properties"]["SnsTopicArns"]) == 1


def test_the_example_is_in_no_wheel_and_no_function() -> None:
    root = README.parents[2]
    hatch = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]
    assert "examples" not in json.dumps(hatch)
    assert not list((root / "lambdas").rglob("slack*"))
