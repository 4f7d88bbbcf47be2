"""The replay demo: two thousand dead letters go back in order, and each is accounted for.

- run: from an empty sandbox to the report of the run
- pipeline: the deployed app, as its producer and its on-call engineer reach it
- endpoint: the receiver of all letters, which a scene can break and mend
- script: what happens, and what became of each letter
"""
