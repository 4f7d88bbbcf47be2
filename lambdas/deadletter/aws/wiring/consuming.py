"""Puts the consumer library together, for a team's function, which looks its pipeline up in SSM.

What only failures, parked messages and outages need is loaded when a consumer is made: a
function whose settings switch the library off does without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deadletter.aws.claims import DynamoDBClaims
from deadletter.aws.consumer_clients import ConsumerClients, brief_stepfunctions
from deadletter.aws.consumer_clients import consumer_clients as consumer_clients
from deadletter.aws.errors import AWS_ERRORS, code
from deadletter.aws.wiring.world import World
from deadletter.contract import (
    NOTHING,
    app_parameter,
    consumer_policy_parameter,
    pipeline_parameter,
)
from deadletter.processing.batch import Consumer, Handle, unhandled
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.signals.figures import Count

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient

    from deadletter.processing.crew import Crew


def consumer_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: ConsumerClients,
    world: World,
    *,
    handle: Handle = unhandled,
    count_metric: Callable[[str, int], None],
    count_now: Callable[[str, int], None] | None = None,
    crew: Crew | None = None,
) -> Consumer:
    """The consumer of a pipeline. `count_metric` counts the metrics of its outcomes, by name.

    `count_now` publishes a metric at once; without it `count_metric` does. Without a `crew` one
    message follows the other.
    """
    # What only failures, parked messages and outages need.
    from deadletter.aws.wiring.stores import Stores
    from deadletter.processing.collisions import Collisions
    from deadletter.processing.sudden_causes import SuddenCauses
    from deadletter.processing.visibility import LastReceive

    stores = Stores(pipeline, resources, clients, world, count_metric=count_metric)
    clock, main_queue, collisions = world.clock, stores.queue(resources.main_url), stores.collisions

    def bad_claim(key: str) -> None:
        """A claim could not be read: count it, and leave its name where `dlq status` looks."""
        count_metric(Count.BAD_ROW, 1)
        collisions.note_bad_claim(key, clock())

    order = None
    if stores.lines is not None:
        from deadletter.processing.key_order import KeyOrder

        order = KeyOrder(pipeline, stores.lines, clock, world.wait)
    can_collide = pipeline.idempotency_key is not None and pipeline.idempotency_payload != NOTHING
    return Consumer(
        pipeline=pipeline,
        handle=handle,
        log=stores.ledger,
        claims=DynamoDBClaims(*stores.messages_table, clock, pipeline.idempotency_keep, bad_claim),
        circuits=stores.circuits,
        # Without the state machine, the watch starts the outage.
        outcomes=stores.outcomes(
            stores.outages(brief_stepfunctions) if resources.circuit_machine else None
        ),
        queue=main_queue,
        parking={lot: stores.queue(url) for lot, url in resources.parking.items()},
        trusted_senders=frozenset(resources.trusted_senders),
        clock=clock,
        random=world.random,
        new_id=world.new_id,
        count_now=count_now or count_metric,
        causes=SuddenCauses(stores.causes, clock, count_metric),
        crew=crew,
        collisions=Collisions(collisions, clock, count_metric) if can_collide else None,
        order=order,
        last_receive=LastReceive(main_queue, clock),
        pause=world.wait,
    )


class NotRegistered(Exception):
    """The registration is missing or unreadable; the message says why, and what to do."""


def look_up(client: SSMClient, app: str, pipeline: str) -> tuple[Pipeline, Resources]:
    """The pipeline and the resources of its consumer; raises NotRegistered and BadSettings."""
    from deadletter.settings import registration

    names = [app_parameter(app), pipeline_parameter(app, pipeline)]
    try:
        answer = client.get_parameters(Names=names)
    except AWS_ERRORS as error:
        raise NotRegistered(
            f"{' and '.join(names)} could not be read ({code(error)}); the function's role "
            f"needs the managed policy that {consumer_policy_parameter(app, pipeline)} names"
        ) from error
    values = {parameter["Name"]: parameter["Value"] for parameter in answer.get("Parameters", [])}
    for name in names:
        if name not in values:
            raise NotRegistered(f"there is no parameter {name} in this account and region")
    return registration.read(pipeline, *(values[name] for name in names))
