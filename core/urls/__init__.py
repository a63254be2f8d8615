"""URLs: identity, standard form, site, parts and keys. The only package that takes URLs apart."""
