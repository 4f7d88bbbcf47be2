"""Which names in an error are the program's own, and which are data of the letter."""

from __future__ import annotations

import json
import re

from deadletter.message.letter import Letter

LONGEST_NAME = 60
"""Characters of a name or a code: a longer one is data."""

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class OwnNames:
    """What is the program's own word: a literal of it, or a name that the letter does not have."""

    def __init__(self, letter: Letter | None, literals: frozenset[str]) -> None:
        self.literals = literals
        self._letter = letter
        self._text: str | None = None

    def owns(self, name: object) -> bool:
        """True for a literal, and for an identifier without digits that is not in the letter."""
        if not isinstance(name, str) or len(name) > LONGEST_NAME:
            return False
        if name in self.literals:
            return True
        is_name = IDENTIFIER.fullmatch(name) and not any(map(str.isdigit, name))
        return bool(is_name) and not self.in_letter(name)

    def quotes_letter(self, text: str) -> bool:
        """True if the letter has the text, as it is or escaped in JSON."""
        forms = (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
        return any(form.lower() in self._searched() for form in forms)

    def _searched(self) -> str:
        if self._text is None:
            self._text = "" if self._letter is None else _text_of_letter(self._letter)
        return self._text

    def in_letter(self, name: str) -> bool:
        """True if the letter has the name as a whole word that is no key of JSON."""
        # A key of a JSON document is chosen by the producer's program.
        pattern = rf'(?<![a-z0-9_]){re.escape(name.lower())}(?![a-z0-9_])(?!\\*"\s*:)'
        return re.search(pattern, self._searched()) is not None


def _text_of_letter(letter: Letter) -> str:
    values = (item.value for item in letter.attributes.values())
    texts = (value for value in values if isinstance(value, str))
    return "\n".join((letter.body, *letter.system.values(), *texts)).lower()
