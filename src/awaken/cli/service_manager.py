"""Tells systemd when a process is ready and when it stops; without systemd it does nothing."""

import logging
import os
import socket

logger = logging.getLogger(__name__)

READY = "READY=1"
STOPPING = "STOPPING=1"


def notify_manager(state: str) -> None:
    """Send a state to the service manager that started this process (`Type=notify`), if any.

    A manager that does not answer is logged and never keeps the process from its work.
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    # A name that begins with @ is one of Linux's abstract sockets.
    place = f"\0{address[1:]}" if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(0)
            sender.sendto(state.encode(), place)
    except OSError:
        logger.warning("The service manager at %s was not told %s.", address, state, exc_info=True)
