"""Where the functions run, if not in a network of AWS."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from ..arn import is_token
from .kinds import Settings


def _of_vpc(prefix: str) -> AfterValidator:
    def check(text: str) -> str:
        if not is_token(text) and not text.startswith(f"{prefix}-"):
            raise PydanticCustomError("not_an_id", "not an id of this kind")
        return text

    return AfterValidator(check)


SubnetId = Annotated[
    str,
    _of_vpc("subnet"),
    Field(json_schema_extra={"allowed": "an id such as subnet-0123456789abcdef0"}),
]

SecurityGroupId = Annotated[
    str,
    _of_vpc("sg"),
    Field(json_schema_extra={"allowed": "an id such as sg-0123456789abcdef0"}),
]


class VpcSettings(Settings):
    """Your subnets, in which all functions of the app then run."""

    subnet_ids: tuple[SubnetId, ...] = Field(
        min_length=1, strict=False, description="private subnets, best in several zones"
    )
    security_group_ids: tuple[SecurityGroupId, ...] = Field(
        min_length=1, strict=False, description="what the functions may reach: HTTPS, port 443"
    )
