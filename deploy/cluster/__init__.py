"""What an admin installs on a cluster before Homeport runs on it: accounts, rights, policies."""
