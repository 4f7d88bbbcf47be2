"""The functions' entry points: decorators, one call, return."""
