"""What every answer about an app says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class Answer:
    """Where an operation looked. The fields of an answer are the keys of its JSON: a promise."""

    account: Annotated[str, "AWS account id"]
    region: Annotated[str, "AWS region"]
    app: Annotated[str, "name of the app"]
