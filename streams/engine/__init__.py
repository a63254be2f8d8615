"""Parts shared by all engines: inputs in chunks, signing, tables, the rows of a state, results."""
