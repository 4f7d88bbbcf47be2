"""What the pipelines of an app share, as one construct."""

from __future__ import annotations

from dataclasses import replace

import aws_cdk as cdk
import jsii
from aws_cdk import aws_kms as kms
from constructs import Construct, IConstruct

from . import context
from .brought import key_arn
from .dashboard import add_dashboards
from .encryption import let_services_use
from .first_heartbeat import first_heartbeats
from .function import PythonFunction
from .on_call import OnCall, attach
from .pager import Pager
from .refusal import Refused, refused
from .registration import register_app
from .rule_check import RuleCheck
from .settings import AppDeployment, PipelineDeployment
from .starter import Starter
from .storage import Storage
from .tagged import TAG
from .typed import AppSettings

# The construct id by which a pipeline finds the app of its stack.
DEADLETTER = "Deadletter"


class DeadletterApp(Construct):
    """Tables, bucket, alarm topic, the parameter that names them, the rule checker, the function
    of first heartbeats, the role that starts functions, the policies of people on call, and the
    dashboard.

        shared = DeadletterApp(self, "Deadletter", settings=AppSettings(app="shop"))
        RedrivePipeline(self, "Orders", shared=shared)

    `key` is your key for all that is kept, as `settings.kms_key_arn` is. One that is made in this
    CDK app gets the statements that AWS services need; for another, synth prints them.
    `settings.app` is the first word of every name, and what `dlq --app` takes. The pipelines come
    by themselves: `settings.pipelines` is not read. What is about all of them, the policies and the
    dashboard, is made when the CDK synthesizes.
    """

    storage: Storage
    pager: Pager
    rule_check: RuleCheck
    heartbeats: PythonFunction
    starter: Starter

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: AppSettings | AppDeployment | None = None,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        app = settings if isinstance(settings, AppDeployment) else context.app(dict(settings or {}))
        app = replace(app, pipelines=())
        if key is not None:
            if app.kms_key_arn:
                allowed = "either settings or the argument key"
                raise refused(f"App {app.app}", "kms_key_arn", app.kms_key_arn, allowed)
            arn = key_arn(f"App {app.app}", "key", key)
            app = replace(app, kms_key_arn=arn)
        let_services_use(self, app, key)
        self._settings = app
        self._complete = False
        self._without_band: set[str] = set()
        _claim_name(self, app)
        self.storage = Storage(self, "Storage", app=app)
        self.pager = Pager(self, "Pager", app=app)
        register_app(self, app=app, storage=self.storage, pager=self.pager)
        self.rule_check = RuleCheck(
            self, "RuleCheck", app=app, storage=self.storage, pager=self.pager
        )
        self.heartbeats = first_heartbeats(self, app)
        self.starter = Starter(self, "Starter", app=app)
        cdk.Tags.of(self).add(TAG, app.app)
        cdk.Aspects.of(self).add(_Completion(self))

    @classmethod
    def of(cls, scope: Construct) -> DeadletterApp:
        """The app in the stack of `scope` with the construct id Deadletter, made on first use."""
        stack = cdk.Stack.of(scope)
        found = stack.node.try_find_child(DEADLETTER)
        if found is None:
            return cls(stack, DEADLETTER)
        if not isinstance(found, cls):
            raise Refused(
                f"Stack {stack.stack_name}: its construct {DEADLETTER} is no DeadletterApp, so give"
                " each RedrivePipeline its `shared`."
            )
        return found

    @property
    def settings(self) -> AppDeployment:
        """The settings of the app, with the pipelines that were added so far."""
        return self._settings

    def add(self, pipeline: PipelineDeployment, *, band: bool = True) -> None:
        """Add a pipeline, as each RedrivePipeline does; with a `band` on the dashboard.

        Raises Refused if the pipeline does not fit to the others.
        """
        before = self._settings.pipelines
        if any(other.name == pipeline.name for other in before):
            allowed = "a name that no other pipeline has"
            raise refused(f"Pipeline {pipeline.name}", "name", pipeline.name, allowed)
        self._settings = replace(self._settings, pipelines=(*before, pipeline))
        if not band:
            self._without_band.add(pipeline.name)
        stack = cdk.Stack.of(self)
        account, region = (
            None if cdk.Token.is_unresolved(part) else part
            for part in (stack.account, stack.region)
        )
        context.check(self._settings, account=account, region=region)

    def complete(self) -> None:
        """Make what is about all pipelines. The CDK calls this when it synthesizes.

        Raises Refused; from within the CDK it is a RuntimeError with that sentence.
        """
        if self._complete:
            return
        self._complete = True
        app = self._settings
        if app.dashboard:
            add_dashboards(
                Construct(self, "Dashboard"),
                app=app,
                rule_check=self.rule_check,
                without=self._without_band,
            )
        on_call = OnCall(self, "OnCall", app=app, storage=self.storage, pager=self.pager)
        for role, arn in on_call.arns.items():
            cdk.CfnOutput(self, f"{role}PolicyArn", value=arn, description=attach(role))


@jsii.implements(cdk.IAspect)
class _Completion:
    """Completes an app when the CDK prepares the tree: all pipelines are there then."""

    def __init__(self, shared: DeadletterApp) -> None:
        self._shared = shared

    def visit(self, node: IConstruct) -> None:
        self._shared.complete()


def _claim_name(scope: Construct, app: AppDeployment) -> None:
    """Refuse a second app of the same name in one account and region."""
    stack = cdk.Stack.of(scope)
    account, region = (
        "of-the-deployment" if cdk.Token.is_unresolved(part) else part
        for part in (stack.account, stack.region)
    )
    stage = cdk.Stage.of(scope)
    if stage is None:
        return
    claim = f"{DEADLETTER}-{app.app}-{account}-{region}"
    if stage.node.try_find_child(claim):
        allowed = "a name that no other DeadletterApp has; or give the pipelines one `shared`"
        raise refused(f"App {app.app}", "app", app.app, allowed)
    Construct(stage, claim)
