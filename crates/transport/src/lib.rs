//! Bytes out, never blocking; links, tokens, pinned keys.
#![forbid(unsafe_code)]
