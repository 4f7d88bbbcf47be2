"""A pipeline's registration: the SSM parameters that its deployment writes for consumers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deadletter.settings.json_fields import BadSettings, json_object
from deadletter.settings.pipeline import Pipeline, pipeline_from_json
from deadletter.settings.resources import Resources


def read(name: str, shared: str, own: str) -> tuple[Pipeline, Resources]:
    """The pipeline and the resources that its consumer needs, from the texts of two parameters.

    `shared` is the app's parameter and `own` the pipeline's. Raises BadSettings.
    """
    app = json_object("the app's parameter", shared)
    registered = json_object("the pipeline's parameter", own)
    settings = registered.get("pipeline")
    if not isinstance(settings, Mapping):
        raise BadSettings(f"pipeline {name}: its registration has no settings")
    pipeline = pipeline_from_json(json.dumps({"name": name, **settings}))
    parking = registered.get("parking")
    senders = registered.get("trusted_senders")
    if not isinstance(parking, Mapping) or not isinstance(senders, list):
        raise BadSettings(f"pipeline {name}: its registration has no parking or trusted_senders")
    return pipeline, Resources(
        main_url=_text(registered, "main_url"),
        parking={str(key): str(url) for key, url in parking.items()},
        messages_table=_text(app, "messages_table"),
        circuits_table=_text(app, "circuits_table"),
        trusted_senders=tuple(map(str, senders)),
        circuit_machine=_text(registered, "circuit_machine"),
    )


def _text(data: Mapping[str, Any], name: str) -> str:
    text = data.get(name)
    if not isinstance(text, str) or not text:
        raise BadSettings(f"the registration has no {name}")
    return text
