"""An AWS that forgets a message's SenderId when it moves it into the DLQ: no stamp is believed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from deadletter.message.letter import MAX_BYTES
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import Pipeline, RetryPolicy
from deadletter.testing.fakes import MemorySqs
from deadletter.testing.fakes.sqs_queue import FakeQueue, Message
from tests.simulation.stage import Stage, attribute, prompt_policy
from tests.simulation.test_outage import Unavailable
from tests.simulation.test_post import PostedSite

ATTEMPTS = 3
CAPPED = {"REDRIVE": ATTEMPTS, "PARK:RETRIES_EXHAUSTED": 1}
THIN = Pipeline("orders", policy=prompt_policy(ATTEMPTS), workers=1)


class ForgetfulSqs(MemorySqs):
    def _bury(self, queue: FakeQueue, message: Message, now: float) -> bool:
        moved = super()._bury(queue, message, now)
        if moved:
            message.sender = ""
        return moved


def site_of(pipeline: Pipeline) -> PostedSite:
    """A site whose dependency is never there."""
    return PostedSite(Stage(pipeline, sqs_type=ForgetfulSqs), down=lambda _: Unavailable("gone"))


def decided(site: PostedSite) -> Counter[str]:
    """What runs decide about all letters until the last one is parked."""
    stage = site.stage
    decisions: Counter[str] = Counter()
    for _ in range(30):
        if stage.pipeline.consumer_library:
            site.consume()
            stage.clock.advance(900)
        stage.fail()
        decisions += Counter(stage.run().decisions)
        stage.clock.advance(6)
    assert not stage.bodies(stage.main) + stage.bodies(stage.dlq)
    return decisions


@pytest.mark.parametrize("own", [0, 1, 8, 9, 10])
@pytest.mark.parametrize("library", [False, True])
def test_a_letter_is_sent_as_often_as_its_policy_allows(library: bool, own: int) -> None:
    site = site_of(replace(THIN, consumer_library=library))
    site.stage.put(MessageAttributes={f"a{number}": attribute("x") for number in range(own)})
    assert decided(site) == CAPPED
    assert len(site.stage.bodies(site.stage.parking)) == 1


@pytest.mark.parametrize("library", [False, True])
def test_so_is_a_letter_of_an_unknown_role(library: bool) -> None:
    stage = Stage(replace(THIN, consumer_library=library))
    site = PostedSite(stage, down=lambda _: Unavailable("gone"))
    stage.resources = replace(stage.resources, trusted_senders=("AROAEARLIER",))
    stage.put()
    assert decided(site) == CAPPED


def test_so_is_one_that_is_too_large_for_its_stamp() -> None:
    site = site_of(THIN)
    site.stage.put(f'"{"x" * (MAX_BYTES - 2)}"')
    assert decided(site) == CAPPED


def test_so_is_one_that_waits_outside_its_queue() -> None:
    hour = Backoff(base=3_600, factor=1, cap=3_600, floor=3_600)
    stage = site_of(replace(THIN, policy=RetryPolicy(hour, max_attempts=ATTEMPTS))).stage
    stage.put()
    for _ in range(20):
        stage.fail()
        stage.run()
        stage.clock.advance(3_601)
    [parked] = stage.stamps(stage.parking)
    assert parked.because == "3 of 3 attempts used, 3 by stamps of unknown senders"
