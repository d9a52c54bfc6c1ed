"""The web side of all kinds of workloads: what people do with them, over pages and REST."""
