"""Puts the parts of one function together: its ports on one side, AWS on the other.

One module a function, so that each loads what it needs and nothing else.
"""
