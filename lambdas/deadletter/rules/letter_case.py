"""Texts that are equal, begin or end alike in any case, as AWS folds cases."""

from __future__ import annotations

from typing import Final

from deadletter.rules.accepted import AcceptedText, TextTest


def folded_whole(text: str) -> AcceptedText:
    """Accepts the text in any case."""
    if text.isascii():
        length, same = len(text), _ascii_folded(text, slice(None))
        return AcceptedText(lambda value: len(value) == length and same(value), steps=4)
    cases = _cases(text)
    steps = _STEPS_OF_CASES * len(cases)
    return AcceptedText(lambda value: len(value) in _end_positions(value, cases), steps=steps)


def folded_start(text: str) -> AcceptedText:
    """Accepts the texts that begin with the text in any case."""
    if text.isascii():
        test = _ascii_folded(text, slice(len(text)))
        return AcceptedText(test, steps=4)
    cases = _cases(text)
    steps = _STEPS_OF_CASES * len(cases)
    return AcceptedText(lambda value: bool(_end_positions(value, cases)), steps=steps)


def folded_end(text: str) -> AcceptedText:
    """Accepts the texts that end with the text in any case."""
    if text.isascii():
        test = _ascii_folded(text, slice(-len(text), None) if text else slice(0))
        return AcceptedText(test, steps=4)
    cases = tuple(tuple(form[::-1] for form in forms) for forms in reversed(_cases(text)))
    longest = sum(max(map(len, forms)) for forms in cases)
    steps = _STEPS_OF_CASES * len(cases)
    return AcceptedText(
        lambda value: bool(_end_positions(value[-longest:][::-1], cases)), steps=steps
    )


# Steps for each character that may have several cases, of one to three characters.
_STEPS_OF_CASES: Final = 20


def _ascii_folded(text: str, part: slice) -> TextTest:
    lowered = text.lower()
    # The value has to be ASCII too: the lower case of the Kelvin sign is k.
    return lambda value: (piece := value[part]).isascii() and piece.lower() == lowered


def _cases(text: str) -> tuple[tuple[str, ...], ...]:
    """The lower and upper case of each character, as AWS accepts them: `ß` is also SS."""
    return tuple(tuple({character.lower(), character.upper()}) for character in text)


def _end_positions(value: str, cases: tuple[tuple[str, ...], ...]) -> set[int]:
    """The positions in the value where the characters can end; at most two for each character."""
    ends = {0}
    for forms in cases:
        ends = {end + len(form) for end in ends for form in forms if value.startswith(form, end)}
        if not ends:
            break
    return ends
