"""The approval of a replay run: whether a person was asked, and what he answered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """What a person said to a run that waits for an approval, and why."""

    approved: bool
    by: str
    because: str


@dataclass(frozen=True, slots=True)
class RunApproval:
    """What is on record about a run's approval, where the person who planned it can't write.

    asked   whether a person had to be asked, as the freeze of its snapshot has found; None if
            nothing is on record: the run was begun by hand
    answer  what a person has answered; None if he has not
    """

    asked: bool | None = None
    answer: ApprovalAnswer | None = None

    @property
    def allows(self) -> bool:
        """Whether the run may send: nobody had to be asked, or somebody has approved.

        The run's own item is no proof of that: whoever may hold and resume a run writes it.
        """
        return self.asked is False or (self.answer is not None and self.answer.approved)
