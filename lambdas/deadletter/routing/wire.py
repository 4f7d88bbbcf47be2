"""The JSON between the router's function and those who ask it: the redriver, and replay runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from deadletter.contract import MAIN_DLQ
from deadletter.failure.failure import FailureKind
from deadletter.message import stamp as stamps
from deadletter.message.letter import NotALetter, compact_json, from_json, to_json
from deadletter.routing import decision as decisions
from deadletter.routing.decision import NotADecision
from deadletter.routing.router import (
    LaneAnswer,
    Question,
    RouterAnswer,
    RouterUnavailable,
    Verdict,
)
from deadletter.rules.refused_rule import RefusedRule

if TYPE_CHECKING:
    from deadletter.routing.direct_router import DirectRouter
    from deadletter.routing.selection import Pick, Selection
    from deadletter.rules.rulebook import Trial

_Said = TypeVar("_Said")


def question_to_json(question: Question) -> dict[str, Any]:
    """The question as it is sent to the router's function; `question_from_json` is its inverse."""
    return {**to_json(question.letter), **_besides_to_json(question)}


def question_bytes(question: Question) -> int:
    """The length of the question's encoded JSON."""
    return len(question.letter.encoded) + len(compact_json(_besides_to_json(question))) - 1


def encoded_question(question: Question) -> bytes:
    """The question's JSON; it takes the JSON that its letter was measured by."""
    besides = compact_json(_besides_to_json(question))
    return b"%b,%b" % (question.letter.take_encoded()[:-1], besides[1:])


def _besides_to_json(question: Question) -> dict[str, Any]:
    return {
        "home": question.home,
        **({"served": True} if question.served else {}),
        **({"spared": question.spared} if question.spared else {}),
        **({"replay": True} if question.replay else {}),
        **({"stamp": stamps.to_data(question.stamp)} if question.stamp is not None else {}),
        **({"waited": question.waited} if question.waited else {}),
        **({"held_by": question.held_by} if question.held_by is not None else {}),
        **({"admitted": question.admitted} if question.admitted is not None else {}),
    }


def question_from_json(data: Mapping[str, Any]) -> Question:
    """The question in JSON. Raises NotALetter for anything else."""
    spared, waited, held_by = data.get("spared"), data.get("waited"), data.get("held_by")
    admitted = data.get("admitted")
    stamp = stamps.from_data(data["stamp"]) if "stamp" in data else None
    if "stamp" in data and stamp is None:
        raise NotALetter("a question whose stamp is malformed")
    return Question(
        from_json(data),
        data.get("served") is True,
        str(data.get("home", MAIN_DLQ)),
        spared if isinstance(spared, int) else 0,
        replay=data.get("replay") is True,
        stamp=stamp,
        waited=max(0.0, float(waited)) if isinstance(waited, int | float) else 0.0,
        held_by=held_by if isinstance(held_by, str) else None,
        admitted=admitted if isinstance(admitted, str) else None,
    )


