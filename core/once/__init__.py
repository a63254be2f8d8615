"""The batch algorithm: computes the final result of the processors directly, from all pages at once.

The outcome is a function of the state of each URL at the end of the log (docs/explanation/protocol.md): which pages
match, which of them is the best, where redirects end. A batch run keeps no state, so it need not maintain groups while
pages come and go. `fold` computes the state of each URL, `matching` the match graph and its winners, `outcome` the
statuses.
"""
