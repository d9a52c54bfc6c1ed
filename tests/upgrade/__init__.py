"""What an installation of an earlier version left behind works with today's code."""
