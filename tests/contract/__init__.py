"""What Homeport and its users need from a cluster, asked of onebox and of upstream alike."""
