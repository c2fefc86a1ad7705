//! Numbers and texts as bytes: the one writer and the one bounded reader all messages use.
