"""How every server that is an ASGI app listens: the same stack, whatever an environment has."""

import sys

import uvicorn


def listen(app, *, loop="asyncio", http="h11"):
    """Serve at the port that the command line names, until killed."""
    port = int(sys.argv[1])
    quiet = {"log_level": "error", "access_log": False}
    uvicorn.run(app, host="127.0.0.1", port=port, backlog=8192, loop=loop, http=http, **quiet)
