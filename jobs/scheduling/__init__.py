"""How the installation's queue is ruled: the switches that admins set."""
