"""What people ask a state: what a page is and why, which groups there are. Reads rows, writes nothing."""
