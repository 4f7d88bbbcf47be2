"""What an on-call person can ask and do, as functions that return data."""
