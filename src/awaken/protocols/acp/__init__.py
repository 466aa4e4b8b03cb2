"""The Agent Client Protocol: an editor talks to an agent over stdin and stdout.

Sessions are threads. A waiting call is a permission request; `allow_always` and `reject_always` are
remembered durably for the thread and the tool, and checked before the client is asked again. A
call that waits for a free-form answer cannot be answered over ACP: the turn ends with an error, and
the run is cancelled. A client that disconnects does not stop a run; the process drains when its
stdin ends.
"""
