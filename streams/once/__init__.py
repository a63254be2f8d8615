"""The batch engine: reads all input, computes the outcome directly, and keeps no state."""
