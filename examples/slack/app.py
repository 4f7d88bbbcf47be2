"""Deadletter's events as lines in a Slack channel, with no code of one's own at run time.

EventBridge writes the line (an input transformer for each type of event), SNS carries it, and
Amazon Q Developer in chat applications (AWS Chatbot) posts it. See README.md beside this file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_chatbot as chatbot
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

LINES: Mapping[str, str] = {
    "CauseAppeared": "New cause in {pipeline}: {error_type} ({category}), {messages} messages"
    " so far. First: `{command}`, then `dlq show {sample}`",
    "CauseOver": "Over in {pipeline}: {error_type} ({category}), {messages} messages at most.",
    "MessagesRecovered": "{pipeline}: {count} dead messages were processed.",
    "MessagesParked": "{pipeline}: {count} messages were parked for a person, {messages} wait in"
    " {queue}. First: `{command}`",
    "MessagesExpireSoon": "{pipeline}: the oldest of {messages} messages in {source} is lost in"
    " {seconds} s. First: `{command}`",
    "CircuitStateChanged": "{pipeline}: the circuit is {state}.",
    "RunStateChanged": "{pipeline}: run {run} is {state}, by {by}. `{command}`",
    "RuleRefused": "{pipeline}: rule {rule_id} is invalid and matches nothing."
    " First: `dlq rules list {pipeline}`",
}
"""A line for each type of event, with fields of its detail that each such event has.

Free text, such as the reason of a hold, is left out: a quotation mark in it would break the JSON
that EventBridge fills in.
"""


class SlackNews(cdk.Stack):
    """Rules on the default bus, a topic, and the Slack channel. `lines` chooses the events."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        workspace: str,
        channel: str,
        lines: Mapping[str, str] = LINES,
    ) -> None:
        super().__init__(scope, construct_id)
        topic = sns.Topic(self, "News", enforce_ssl=True)
        for event_type, line in lines.items():
            events.Rule(
                self,
                event_type,
                description=f"{event_type} of Deadletter, as a line for Slack",
                event_pattern=events.EventPattern(source=["deadletter"], detail_type=[event_type]),
                targets=[targets.SnsTopic(topic, message=notification(line))],
            )
        chatbot.SlackChannelConfiguration(
            self,
            "Channel",
            slack_channel_configuration_name="deadletter-news",
            slack_workspace_id=workspace,
            slack_channel_id=channel,
            notification_topics=[topic],
            # The channel shows news: nobody types AWS commands there.
            guardrail_policies=[iam.ManagedPolicy.from_aws_managed_policy_name("AWSDenyAll")],
        )


def notification(line: str) -> events.RuleTargetInput:
    """The line as a custom notification of AWS Chatbot; EventBridge fills in the fields."""
    filled = re.sub(
        r"\{(\w+)\}", lambda name: events.EventField.from_path(f"$.detail.{name[1]}"), line
    )
    content = {"textType": "client-markdown", "description": filled}
    return events.RuleTargetInput.from_object(
        {"version": "1.0", "source": "custom", "content": content}
    )


def main() -> None:
    """Synthesize, with the workspace and the channel from the CDK's context."""
    app = cdk.App()
    SlackNews(
        app,
        "DeadletterSlack",
        workspace=app.node.get_context("workspace"),
        channel=app.node.get_context("channel"),
    )
    app.synth()


if __name__ == "__main__":
    main()
