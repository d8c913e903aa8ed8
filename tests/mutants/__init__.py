"""What the tests catch: one-line mutants, drawn by a seed over all statements, each against the tests that reach it.

python -m tests.mutants --number 150 --seed 1
"""
