"""Where the hot calls of an ordinary function go: known without a request of boto3."""

from __future__ import annotations

from urllib.parse import quote

from deadletter.aws.wire.call_place import CallPlace, host_of
from deadletter.aws.wire.hot_calls import Arguments, HotCall
from deadletter.aws.wire.signature import Signer
from deadletter.aws.wire.whereabouts import Whereabouts

_JSON = {"content-type": "application/x-amz-json-1.0", "user-agent": "deadletter"}
_JSON_HEADERS = {
    # Errors keep the codes that they had before SQS spoke JSON.
    "sqs": ("AmazonSQS", {**_JSON, "x-amzn-query-mode": "true"}),
    "dynamodb": ("DynamoDB_20120810", _JSON),
}
_INVOCATION = {"FunctionName", "InvocationType", "Payload"}


def known_place(
    signer: Signer, call: HotCall, arguments: Arguments, whereabouts: Whereabouts
) -> CallPlace | None:
    """Where a call to the signer's service goes; None if only boto3 knows."""
    service = signer.service
    if service in _JSON_HEADERS:
        target, headers = _JSON_HEADERS[service]
        named = {**headers, "x-amz-target": f"{target}.{call.name}"}
        return _place(signer, "/", named, whereabouts)
    if service != "lambda" or not _INVOCATION.issuperset(arguments):
        return None
    function = arguments.get("FunctionName")
    if not isinstance(function, str) or not function:
        return None
    headers = {"user-agent": "deadletter"}
    if "InvocationType" in arguments:
        headers["x-amz-invocation-type"] = str(arguments["InvocationType"])
    target = f"/2015-03-31/functions/{quote(function, safe='~')}/invocations"
    return _place(signer, target, headers, whereabouts)


def _place(
    signer: Signer, target: str, headers: dict[str, str], whereabouts: Whereabouts
) -> CallPlace:
    origin = whereabouts.origin(signer.service)
    return CallPlace(
        url=f"{origin}{target}",
        origin=origin,
        target=target,
        path=quote(target, safe="/~"),
        host=host_of(origin),
        headers=headers,
        signer=signer,
    )
