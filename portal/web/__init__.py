"""What pages and REST share; knows no app."""
