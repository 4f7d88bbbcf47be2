"""Where the files lie that zips and templates are made of.

The wheel carries them inside this package, in the folder `packaged`. In a checkout, which has no
such folder, they lie at their places in the repository.
"""

from __future__ import annotations

from pathlib import Path

from deadletter import contract

_PACKAGED = Path(__file__).parent / "packaged"
# An editable install reaches this package by a link.
_CHECKOUT = Path(__file__).resolve().parents[1]

IN_CHECKOUT = not _PACKAGED.is_dir()

_LAMBDAS = _CHECKOUT / "lambdas" if IN_CHECKOUT else _PACKAGED

# The package `deadletter`.
LIBRARY = Path(contract.__file__).parent

HANDLERS = _LAMBDAS / "handlers"

# The functions' packages of others, by hash, and the folder that holds their wheels.
LOCK = _LAMBDAS / "requirements.txt"
WHEELS = _CHECKOUT / "build" / "wheels" if IN_CHECKOUT else _PACKAGED / "wheels"

STATE_MACHINES = (_CHECKOUT if IN_CHECKOUT else _PACKAGED) / "statemachines"
