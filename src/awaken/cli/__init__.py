"""The command line: parse, call the runtime, print. No behaviour of its own."""
