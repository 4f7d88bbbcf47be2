"""What one function of yours needs to be a pipeline's consumer: a policy, a variable, and trust.

The function refers to nothing of the pipeline: it may stand in its stack, in one that is deployed
before it, or, if its role stands in the pipeline's stack, in one that is deployed after it.

    the role stands in        the policy is made    the pipeline knows its id by
    the pipeline's stack      beside the pipeline   a reference
    another stack of the app  beside the role       a parameter (SSM) beside the role
    another app               beside the pipeline   the argument `role_id`

By a parameter and no export: CloudFormation neither changes nor removes an export while another
stack uses it, so the role could not be replaced.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from deadletter.contract import CONSUMER_VARIABLE, app_folder

from .brought import outermost
from .permissions import Permissions
from .refusal import Refused
from .settings import AppDeployment, PipelineDeployment

# An id begins like this if it is a role's. Users and assumed roles have others.
ROLE_ID = "AROA"

# The metadata of a function that says which pipeline it consumes.
CLAIM = "deadletter:consumes"


class ConsumerAccess(Construct):
    """The access of one function to one pipeline. Made by `RedrivePipeline.grant_consume`.

    `sender` is the unique id of the function's role, which SQS shows in the SenderId of what the
    function parks; None if it is unknown at synth and was not given. `policy` is None if the role
    takes no policy from here: then an output has the statements, and a warning names it.
    """

    sender: str | None
    policy: iam.Policy | None

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        function: lambda_.IFunction,
        settings: PipelineDeployment,
        app: AppDeployment,
        permissions: Permissions,
        role_id: str | None = None,
    ) -> None:
        check_may_consume(settings, function, role_id)
        super().__init__(scope, construct_id)
        # The variables are those of the function, whichever alias or version is granted.
        self._function = getattr(function, "lambda_", None) or function
        self._app = app
        self._settings = settings
        role = function.role
        self.sender = role_id or (self._id_of(role) if isinstance(role, iam.Role) else None)
        self.policy = self._attached(role, permissions) if role else None
        if self.policy is None:
            self._say_statements(permissions)
        if self.sender is None:
            self._say_trust()
        self._switch_on()

    def _id_of(self, role: iam.Role) -> str:
        """The unique id of a role of this app, as the pipeline's stack may refer to it."""
        home, here = cdk.Stack.of(role), cdk.Stack.of(self)
        if self._is_beside(role):
            return role.role_id
        _check_same_place(self._settings, home, here)
        unique = cdk.Names.unique_resource_name(self._function, max_length=64)
        name = f"{app_folder(self._app.app)}/consumers/{self._settings.name}/{unique}"
        ssm.StringParameter(
            home,
            f"{cdk.Names.unique_id(self)}Sender",
            parameter_name=name,
            description=f"The id of a role that consumes {self._settings.name}",
            string_value=role.role_id,
        )
        # A reference by name gives CloudFormation no order. The reason is read where it cannot
        # be kept: if the function's stack uses a queue of this one.
        here.add_stack_dependency(
            home,
            f"grant_consume: {here.node.path} trusts {role.node.path}. If {home.node.path} uses"
            f" resources of {here.node.path}, make that role in {here.node.path}",
        )
        return ssm.StringParameter.value_for_string_parameter(self, name)

    def _attached(self, role: iam.IRole, permissions: Permissions) -> iam.Policy | None:
        """Our policy at the role; None if the role was made to take none."""
        scope: Construct = self
        construct_id = "Policy"
        if isinstance(role, iam.Role) and not self._is_beside(role):
            # Beside the role: its statements name what they allow and refer to nothing.
            scope, construct_id = cdk.Stack.of(role), f"{cdk.Names.unique_id(self)}Policy"
        policy = iam.Policy(scope, construct_id, statements=permissions.statements(), force=True)
        role.attach_inline_policy(policy)
        # A role `without_policy_updates`, or imported as not mutable, ignores what is attached.
        if policy.node.validate():
            scope.node.try_remove_child(construct_id)
            return None
        function = self._function.node.default_child
        if isinstance(function, lambda_.CfnFunction) and cdk.Stack.of(function) is policy.stack:
            # Its mapping waits for the function, so no batch comes before the permission.
            function.node.add_dependency(policy)
        return policy

    def _is_beside(self, role: iam.Role) -> bool:
        """Whether the role is deployed together with the pipeline."""
        return outermost(cdk.Stack.of(role)) is outermost(cdk.Stack.of(self))

    def _switch_on(self) -> None:
        """Set the variable that switches the library on."""
        # A literal text: a reference would make the function wait for the pipeline, whose
        # functions wait for its role.
        value = f"{self._app.app}/{self._settings.name}"
        if isinstance(self._function, lambda_.Function):
            _claim(self._function, value, self._settings)
            self._function.add_environment(CONSUMER_VARIABLE, value)
            return
        self._warn(
            "variable",
            f"is not made by this app: set its variable {CONSUMER_VARIABLE} to {value}",
        )

    def _say_statements(self, permissions: Permissions) -> None:
        stack = cdk.Stack.of(self)
        output = cdk.CfnOutput(
            self,
            "Statements",
            description=f"The policy for the role of a consumer of {self._settings.name}",
            value=stack.to_json_string(permissions.document().to_json()),
        )
        key = stack.resolve(output.logical_id)
        self._warn("policy", f"takes no policy from here: give its role that of the output {key}")

    def _say_trust(self) -> None:
        self._warn(
            "trust",
            "has a role whose id is unknown here: pass grant_consume its role_id"
            " (aws iam get-role --role-name NAME --query Role.RoleId --output text), or what it"
            " parks has lost its past when it is replayed",
        )

    def _warn(self, what: str, text: str) -> None:
        cdk.Annotations.of(self).add_warning_v2(
            f"deadletter:consumer-{what}",
            f"Pipeline {self._settings.name}: the function {self._function.node.path} {text}.",
        )


