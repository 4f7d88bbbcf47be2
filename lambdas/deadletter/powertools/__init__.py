"""The old name of `deadletter.consumer.powertools`, kept importable for one more release."""

from deadletter.consumer.powertools import DeadletterProcessor, NotProcessed

__all__ = ["DeadletterProcessor", "NotProcessed"]
