"""The long runs, in parts: which commands each has, and the table of their results."""
