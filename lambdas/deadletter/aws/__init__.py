"""AWS behind the library's ports: the only place that knows boto3.

`answers` says what an error means, each other module keeps one noun in one service,
`compose` puts a pipeline's parts together, `memory` is an AWS without AWS.
"""
