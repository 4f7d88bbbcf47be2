"""AWS in memory, at its strictest: clients shaped like boto3's, for tests and simulations.

What runs on these runs on AWS; what AWS may do (deliver late, twice, out of order, refuse), these
may be asked to do. They are fast and single-threaded, and own neither clock nor randomness.
"""

from deadletter.testing.fakes.dynamodb import Consumed, MemoryDynamoDB
from deadletter.testing.fakes.errors import client_error
from deadletter.testing.fakes.lambda_ import MemoryLambda
from deadletter.testing.fakes.mappings import MemoryMappings
from deadletter.testing.fakes.s3 import MemoryS3
from deadletter.testing.fakes.sqs import MemorySqs
from deadletter.testing.fakes.sqs_queue import LiveMessage, QueueMeasure

__all__ = [
    "Consumed",
    "LiveMessage",
    "MemoryDynamoDB",
    "MemoryLambda",
    "MemoryMappings",
    "MemoryS3",
    "MemorySqs",
    "QueueMeasure",
    "client_error",
]
