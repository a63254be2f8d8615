"""URLs: identity, standard form, site, parts and keys. No other package parses URLs."""
