"""What is remembered of a queue of ours from run to run: a look costs, and a letter ages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMemory:
    """What the runs of one source have left in its lease item. All times are epoch seconds.

    emptied_at     when a run last received everything that the queue held
    oldest         SentTimestamp of the oldest letter that was seen and left since then
    looks          letters that were received and given back since then
    looked_at      when the last of them was
    ended_at       when the last run ended, whatever it did
    ended_well_at  when the last run ended that could do its work
    stopped        why the last run ended
    fruitless      runs in a row that received letters and moved none of them
    troubles       when a run last counted a metric that needs a person, by its name
    """

    emptied_at: float | None = None
    oldest: float | None = None
    looks: int = 0
    looked_at: float | None = None
    ended_at: float | None = None
    ended_well_at: float | None = None
    stopped: str = ""
    fruitless: int = 0
    troubles: Mapping[str, float] = field(default_factory=dict)


UNKNOWN = SourceMemory()
"""The memory of a source that no run has seen yet."""
