"""Exceptions as libraries raise them, built without installing the libraries.

What decides is a class's qualified name, its bases and what an instance carries, so a class
made from these three stands for the real one.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError


def fake(lineage: str, *args: Any, **attributes: Any) -> BaseException:
    """An instance of a library's class.

    `lineage` is the class and its bases, nearest first, by qualified name:
    `redis.exceptions.TimeoutError < redis.exceptions.RedisError`. The last one derives from
    Exception unless it is a builtin.
    """
    made: type = Exception
    for name in reversed([part.strip() for part in lineage.split("<")]):
        module, _, plain = name.rpartition(".")
        if not module:
            made = getattr(builtins, plain)
            continue
        made = type(plain, (made,), {"__module__": module, "__qualname__": plain})
    error: BaseException = made(*args)
    for attribute, value in attributes.items():
        # A text of a class is one of its program's own, and a method is called with the error.
        setattr(error if isinstance(value, str) else made, attribute, value)
    return error


def aws(
    code: str, status: int | None = 400, operation: str = "PutItem", **more: Any
) -> ClientError:
    """botocore's own error, parsed from an answer of a service."""
    response: Any = {"Error": {"Code": code, "Message": "no words"}, **more}
    if status is not None:
        response["ResponseMetadata"] = {"HTTPStatusCode": status, "RetryAttempts": 4}
    return ClientError(response, operation)


def raised(
    error: BaseException, *, cause: BaseException | None = None, during: BaseException | None = None
) -> BaseException:
    """The error as it was raised: from a cause, or while another one was handled."""
    try:
        if during is not None:
            try:
                raise during
            except BaseException:
                raise error  # noqa: B904
        if cause is not None:
            raise error from cause
        raise error
    except BaseException as caught:
        return caught


def from_none(error: BaseException, during: BaseException) -> BaseException:
    """The error as `raise error from None` in the handler of another one."""
    try:
        try:
            raise during
        except BaseException:
            raise error from None
    except BaseException as caught:
        return caught


def caught(call: Callable[[], Any]) -> BaseException:
    """What the call raised."""
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")
