"""The algorithms and processors: no I/O, no clock, no randomness, nothing of Kafka or Faust. Only `kernels` has files:
machine code."""
