"""The compiled core (core.c), where it was built: all that imports it does so here.

It is left out where no compiler was found when pybsp was installed, and not used where PYBSP_COMPILED=0. What it does
has a twin in Python, which gives the same bits; processors with it and without it work together.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from . import settings

core: ModuleType | None = None

if settings.text(settings.COMPILED) != "0":
    try:
        core = importlib.import_module("._core", __package__)
    except ImportError:
        core = None
