"""The demo: an outage, a bad tenant and mail of every shape, on an AWS of one's own.

- run: from an empty sandbox to the account of every event
- events: what is sent, and the end that each should come to
- receiver: the three endpoints that it is posted to
- pipeline: its settings, and how its producer and its on-call engineer reach it
- look: one look at everything that goes on
- script: what happens meanwhile, and what it waits for
- play: the mail and the script, look after look, until nothing is on its way
- reconcile: what became of every event
- live: what the person at the terminal sees
- beside: the same events under other ways of emptying a DLQ
- person: what a person has to do by hand, and at what hour
- chronicle, report, page: what is left of it to read, with one letter's life
"""
