"""The API of pods: everything under /internal/, which the portal answers at a port for pods alone."""
