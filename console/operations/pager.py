"""A test page: whether an alarm would reach a person, tried before one has to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from deadletter.contract import EVERY_PIPELINE

from .audit import IntendedChange, recorded
from .aws import Aws, rows
from .deadline import Asking, side_by_side
from .key_policy import KeyTrouble, key_uses, read_topic_key, troubles
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
    app, aws = session.app(), session.aws
    topic, notes = app.alarm_topic, list[str]()
    _ = aws.sns, aws.kms, aws.caller  # made before there are threads
    with side_by_side() as start:
        ask = Asking(start)
        unknown = "How many have subscribed to the topic is not known"
        numbers = ask(unknown, _subscriptions, aws, topic)() or {}
        unknown = "Whether alarms reach the topic is not known, its key can't be read"
        found = ask(unknown, _key_troubles, aws, app.name, topic)()
    subscriptions, pending = numbers.get(CONFIRMED), numbers.get(PENDING)
    if subscriptions == 0:
        notes.append(
            "No one gets pages: the topic has no confirmed subscription, so nothing was "
            f"published. Subscribe:\naws sns subscribe --topic-arn {topic} --protocol email "
            "--notification-endpoint you@example.com"
        )
    if pending:
        notes.append(
            f"{count(pending, 'subscription')} not confirmed yet: an e-mail with a link waits, "
            "and SNS forgets it after 48 hours."
        )
    notes += [f"{what}: {why.says}" for what, why in ask.lost]
    for trouble in found or ():
        may, repair = "" if trouble.sure else "may ", f" Repair: {trouble.fix}"
        notes.append(
            f"This page comes from you. Alarms {may}reach no one, and no error is shown: "
            f"{trouble.says}.{repair if trouble.fix else ''}"
        )
    alarms_arrive: bool | None = not found
    if found is None or (found and not any(trouble.sure for trouble in found)):
        alarms_arrive = None
    message_id = None
    if subscriptions != 0:
        change = IntendedChange("doctor", EVERY_PIPELINE, "test page", WHY)
        with recorded(session, app, change):
            text = _text(session)
            message_id = aws.sns.publish(TopicArn=topic, Subject=SUBJECT, Message=text)["MessageId"]
    return PagerTest(
        topic=topic,
        message_id=message_id,
        subscriptions=subscriptions,
        pending=pending,
        alarms_arrive=alarms_arrive,
        notes=tuple(notes),
    )


def _subscriptions(aws: Aws, topic: str) -> Mapping[str, int]:
    """The number of the topic's subscriptions by their state."""
    numbers = {CONFIRMED: 0, PENDING: 0}
    for subscription in rows(
        aws.sns, "list_subscriptions_by_topic", "Subscriptions", TopicArn=topic
    ):
        # In place of an ARN, one that waits for its confirmation says so in a word.
        is_confirmed = subscription["SubscriptionArn"].startswith("arn:")
        numbers[CONFIRMED if is_confirmed else PENDING] += 1
    return numbers


def _key_troubles(aws: Aws, app: str, topic: str) -> Sequence[KeyTrouble]:
    """What keeps CloudWatch from the topic's key: this page comes from a person, alarms do not."""
    key, partition = read_topic_key(aws.sns, aws.kms, topic), aws.caller.split(":")[1]
    uses = key_uses(app, partition=partition, region=aws.region, account=aws.account)
    return () if key is None else tuple(troubles(key, uses["cloudwatch"], aws.region))


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
