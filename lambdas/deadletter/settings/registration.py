"""Where a pipeline is, as its deployment wrote it down for others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline, pipeline_from_json
from deadletter.settings.resources import Resources


def read(name: str, shared: str, own: str) -> tuple[Pipeline, Resources]:
    """What a consumer of the pipeline needs of both parameters; raises BadSettings."""
    app, one = _object("the app's parameter", shared), _object("the pipeline's parameter", own)
    told = one.get("pipeline")
    if not isinstance(told, Mapping):
        raise BadSettings(
            f"pipeline {name} is registered by a version that says nothing to consumers: "
            "deploy it again"
        )
    pipeline = pipeline_from_json(json.dumps({"name": name, **told}))
    parking = one.get("parking")
    senders = one.get("trusted_senders", [])
    if not isinstance(parking, Mapping) or not isinstance(senders, list):
        raise BadSettings(f"pipeline {name}: its registration has no parking or trusted_senders")
    return pipeline, Resources(
        main_url=_text(one, "main_url"),
        parking={str(key): str(url) for key, url in parking.items()},
        letters_table=_text(app, "letters_table"),
        circuits_table=_text(app, "circuits_table"),
        trusted_senders=tuple(map(str, senders)),
        circuit_machine=str(one.get("circuit_machine", "")),
    )


def _object(where: str, text: str) -> Mapping[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise BadSettings(f"{where} is not JSON") from error
    if not isinstance(data, dict):
        raise BadSettings(f"{where} must be a JSON object")
    return data


def _text(data: Mapping[str, Any], name: str) -> str:
    found = data.get(name)
    if not isinstance(found, str) or not found:
        raise BadSettings(f"the registration has no {name}")
    return found
