"""Where a call goes and with which headers, learned from a request that boto3 has made.

So endpoints of partitions and FIPS, endpoints of one's own, and new headers are boto3's business.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from botocore.utils import get_environ_proxies, normalize_url_path

from deadletter.aws.wire.call_place import PORTS, CallPlace, host_of, keys_of
from deadletter.aws.wire.signature import Signer

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest
    from botocore.credentials import ReadOnlyCredentials

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=[^/]+/\d{8}/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request, "
    r"SignedHeaders=(?P<signed>[^,]+), Signature="
)

_OF_ONE_REQUEST = frozenset(
    {
        "amz-sdk-invocation-id",
        "amz-sdk-request",
        "authorization",
        "content-length",
        "expect",
        "host",
        "x-amz-date",
        "x-amz-security-token",
        "x-amzn-trace-id",
    }
)
"""Headers that the next request does not repeat, in small letters."""


def learned(request: AWSPreparedRequest, credentials: ReadOnlyCredentials) -> CallPlace | None:
    """What boto3's request teaches; None if its like cannot be made without boto3.

    Our signature has to be the one that boto3 has made of the same request: otherwise boto3 signs
    in another way, or with other credentials. Requests through a proxy are boto3's as well.
    """
    parts = urlsplit(request.url)
    body = request.body.encode() if isinstance(request.body, str) else request.body
    if request.method != "POST" or parts.query or parts.scheme not in PORTS:
        return None
    if not isinstance(body, bytes) or get_environ_proxies(request.url):
        return None
    headers = {name.lower(): _text(value) for name, value in request.headers.items()}
    headers.setdefault("host", host_of(request.url))
    authorization = headers.get("authorization", "")
    scope = _AUTHORIZATION.match(authorization)
    if scope is None:
        return None
    path = quote(normalize_url_path(parts.path), safe="/~")
    signer = Signer(scope["region"], scope["service"])
    ours = signer.authorization(
        *keys_of(credentials),
        headers.get("x-amz-date", ""),
        path,
        {name: headers.get(name, "") for name in scope["signed"].split(";")},
        body,
    )
    if ours != authorization:
        return None
    return CallPlace(
        url=request.url,
        origin=f"{parts.scheme}://{parts.netloc}",
        target=parts.path or "/",
        path=path,
        host=headers["host"],
        headers={name: value for name, value in headers.items() if name not in _OF_ONE_REQUEST},
        signer=signer,
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
