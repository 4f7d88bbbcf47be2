"""Runs any mutant in a process that imports the library and its tests anew."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from lab.mutation.mutant import Ending
from lab.mutation.warm import bound_cpu, bound_this_process, ending_of, options

# Beside the tests themselves: importing and collecting them.
COLD_SECONDS = 5.0


class _MutantLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec")


class MutantFinder(importlib.abc.MetaPathFinder):
    """Imports one module of the library from another source."""

    def __init__(self, module: str, path: Path, source: str) -> None:
        self._module = module
        self._path = path
        self._source = source

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._module:
            return None
        loader = _MutantLoader(fullname, str(self._path), self._source)
        return importlib.util.spec_from_file_location(fullname, self._path, loader=loader)


def run_cold(module: str, path: Path, source: str, tests: Sequence[str], marks: str) -> Ending:
    """Runs the tests with `source` as the module `module`, which stands in `path`."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return ending_of(os.waitpid(child, 0)[1]) or Ending.KILLED
    status = 1
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        bound_this_process()
        bound_cpu(COLD_SECONDS)
        sys.meta_path.insert(0, MutantFinder(module, path, source))
        status = 1 if pytest.main(options(tests, marks)) else 0
    finally:
        os._exit(status)
