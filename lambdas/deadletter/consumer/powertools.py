"""The consumer library for users of Powertools: they replace the processor and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType

from deadletter.consumer import handle
from deadletter.failure.blame import Errors, teams_word
from deadletter.failure.fate import ACKNOWLEDGED, Fate
from deadletter.failure.signals import reject_deferred_result
from deadletter.processing.crew import check_concurrency
from deadletter.processing.result import BatchResult, MessageResult

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.batch.types import BatchTypeModels

__all__ = ["DeadletterProcessor", "NotProcessed"]


class NotProcessed(Exception):
    """The message went back to its queue without being passed to the record handler."""


class DeadletterProcessor(BatchProcessor):
    """Powertools' BatchProcessor with the consumer library around each record.

    For standard and FIFO queues: on FIFO the first failure of a group returns the rest of
    that group. `success_handler` and `failure_handler` are called as Powertools calls
    them; a duplicate is a success without a result, and a parked message a failure that
    the response does not name.

    `dependency_errors` and `ignored_errors` say which exceptions count against the circuit's
    dependency, as in `deadletter.consumer`.

    WARNING: pass the Lambda `context` on. Without it a message stays claimed for 15 minutes
    if its function is killed.
    """

    def __init__(
        self,
        event_type: EventType = EventType.SQS,
        model: BatchTypeModels | None = None,
        raise_on_entire_batch_failure: bool = False,
        logger: logging.Logger | None = None,
        *,
        dependency_errors: Errors = (),
        ignored_errors: Errors = (),
        concurrency: int = 1,
    ) -> None:
        """As BatchProcessor; by default a batch that fails entirely raises nothing.

        `concurrency` is how many records are handled at the same time, as in
        `deadletter.consumer`. The record handler is a plain function: Powertools' asynchronous
        processing is not supported.

        Raises ValueError for another event type than SQS or another concurrency, and TypeError for
        `dependency_errors` or `ignored_errors` of another kind.
        """
        if event_type is not EventType.SQS:
            raise ValueError(f"event type {event_type} is not supported; allowed: EventType.SQS")
        super().__init__(event_type, model, raise_on_entire_batch_failure, logger)
        # Refused here, and not at the first batch.
        check_concurrency(concurrency)
        teams_word(dependency_errors, ignored_errors)
        self._dependency_errors, self._ignored_errors = dependency_errors, ignored_errors
        self._concurrency = concurrency
        self._result = BatchResult()
        self._entries: dict[int, tuple[Any, ...]] = {}

    def process(self) -> list[tuple[Any, ...]]:
        """Process each record with the record handler. Returns one entry per record, in order."""
        self._entries = {}
        context = getattr(self, "lambda_context", None)
        self._result = handle(
            self.records,
            context,
            self._each,
            dependency_errors=self._dependency_errors,
            ignored_errors=self._ignored_errors,
            concurrency=self._concurrency,
        )
        return [
            self._entry(record, result)
            for record, result in zip(self.records, self._result.results, strict=True)
        ]

    def _prepare(self) -> None:
        super()._prepare()  # type: ignore[no-untyped-call]
        self._result = BatchResult()

    def _each(self, record: Mapping[str, Any]) -> None:
        data: Any = self._to_batch_type(dict(record), self.event_type, self.model)
        context = (
            {"lambda_context": self.lambda_context} if self._handler_accepts_lambda_context else {}
        )
        result = self.handler(record=data, **context)
        reject_deferred_result(result)
        self._entries[id(record)] = self.success_handler(record=record, result=result)

    def _entry(self, record: Any, result: MessageResult) -> tuple[Any, ...]:
        if result.fate in ACKNOWLEDGED - {Fate.PARKED}:
            entry = self._entries.get(id(record))
            return entry or self.success_handler(record=record, result=None)
        error = result.error or NotProcessed(str(result.fate))
        data: Any = self._to_batch_type(record, self.event_type)
        return self.failure_handler(data, (type(error), error, error.__traceback__))

    def _entire_batch_failed(self) -> bool:
        # A parked message must not come back, and a probe or a replay run reads the response.
        return len(self._result.failed) == len(self.records) and not self._result.direct

    def _clean(self) -> None:
        super()._clean()  # type: ignore[no-untyped-call]
        response: Any = self._result.to_response()
        self.batch_response = response
