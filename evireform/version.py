"""The version of the package: said once, here."""

__version__ = "0.1.0"
