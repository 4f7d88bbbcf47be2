"""Each post says which post of its message it is, over all lives, runs and releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from deadletter.processing.lambda_event import invoker_of, records_of, seconds_left
from deadletter.settings.pipeline import Pipeline
from deadletter.testing import Letterbox
from deadletter.testing.letterbox import VISIBILITY
from deadletter.webhook.endpoint import RegistryUnavailable
from deadletter.webhook.http import AnswerTimeout, HttpResponse
from tests.webhook.test_dispatcher import PIPELINE, Registry, Wire, dispatcher

RUN = "0123456789abcdef"
ORDER = {"tenantId": "a", "orderId": 7}


@dataclass
class Receiver(Wire):
    """An endpoint that answers 503, or what it is told to, and its dispatcher."""

    box: Any = None
    registry: Registry = field(default_factory=Registry)
    killed: bool = False

    def __call__(self, *post: Any) -> HttpResponse:
        if not self.answers:
            self.answers.append(503)
        answer = super().__call__(*post)
        if self.killed:
            raise KeyboardInterrupt
        return answer

    def receive(self, **invoker: str) -> None:
        """Let the dispatcher have what is visible in the main queue; then let time pass."""
        deliver = dispatcher(self, self.registry, clock=self.box.clock).deliver
        consumer = replace(self.box.runtime.consumer, handle=deliver)

        def handler(event: Any, context: Any) -> Mapping[str, Any]:
            deadline = self.box.clock() + seconds_left(context)
            records = records_of(event)
            return consumer.process(records, deadline=deadline, **invoker_of(context)).to_response()

        self.box.run(handler, **invoker)
        self.box.clock.advance(12 * 3600)

    @property
    def attempts(self) -> list[int]:
        return [int(headers["webhook-attempt"]) for _, _, headers in self.posted]

    @property
    def ids(self) -> set[str]:
        return {headers["webhook-id"] for _, _, headers in self.posted}


@pytest.fixture
def letterbox_settings(request: pytest.FixtureRequest) -> Pipeline:
    return getattr(request, "param", PIPELINE)


@pytest.fixture
def receiver(letterbox: Letterbox) -> Receiver:
    return Receiver(box=letterbox)


FORMS = pytest.mark.parametrize(
    "letterbox_settings",
    [
        PIPELINE,
        replace(PIPELINE, fifo=True),
        replace(PIPELINE, idempotency_key="body.orderId"),
    ],
    indirect=True,
    ids=["standard", "fifo", "with a key"],
)


@FORMS
def test_every_post_of_a_message_counts_in_all_its_lives_releases_and_runs(
    receiver: Receiver, letterbox: Letterbox
) -> None:
    origin = letterbox.send(ORDER)
    for _ in range(5):
        receiver.receive()
    # Re-driven six times, then released by a person, who gives it all its attempts again.
    for attempt in [*range(1, 7), 0, *range(1, 4)]:
        letterbox.redrive(ORDER, origin=origin, attempt=attempt)
        for _ in range(5):
            receiver.receive()
    letterbox.redrive(ORDER, origin=origin, attempt=4)
    receiver.receive(replay=RUN)
    receiver.receive(permit="owner")
    receiver.answers = [200]
    receiver.receive()
    posts = 5 + 10 * 5 + 3
    assert receiver.attempts == list(range(1, posts + 1))
    assert len(receiver.ids) == 1
    assert letterbox.waiting == []


def test_a_receive_without_a_post_uses_no_number(receiver: Receiver, letterbox: Letterbox) -> None:
    letterbox.send(ORDER)
    receiver.answers = [429]
    receiver.receive()
    endpoints = receiver.registry.endpoints
    paused = replace(endpoints[0], throttled_until=letterbox.clock() + 60)
    for registry in (
        Registry([paused]),
        Registry([replace(endpoints[0], enabled=False)]),
        Registry(raises=RegistryUnavailable()),
    ):
        receiver.registry = registry
        receiver.receive()
    receiver.registry = Registry()
    receiver.receive()
    assert receiver.attempts == [1, 2]


@pytest.mark.parametrize("killed", [False, True])
def test_a_post_without_an_answer_has_used_its_number(
    receiver: Receiver, letterbox: Letterbox, killed: bool
) -> None:
    """Its receiver may have it: the next post is another one."""
    letterbox.send(ORDER)
    if killed:
        receiver.killed = True
        with pytest.raises(KeyboardInterrupt):
            receiver.receive()
        receiver.killed = False
        letterbox.clock.advance(VISIBILITY)
    else:
        receiver.answers = [AnswerTimeout("no answer")]
        receiver.receive()
    receiver.receive()
    assert receiver.attempts == [1, 2]


def test_messages_count_for_themselves(receiver: Receiver, letterbox: Letterbox) -> None:
    letterbox.send(ORDER)
    letterbox.send({**ORDER, "orderId": 8})
    receiver.receive()
    receiver.receive()
    assert sorted(receiver.attempts) == [1, 1, 2, 2]
