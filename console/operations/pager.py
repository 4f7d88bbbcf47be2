"""A test page: whether an alarm would reach a person, tried before one has to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from deadletter.contract import EVERY_PIPELINE

from .audit import IntendedChange, recorded
from .aws import explain
from .key_policy import key_uses, read_topic_key, troubles
from .session import Session
from .words import count

SUBJECT = "TEST of the pager: nothing is wrong"
"""What the page begins with wherever it arrives; SNS takes at most 100 ASCII characters."""

WHY = "to see whether pages arrive"
"""The reason in the audit table."""

CONFIRMED, PENDING = "confirmed", "pending"


@dataclass(frozen=True, slots=True)
class PagerTest:
    """What became of a test page."""

    topic: Annotated[str, "ARN of the topic that the alarms publish to"]
    message_id: Annotated[str | None, "id that SNS gave the page; null if none was published"]
    subscriptions: Annotated[
        int | None, "confirmed subscriptions of the topic; null if SNS does not say it"
    ]
    pending: Annotated[
        int | None, "subscriptions that no one has confirmed yet; null if SNS does not say it"
    ]
    alarms_arrive: Annotated[
        bool | None,
        "whether the key of the topic lets CloudWatch publish to it; null if that is not known",
    ]
    notes: Annotated[Sequence[str], "what keeps pages from arriving, and what to do"]

    @property
    def reaches_nobody(self) -> bool:
        """Whether the topic has no subscription that would get a page."""
        return self.subscriptions == 0


def publish(session: Session) -> PagerTest:
    """Publish a test page to the topic of the app's alarms, unless no one has subscribed to it.

    Raises Problem if SNS refuses the page.
    """
    app = session.app()
    notes: list[str] = []
    numbers = _subscriptions(session, app.alarm_topic, notes)
    subscriptions, pending = numbers.get(CONFIRMED), numbers.get(PENDING)
    alarms_arrive = _alarms_arrive(session, app.name, app.alarm_topic, notes)
    message_id = None
    if subscriptions != 0:
        change = IntendedChange("doctor", EVERY_PIPELINE, "test page", WHY)
        with recorded(session, app, change):
            message_id = session.aws.sns.publish(
                TopicArn=app.alarm_topic, Subject=SUBJECT, Message=_text(session)
            )["MessageId"]
    return PagerTest(
        topic=app.alarm_topic,
        message_id=message_id,
        subscriptions=subscriptions,
        pending=pending,
        alarms_arrive=alarms_arrive,
        notes=(*_troubles(subscriptions, pending, app.alarm_topic), *notes),
    )


def _subscriptions(session: Session, topic: str, notes: list[str]) -> Counter[str]:
    """The number of the topic's subscriptions by their state; empty if SNS does not say them."""
    numbers = Counter({CONFIRMED: 0, PENDING: 0})
    try:
        pages = session.aws.sns.get_paginator("list_subscriptions_by_topic")
        for page in pages.paginate(TopicArn=topic):
            # In place of an ARN, one that waits for its confirmation says so in a word.
            for subscription in page["Subscriptions"]:
                is_confirmed = subscription["SubscriptionArn"].startswith("arn:")
                numbers[CONFIRMED if is_confirmed else PENDING] += 1
    except Exception as error:
        problem = explain(error)
        if problem is None:
            raise
        notes.append(f"How many have subscribed to the topic is not known: {problem.says}")
        return Counter()
    return numbers


def _alarms_arrive(session: Session, app: str, topic: str, notes: list[str]) -> bool | None:
    """Whether CloudWatch may use the topic's key: this page comes from a person, alarms do not."""
    aws = session.aws
    try:
        key = read_topic_key(aws.sns, aws.kms, topic)
    except Exception as error:
        problem = explain(error)
        if problem is None:
            raise
        notes.append(
            f"Whether alarms reach the topic is not known, its key can't be read: {problem.says}"
        )
        return None
    if key is None:
        return True
    partition = aws.caller.split(":")[1]
    uses = key_uses(app, partition=partition, region=aws.region, account=aws.account)
    found = list(troubles(key, uses["cloudwatch"], aws.region))
    for trouble in found:
        may = "" if trouble.sure else "may "
        repair = f" Repair: {trouble.fix}" if trouble.fix else ""
        notes.append(
            f"This page comes from you. Alarms {may}reach no one, and no error is shown: "
            f"{trouble.says}.{repair}"
        )
    if any(trouble.sure for trouble in found):
        return False
    return None if found else True


def _troubles(subscriptions: int | None, pending: int | None, topic: str) -> Iterator[str]:
    if subscriptions == 0:
        yield (
            "No one gets pages: the topic has no confirmed subscription, so nothing was "
            f"published. Subscribe:\naws sns subscribe --topic-arn {topic} --protocol email "
            "--notification-endpoint you@example.com"
        )
    if pending:
        yield (
            f"{count(pending, 'subscription')} not confirmed yet: an e-mail with a link waits, "
            "and SNS forgets it after 48 hours."
        )


def _text(session: Session) -> str:
    """The page as JSON, as an alarm's page is: what reads those finds a name and a state."""
    place = session.place
    return json.dumps(
        {
            "AlarmName": f"{session.app_name}-TEST",
            "AlarmDescription": f"{SUBJECT}. dlq doctor --send-page was typed {WHY}. Nothing is to "
            "be done.",
            "AWSAccountId": place["account"],
            "Region": place["region"],
            "NewStateValue": "TEST",
            "NewStateReason": "a test page",
            "StateChangeTime": session.now.isoformat(timespec="seconds"),
            "SentBy": session.aws.caller,
        },
        indent=2,
    )
