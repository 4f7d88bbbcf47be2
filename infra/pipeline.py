"""One pipeline with everything it needs, in one statement."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from deadletter.contract import Alarm

from .alarms import PipelineAlarms
from .circuit import CircuitBreaker
from .consumer import DispatcherFunction
from .consumer_access import ConsumerAccess
from .consumer_function import ConsumerFunction
from .consumer_policy import ConsumerPolicy, consumer_permissions
from .first_heartbeat import FirstHeartbeat, FirstHeartbeatFunction
from .pager import Pager
from .queues import Queues
from .redriver import RedriverFunction
from .registration import AppRegistration, PipelineRegistration
from .replay import ReplayMachine
from .router import RouterFunction
from .rule_check import RuleCheck
from .settings import AppSettings, PipelineSettings, WebhookConsumer
from .storage import Storage
from .watch import WatchFunction


class RedrivePipeline(Construct):
    """A pipeline: the redriver and the router, the queues and tables they need, the alarms.

        RedrivePipeline(self, "Orders", settings=PipelineSettings(name="orders"))

    Resources that are not given are created. A second pipeline of the same app shares those
    of the first:

        RedrivePipeline(self, "Refunds", settings=PipelineSettings(name="refunds"),
                        storage=orders.storage, pager=orders.pager)

    `dispatcher` is None if the settings name another consumer; else `consumer_policy`, which
    another consumer needs to use the consumer library, is None.
    """

    storage: Storage
    queues: Queues
    pager: Pager
    redriver: RedriverFunction
    router: RouterFunction
    watch: WatchFunction
    dispatcher: DispatcherFunction | None
    consumer_policy: ConsumerPolicy | None
    circuit_breaker: CircuitBreaker
    replay: ReplayMachine
    alarms: PipelineAlarms

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: PipelineSettings,
        app: AppSettings | None = None,
        storage: Storage | None = None,
        queues: Queues | None = None,
        pager: Pager | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        app = app or AppSettings()
        self._settings = settings
        self._app = app
        self._consumers: dict[str, ConsumerAccess] = {}
        self.pager = pager or Pager(self, "Pager", app=app)
        self.storage = storage or Storage(self, "Storage", app=app)
        heartbeats = None
        if storage is None:
            AppRegistration(
                self, "AppRegistration", app=app, storage=self.storage, pager=self.pager
            )
            RuleCheck(self, "RuleCheck", app=app, storage=self.storage, pager=self.pager)
            heartbeats = FirstHeartbeatFunction(self, "FirstHeartbeats", app=app)
        self.queues = queues or Queues(self, "Queues", settings=settings, app=app)
        self.router = RouterFunction(
            self, "Router", settings=settings, app=app, storage=self.storage
        )
        self.dispatcher, self.consumer_policy = None, None
        if isinstance(settings.consumer, WebhookConsumer):
            self.dispatcher = DispatcherFunction(
                self,
                "Dispatcher",
                settings=settings,
                webhook=settings.consumer,
                app=app,
                storage=self.storage,
                queues=self.queues,
            )
        else:
            self.consumer_policy = ConsumerPolicy(
                self,
                "ConsumerPolicy",
                settings=settings,
                app=app,
                storage=self.storage,
                queues=self.queues,
            )
        consumer = ConsumerFunction.of(app, settings, self.dispatcher)
        self.redriver = RedriverFunction(
            self,
            "Redriver",
            settings=settings,
            app=app,
            storage=self.storage,
            queues=self.queues,
        )
        self.watch = WatchFunction(
            self,
            "Watch",
            settings=settings,
            app=app,
            storage=self.storage,
            queues=self.queues,
            consumer=consumer,
        )
        self.circuit_breaker = CircuitBreaker(
            self,
            "CircuitBreaker",
            settings=settings,
            app=app,
            storage=self.storage,
            queues=self.queues,
            consumer=consumer,
        )
        self.replay = ReplayMachine(
            self,
            "Replay",
            settings=settings,
            app=app,
            storage=self.storage,
            queues=self.queues,
            consumer=consumer,
        )
        # A consumer does not trust the stamp of a consumer: a handler that sends a message to
        # its own queue again sends a new message, not a duplicate of the old one.
        redrivers = [self.redriver.sender, self.replay.sender]
        if self.circuit_breaker.sender:
            redrivers.append(self.circuit_breaker.sender)
        senders = [*redrivers, *settings.trusted_senders]
        if self.dispatcher:
            senders.insert(len(redrivers), self.dispatcher.sender)
            self.dispatcher.trust(redrivers)
        self._senders = senders
        self._trust()
        heartbeat = FirstHeartbeat(self, "FirstHeartbeat", app=app, settings=settings)
        # Its minutes begin when all is there that the watch needs to run.
        heartbeat.node.add_dependency(self.watch)
        if heartbeats:
            heartbeat.node.add_dependency(heartbeats)
        self.alarms = PipelineAlarms(
            self, "Alarms", settings=settings, app=app, queues=self.queues, pager=self.pager
        )
        # Without data the alarm would ring at once.
        self.alarms.alarms[Alarm.REDRIVE_STALLED].node.add_dependency(heartbeat)
        PipelineRegistration(
            self,
            "Registration",
            app=app,
            settings=settings,
            queues=self.queues,
            trusted_senders=redrivers,
        )

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
                settings=self._settings,
                app=self._app,
                permissions=consumer_permissions(
                    self._app, self._settings, storage=self.storage, queues=self.queues
                ),
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
