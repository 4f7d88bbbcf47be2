"""Puts the function `first_heartbeat` together: a custom resource of each pipeline's stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deadletter.aws.clients import ca_bundle, heartbeat_client
from deadletter.aws.heartbeats import CloudWatchHeartbeats
from deadletter.aws.stack_request import (
    ANSWERING,
    Put,
    StackRequest,
    give_answer,
    put_over_https,
    stack_request,
)
from deadletter.aws.wiring.world import World
from deadletter.watch.first_heartbeat import Beat, Heartbeats, first_heartbeat

__all__ = ["FirstHeartbeats", "first_heartbeats_for"]

NOTHING_TO_DO = "nothing to do"
FAILED = "failed"


@dataclass(frozen=True, slots=True)
class FirstHeartbeats:
    """Answers CloudFormation's requests for first heartbeats, whatever happens to them.

    A heartbeat that could not be written is a false page; a request without an answer is a
    stack that does not deploy.
    """

    heartbeats: Heartbeats
    put: Put
    world: World

    def handle(self, event: Mapping[str, Any], deadline: float) -> Beat:
        """Do what the event asks for and answer it before `deadline`; raises AnswerNotTaken."""
        request = stack_request(event)
        beat = self._beat(request, deadline - ANSWERING)
        reason = f"first heartbeat: {beat.outcome} {beat.why}".strip()
        answer = request.success(_physical_id(request), reason)
        give_answer(request.answer_to, answer, put=self.put, wait=self.world.wait)
        return beat

    def _beat(self, request: StackRequest, deadline: float) -> Beat:
        if request.deletes:
            return Beat(NOTHING_TO_DO)
        try:
            return first_heartbeat(
                str(request.properties["Pipeline"]),
                self.heartbeats,
                deadline=deadline,
                clock=self.world.clock,
                wait=self.world.wait,
            )
        except Exception as error:  # a defect of ours must not stop a deployment
            return Beat(FAILED, type(error).__name__)


def first_heartbeats_for(app: str, world: World) -> FirstHeartbeats:
    """The custom resource of one app."""
    return FirstHeartbeats(
        CloudWatchHeartbeats(heartbeat_client(), app), put_over_https(ca_bundle()), world
    )


def _physical_id(request: StackRequest) -> str:
    """One id for each pipeline, so that an update replaces nothing."""
    return f"first-heartbeat-{request.properties.get('Pipeline', 'unknown')}"
