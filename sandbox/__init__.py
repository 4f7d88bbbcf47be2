"""An AWS of one's own, for development: an emulator with the real app deployed into it.

- server: the emulator, started and stopped
- deploy: the CDK app, deployed into it by the real CDK CLI
- sources: all that a synthesis of the app reads, named by its content
- templates: synthesized apps, kept under these names
- letters: sample letters in a DLQ, for `dlq` to look at
- stay: up until Ctrl-C, with a file that points a shell at it
- queue_metrics: the AWS/SQS metrics that the emulator does not publish
- emulator: the emulator's own process, and what it is corrected in
- alarms: how CloudWatch judges an alarm
- emf: metrics embedded in log lines
- leading_keys: the partitions of a request, which IAM compares with row conditions
- certificate: localhost over TLS
"""
