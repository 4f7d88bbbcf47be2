"""The demo: an outage, a bad tenant and mail of every shape, on an AWS of one's own.

- run: from an empty sandbox to the account of every event
- events: what is sent, and the end that each should come to
- receiver: the three endpoints that it is posted to
- pipeline: the deployed app, as its producer and its on-call engineer reach it
- look: one look at everything that goes on
- script: what happens meanwhile, and when
- watch: look after look, until nothing is on its way
- reconcile: what became of every event
- live: what the person at the terminal sees
"""
