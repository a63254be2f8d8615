"""What every engine shares: inputs in chunks, signing, tables, the rows of a state, results."""
