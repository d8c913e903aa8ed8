"""A model of how processors meet: the board in shared memory, the exchange of messages, and what happens when an
exception leaves an exchange. All orders in which 2 or 3 ranks can take its steps are explored.

    machine.py       steps, cells, and the explorer: a state is what all cells hold and where each rank is
    protocol.py      what one rank does, step by step, as the files of pybsp/transport have it
    worlds.py        what is explored: how many ranks and exchanges, what they may say, where exceptions may come
    mutants.py       wrong protocols, each a line or two of protocol.py changed; all are found
    accesses.py      records what the code does to a board's words, by the model's names
    acceptor.py      whether the model's rank may do what was recorded
    on_ranks.py      the program that real ranks run for that

A step is one access to a word, or text, of shared memory, or one operation on messages. Between any two steps of a
rank all others may take any number of theirs. A wait is a step that cannot be taken yet. What a rank says in an
exchange, how long it keeps what it has received, and at which step it raises an exception is chosen in all ways that
the world allows.

Wrong is: what is said is not what arrives; data that is kept is written over; ranks wait for ever; a job is aborted
though all have come to the meeting; a run is left though nobody raised anything; a message, a posted receive or a
notice is left at the end. An exchange that checks itself (DeliveryError) has found something wrong, too.

Smaller than the code are: AGES where data is to get older than that; blocks of older exchanges, which are one
(tests/test_shared_memory.py has those); the bits of a number in a head; a text, which is one cell. Orders of memory are
those of sequential consistency: the words' order that the board needs is the one that a processor of the x86 family
keeps. Not in the model: sparse exchanges, swaps, a leader's messages to other leaders (its board and its release are),
collective calls of MPI, threads.

    python -m tests.model                                      the worlds of the tests, and their numbers of states
    python -m tests.model --ranks 3 --exchanges 3 --says quiet,data      larger ones; those of 3 ranks take minutes
    python -m tests.model --mutants                            what finds each mutant, and after how many states
"""
