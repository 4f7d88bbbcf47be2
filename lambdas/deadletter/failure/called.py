"""The host that a failed call went to, from what the exception holds or says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from deadletter.failure import codes
from deadletter.failure.foreign import Link, attribute, dbapi_names, names_of, text_of
from deadletter.failure.naming import OwnNames
from deadletter.failure.template import LONGEST_TEXT
from deadletter.failure.vocabulary import words

# Characters of a part of a host name that is an id and no number of a machine.
_ID_LENGTH = 16

# Characters of a host, and of a text in which one is looked for.
_TARGET_LENGTH = 100
_TEXT_LENGTH = 500


DETAILS = re.compile(
    r"\n[ \t]{0,20}(?:DETAIL|CONTEXT|HINT|LINE \d{1,9}):|\[SQL:|\[parameters:|\(Background on this"
)
"""What databases and SQLAlchemy add to the text of an error: the statement, and a page about it."""

# Where an error's text names the host that did not answer, and its port.
_HOST_IN_TEXT = re.compile(
    r"""
    (?: \bhost\s*[=:]?\s*['"]? | \bserver\s+(?:at|on)\s+['"]?
      | \bconnect(?:ing|ion)?\s+to\s+(?:the\s+)?(?:host\s+|server\s+)?(?:at\s+)?['"]?
      | [a-z][a-z0-9+.-]{0,20}://(?:[^\s/@]{0,200}@)? | ^(?=[a-z0-9._-]{1,100}:\d)
    )
    (?P<host> [a-z0-9_-]{1,63} (?:\.[a-z0-9_-]{1,63}){0,10} )
    (?: :(?P<port>\d{2,5}) | ['"]?(?:\s*\([^()]{0,60}\))?,\s*port[= ](?P<apart>\d{2,5}) )?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NO_HOST = words(
    """
    a an any at database endpoint host is it mongodb mysql postgres postgresql proxy redis remote
    server the to url was your
    """
)
_USUAL_PORTS = frozenset({"", "80", "443"})
_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}|[0-9a-f]*:[0-9a-f:.]+", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")


def called_by(chain: Sequence[Link], names: OwnNames) -> str:
    """The host that was called, or what else names the dependency; empty if unknown."""
    for link in chain:
        for host in _hosts(link.error):
            return _host(host, names)
    for link in chain:
        if _may_name_a_host(link.error):
            said = DETAILS.split(text_of(link.error)[:_TEXT_LENGTH], maxsplit=1)[0]
            for match in _HOST_IN_TEXT.finditer(said):
                if match["host"].lower() not in _NO_HOST:
                    port = match["port"] or match["apart"]
                    return _host(f"{match['host']}:{port}" if port else match["host"], names)
    return ""


def _may_name_a_host(error: BaseException) -> bool:
    no_answer = isinstance(error, ConnectionError | TimeoutError) or any(
        pattern.search(name)
        for name, _ in names_of(error)
        for pattern in (codes.TIMEOUT_NAME, codes.NO_CONNECTION_NAME)
    )
    return no_answer or isinstance(error, OSError) or bool(dbapi_names(error))


def _hosts(error: BaseException) -> Iterator[str]:
    for holder in (attribute(error, "request"), attribute(error, "response"), error):
        url = attribute(holder, "url")
        if url is not None and not callable(url):
            host = _host_of_url(str(url)[:LONGEST_TEXT])
            if host:
                yield host
    for holder in (error, attribute(error, "pool"), attribute(error, "_conn")):
        host, port = attribute(holder, "host"), attribute(holder, "port")
        if isinstance(host, str) and host:
            yield f"{host}:{port}" if isinstance(port, int) else host
    endpoint = attribute(error, "kwargs")
    if isinstance(endpoint, Mapping) and isinstance(endpoint.get("endpoint_url"), str):
        yield _host_of_url(endpoint["endpoint_url"])


def _host_of_url(url: str) -> str:
    rest = url.partition("://")[2]
    return re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]


def _host(host: str, names: OwnNames) -> str:
    name, _, port = host.lower()[:_TARGET_LENGTH].rpartition(":")
    if not port.isdecimal():
        name, port = host.lower()[:_TARGET_LENGTH], ""
    port = "" if port in _USUAL_PORTS else port
    if _ADDRESS.fullmatch(name):
        name = "address"
    elif "." in name and names.in_letter(name):
        # The letter names its endpoint: the failure is the same for all of them.
        name = "of the letter"
    else:
        name = ".".join(_label(label) for label in name.split("."))
    return f"{name}:{port}"


def _label(label: str) -> str:
    """A part of a host name without its numbers; a long one with digits is an id."""
    numbered = _DIGITS.sub("#", label)
    return "#" if numbered != label and len(label) >= _ID_LENGTH else numbered
