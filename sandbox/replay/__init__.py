"""The replay demo: two thousand dead letters go back in order, and each is accounted for.

- run: from an empty sandbox to the report of the run
- pipeline: the deployed app, as its producer and its on-call engineer reach it
- script: what happens, the receiver of all letters, and what became of each letter
"""
