"""A request of CloudFormation to a custom resource, and the answer that it waits for.

CloudFormation sends an address with the request, to which the answer is put. The address is
signed: anyone who has it can answer. So it stands in no log, no error and no text of a value.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

TRIES = 3
BETWEEN_TRIES = 2.0
"""Seconds between two tries."""

ANSWER_TIMEOUT = 8.0
"""Seconds that one try may take."""

ANSWERING = TRIES * (ANSWER_TIMEOUT + BETWEEN_TRIES)
"""Seconds that an answer takes at most."""

_LONGEST_REASON = 400

Put = Callable[[str, bytes], None]
"""Puts bytes to an address; raises OSError, HTTPException or ValueError if not taken."""


class AnswerNotTaken(Exception):
    """CloudFormation did not take the answer: it waits until the resource's own time-out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRequest:
    """What CloudFormation asks for: to create, update or delete a resource of a stack."""

    kind: str
    stack: str
    request: str
    logical_id: str
    properties: Mapping[str, Any]
    answer_to: str = field(repr=False)

    @property
    def deletes(self) -> bool:
        """True if the resource is to be deleted."""
        return self.kind == "Delete"

    def success(self, physical_id: str, reason: str) -> bytes:
        """The answer that the resource is as it was asked to be; `reason` is for people."""
        answer = {
            "Status": "SUCCESS",
            "Reason": reason[:_LONGEST_REASON],
            "PhysicalResourceId": physical_id,
            "StackId": self.stack,
            "RequestId": self.request,
            "LogicalResourceId": self.logical_id,
        }
        return json.dumps(answer).encode()


def stack_request(event: Mapping[str, Any]) -> StackRequest:
    """The request in a function's event; raises KeyError if a part of it is missing."""
    return StackRequest(
        kind=event["RequestType"],
        stack=event["StackId"],
        request=event["RequestId"],
        logical_id=event["LogicalResourceId"],
        properties=event["ResourceProperties"],
        answer_to=event["ResponseURL"],
    )


def give_answer(address: str, answer: bytes, *, put: Put, wait: Callable[[float], None]) -> None:
    """Put the answer to its address, with a few tries; raises AnswerNotTaken."""
    why = ""
    for tries_before in range(TRIES):
        if tries_before:
            wait(BETWEEN_TRIES)
        try:
            put(address, answer)
        except (OSError, HTTPException, ValueError) as error:
            # Its text may name the address.
            why = type(error).__name__
        else:
            return
    raise AnswerNotTaken(f"CloudFormation did not take the answer: {why}")


def put_over_https(certificates: str | None = None) -> Put:
    """A Put by https, which trusts the certificates of that file, or else those of the system.

    The emulator's address may be http on this machine.
    """
    context = ssl.create_default_context(cafile=certificates)
    # The address is CloudFormation's own: no proxy of the environment learns it.
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context))

    def put(address: str, body: bytes) -> None:
        if not _may_answer(address):
            raise ValueError("the address of an answer is not https")
        request = Request(  # noqa: S310 - the scheme is checked above
            address,
            data=body,
            # The signature covers the content type, which is empty.
            headers={"Content-Type": ""},
            method="PUT",
        )
        with opener.open(request, timeout=ANSWER_TIMEOUT):
            pass

    return put


def _may_answer(address: str) -> bool:
    parts = urlsplit(address)
    on_this_machine = parts.hostname in ("localhost", "127.0.0.1", "::1")
    return parts.scheme == "https" or (parts.scheme == "http" and on_this_machine)
