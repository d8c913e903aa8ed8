"""Commands of `pybsp` that run programs, and that print what they cost: a file each, loaded when it is named.

Each has a function `add_options(parser)`, as other commands have in files of their own (cli.py).
"""
