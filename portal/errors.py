"""Errors that more than one package raises or catches."""


class ConfigurationError(ValueError):
    """A setting, the catalogue or a template cannot be used; the text names the place and what helps."""
