"""Judges, moves and records dead letters.

All packages but `aws`, `consumer` and `testing` are pure: clock, randomness, environment and
clients are arguments. `routing` decides, and `redrive` acts on its decisions and writes each
intent into the journal first. `processing` is the consumer's side, `outage` opens and closes
circuits, and `contract` holds the names that the deployment shares.
"""
