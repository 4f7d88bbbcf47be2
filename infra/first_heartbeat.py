"""The first heartbeat: RedriveStalled of a pipeline's first minutes, written by its deployment.

The alarm takes a minute without data for a minute without a watch, so without this it would ring
at each first deployment. If the watch never starts, it rings about 18 minutes later.
"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from deadletter.contract import NAMESPACE

from . import here
from .duration import MINUTE
from .function import PythonFunction
from .permissions import Permissions
from .settings import AppDeployment, PipelineDeployment

RESOURCE = "Custom::FirstHeartbeat"

# It waits for CloudWatch for three minutes at most, and then tries to answer for half a minute.
TIMEOUT = 4 * MINUTE

# Without an answer CloudFormation waits for an hour by default.
SERVICE_TIMEOUT = 5 * MINUTE

MEMORY = 256


def first_heartbeats(scope: Construct, app: AppDeployment) -> PythonFunction:
    """The function behind the resource, one for the whole app."""
    permissions = Permissions()
    # Neither action knows resources.
    permissions.allow(
        "WriteHeartbeats",
        ["cloudwatch:PutMetricData"],
        ["*"],
        {"StringEquals": {"cloudwatch:namespace": NAMESPACE}},
    )
    permissions.allow("SeeHeartbeats", ["cloudwatch:GetMetricData"], ["*"])
    function = PythonFunction(
        Construct(scope, "FirstHeartbeats"),
        "Function",
        name=function_name(app),
        handler="handlers.first_heartbeat.handler",
        description=f"Writes the first heartbeat of each pipeline of {app.app}",
        timeout=TIMEOUT,
        memory=MEMORY,
        app=app,
        permissions=permissions,
    )
    function.add_variables({})
    function.retry_in_the_next_minute(
        because="CloudFormation waits for the answer of one try, and then says so itself"
    )
    return function


def first_heartbeat(
    scope: Construct, app: AppDeployment, settings: PipelineDeployment
) -> cdk.CustomResource:
    """The first heartbeat of one pipeline, once its watch and the schedule of it are there."""
    return cdk.CustomResource(
        Construct(scope, "FirstHeartbeat"),
        "Resource",
        resource_type=RESOURCE,
        # By name, as all that stands in another stack.
        service_token=here.arn("lambda", f"function:{function_name(app)}"),
        properties={"Pipeline": settings.name},
        service_timeout=cdk.Duration.seconds(SERVICE_TIMEOUT),
    )


def function_name(app: AppDeployment) -> str:
    """The name of the function behind the resource."""
    return f"{app.app}-first-heartbeat"
