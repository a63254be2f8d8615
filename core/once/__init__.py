"""All pages at once: what the processors come to when everything has come to rest, without the way there.

The outcome is a function of what each URL is at the end of the log (docs/protocol.md): which pages match, who is the
best among them, where redirects lead. Who wants it once and keeps no state need not pay for pages that come and go one
by one. `fold` tells what each URL is, `matching` who matches whom, `outcome` what the public is told.
"""
