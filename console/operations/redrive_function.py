"""The redriver's function, asked by a person: only our functions move or change letters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .app import DeployedPipeline
from .aws import Aws, error_code, failure
from .problem import Cause, Problem


class NoRoom(Problem):
    """Lambda does not start the function now: it is at work, or the account is at its limit."""


def ask(
    aws: Aws, pipeline: DeployedPipeline, event: Mapping[str, Any], *, lost: str, failed: str
) -> Mapping[str, Any]:
    """What the function answers to an event, waited for.

    `lost` says what is known without an answer, and `failed` after an error. Raises NoRoom if
    the function is busy, Problem if it fails, does not answer or answers no object.
    """
    from botocore.exceptions import ClientError, ReadTimeoutError

    function = pipeline.redrive_function
    try:
        answer = aws.lambda_.invoke(
            FunctionName=function, InvocationType="RequestResponse", Payload=json.dumps(event)
        )
        payload = _json(answer["Payload"].read())
    except ReadTimeoutError as error:
        raise Problem(f"No answer from the redrive function: {lost}.", Cause.UNREACHABLE) from error
    except ClientError as error:
        if error_code(error) == "TooManyRequestsException":
            raise NoRoom(
                f"Lambda has no room to start {function}: "
                "another run is going on, or the account is at its limit; try again in a minute.",
                Cause.UNREACHABLE,
            ) from error
        raise
    if "FunctionError" in answer:
        raise Problem(
            f"The redrive function {function} failed ({failure(payload)}): {failed}, and its log "
            "in CloudWatch says more.",
            Cause.FAILED,
        )
    if not isinstance(payload, dict):
        raise Problem(
            f"The redrive function {function} answered no report: "
            "use the dlq of the version that is deployed.",
            Cause.FAILED,
        )
    return payload


def request(
    aws: Aws, pipeline: DeployedPipeline, name: str, asked: Any, *, expects: str, lost: str
) -> Mapping[str, Any]:
    """What the function answers to a request that is no run; `expects` is a field of the answer.

    Raises Problem also if the function refuses it.
    """
    answer = ask(aws, pipeline, {name: asked}, lost=lost, failed=lost)
    if isinstance(refused := answer.get("refused"), str):
        raise Problem(
            f"The redrive function {pipeline.redrive_function} refuses: {refused}.", Cause.FAILED
        )
    if expects not in answer:
        raise Problem(
            f"The redrive function {pipeline.redrive_function} knows no {name}: "
            "use the dlq of the version that is deployed.",
            Cause.FAILED,
        )
    return answer


def _json(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None
