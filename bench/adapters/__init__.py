"""One module per framework; each has a class derived from common.Adapter, named by ADAPTER."""
