"""What studies have in common, so that each is what it studies: cases in, rows out.

study.py    a study's command: options, progress, tables, figures as JSON, pictures
tables.py   tables as the docs have them, a line for each row
ranks.py    functions on MPI ranks that are started for them: here, or on emulated hosts
worker.py   what such ranks run
turns.py    measuring there: variants in turns, a common beginning
"""

from .ranks import EMULATORS as EMULATORS
from .ranks import EmulatedNetwork as EmulatedNetwork
from .ranks import library as library
from .ranks import on_ranks as on_ranks
from .ranks import run_program as run_program
from .ranks import usual_emulator as usual_emulator
from .study import Study as Study
from .study import read_figures as read_figures
from .tables import bounded as bounded
from .tables import cells as cells
from .tables import heads as heads
from .tables import spread as spread
from .tables import table as table
from .turns import in_turns as in_turns
from .turns import kernel as kernel
from .turns import timed as timed
from .turns import wait_until as wait_until
