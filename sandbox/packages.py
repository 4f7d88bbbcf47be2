"""The packages of functions, unpacked once for all workers that run them, as Lambda does.

MiniStack unpacks a package for each worker, which then compiles what it imports: a third of
the time that it needs to start. Here a worker has a link to the package, which keeps the
bytecode.
"""

from __future__ import annotations

import hashlib
import os
import threading
import zipfile
from pathlib import Path
from typing import Any

CODE = "code"
"""The folder of a worker that MiniStack unpacks a package into."""


class SharedPackage(zipfile.ZipFile):
    """A zip file that is unpacked once, beside the folders of the workers."""

    _lock = threading.Lock()

    def extractall(
        self, path: str | os.PathLike[str] | None = None, *arguments: Any, **options: Any
    ) -> None:
        """Put a link to the unpacked package in the place of a worker's empty folder `code`.

        Any other folder gets the files.
        """
        target = Path(path or ".")
        if target.name != CODE or self.filename is None:
            super().extractall(target, *arguments, **options)
            return
        digest = hashlib.sha256(Path(self.filename).read_bytes()).hexdigest()[:32]
        package = target.parent.parent / f"package-{digest}"
        with self._lock:
            if not package.exists():
                super().extractall(package)
        target.rmdir()
        target.symlink_to(package)
