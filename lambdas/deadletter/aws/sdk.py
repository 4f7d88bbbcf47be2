"""Clients of AWS services, made by botocore alone: boto3 would bring resources and s3transfer."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # It has the types of the services' clients.
    from boto3 import client as client
    from botocore.session import Session
else:

    def client(service: str, *, config: Any) -> Any:
        """A client of a service; botocore finds credentials and region as boto3 does."""
        return session().create_client(service, config=config)


@cache
def session() -> Session:
    """The session of this process. The first one loads botocore, which takes 0.2 s."""
    from botocore.session import get_session

    return get_session()
