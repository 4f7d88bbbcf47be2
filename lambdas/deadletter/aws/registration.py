"""The registrations of pipelines in SSM, for functions outside their deployments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deadletter.aws.errors import AWS_ERRORS, code
from deadletter.contract import (
    app_parameter,
    consumer_policy_parameter,
    pipeline_parameter,
)
from deadletter.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient

    from deadletter.settings.resources import Resources


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
