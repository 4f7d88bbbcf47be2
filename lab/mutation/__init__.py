"""How many small mistakes in the pure modules the tests notice: `python -m lab.mutation`.

targets   the packages that are mutated, and the tests that each must be noticed by
mutants   writes the mutants of a module's functions
session   runs them in forks of one collected test session
"""
