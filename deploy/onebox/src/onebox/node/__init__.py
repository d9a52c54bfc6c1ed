"""The node half of onebox: runs the pods of one machine, and is nothing but an API client."""
