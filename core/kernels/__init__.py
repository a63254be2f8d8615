"""Compiled code: how functions are compiled, and what compiled functions share.

Machine code on disk is loaded without numba. Only `native` and the modules that compile import it, when something is to
be compiled.
"""