def answer_event(router: DirectRouter, event: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of the router's function to an event.

    `letters` get verdicts, `lanes` get those that are releasable (as `open`), and the
    letter in `explain` gets its verdict with the rules that were tried on it. The letters of
    `select` get picks by its `selection`.
    """
    if "select" in event:
        return _answer_select(router, event["select"])
    if "explain" in event:
        verdict, trials = router.explain(question_from_json(event["explain"]))
        return {
            "verdict": verdict_to_json(verdict),
            "tried": [_trial_to_json(trial) for trial in trials],
        }
    if "lanes" in event:
        return lanes_to_json(router.open_lanes([str(lane) for lane in event["lanes"]]))
    questions = [question_from_json(letter) for letter in event["letters"]]
    answer, unjudged = _of_judgeable(router.decide, questions)
    return answer_to_json(replace(answer, bad_rows=(*answer.bad_rows, *unjudged)))


def _of_judgeable(
    ask: Callable[[Sequence[Question]], _Said], questions: Sequence[Question]
) -> tuple[_Said, list[str]]:
    """The answer about the letters that `ask` does not fail for, and a line on each other one.

    A defect of ours that one message meets would otherwise end each run of its pipeline.
    """
    try:
        return ask(questions), []
    except RouterUnavailable:
        raise
    except Exception:
        judgeable, unjudged = [], []
        for question in questions:
            try:
                ask([question])
                judgeable.append(question)
            except RouterUnavailable:
                raise
            except Exception as error:
                unjudged.append(f"message {question.letter.message_id}: {type(error).__name__}")
        if not unjudged:
            raise
        return ask(judgeable), unjudged


def _trial_to_json(trial: Trial) -> dict[str, Any]:
    return {
        "rule": trial.rule_id,
        "outcome": trial.outcome,
        "missed": [
            {"path": field.path, "expected": field.expected, "found": field.found}
            for field in trial.missed
        ],
    }


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """The verdict as JSON-ready data."""
    return {
        "id": verdict.message_id,
        "decision": decisions.encode(verdict.decision),
        "stamp": stamps.to_data(verdict.stamp),
        **({"forged": True} if verdict.forged else {}),
        **({"free": True} if verdict.free else {}),
        **({"undated": True} if verdict.undated else {}),
        **({"excused": verdict.excused} if verdict.excused else {}),
        **({"matched": verdict.matched} if verdict.matched is not None else {}),
        **({"shadow_matched": list(verdict.shadow_matched)} if verdict.shadow_matched else {}),
        **({"limit": verdict.limit} if verdict.limit is not None else {}),
    }


def lanes_to_json(answer: LaneAnswer) -> dict[str, Any]:
    """What the router says of lanes, as JSON-ready data; `lanes_from_json` is its inverse."""
    return {
        "open": list(answer.open),
        "invalid": list(answer.invalid),
        "edition": answer.edition,
        "rates": dict(answer.rates),
    }


def lanes_from_json(data: object, asked: Sequence[str]) -> LaneAnswer:
    """What the router's function says of the lanes that it was asked about.

    Raises RouterUnavailable if it does not say which are open. A rate that is no positive number
    is left out: without one, no letter leaves such a lane before its rule ends.
    """
    is_open = data.get("open") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(is_open, list):
        raise RouterUnavailable("the router did not say which lanes are open")
    edition, rates = data.get("edition"), data.get("rates")
    return LaneAnswer(
        [lane for lane in asked if lane in is_open],
        [lane for lane in asked if lane in _list(data, "invalid")],
        edition if isinstance(edition, str) else "",
        {
            lane: float(rate)
            for lane, rate in (rates if isinstance(rates, dict) else {}).items()
            if lane in asked and isinstance(rate, int | float) and 0 < rate < math.inf
        },
    )


def answer_to_json(answer: RouterAnswer) -> dict[str, Any]:
    """The answer as JSON-ready data; `answer_from_json` is its inverse."""
    return {
        "verdicts": [verdict_to_json(verdict) for verdict in answer.verdicts],
        "refused_rules": [
            {
                "rule": rule.rule_id,
                "why": rule.why,
                **({"everywhere": True} if rule.everywhere else {}),
                **({"disabled": True} if rule.disabled else {}),
            }
            for rule in answer.refused_rules
        ],
        "shadow_matches": dict(answer.shadow_matches),
        **({"costly_rules": dict(answer.costly_rules)} if answer.costly_rules else {}),
        "limited_rules": list(answer.limited_rules),
        "limited_everywhere": list(answer.limited_everywhere),
        "unnamed": {"refused": answer.unnamed_refused, "limited": answer.unnamed_limited},
        **({"bad_rows": list(answer.bad_rows)} if answer.bad_rows else {}),
        "failures": [
            {
                "fingerprint": kind.fingerprint,
                "error_type": kind.error_type,
                "messages": kind.messages,
            }
            for kind in answer.failures
        ],
    }


def answer_from_json(data: object) -> RouterAnswer:
    """The answer of the router's function.

    A verdict that cannot be understood is left out: its letter stays. Raises
    RouterUnavailable if the data as a whole is not an answer.
    """
    if not isinstance(data, dict) or not isinstance(data.get("verdicts"), list):
        raise RouterUnavailable("the router's answer has no verdicts")
    verdicts = [_verdict(item) for item in data["verdicts"]]
    unnamed = _counts(data, "unnamed")
    return RouterAnswer(
        tuple(verdict for verdict in verdicts if verdict is not None),
        tuple(
            RefusedRule(
                str(rule.get("rule")),
                str(rule.get("why")),
                everywhere=rule.get("everywhere") is True,
                disabled=rule.get("disabled") is True,
            )
            for rule in _list(data, "refused_rules")
            if isinstance(rule, dict)
        ),
        _counts(data, "shadow_matches"),
        tuple(map(str, _list(data, "limited_rules"))),
        tuple(
            FailureKind(str(kind.get("fingerprint")), str(kind.get("error_type")), kind["messages"])
            for kind in _list(data, "failures")
            if isinstance(kind, dict) and isinstance(kind.get("messages"), int)
        ),
        tuple(map(str, _list(data, "limited_everywhere"))),
        _counts(data, "costly_rules"),
        unnamed.get("refused", 0),
        unnamed.get("limited", 0),
        tuple(map(str, _list(data, "bad_rows"))),
    )


def _counts(data: Mapping[str, Any], name: str) -> dict[str, int]:
    value = data.get(name)
    counts = value if isinstance(value, dict) else {}
    return {str(rule): number for rule, number in counts.items() if isinstance(number, int)}


def _list(data: Mapping[str, Any], name: str) -> list[Any]:
    value = data.get(name)
    return value if isinstance(value, list) else []


def _verdict(data: object) -> Verdict | None:
    """The verdict in JSON; None if it cannot be understood."""
    if not isinstance(data, dict) or not isinstance(data.get("id"), str):
        return None
    stamp = stamps.from_data(data.get("stamp"))
    if stamp is None:
        return None
    try:
        decision = decisions.decode(data.get("decision"))
    except NotADecision:
        return None
    matched = data.get("matched")
    return Verdict(
        data["id"],
        decision,
        stamp,
        data.get("forged") is True,
        data.get("free") is True,
        matched if isinstance(matched, str) else None,
        tuple(map(str, _list(data, "shadow_matched"))),
        data.get("undated") is True,
        _whole(data.get("excused")) or 0,
        limit=_whole(data.get("limit")),
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def selection_request(
    questions: Sequence[Question], selection: Selection, *, release: bool
) -> dict[str, Any]:
    """The event that asks the router's function which letters a replay run may take."""
    letters = [question_to_json(question) for question in questions]
    return {"select": {"letters": letters, "selection": asdict(selection), "release": release}}


def _answer_select(router: DirectRouter, request: Mapping[str, Any]) -> dict[str, Any]:
    # No run of the redriver asks this.
    from deadletter.routing.selection import selection_from_data

    questions = [question_from_json(letter) for letter in request["letters"]]
    selection = selection_from_data(request["selection"])
    select = partial(router.select, selection=selection, release=request.get("release") is True)
    return picks_to_json(_of_judgeable(select, questions)[0])


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
    from deadletter.routing.selection import Pick

    rule = data.get("rule")
    return Pick(
        **texts,
        stamp=stamp,
        rule=rule if isinstance(rule, str) else None,
        chosen=data.get("chosen") is True,
        applied=data.get("applied") is True,
    )
