"""The version of a consumer, as its team or Lambda names it in its environment."""

from __future__ import annotations

from collections.abc import Mapping

from deadletter.contract import VERSION_VARIABLE
from deadletter.failure.failure import MOST_VERSION


def version_in(environment: Mapping[str, str]) -> str:
    """The version as the team names it, else as Lambda does; empty if neither does.

    $LATEST names no code.
    """
    said = environment.get(VERSION_VARIABLE) or environment.get("AWS_LAMBDA_FUNCTION_VERSION", "")
    return "" if said == "$LATEST" else said[:MOST_VERSION]
