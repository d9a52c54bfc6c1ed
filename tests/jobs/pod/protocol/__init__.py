"""The protocol between portal and pods, from both sides."""
