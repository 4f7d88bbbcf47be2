"""The settings of a pipeline, and what its functions read from their environment."""

from deadletter.settings.pipeline import Pipeline

__all__ = ["Pipeline"]
