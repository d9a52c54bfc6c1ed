"""What stands between the sockets and Django: the layers of ASGI and the HTTP protocol."""
