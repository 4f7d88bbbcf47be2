"""Steps of a scene on SQS: what a test does, and what has to come of it, a line each.

A scene begins with the standard queue `orders`, unless its first step makes another. Every
step acts on the queue made last, or on the one that `at` names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.aws.backends import Aws
from tests.aws.rows import refusal


class Scene:
    """The queues, what was sent and what was received so far."""

    def __init__(self, aws: Aws) -> None:
        self.aws = aws
        self.urls: dict[str, str] = {}
        self.sent: list[dict[str, Any]] = []
        self.received: list[dict[str, Any]] = []
        self._name = "orders"

    @property
    def url(self) -> str:
        if self._name not in self.urls:
            self.create(self._name)
        return self.urls[self._name]

    def create(self, name: str, **attributes: str) -> str:
        self.urls[name] = self.aws.queue(name, **attributes)
        self.turn_to(name)
        return self.urls[name]

    def turn_to(self, name: str) -> None:
        self._name = name

    def handle(self, nth: int) -> str:
        """The handle of the nth message that was received in this scene."""
        return str(self.received[nth]["ReceiptHandle"])


Step = Callable[[Scene], object]


def play(aws: Aws, steps: Sequence[Step]) -> None:
    """Do all steps in turn; the error of one says which it is."""
    scene = Scene(aws)
    for number, step in enumerate(steps, start=1):
        try:
            step(scene)
        except BaseException as error:
            error.add_note(f"Step {number} of {len(steps)}")
            raise


def text(value: str = "x", data_type: str = "String") -> dict[str, str]:
    return {"StringValue": value, "DataType": data_type}


def entry(entry_id: str = "1", body: str = "body", **members: Any) -> dict[str, Any]:
    return {"Id": entry_id, "MessageBody": body, **members}


def queue(name: str = "orders", **attributes: str) -> Step:
    return lambda scene: scene.create(name, **attributes)


def dead_letters(limit: int = 2, *, fifo: bool = False, **attributes: str) -> Step:
    """A queue `main` and its dead-letter queue `dead`, which has the attributes."""
    suffix = ".fifo" if fifo else ""

    def create(scene: Scene) -> None:
        arn = scene.aws.arn(scene.create("dead" + suffix, **attributes))
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": limit})
        scene.create("main" + suffix, RedrivePolicy=policy)

    return create


def at(name: str) -> Step:
    return lambda scene: scene.turn_to(name)


def wait(seconds: float) -> Step:
    return lambda scene: scene.aws.clock.advance(seconds)


def send(body: str = "body", **arguments: Any) -> Step:
    def step(scene: Scene) -> None:
        answer = scene.aws.sqs.send_message(QueueUrl=scene.url, MessageBody=body, **arguments)
        scene.sent.append(answer)

    return step


def group(name: str, *texts: str) -> Step:
    """Send messages of one FIFO group, each with a deduplication id of its own."""

    def step(scene: Scene) -> None:
        for body in texts:
            ids = {"MessageGroupId": name, "MessageDeduplicationId": f"{name}-{body}"}
            send(body, **ids)(scene)

    return step


def receive(*expected: str, **arguments: Any) -> Step:
    """Receive up to ten messages, which have these bodies in this order."""

    def step(scene: Scene) -> None:
        messages = scene.aws.receive(scene.url, **arguments)
        assert [message["Body"] for message in messages] == list(expected)
        scene.received += messages

    return step


def fail(times: int) -> Step:
    """Receive everything so many times, and let the visibility timeout end."""

    def step(scene: Scene) -> None:
        for _ in range(times):
            scene.aws.receive(scene.url, VisibilityTimeout=1)
            scene.aws.clock.advance(1)

    return step


def delete(nth: int = -1) -> Step:
    return lambda scene: scene.aws.sqs.delete_message(
        QueueUrl=scene.url, ReceiptHandle=scene.handle(nth)
    )


def hide(seconds: int, nth: int = -1) -> Step:
    """Change the visibility of the nth message that was received."""
    return lambda scene: scene.aws.sqs.change_message_visibility(
        QueueUrl=scene.url, ReceiptHandle=scene.handle(nth), VisibilityTimeout=seconds
    )


def depth(visible: int, in_flight: int = 0, delayed: int = 0) -> Step:
    names = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]

    def step(scene: Scene) -> None:
        found = scene.aws.sqs.get_queue_attributes(QueueUrl=scene.url, AttributeNames=names)
        numbers = [int(found["Attributes"][name]) for name in names]
        assert numbers == [visible, in_flight, delayed]

    return step


def carries(**attributes: str) -> Step:
    """The message received last has these system attributes."""

    def step(scene: Scene) -> None:
        found = scene.received[-1]["Attributes"]
        assert {name: found.get(name) for name in attributes} == attributes

    return step


def holds(condition: Callable[[Scene], object]) -> Step:
    """Something is true of the scene."""

    def step(scene: Scene) -> None:
        assert condition(scene)

    return step


def refused(code: str, operation: str, **arguments: Any) -> Step:
    """A call is refused; without a URL of its own it is about the scene's queue."""

    def step(scene: Scene) -> None:
        target = {"QueueUrl": scene.url, **arguments}
        if operation in ("create_queue", "get_queue_url"):
            del target["QueueUrl"]
        assert refusal(getattr(scene.aws.sqs, operation), **target) == code

    return step


def refused_send(code: str, **arguments: Any) -> Step:
    return refused(code, "send_message", **{"MessageBody": "body", **arguments})


def refused_step(code: str, step: Step) -> Step:
    """A step is refused that would otherwise act on the scene."""

    def refuse(scene: Scene) -> None:
        assert refusal(step, scene=scene) == code

    return refuse


def batch(operation: str, *entries: dict[str, Any], failed: Sequence[tuple[str, str]]) -> Step:
    """A batch of which these entries fail, (id, code), and the others do not.

    `ReceiptHandle` may be the number of a message that was received.
    """

    def step(scene: Scene) -> None:
        filled = [
            {**member, "ReceiptHandle": scene.handle(member["ReceiptHandle"])}
            if isinstance(member.get("ReceiptHandle"), int)
            else member
            for member in entries
        ]
        answer = getattr(scene.aws.sqs, operation)(QueueUrl=scene.url, Entries=filled)
        failures = answer.get("Failed", [])
        assert [(failure["Id"], failure["Code"]) for failure in failures] == list(failed)
        assert all(failure["SenderFault"] is True for failure in failures)
        ids = {member["Id"] for member in entries} - {name for name, _ in failed}
        assert {success["Id"] for success in answer.get("Successful", [])} == ids

    return step
