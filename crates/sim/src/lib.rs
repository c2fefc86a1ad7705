//! A seeded workload and link on virtual time between both cores.
#![forbid(unsafe_code)]
