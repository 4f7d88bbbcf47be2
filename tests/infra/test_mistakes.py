"""A mistake is one sentence, and the same one wherever it was typed."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping
from typing import Any

import aws_cdk as cdk
import pytest

from infra import DeadletterApp, RedrivePipeline, Refused
from tests.infra.conftest import ROOT
from tests.infra.mistakes import APP, PIPELINE, Mistake

Say = Callable[[Mapping[str, Any]], str]


@pytest.fixture(scope="module")
def by_cdk_json() -> Say:
    """What app.py says of a context, in place of the one that the CDK CLI reads from cdk.json."""
    main = runpy.run_path(str(ROOT / "app.py"))["main"]

    def say(context: Mapping[str, Any]) -> str:
        made = cdk.App
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cdk, "App", lambda **given: made(context=dict(context), **given))
            with pytest.raises(SystemExit) as ended:
                main()
        return str(ended.value)

    return say


def stack() -> cdk.Stack:
    return cdk.Stack(cdk.App(context={"aws:cdk:bundling-stacks": []}), "Shop")


def names(mistakes: list[Mistake]) -> list[str]:
    return [sentence[:50] for _, sentence in mistakes]


def named(typed: Mapping[str, Any], sentence: str) -> tuple[dict[str, Any], str]:
    whole = {"name": "orders", **typed}
    return whole, f"Pipeline {whole['name']}: {sentence}"


@pytest.mark.parametrize(("typed", "sentence"), PIPELINE, ids=names(PIPELINE))
def test_a_mistake_in_a_pipeline_is_one_sentence(
    by_cdk_json: Say, typed: Mapping[str, Any], sentence: str
) -> None:
    whole, said = named(typed, sentence)
    assert by_cdk_json({"pipelines": [whole]}) == said
    with pytest.raises(Refused) as refused:
        RedrivePipeline(stack(), "Orders", settings=whole)  # type: ignore[arg-type]
    assert str(refused.value) == said
    # A traceback that ends in this sentence, and in none of another library.
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None


@pytest.mark.parametrize(("typed", "sentence"), APP, ids=names(APP))
def test_a_mistake_in_an_app_is_one_sentence(
    by_cdk_json: Say, typed: Mapping[str, Any], sentence: str
) -> None:
    said = f"App {typed.get('app', 'deadletter')}: {sentence}"
    assert by_cdk_json({"pipelines": [{"name": "orders"}], **typed}) == said
    with pytest.raises(Refused) as refused:
        DeadletterApp(stack(), "Deadletter", settings=typed)  # type: ignore[arg-type]
    assert str(refused.value) == said
    assert refused.value.__cause__ is None


def test_there_are_forty_mistakes_at_least() -> None:
    assert len(PIPELINE) + len(APP) >= 40
