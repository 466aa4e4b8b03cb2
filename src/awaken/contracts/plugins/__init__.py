"""The port of plugins: hooks, screens, instruments, and the state keys of the loop."""
