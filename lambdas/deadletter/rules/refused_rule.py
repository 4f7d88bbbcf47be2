"""A stored rule that is not valid."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class RefusedRule:
    """An invalid rule: it matches nothing, and is reported with the reason.

    `why` is for the rule's author, and may quote what was typed; `gist` is the reason without any
    value of the rule. `everywhere` says that it is a rule of all pipelines, `disabled` that a
    person has switched it off: then it is meant to match nothing, and no person is called for it.
    `is_namesake` says that nothing is wrong with it but that another rule with its id comes first.
    """

    rule_id: str
    why: str
    everywhere: bool = False
    disabled: bool = False
    gist: str = field(default="", compare=False)
    is_namesake: bool = field(default=False, compare=False)

    @property
    def without_values(self) -> RefusedRule:
        """The notice of it for others, which may end in a log: no value that was typed."""
        return replace(self, why=self.gist, gist="")
