"""One pipeline with everything it needs, in one statement."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IConstruct

from deadletter.contract import MAIN_DLQ
from deadletter.signals.figures import Figure
from deadletter.signals.pages import Alarm

from . import brought
from .alarms import add_alarms, of_pipeline
from .circuit import CircuitBreaker
from .consumer import ConsumerFunction, DispatcherFunction
from .consumer_access import ConsumerAccess
from .consumer_policy import ConsumerPolicy, consumer_permissions
from .dashboard import widgets
from .first_heartbeat import first_heartbeat
from .function import PythonFunction
from .measured import ours, saved_query
from .pager import Pager
from .queues import Parts, Queues
from .redriver import RedriverFunction
from .registration import register_pipeline
from .replay import ReplayMachine
from .router import router_function
from .settings import PipelineDeployment
from .shared import DeadletterApp
from .storage import Storage
from .tagged import TAG, tag_queue
from .typed import Consumer, PipelineSettings
from .watch import WatchFunction


class RedrivePipeline(Construct):
    """A pipeline: the redriver and the router, the queues and tables they need, the alarms.

        RedrivePipeline(self, "Orders", main_queue=queue, dlq=dlq, consumer=function)

    main_queue        your queue, which then has no consumer that the pipeline knows unless you
                      name it; else one is made, and the webhook dispatcher reads it
    dlq               your DLQ; else that of your main queue if the CDK knows it, else one is made
    consumer          your function, Consumer(...) of another kind, or just "none"
    consumer_mapping  the mapping of your function from the main queue, which an outage pauses
    consumer_library  whether your consumer uses the consumer library (see grant_consume)
    settings          everything else. Without them the name is that of the construct: OrderEvents
                      is order-events
    shared            what pipelines share: else that of this stack, made on first use (see
                      DeadletterApp)
    queues            the queues if they are made in another stack

    Your queues and functions are not changed, but for the tag deadletter:app on queues of this CDK
    app. With a queue of yours the mode is observe, which moves nothing, unless the settings say
    enforce. Raises Refused, with one sentence, if something does not fit together.

    `dispatcher` is None if the settings name another consumer; else `consumer_policy`, which
    another consumer needs to use the consumer library, is None.
    """

    settings: PipelineDeployment
    shared: DeadletterApp
    storage: Storage
    queues: Queues
    pager: Pager
    redriver: RedriverFunction
    router: PythonFunction
    watch: WatchFunction
    dispatcher: DispatcherFunction | None
    consumer_policy: ConsumerPolicy | None
    circuit_breaker: CircuitBreaker
    replay: ReplayMachine
    alarms: Mapping[str, cloudwatch.Alarm]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: PipelineSettings | PipelineDeployment | None = None,
        main_queue: sqs.IQueue | None = None,
        dlq: sqs.IQueue | None = None,
        consumer: lambda_.IFunction | Consumer | str | None = None,
        consumer_mapping: lambda_.IEventSourceMapping | None = None,
        consumer_library: bool | None = None,
        shared: DeadletterApp | None = None,
        queues: Queues | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        settings = self.settings = brought.settings(
            self,
            settings,
            main_queue=main_queue,
            dlq=dlq,
            consumer=consumer,
            consumer_mapping=consumer_mapping,
            consumer_library=consumer_library,
        )
        dlq = dlq or brought.known_dlq(main_queue)
        self.shared = shared or DeadletterApp.of(self)
        brought.check_shared(settings.name, self.shared, self)
        function = None if isinstance(consumer, Mapping | str) else consumer
        self._add(main_queue, dlq, function)
        app = self._app = self.shared.settings
        self.storage, self.pager = self.shared.storage, self.shared.pager
        cdk.Tags.of(self).add(TAG, app.app)
        if main_queue is not None:
            tag_queue(main_queue, app, holds_messages=False)
        if dlq is not None:
            tag_queue(dlq, app, holds_messages=True)
        brought.announce(self, settings, main_queue, dlq)
        brought.warn_of_a_shared_dlq(self, app, settings)
        self._main_queue, self._dlq = main_queue, dlq
        self._consumers: dict[str, ConsumerAccess] = {}
        self.queues = queues or Queues(self, "Queues", settings=settings, app=app)
        # What is known by its name gives CloudFormation no order.
        stack = cdk.Stack.of(self)
        is_beside = not brought.is_made_in_another_stack(self.shared, stack)
        theirs = [queue for queue in (main_queue, dlq) if queue is not None]
        others: list[IConstruct] = [self.shared, self.queues, *theirs]
        for other in others:
            if brought.is_made_in_another_stack(other, stack):
                theirs_first = brought.outermost(cdk.Stack.of(other))
                brought.outermost(stack).add_stack_dependency(theirs_first)
        parts = self._parts = Parts(settings, app, self.storage, self.queues)
        self.router = router_function(self, parts)
        self.dispatcher, self.consumer_policy = None, None
        if settings.consumer.is_webhook:
            self.dispatcher = DispatcherFunction(self, "Dispatcher", parts)
            if main_queue is not None:
                self.dispatcher.mapping.node.add_dependency(main_queue)
        else:
            self.consumer_policy = ConsumerPolicy(self, "ConsumerPolicy", parts)
        tried_by = ConsumerFunction.of(app, settings, self.dispatcher)
        self.redriver = RedriverFunction(self, "Redriver", parts)
        self.watch = WatchFunction(self, "Watch", parts, consumer=tried_by)
        keeper, mover = self.watch.keeper, self.redriver.mover
        self.circuit_breaker = CircuitBreaker(
            self, "CircuitBreaker", parts, consumer=tried_by, keeper=keeper
        )
        self.replay = ReplayMachine(self, "Replay", parts, consumer=tried_by, mover=mover)
        # A consumer does not trust the stamp of a consumer: a handler that sends a message to
        # its own queue again sends a new message, not a duplicate of the old one.
        redrivers = [self.redriver.sender]
        if self.circuit_breaker.sender:
            redrivers.append(self.circuit_breaker.sender)
        self._senders = [*redrivers, *settings.trusted_senders]
        if self.dispatcher:
            self._senders.insert(len(redrivers), self.dispatcher.sender)
            self.dispatcher.trust(redrivers)
        self._trust()
        if is_beside:
            # It is known by its name only, which gives no order.
            for started in (self.redriver, self.watch, self.circuit_breaker, self.replay):
                started.node.add_dependency(self.shared.starter)
        heartbeat = first_heartbeat(self, app, settings)
        # Its minutes begin when all is there that the watch needs to run.
        heartbeat.node.add_dependency(self.watch)
        if is_beside:
            # The tables are known by their names too: no function refers to them.
            heartbeat.node.add_dependency(self.shared.heartbeats, self.storage)
        self.alarms = add_alarms(
            Construct(self, "Alarms"), of_pipeline(app, settings, self.queues), pager=self.pager
        )
        # Without data the alarm would ring at once.
        self.alarms[Alarm.REDRIVE_STALLED].node.add_dependency(heartbeat)
        functions = [each for each in self.node.find_all() if isinstance(each, PythonFunction)]
        saved_query(self, app.app, settings.name, [each.log_group for each in functions])
        register_pipeline(self, parts, redrivers)

    def _add(
        self,
        main_queue: sqs.IQueue | None,
        dlq: sqs.IQueue | None,
        consumer: IConstruct | None,
    ) -> None:
        """Add the pipeline to what it shares with others."""
        home, settings = cdk.Stack.of(self.shared), self.settings
        band = all(
            brought.is_named_in(home, arn, construct)
            for arn, construct in (
                (settings.main_queue.arn, main_queue),
                (settings.dlq.arn, dlq),
                (settings.consumer.function_arn, consumer),
            )
        )
        self.shared.add(settings, band=band)
        if self.shared.settings.dashboard and not band:
            cdk.Annotations.of(self).add_warning_v2(
                "deadletter:no-band",
                f"Pipeline {settings.name} has no band on the dashboard of {home.stack_name}: only"
                " the deployment knows the names of its queues or function. Name them, or put"
                " the pipeline's widgets() on a dashboard of yours.",
            )

    @property
    def main_queue(self) -> sqs.IQueue:
        """The queue that the consumer reads: yours, or the one that was made."""
        return self._main_queue or self.queues.main_queue

    @property
    def dlq(self) -> sqs.IQueue:
        """The DLQ: yours, or the one that was made."""
        return self._dlq or self.queues.dead_letter_queue

    @property
    def parking_lot(self) -> sqs.IQueue:
        """The queue in which letters wait for a person."""
        return self.queues.parking_lot

    def metric(self, figure: Figure, statistic: str | None = None) -> cloudwatch.Metric:
        """A figure of the pipeline, such as Figure.REDRIVEN."""
        return ours(self._app.app, self.settings.name, figure, statistic=statistic)

    def metric_messages(self) -> cloudwatch.Metric:
        """Messages of the DLQ and of the lane that belongs to it."""
        return self._of_dlq(Figure.MESSAGES)

    def metric_oldest_message_age(self) -> cloudwatch.Metric:
        """Age of the oldest message of the DLQ, in seconds."""
        return self._of_dlq(Figure.OLDEST_MESSAGE_AGE)

    def metric_redriven(self) -> cloudwatch.Metric:
        """Messages sent back to the main queue."""
        return self.metric(Figure.REDRIVEN)

    def metric_recovered(self) -> cloudwatch.Metric:
        """Dead messages that were processed; a consumer with the library says so."""
        return self.metric(Figure.REDRIVE_SUCCESS)

    def metric_parked(self) -> cloudwatch.Metric:
        """Messages moved to the parking lot."""
        return self.metric(Figure.MOVED_TO_PARKING)

    def metric_circuit_state(self) -> cloudwatch.Metric:
        """The state of the pipeline's circuit: 0 CLOSED, 1 HALF_OPEN, 2 OPEN."""
        return self.metric(Figure.CIRCUIT_STATE)

    def _of_dlq(self, figure: Figure) -> cloudwatch.Metric:
        name = self.settings.name
        return ours(self._app.app, name, figure, source=MAIN_DLQ, label=str(figure))

    def widgets(self) -> list[list[cloudwatch.IWidget]]:
        """The rows of this pipeline, for `Dashboard.add_widgets(*row)` of a dashboard of yours."""
        return widgets(self, settings=self.settings, app=self._app)

    def grant_consume(
        self, function: lambda_.IFunction, *, role_id: str | None = None
    ) -> ConsumerAccess:
        """Let a function of yours consume the main queue by the consumer library.

            pipeline.grant_consume(ship_orders)

        Its role gets a policy, its variable DEADLETTER is set, and the pipeline trusts what it
        parks. The function holds no reference to the pipeline. It may stand in another stack of the
        app, which is deployed first: until the pipeline's stack is deployed too, its batches come
        back. If its stack uses a queue of the pipeline's stack, make its role in the latter.

        `role_id` is the unique id of the role, for a function that another app makes. What cannot
        be done from here for such a function, a warning says. Raises Refused if the pipeline has
        another consumer, or `consumer_library` is false.
        """
        name = cdk.Names.unique_id(function)
        if name not in self._consumers:
            access = ConsumerAccess(
                self,
                f"Consumer{name}",
                function=function,
                settings=self.settings,
                app=self._app,
                permissions=consumer_permissions(self._parts),
                role_id=role_id,
            )
            self._consumers[name] = access
            if access.sender:
                self._senders.append(access.sender)
                self._trust()
        return self._consumers[name]

    def _trust(self) -> None:
        """Have the functions that read stamps believe those of all senders."""
        for reader in (self.redriver, self.replay, self.router):
            reader.trust(self._senders)
