"""Whether fields of one pattern match in one and the same element of each array.

AWS's engine tries the fields in the order of their names: each takes one leaf, no two leaves may
stand in different elements of one array, and a field is missing if no leaf of its name is left.
The leaves of a field form a tree of elements, so that mostly each element is looked at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from deadletter.rules.fields import Place, Work


@dataclass(slots=True, eq=False)
class Spot:
    """The leaves of one field in one element of an array, or in the document itself.

    `leaf` says that one stands right here, `hit` that one here is accepted, and `any_hit` that one
    here or further inside is. `within` has the elements of each array here.
    """

    leaf: bool = False
    hit: bool = False
    any_hit: bool = False
    within: dict[int, dict[int, Spot]] = field(default_factory=dict)


Part = tuple[bool, Spot]
"""One field: whether it may be missing, and its leaves."""


# Most leaves stand alone in their element: these are shared, and never changed.
_HIT: Final = Spot(leaf=True, hit=True, any_hit=True)
_MISS: Final = Spot(leaf=True)


def spot_of(leaves: Iterable[tuple[Place, bool]], work: Work) -> Spot:
    """The tree of the leaves: each place, and whether its leaf is accepted."""
    root = Spot()
    for place, hit in leaves:
        alone = _HIT if hit else _MISS
        if place is not None and place[0] is None:
            work.spend(2)
            elements = root.within.setdefault(place[1], {})
            if elements.setdefault(place[2], alone) is alone:
                root.any_hit |= hit
                continue
        path = []
        while place is not None:
            path.append(place)
            place = place[0]
        work.spend(4 + 4 * len(path))
        spot = root
        for _, array, element in reversed(path):
            spot.any_hit |= hit
            elements = spot.within.setdefault(array, {})
            inner = elements.get(element)
            if inner is None or inner is _HIT or inner is _MISS:
                inner = elements[element] = replace(inner or Spot(), within={})
            spot = inner
        spot.leaf = True
        spot.hit |= hit
        spot.any_hit |= hit
    return root


def hold_together(parts: Sequence[Part], work: Work) -> bool:
    """True if each part has an accepted leaf or is missing, no two in different elements.

    The parts are in the order of the names. Parts in different arrays can't disturb each other.
    """
    groups: dict[int, list[Part]] = {}
    work.spend(len(parts))
    for part in parts:
        absent, spot = part
        if not spot.within:
            if not (spot.hit if spot.leaf else absent):
                return False
        elif not (spot.any_hit or absent):
            return False
        elif spot.leaf or len(spot.within) > 1:
            return _one_by_one(parts, work)
        else:
            groups.setdefault(next(iter(spot.within)), []).append(part)
    return all(
        members[0][1].any_hit if len(members) == 1 else _in_one_element(array, members, work)
        for array, members in groups.items()
    )


def _in_one_element(array: int, members: list[Part], work: Work) -> bool:
    chooser = members[0]
    if not any(absent for absent, _ in members):
        chooser = min(members, key=lambda part: len(part[1].within[array]))
    for element in chooser[1].within[array]:
        work.spend(2 + len(members))
        shares: list[Part] = []
        for absent, spot in members:
            share = spot.within[array].get(element)
            if share is None:
                if not absent:
                    break
            elif not (share.any_hit or absent):
                break
            else:
                shares.append((absent, share))
        else:
            if hold_together(shares, work):
                return True
    return False


def _one_by_one(parts: Sequence[Part], work: Work) -> bool:
    """The same by trying every choice, for leaves of one field beside and in an array."""
    chosen: dict[int, int] = {}
    open_choices = [_choices(parts[0], chosen, work)]
    added: list[list[int]] = [[]]
    while open_choices:
        for array in added[-1]:
            del chosen[array]
        added[-1] = []
        choice = next(open_choices[-1], None)
        if choice is None:
            open_choices.pop()
            added.pop()
            continue
        added[-1] = [array for array, _ in choice if array not in chosen]
        chosen.update(choice)
        if len(open_choices) == len(parts):
            return True
        open_choices.append(_choices(parts[len(open_choices)], chosen, work))
        added.append([])
    return False


Choice = tuple[tuple[int, int], ...]
"""The arrays around a leaf, each with its element."""


def _choices(part: Part, chosen: Mapping[int, int], work: Work) -> Iterator[Choice]:
    """The choices of one part beside those made: its accepted leaves, or that it is missing."""
    absent, spot = part
    missing = True
    for hit, choice in _leaves(spot, chosen, work):
        missing = False
        if hit:
            yield choice
    if missing and absent:
        yield ()


def _leaves(spot: Spot, chosen: Mapping[int, int], work: Work) -> Iterator[tuple[bool, Choice]]:
    work.spend(5)
    if spot.leaf:
        yield spot.hit, ()
    for array, elements in spot.within.items():
        only = chosen.get(array)
        if only is None:
            inside = list(elements.items())
        else:
            inside = [(only, elements[only])] if only in elements else []
        for element, inner in inside:
            for hit, choice in _leaves(inner, chosen, work):
                yield hit, ((array, element), *choice)
