"""What the portal and the programs in pods agree on, written once.

Both sides import it, and pods of other versions speak it too: names, codes and forms stay as they
are. It is packed into each program that runs on an image's own Python, so it needs nothing but the
standard library and keeps to the syntax of Python 3.6.
"""
