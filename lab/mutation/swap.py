"""Puts the code of a mutant in the place of a function that is already imported.

That is what makes thousands of mutants cheap: nothing is imported and no test is collected anew.
It can't be done for what runs at import (constants, defaults, decorators, class bodies).
"""

from __future__ import annotations

import gc
import inspect
from dataclasses import dataclass
from functools import _lru_cache_wrapper
from types import CodeType, FunctionType


@dataclass(frozen=True, slots=True)
class Swap:
    """The code objects that a mutant changes, by qualified name and first line of the old one."""

    codes: dict[tuple[str, int], CodeType]


def swap_for(original: CodeType, mutated: CodeType) -> Swap | None:
    """What to swap to turn the module `original` into `mutated`.

    None if the difference runs at import, or if nothing differs.
    """
    codes: dict[tuple[str, int], CodeType] = {}
    if not _compare(original, mutated, codes) or not codes:
        return None
    return Swap(codes)


def _compare(original: CodeType, mutated: CodeType, codes: dict[tuple[str, int], CodeType]) -> bool:
    """Collects the outermost functions that differ; False if the module or a class body does."""
    if _meaning(original) != _meaning(mutated):
        return False
    for before, after in zip(_inner(original), _inner(mutated), strict=True):
        if _is_function(before):
            if _deep(before) != _deep(after):
                if len(before.co_freevars) != len(after.co_freevars):
                    return False
                codes[before.co_qualname, before.co_firstlineno] = after
        elif not _compare(before, after, codes):
            return False
    return True


def _is_function(code: CodeType) -> bool:
    # A class body has no fast locals of its own.
    return bool(code.co_flags & inspect.CO_NEWLOCALS) and bool(code.co_flags & inspect.CO_OPTIMIZED)


def _inner(code: CodeType) -> list[CodeType]:
    return [const for const in code.co_consts if isinstance(const, CodeType)]


def _meaning(code: CodeType) -> tuple[object, ...]:
    """The code itself, without positions and without the code within it."""
    consts = [
        "code" if isinstance(const, CodeType) else (type(const).__name__, repr(const))
        for const in code.co_consts
    ]
    return (
        code.co_name,
        code.co_code,
        tuple(consts),
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_flags,
        code.co_exceptiontable,
    )


def _deep(code: CodeType) -> tuple[object, ...]:
    return (_meaning(code), tuple(_deep(inner) for inner in _inner(code)))


class Functions:
    """The functions of some files that this process has imported, found by where they stand.

    What is cached of functions anywhere in `folder` may come from the original.
    """

    def __init__(self, folder: str, files: set[str]) -> None:
        self._by_place: dict[tuple[str, str, int], list[FunctionType]] = {}
        self._closures: set[tuple[str, str]] = set()
        self._caches: list[_lru_cache_wrapper[object]] = []
        for thing in gc.get_objects():
            if isinstance(thing, FunctionType) and thing.__code__.co_filename in files:
                code = thing.__code__
                place = (code.co_filename, code.co_qualname, code.co_firstlineno)
                self._by_place.setdefault(place, []).append(thing)
                outer, closure, _ = code.co_qualname.partition(".<locals>")
                if closure:
                    self._closures.add((code.co_filename, outer))
            elif isinstance(thing, _lru_cache_wrapper) and _is_ours(thing, folder):
                self._caches.append(thing)

    def swap(self, file: str, swap: Swap) -> bool:
        """Put the mutant's code in place. False if that does not reach all of it."""
        for cache in self._caches:
            cache.cache_clear()
        for (name, line), code in swap.codes.items():
            functions = self._by_place.get((file, name, line), [])
            if not functions or (file, name) in self._closures:
                return False
            for function in functions:
                function.__code__ = code
        return True


def _is_ours(cache: _lru_cache_wrapper[object], folder: str) -> bool:
    code = getattr(cache.__wrapped__, "__code__", None)
    return code is not None and code.co_filename.startswith(folder)
