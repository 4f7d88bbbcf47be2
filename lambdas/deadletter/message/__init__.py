"""One message and what we write on it: letters, stamps, envelopes, queues as a port."""
