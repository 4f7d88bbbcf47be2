"""The router: it decides about letters, and can only read."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

from constructs import Construct

from deadletter.contract import SCHEMA_KEYWORDS, SchemaWord, Variable

from .encryption import grant_key
from .function import PythonFunction
from .names import Names
from .permissions import Permissions
from .queues import Parts
from .refusal import Refused
from .settings import PipelineDeployment

# The redriver waits for the answer, and its run has to end in time.
TIMEOUT = 20

# A chunk is up to 4.5 MB of JSON, held as text and as objects.
MEMORY = 512


def router_function(scope: Construct, parts: Parts) -> PythonFunction:
    """The function that turns letters into decisions."""
    settings, app, storage, _ = parts
    permissions = Permissions()
    ordered = settings.ordering_key is not None
    storage.grant_judge_letters(permissions, settings.name, ordered=ordered)
    storage.grant_rules(permissions, settings.name)
    storage.grant_circuits(permissions, settings.name)
    grant_key(permissions, app, services=("dynamodb",), writes=False)
    return PythonFunction(
        Construct(scope, "Router"),
        "Route",
        name=Names(app.app, settings.name).function("route"),
        handler="handlers.route.handler",
        description=f"Decides what to do with the messages of {settings.name}",
        timeout=TIMEOUT,
        memory=MEMORY,
        settings=settings,
        app=app,
        permissions=permissions,
        begins_traces=False,
        variables={
            Variable.MESSAGES_TABLE: storage.messages.table_name,
            Variable.RULES_TABLE: storage.rules.table_name,
            Variable.CIRCUITS_TABLE: storage.circuits.table_name,
            **({Variable.REPLAY_SCHEMA: schema} if (schema := packed(settings)) else {}),
        },
    )


# Bytes of the variable: the other variables of the router have to fit beside it.
LARGEST = 2_500


def packed(settings: PipelineDeployment) -> str | None:
    """The schema as the variable REPLAY_SCHEMA holds it; None if the pipeline has none.

    Raises Refused if the file is missing, is no JSON Schema, or is too large.
    """
    file = settings.replay.schema
    if file is None:
        return None
    try:
        schema = json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise _refused(settings, "cannot be read", "a file that exists") from error
    except ValueError as error:
        raise _refused(settings, "is not JSON", "a JSON Schema") from error
    if (unsupported := _unsupported(schema)) is not None:
        raise _refused(settings, f"has {unsupported}", f"the keywords {', '.join(SCHEMA_KEYWORDS)}")
    text = json.dumps(schema, separators=(",", ":"), ensure_ascii=False).encode()
    variable = base64.b64encode(zlib.compress(text, 9)).decode()
    if len(variable) > LARGEST:
        raise _refused(
            settings, f"has {len(variable)} bytes when it is packed", f"at most {LARGEST}"
        )
    return variable


def _refused(settings: PipelineDeployment, problem: str, allowed: str) -> Refused:
    file = settings.replay.schema
    return Refused(f"Pipeline {settings.name}: replay.schema {file} {problem}; allowed: {allowed}.")


def _unsupported(schema: Any) -> str | None:
    """What the router would refuse in a schema; None if it takes it."""
    if isinstance(schema, bool):
        return None
    if not isinstance(schema, dict):
        return f"{json.dumps(schema)[:40]} in place of a schema"
    for keyword, content in schema.items():
        match SCHEMA_KEYWORDS.get(keyword):
            case None:
                return f"the keyword {keyword}"
            case SchemaWord.SCHEMA:
                parts = [content]
            case SchemaWord.LIST:
                parts = content if isinstance(content, list) else [None]
            case SchemaWord.BY_NAME:
                parts = list(content.values()) if isinstance(content, dict) else [None]
            case _:
                parts = []
        for part in parts:
            if (unsupported := _unsupported(part)) is not None:
                return unsupported
    return None
