"""How many small mistakes in the pure modules the tests notice: `python -m lab.mutation`.

targets       the packages that are mutated, and the tests that each must be noticed by
operators     the mistakes that cosmic-ray does not make by itself
generate      writes the mutants of a module; runs in cosmic-ray's own environment
mutant        one mutant, and how it ended
swap          puts the code of a mutant in the place of a function that is already imported
warm          runs mutants of functions in forks of one collected test session
cold          runs any mutant in a process that imports everything anew
verdict       the score, and the mutants that no test noticed
"""
