"""The textbook's programs in mpi4py; what sends nothing they take from examples/textbook."""
