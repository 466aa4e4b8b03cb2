"""The plain loop over httpx2, which newer openai SDKs use (HTTP mode only)."""

import httpx2

from adapters.plain_httpx import PlainHttpx


class PlainHttpx2(PlainHttpx):
    name = "plain+httpx2"
    packages = ("httpx2",)
    library = httpx2


ADAPTER = PlainHttpx2
