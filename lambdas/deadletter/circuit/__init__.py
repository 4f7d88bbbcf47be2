"""The circuit of a dependency: its state and its transitions."""
