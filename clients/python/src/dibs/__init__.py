# SPDX-License-Identifier: MIT
"""Claim network ports that stay yours: the client of dibs for Python.

>>> import dibs
>>> with dibs.Client() as client, client.claim() as claim:
...     print(claim.port)

Each verb of the program is a method of `Client`, and a coroutine of `AsyncClient`.
"""

from ._client import AsyncClient, Client
from ._listen import Listener
from .errors import (
    Blocker,
    Denied,
    Error,
    Exhausted,
    Failed,
    Missed,
    NotFound,
    Taken,
    Unavailable,
    Usage,
)
from .records import (
    Binding,
    Change,
    Claim,
    Event,
    Holder,
    NatRule,
    Pool,
    PoolUsage,
    Reason,
    Report,
    Socket,
    Token,
)

__all__ = [
    "AsyncClient",
    "Binding",
    "Blocker",
    "Change",
    "Claim",
    "Client",
    "Denied",
    "Error",
    "Event",
    "Exhausted",
    "Failed",
    "Holder",
    "Listener",
    "Missed",
    "NatRule",
    "NotFound",
    "Pool",
    "PoolUsage",
    "Reason",
    "Report",
    "Socket",
    "Taken",
    "Token",
    "Unavailable",
    "Usage",
]

__version__ = "0.1.0"
