"""Sites: how many of their pages are lost to others, and which are held."""
