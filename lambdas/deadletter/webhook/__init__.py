"""The webhook dispatcher: finds the endpoint, checks its address, signs and posts the message."""
