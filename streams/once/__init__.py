"""The engine that keeps nothing: reads all input, then tells the outcome."""
