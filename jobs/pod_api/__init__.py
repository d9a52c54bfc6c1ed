"""The pods' door: everything under /internal/."""
