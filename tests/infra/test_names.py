"""Names are stable, fit where they are used, and never meet."""

from __future__ import annotations

from infra.names import Names
from infra.settings.kinds import APP_LENGTH, ID_LENGTH, PIPELINE_LENGTH


def test_the_longest_names_fit_their_services() -> None:
    longest = Names("a" * APP_LENGTH, "p" * PIPELINE_LENGTH, fifo=True)
    id_ = "i" * ID_LENGTH
    # Lambda and EventBridge Scheduler: 64 characters, SQS: 80.
    assert max(len(longest.function(role)) for role in ("redrive", "consumer")) <= 64
    # Step Functions: 80.
    assert len(longest.circuit_breaker) <= 80
    assert len(longest.schedule(id_)) <= 64
    assert max(len(longest.dlq(id_)), len(longest.parking(id_))) <= 80


def test_an_id_can_not_be_mistaken_for_a_part_of_a_pipelines_name() -> None:
    assert Names("app", "orders").parking("main") != Names("app", "orders-parking").main
    assert Names("app", "orders").dlq("dlq") != Names("app", "orders-dlq").dlq()


def test_queues_of_a_fifo_pipeline_end_in_fifo() -> None:
    names = Names("app", "orders", fifo=True)
    assert names.main == "app-orders-main.fifo"
    assert names.dlq("vip") == "app-orders-dlq_vip.fifo"
    assert names.parking() == "app-orders-parking.fifo"
