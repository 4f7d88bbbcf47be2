"""What hatchling runs when it builds the wheel: the wheels of the functions' packages go inside.

They come from build/wheels if each is there, else from the index, in both cases by the hashes of
lambdas/requirements.txt. So whoever synthesizes an app with the installed wheel needs neither pip
nor a network.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The folder of our wheel that infra/files.py knows.
PACKAGED = "deadletter_cdk/packaged"

# What else goes there beside the folders that pyproject.toml names.
FILES = ("lambdas/requirements.txt", "docs/events.schema.json", "docs/settings.schema.json")


class FunctionsWheels(BuildHookInterface[Any]):
    """Adds the wheels of the functions' packages to our wheel.

    The sdist takes them along if they are here, so that a wheel is built from it offline, too.
    """

    def dependencies(self) -> list[str]:
        """Ask for pip where something has to be fetched."""
        return [] if self.target_name != "wheel" or self._present() else ["pip>=23"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable install uses the checkout as it is.
        if version == "editable":
            return
        if self.target_name == "sdist":
            included = {str(wheel): f"build/wheels/{wheel.name}" for wheel in self._present()}
        else:
            wheels = self._present() or self._fetched()
            included = {str(wheel): f"{PACKAGED}/wheels/{wheel.name}" for wheel in wheels}
            for file in map(Path, FILES):
                included[str(Path(self.root) / file)] = f"{PACKAGED}/{file.name}"
        build_data["force_include"] |= included

    def finalize(self, *_: object) -> None:
        if self._fetching:
            self._fetching.cleanup()

    _fetching: TemporaryDirectory[str] | None = None

    @property
    def _lock(self) -> Path:
        return Path(self.root) / "lambdas" / "requirements.txt"

    def _present(self) -> list[Path]:
        """The wheels in build/wheels; an empty list if one is missing or has another hash."""
        reader = self._reader()
        try:
            return [*reader.wheels(self._lock, Path(self.root) / "build" / "wheels").values()]
        except reader.WheelMissing:
            return []

    def _fetched(self) -> list[Path]:
        self._fetching = TemporaryDirectory()
        folder = self._fetching.name
        reader = self._reader()
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        by_hash = ["--require-hashes", "--no-deps", "--requirement", str(self._lock)]
        subprocess.run(
            [*pip, *by_hash, *reader.PLATFORM, "--dest", folder],
            check=True,
            # Standard output belongs to the tool that builds.
            stdout=sys.stderr,
        )
        return [*reader.wheels(self._lock, Path(folder)).values()]

    def _reader(self) -> Any:
        """The module infra/lock.py of these sources, whose folder is on no path here."""
        import importlib.util

        file = Path(self.root) / "infra" / "lock.py"
        spec = importlib.util.spec_from_file_location("deadletter_lock", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
