"""What each superstep cost: noted by each processor as it ends, combined when it is asked for, kept, shown.

What is where:

    account.py       what one processor notes of its supersteps, in its log.py
    combining.py     the logs of all processors, combined
    ledger.py        the ledger: records.py, and what is said of all of them
    ledger_file.py   the ledgers of a job as a file
    recording.py     how it grows while the job goes on
    trace.py         what `--trace` keeps of a run; chrome.py: as a file in Chrome's trace form
    pictures.py      supersteps as pictures and tables of HTML
"""
