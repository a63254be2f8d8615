"""The lookup service and the web page: `dustream serve`, `dustream report`. Reads a state or a --once result."""
