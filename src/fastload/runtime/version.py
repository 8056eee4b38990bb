"""The version of this package, stated only in this module."""

__version__ = "0.1.0"
