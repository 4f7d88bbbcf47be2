"""Replay runs: an operator's planned, rate-limited, abortable drain of a source of letters."""
