"""Compiled code: how functions are compiled, and what compiled functions share. The only importer of numba."""
