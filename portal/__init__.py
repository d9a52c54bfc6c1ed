"""The Django project and the shell that every page shares."""
