"""Where a function runs and as whom, as Lambda says it in the environment."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote, urlsplit

# What Lambda itself sets, and what is understood here. Anything else of AWS may change where calls
# go, or how.
# https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
_OF_LAMBDA = frozenset(
    {
        "AWS_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_CA_BUNDLE",
        "AWS_DEFAULT_REGION",
        "AWS_EC2_METADATA_DISABLED",
        "AWS_EXECUTION_ENV",
        "AWS_REGION",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SECRET_KEY",
        "AWS_SECURITY_TOKEN",
        "AWS_SESSION_TOKEN",
        "AWS_XRAY_CONTEXT_MISSING",
        "AWS_XRAY_DAEMON_ADDRESS",
    }
)
_OF_LAMBDA_BEGIN = "AWS_LAMBDA_"
_ENDPOINT = "AWS_ENDPOINT_URL"
# botocore heeds these, and those that end with _PROXY.
_READ_BY_BOTOCORE = ("AWS_", "BOTO")

# The credentials of other starts change while the function lives.
_STARTS = frozenset({"on-demand", "provisioned-concurrency"})

_SUFFIXES = (
    (re.compile(r"cn-\w+-\d+"), "amazonaws.com.cn"),
    (re.compile(r"(us-gov|us|eu|ap|sa|ca|me|af|il|mx)-\w+-\d+"), "amazonaws.com"),
)
"""The partitions whose endpoints have the same form for all services that we call often."""


class Keys(NamedTuple):
    """Credentials, with botocore's names."""

    access_key: str
    secret_key: str
    token: str


@dataclass(frozen=True, slots=True, eq=False)
class Whereabouts:
    """Where a function runs, as whom, and when.

    `suffix` ends the names of the region's endpoints; `endpoints` are URLs of one's own, by
    service, and by "" for all services. `bundle` is the file of the certificates to trust, if not
    the usual ones. `now` is the time in UTC, without a zone. `trace` is the header by which Lambda
    finds loops, empty if there is none.
    """

    region: str
    suffix: str
    keys: Keys = field(repr=False)
    endpoints: Mapping[str, str]
    bundle: str
    now: Callable[[], datetime] = field(repr=False)
    trace: Callable[[], str] = field(repr=False)

    def origin(self, service: str) -> str:
        """The beginning of a service's URLs."""
        own = self.endpoints.get(service) or self.endpoints.get("")
        return own or f"https://{service}.{self.region}.{self.suffix}"


def whereabouts_from(
    environment: Mapping[str, str], clock: Callable[[], float]
) -> Whereabouts | None:
    """Where the function of this environment runs. `clock` returns epoch seconds.

    None unless the environment says all, and nothing out of the ordinary: with other settings,
    proxies or credentials, botocore knows the way.
    """
    keys = Keys(
        environment.get("AWS_ACCESS_KEY_ID", ""),
        environment.get("AWS_SECRET_ACCESS_KEY", ""),
        environment.get("AWS_SESSION_TOKEN", ""),
    )
    region = environment.get("AWS_DEFAULT_REGION", "")
    suffix = next((suffix for form, suffix in _SUFFIXES if form.fullmatch(region)), "")
    endpoints = {
        name.removeprefix(_ENDPOINT).removeprefix("_").lower(): url.removesuffix("/")
        for name, url in environment.items()
        if name.startswith(_ENDPOINT)
    }
    bundle = environment.get("AWS_CA_BUNDLE") or environment.get("REQUESTS_CA_BUNDLE") or ""
    in_lambda = environment.get("AWS_LAMBDA_INITIALIZATION_TYPE") in _STARTS
    has_keys = bool(keys.access_key and keys.secret_key)
    if not (in_lambda and has_keys and suffix and all(map(_is_plain, endpoints.values()))):
        return None
    if any(map(_says_otherwise, environment)):
        return None

    def trace() -> str:
        named = "AWS_LAMBDA_FUNCTION_NAME" in environment
        text = environment.get("_X_AMZN_TRACE_ID", "") if named else ""
        return quote(text, safe="-=;:+&[]{}\"',")

    def now() -> datetime:
        return datetime.fromtimestamp(clock(), UTC).replace(tzinfo=None)

    return Whereabouts(region, suffix, keys, endpoints, bundle, now, trace)


def _says_otherwise(name: str) -> bool:
    """True if a variable may send requests another way."""
    name = name.upper()
    ordinary = name in _OF_LAMBDA or name.startswith((_OF_LAMBDA_BEGIN, _ENDPOINT))
    read = name.startswith(_READ_BY_BOTOCORE) or name.endswith("_PROXY")
    return read and not ordinary


def _is_plain(endpoint: str) -> bool:
    """True for no URL, and for one of a scheme and a host alone."""
    if not endpoint:
        return True
    parts = urlsplit(endpoint)
    return parts.scheme in ("http", "https") and endpoint == f"{parts.scheme}://{parts.netloc}"
