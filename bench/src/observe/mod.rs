//! What a person at the client would see and what the machines spend on it, read from outside of the systems under test.
