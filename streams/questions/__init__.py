"""Questions to a state: what a page is and why, which groups there are. Read-only."""
