"""Which worker of pytest-xdist runs which tests, and in which order."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

# Their fixtures synthesize apps with the CDK, once in each worker that has one of their tests.
STARTS_NODE = "tests/infra/"

# Files with few tests that take long each.
SLOW = (
    STARTS_NODE,
    "tests/simulation/",
    "tests/tools/",
    "tests/statemachines/",
    "tests/scenario_bench/",
)


class FilesWhole(LoadFileScheduling):
    """Files go to the workers whole, all that start Node to one of them, the slow ones first.

    Otherwise files with few tests are last, and one worker waits for the long tests of the other.
    """

    def _split_scope(self, nodeid: str) -> str:
        return STARTS_NODE if nodeid.startswith(STARTS_NODE) else super()._split_scope(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        tests = {scope: len(unit) for scope, unit in self.workqueue.items()}
        first = max(tests, key=lambda scope: (scope.startswith(SLOW), tests[scope]))
        self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)
