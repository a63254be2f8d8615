"""The messages, one file per topic. Public ones are JSON on the wire, internal ones are msgpack arrays."""
