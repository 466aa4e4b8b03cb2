"""The console: a web application that `make console` builds from `console/`, as files of this package."""
