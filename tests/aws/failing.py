"""Clients of AWS whose calls all fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deadletter.testing.fakes import client_error


class Failing:
    """A client whose calls all end with one error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def fail(**_: Any) -> Any:
            raise self._error

        return fail


class Denied:
    """A client whose role may do nothing; the service's own text quotes what it was given."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = "".join(word.capitalize() for word in name.split("_"))

        def refuse(**options: Any) -> Any:
            raise client_error(operation, "AccessDeniedException", f"no: {options}", status=403)

        return refuse
