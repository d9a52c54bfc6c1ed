"""The Django project and what every page shares."""
