"""Puts each function together: its ports, and the AWS adapters that fill them.

One module per function, so that a function loads what it needs and nothing else. `stores` makes
the adapters of a pipeline. `resources` names the queues, tables and functions of a deployment,
`clients` are boto3's, and `world` is the clock, ids and randomness.
"""
