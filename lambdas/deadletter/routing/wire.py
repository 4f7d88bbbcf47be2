"""The JSON between the redriver and the router's function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deadletter.contract import MAIN_DLQ
from deadletter.failure.failure import FailureKind
from deadletter.message import stamp as stamps
from deadletter.message.letter import from_json, to_json
from deadletter.routing import decision as decisions
from deadletter.routing.decision import NotADecision
from deadletter.routing.router import (
    DirectRouter,
    Question,
    RouterAnswer,
    RouterUnavailable,
    Verdict,
)
from deadletter.rules.rulebook import (
    RefusedRule,
)


def question_to_json(question: Question) -> dict[str, Any]:
    """The question as it is sent to the router's function; `question_from_json` is its inverse."""
    return {
        **to_json(question.letter),
        "home": question.home,
        **({"served": True} if question.served else {}),
    }


def question_from_json(data: Mapping[str, Any]) -> Question:
    """Raises NotALetter for anything that is not a question."""
    return Question(from_json(data), data.get("served") is True, str(data.get("home", MAIN_DLQ)))


def answer_event(router: DirectRouter, event: Mapping[str, Any]) -> dict[str, Any]:
    """What the router's function returns: verdicts on `letters`, which of `lanes` are open,
    or how the verdict on the letter in `explain` comes about."""
    if "explain" in event:
        verdict, trials = router.explain(question_from_json(event["explain"]))
        return {
            "verdict": verdict_to_json(verdict),
            "tried": [
                {
                    "rule": one.rule_id,
                    "outcome": one.outcome,
                    "missed": [
                        {"path": f.path, "expected": f.expected, "found": f.found}
                        for f in one.missed
                    ],
                }
                for one in trials
            ],
        }
    if "lanes" in event:
        return {"open": list(router.releasable_lanes([str(one) for one in event["lanes"]]))}
    return answer_to_json(router.decide([question_from_json(one) for one in event["letters"]]))


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """The verdict as it is sent back to whoever asked."""
    return {
        "id": verdict.message_id,
        "decision": decisions.encode(verdict.decision),
        "stamp": stamps.to_data(verdict.stamp),
        **({"forged": True} if verdict.forged else {}),
    }


def answer_to_json(answer: RouterAnswer) -> dict[str, Any]:
    return {
        "verdicts": [verdict_to_json(one) for one in answer.verdicts],
        "refused_rules": [{"rule": one.rule_id, "why": one.why} for one in answer.refused_rules],
        "shadow_matches": dict(answer.shadow_matches),
        "limited_rules": list(answer.limited_rules),
        "failures": [
            {"fingerprint": one.fingerprint, "error_type": one.error_type, "letters": one.letters}
            for one in answer.failures
        ],
    }


def answer_from_json(data: object) -> RouterAnswer:
    """The answer of the router's function.

    A verdict that cannot be understood is left out: its letter stays. Raises
    RouterUnavailable if the whole is no answer.
    """
    if not isinstance(data, dict) or not isinstance(data.get("verdicts"), list):
        raise RouterUnavailable("the router's answer has no verdicts")
    verdicts = [found for one in data["verdicts"] if (found := _verdict(one)) is not None]
    refused, shadows = data.get("refused_rules"), data.get("shadow_matches")
    limited, failures = data.get("limited_rules"), data.get("failures")
    return RouterAnswer(
        tuple(verdicts),
        tuple(
            RefusedRule(str(one.get("rule")), str(one.get("why")))
            for one in (refused if isinstance(refused, list) else ())
            if isinstance(one, dict)
        ),
        {
            str(rule): number
            for rule, number in (shadows if isinstance(shadows, dict) else {}).items()
            if isinstance(number, int)
        },
        tuple(map(str, limited if isinstance(limited, list) else ())),
        tuple(
            FailureKind(str(one.get("fingerprint")), str(one.get("error_type")), one["letters"])
            for one in (failures if isinstance(failures, list) else ())
            if isinstance(one, dict) and isinstance(one.get("letters"), int)
        ),
    )


def _verdict(data: object) -> Verdict | None:
    if not isinstance(data, dict) or not isinstance(data.get("id"), str):
        return None
    mark = stamps.from_data(data.get("stamp"))
    if mark is None:
        return None
    try:
        decision = decisions.decode(data.get("decision"))
    except NotADecision:
        return None
    return Verdict(data["id"], decision, mark, data.get("forged") is True)
