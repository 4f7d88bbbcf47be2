"""`dlq help`: what is said once for all commands."""

from __future__ import annotations

import json
from typing import Any

import pytest

from console.cli.exit import Exit
from console.cli.help import TOPICS


def test_the_topics_are_listed(dlq: Any) -> None:
    shown = dlq("help").stdout
    assert all(topic in shown for topic in TOPICS)


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_asks_aws_nothing(dlq: Any, topic: str) -> None:
    done = dlq("help", topic, env={"AWS_REGION": ""}, ends=Exit.DONE)
    assert done.stdout.startswith(TOPICS[topic][0])


def test_the_exit_statuses_are_a_topic(dlq: Any) -> None:
    rows = json.loads(dlq("help exit --json").stdout)["rows"]
    assert [int(row[0]) for row in rows] == [int(status) for status in Exit]


def test_an_unknown_topic_is_refused_with_the_known_ones(dlq: Any) -> None:
    dlq("help me", ends=Exit.USAGE, refuses="it is words, exit, environment, json, policies")
