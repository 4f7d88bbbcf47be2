"""The demo: an outage, a bad tenant and a mixed mail of events, on an AWS of one's own.

- run: the script, from an empty sandbox to the reconciliation
- events: what is sent, and how each of it should end
- receiver: the three endpoints that the events are posted to
- pipeline: the deployed app as its producer and its on-call engineer reach it
- reconcile: what became of every event
- live: what the person at the terminal sees meanwhile
"""