def check_may_consume(
    settings: PipelineDeployment, function: lambda_.IFunction, role_id: str | None
) -> None:
    """Refuse a function for a pipeline that has another consumer, or no ledger, and a wrong id."""
    if settings.consumer.kind == "webhook":
        raise Refused(
            f"Pipeline {settings.name}: {function.node.path} cannot consume it, because its"
            " consumer is the webhook dispatcher; allowed: consumer of kind function or none."
        )
    if not settings.consumer_library:
        raise Refused(
            f"Pipeline {settings.name}: consumer_library is false; allowed: true, because"
            f" {function.node.path} is granted what the consumer library needs."
        )
    if role_id and not cdk.Token.is_unresolved(role_id) and not role_id.startswith(ROLE_ID):
        raise Refused(
            f"Pipeline {settings.name}: role_id is {role_id}; allowed: the unique id of a role,"
            f" which begins with {ROLE_ID}."
        )


def _claim(function: lambda_.Function, value: str, settings: PipelineDeployment) -> None:
    """Refuse a function that consumes another pipeline: its variable names one."""
    for entry in function.node.metadata:
        if entry.type == CLAIM and entry.data != value:
            raise Refused(
                f"Pipeline {settings.name}: {function.node.path} consumes {entry.data};"
                " allowed: a function of its own for each pipeline."
            )
    function.node.add_metadata(CLAIM, value)


def _check_same_place(settings: PipelineDeployment, home: cdk.Stack, here: cdk.Stack) -> None:
    """Refuse a function in another account or region: SQS starts none there."""
    for what, theirs, ours in (
        ("account", home.account, here.account),
        ("region", home.region, here.region),
    ):
        if cdk.Token.is_unresolved(theirs) or cdk.Token.is_unresolved(ours):
            continue
        if theirs != ours:
            raise Refused(
                f"Pipeline {settings.name}: the role of its consumer is in {what} {theirs};"
                f" allowed: {ours}, that of the pipeline's stack."
            )
