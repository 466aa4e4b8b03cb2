"""Addresses of nodes: a claim names its worker, and the worker's name has the node's address."""

import os
import re
import socket

_ADDRESS = re.compile(r":([0-9a-f]{12})(?:@|$)")


def new_address() -> str:
    """Make the address of a node; two are never equal, also after a restart."""
    return os.urandom(6).hex()


def name_worker(address: str) -> str:
    """Make the name of a worker: host and pid are for people, the address for other nodes."""
    return f"{socket.gethostname()}:{os.getpid()}:{address}"


def find_address(worker_id: str) -> str | None:
    """Find the address of the node in the name that a claim has; None in another name."""
    found = _ADDRESS.search(worker_id)
    return None if found is None else found[1]
