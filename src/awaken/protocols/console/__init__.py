"""The console, a web application: `make console` builds its files from `console/`."""
