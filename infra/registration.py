"""How the command line finds an app: parameters below `/<app>/`, for the app and each pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct, IConstruct

from deadletter.contract import app_parameter, pipeline_parameter

from . import here
from .environment import check_parameter, runtime_settings
from .findings import acknowledge_patterns
from .machines import outage_machine_arn, replay_machine_arn
from .names import Names
from .pager import Pager
from .permissions import Permissions
from .queues import Parts
from .settings import AppDeployment, ConsumerDeployment
from .storage import Storage


def register_app(scope: Construct, *, app: AppDeployment, storage: Storage, pager: Pager) -> None:
    """`/<app>/app`: what the pipelines share, as JSON."""
    ssm.StringParameter(
        Construct(scope, "Registration"),
        "Parameter",
        parameter_name=app_parameter(app.app),
        description=f"What the pipelines of {app.app} share",
        string_value=cdk.Stack.of(scope).to_json_string(
            {
                "messages_table": storage.messages.table_name,
                "rules_table": storage.rules.table_name,
                "audit_table": storage.audit.table_name,
                "audit_days": app.audit_days,
                "circuits_table": storage.circuits.table_name,
                "endpoints_table": storage.endpoints.table_name,
                "messages_bucket": storage.bucket_name,
                "alarm_topic": pager.topic_arn,
            }
        ),
    )


def register_pipeline(scope: Construct, parts: Parts, trusted_senders: Sequence[str]) -> None:
    """`/<app>/pipelines/<name>`: what one pipeline has of its own, as JSON."""
    settings, app, _, queues = parts
    names = Names(app.app, settings.name)
    function = settings.consumer.function_arn
    text = cdk.Stack.of(scope).to_json_string(
        {
            "main_url": queues.main.url,
            "dlq_url": queues.dlq.url,
            "parking": {id_: queue.url for id_, queue in queues.parking.items()},
            "dedicated": {id_: queue.url for id_, queue in queues.dedicated.items()},
            "redrive_function": names.function("redrive"),
            "router_function": names.function("route"),
            "circuit_machine": outage_machine_arn(app, settings.name),
            "replay_machine": replay_machine_arn(app, settings.name),
            "fifo": settings.fifo,
            "mode": settings.mode,
            # For the rule checker: the environment of one function could not hold
            # the terms of all pipelines.
            "terms": {
                "context": list(settings.context),
                "dedicated": list(settings.dedicated),
                "policies": list(settings.policies),
                "max_delay": settings.message_ttl,
            },
            # For the consumer library in a function of yours.
            "pipeline": runtime_settings(settings),
            "trusted_senders": list(trusted_senders),
            # Who removes the pipeline removes these.
            "stacks": {
                "pipeline": cdk.Stack.of(scope).stack_name,
                "queues": cdk.Stack.of(queues).stack_name,
            },
            # For `dlq doctor`: what the key of a queue is, only SQS may know.
            "keys": list(queues.keys),
            **({"consumer_function": function} if function else {}),
            # For `dlq endpoint add`: what the dispatcher would post to.
            **({"webhook": _urls(settings.consumer)} if settings.consumer.is_webhook else {}),
        }
    )
    check_parameter(settings, cdk.Stack.of(scope).resolve(text))
    ssm.StringParameter(
        Construct(scope, "Registration"),
        "Parameter",
        parameter_name=pipeline_parameter(app.app, settings.name),
        description=f"Queues, functions and settings of the pipeline {settings.name}",
        # A standard parameter holds 4 KB.
        tier=ssm.ParameterTier.INTELLIGENT_TIERING,
        string_value=text,
    )


def _urls(consumer: ConsumerDeployment) -> Mapping[str, object]:
    return {"ports": list(consumer.ports), "allow_loopback": consumer.allow_loopback}


def grant_find_pipeline(permissions: Permissions, app: AppDeployment, pipeline: str) -> None:
    """Read the parameters of the app and of one pipeline, as the consumer library does."""
    names = (app_parameter(app.app), pipeline_parameter(app.app, pipeline))
    permissions.allow("Registration", ["ssm:GetParameters"], [_arn(name) for name in names])


def grant_list_parameters(permissions: Permissions, folder: str) -> None:
    """Read all parameters below `folder`."""
    arn = _arn(folder)
    permissions.allow("Registrations", ["ssm:GetParametersByPath"], [arn, f"{arn}/*"])


def acknowledge_folder(construct: IConstruct, folder: str, *, because: str) -> None:
    """Say why a role of `construct` names a folder of parameters and no single one."""
    acknowledge_patterns(construct, f"{_arn(folder)}/*", because=because)


def _arn(parameter: str) -> str:
    return here.arn("ssm", f"parameter{parameter}")
