"""Sites: how many of their pages are lost to other sites, and which are held."""
