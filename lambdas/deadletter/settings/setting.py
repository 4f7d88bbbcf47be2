"""How a setting is declared: in the annotation of the field that the functions read.

The functions ignore these annotations; `infra` checks by them what a person has typed, and writes
the page, the schema and the types for editors.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, TypeVar


class ValueKind(Enum):
    """What a value is; `infra.kinds` has the words and the check of each."""

    SECONDS = "seconds"
    MINUTES = "whole minutes"
    APP_NAME = "app name"
    PIPELINE_NAME = "pipeline name"
    ID = "id"
    LINE = "line"
    PATH = "path"
    COMPARED = "compared"
    PARKED_FOR = "parked for"
    QUEUE_ARN = "queue"
    FUNCTION_ARN = "function"
    TOPIC_ARN = "topic"
    KEY_ARN = "key"
    URL = "url"
    UUID = "uuid"
    SUBNET = "subnet"
    SECURITY_GROUP = "security group"


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that a person may type, and its limits. What it is, the docstring below it says.

    `first` puts it into the first table of the page. The default of one that `depends` on other
    settings is filled in by the deployment; `allowed` is said in place of the words of its type.
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    first: bool = False
    depends: bool = False
    allowed: str = ""


class Fixed(Enum):
    """Why no person types a value: it is the same for all, or the deployment derives it."""

    CONSTANT = "constant"
    DERIVED = "derived"


T = TypeVar("T")
Constant = Annotated[T, Fixed.CONSTANT]
Derived = Annotated[T, Fixed.DERIVED]

Seconds = Annotated[float, ValueKind.SECONDS]
Minutes = Annotated[float, ValueKind.MINUTES]
Id = Annotated[str, ValueKind.ID]
Line = Annotated[str, ValueKind.LINE]
Path = Annotated[str, ValueKind.PATH]
