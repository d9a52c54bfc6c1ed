"""Makes the installable package of the command line; no part of it."""
