"""The settings of a pipeline, and what its functions read from their environment."""
