"""The checks, a module for each service; importing this package enters them all."""

from tools.verify_aws.checks import queues

__all__ = ["queues"]
