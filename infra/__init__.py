"""The CDK side of Deadletter: one construct per noun.

    from deadletter_cdk import DeadletterApp, PipelineSettings, RedrivePipeline

    pipeline      RedrivePipeline, everything one pipeline needs, in one statement
    queues        main queue, DLQ, dedicated DLQs, parking lot
    storage       the tables and the bucket that pipelines share
    redriver      the function that moves letters, and its schedules
    router        the function that decides about them
    rule_check    the function that checks edits of rules
    circuit       the circuit breaker: a state machine, and the functions it calls
    consumer      the webhook dispatcher
    alarms        the alarms; pager is the topic that they notify
    dashboard     a band a pipeline; `widgets` is that band for a dashboard of yours
    registration  how the command line finds all of it
    on_call       the policies of people on call
    permissions   grants to a role: the nouns above offer them as `grant_...`
    layer         ConsumerLayer, the consumer library for functions of teams
    asset         the zip of our own functions

    settings      what a person may type (checked explains a mistake, fits what must agree)
    typed         the same as types for editors
    shared        DeadletterApp, what the pipelines of an app share
    brought       queues and functions of your CDK app, as settings; tagged names them to people
    stacks        the app itself; summary says what its templates make, and what that costs idle

What this package offers is imported when it is asked for, so that reading settings doesn't start
the CDK. Of the runtime only `deadletter.contract` and `deadletter.settings` are imported.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .layer import ConsumerLayer
    from .pipeline import RedrivePipeline
    from .refusal import Refused
    from .shared import DeadletterApp
    from .typed import AppSettings, Consumer, PipelineSettings

__all__ = [
    "AppSettings",
    "Consumer",
    "ConsumerLayer",
    "DeadletterApp",
    "PipelineSettings",
    "RedrivePipeline",
    "Refused",
]

_MODULES = {
    "AppSettings": "typed",
    "Consumer": "typed",
    "ConsumerLayer": "layer",
    "DeadletterApp": "shared",
    "PipelineSettings": "typed",
    "RedrivePipeline": "pipeline",
    "Refused": "refusal",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
