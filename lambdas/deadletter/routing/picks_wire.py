"""The JSON of a selection and its picks, between the redriver and the router's function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from deadletter.message import stamp as stamps
from deadletter.routing.router import Question, RouterUnavailable
from deadletter.routing.selection import Pick, Selection, selection_from_data
from deadletter.routing.wire import question_from_json, question_to_json

if TYPE_CHECKING:
    from deadletter.routing.direct_router import DirectRouter


def selection_request(
    questions: Sequence[Question], selection: Selection, *, release: bool
) -> dict[str, Any]:
    """The event that asks the router's function which letters a replay run may take."""
    letters = [question_to_json(question) for question in questions]
    return {"select": {"letters": letters, "selection": asdict(selection), "release": release}}


def answer_select(router: DirectRouter, request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of the router's function to `select`."""
    questions = [question_from_json(letter) for letter in request["letters"]]
    selection = selection_from_data(request["selection"])
    release = request.get("release") is True
    return picks_to_json(router.select(questions, selection, release=release))


def picks_to_json(picks: Sequence[Pick]) -> dict[str, Any]:
    """The picks as JSON-ready data; `picks_from_json` is its inverse."""
    return {"picks": [{**asdict(pick), "stamp": stamps.to_data(pick.stamp)} for pick in picks]}


def picks_from_json(data: object) -> tuple[Pick, ...]:
    """The picks of the router's function.

    A pick that cannot be understood is left out: its letter does not join the run. Raises
    RouterUnavailable if the data as a whole is no answer.
    """
    if not isinstance(data, dict) or not isinstance(data.get("picks"), list):
        raise RouterUnavailable("the router's answer has no picks")
    picks = [_read_pick(item) for item in data["picks"]]
    return tuple(pick for pick in picks if pick is not None)


_TEXTS_OF_A_PICK = ("message_id", "left_out", "key", "sequence", "cause", "category", "tenant")


def _read_pick(data: object) -> Pick | None:
    """The pick in JSON; None if it cannot be understood."""
    if not isinstance(data, dict):
        return None
    stamp = stamps.from_data(data.get("stamp"))
    texts = {name: text for name in _TEXTS_OF_A_PICK if isinstance(text := data.get(name), str)}
    if stamp is None or len(texts) < len(_TEXTS_OF_A_PICK):
        return None
    return Pick(
        **texts,
        stamp=stamp,
        chosen=data.get("chosen") is True,
        applied=data.get("applied") is True,
    )
