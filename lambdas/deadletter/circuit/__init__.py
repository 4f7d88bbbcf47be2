"""A dependency's circuit: its state, and every transition of it."""
