"""The commands of `pybsp` that run programs, and that print what they cost: a file each, loaded when it is named.

    run.py, simulate.py, replay.py, report.py, predict.py, doctor.py

Each has a function `add_options(parser)`, as other commands have in files of their own (cli.py).

    programs.py     what commands that run a program have in common
    starting.py     how `pybsp run` starts ranks here, under Slurm too; configured.py: its settings, and where from
    labelled.py     a rank of `pybsp run --label-output`; probe.py: one of `pybsp doctor`
    table.py        a ledger as a table; page.py: as a page of HTML; logp_report.py: LogP runs
    fitting.py      tables on terminals
"""
