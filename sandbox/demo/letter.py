"""One message, as `dlq show` tells of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from subprocess import CompletedProcess

from deadletter.failure.failure import Failure
from sandbox.demo.events import RECOVERING, SNAPSHOT_TYPE, Event

# What is shown of it; the whole is in the report.
MOST_LINES = 25

Dlq = Callable[[Sequence[str]], "CompletedProcess[str]"]


@dataclass(frozen=True, slots=True)
class ToldLetter:
    """What was typed for the letter with this id, and the answer."""

    id: str
    command: str
    output: str

    @property
    def shown(self) -> str:
        """The answer, shortened if it is long."""
        lines = self.output.splitlines()
        if len(lines) <= MOST_LINES:
            return "\n".join(lines)
        kept = lines[: MOST_LINES - 1]
        return "\n".join([*kept, f"… {len(lines) - len(kept)} more lines: {self.command}"])


def choose(
    origins: Mapping[str, Event],
    failures: Mapping[str, Sequence[Failure]],
    healed: Collection[str],
) -> str | None:
    """Pick a letter that failed while its endpoint was down and was healed by a re-drive.

    *healed* are digests. A letter with most failures has most to tell; None without such a letter.
    """
    letters = [
        origin
        for origin, event in origins.items()
        if event.tenant == RECOVERING
        and SNAPSHOT_TYPE not in event.body
        and event.digest in healed
        and failures.get(origin)
    ]

    def lives_and_failures(origin: str) -> tuple[int, int]:
        return len({failure.attempt for failure in failures[origin]}), len(failures[origin])

    return max(letters, key=lives_and_failures, default=None)


def explained(origin: str, dlq: Dlq) -> ToldLetter:
    """Type `dlq show` for a letter."""
    words = ["show", origin]
    answer = dlq(words)
    return ToldLetter(origin, " ".join(["dlq", *words]), answer.stdout + answer.stderr)
