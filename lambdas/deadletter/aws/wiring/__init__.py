"""Puts each function together: its ports, and the AWS adapters that fill them.

`stores` makes the adapters of a pipeline; the other modules put functions together, and load for
each what it needs and nothing else. `resources` names the queues, tables and functions of a
deployment, `clients` are boto3's, and `world` is the clock, ids and randomness.
"""
