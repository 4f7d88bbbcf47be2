"""How far a reader walks who follows one re-drive: each ceiling falls with its figure."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from deadletter.aws.table import parts
from tests.simulation.stage import Stage
from tests.tools.test_face import check_ceiling
from tools.face import ROOT, Budget

OURS = str(ROOT / "lambdas" / "deadletter")
BESIDE = str(ROOT / "lambdas" / "deadletter" / "testing")


def walked(act: Callable[[], object]) -> tuple[int, int, int]:
    """The functions of the library that an act calls, their files, and the deepest call."""
    functions: set[CodeType] = set()
    depth = deepest = 0

    def step(frame: FrameType, event: str, _: Any) -> None:
        nonlocal depth, deepest
        code = frame.f_code
        if event not in ("call", "return") or not _is_ours(code.co_filename):
            return
        depth += 1 if event == "call" else -1
        deepest = max(deepest, depth)
        functions.add(code)

    before = sys.getprofile()
    sys.setprofile(step)
    try:
        act()
    finally:
        sys.setprofile(before)
    return len(functions), len({code.co_filename for code in functions}), deepest


def _is_ours(path: str) -> bool:
    return path.startswith(OURS) and not path.startswith(BESIDE)


def dead_letter() -> Stage:
    """A stage with one letter in its DLQ."""
    stage = Stage()
    stage.put()
    assert stage.fail() == 1
    return stage


def test_a_re_drive_is_a_walk_that_grows_no_more() -> None:
    # Modules are loaded, and nothing else is known of an earlier re-drive, whatever ran before.
    dead_letter().run()
    stage = dead_letter()
    functions, files, depth = walked(lambda: stage.run())
    assert stage.bodies(stage.main), "the letter went back"
    check_ceiling(Budget("a re-drive, functions", lambda: functions, 675))
    check_ceiling(Budget("a re-drive, files", lambda: files, 54))
    check_ceiling(Budget("a re-drive, depth of calls", lambda: depth, 21))


def test_a_walk_is_of_functions_files_and_depth() -> None:
    assert walked(lambda: None) == (0, 0, 0)
    assert walked(lambda: list(parts([1, 2], 1))) == (1, 1, 1)
