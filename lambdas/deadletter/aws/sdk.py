"""Clients of AWS services, made by botocore alone: boto3 would bring resources and s3transfer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.loaders import Loader, create_loader
from botocore.session import Session, get_session

if TYPE_CHECKING:
    # It has the types of the services' clients.
    from boto3 import client as client
else:

    def client(service: str, *, config: Config) -> Any:
        """A client of a service; botocore finds credentials and region as boto3 does."""
        return session().create_client(service, config=config)


@cache
def session() -> Session:
    """The session of this process."""
    made = get_session()
    usual = create_loader(made.get_config_variable("data_path"))
    made.register_component("data_loader", QuickLoader(usual.search_paths))
    return made


class QuickLoader(Loader):
    """Loads the models of services without a look into the folder of each of the hundreds."""

    def __init__(self, folders: Sequence[str]) -> None:
        super().__init__(extra_search_paths=[*folders], include_default_search_paths=False)

    def list_available_services(self, type_name: str) -> list[str]:
        """The services that have a folder: whether it has the model shows when it is loaded."""
        del type_name
        folders = (Path(folder) for folder in self.search_paths)
        return sorted({each.name for path in folders if path.is_dir() for each in path.iterdir()})
