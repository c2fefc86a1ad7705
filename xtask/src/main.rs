//! Checks of the tree that a compiler does not make.
fn main() {}
