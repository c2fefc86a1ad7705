//! viewer-core for a browser: a C interface over WASM.
#![forbid(unsafe_code)]
