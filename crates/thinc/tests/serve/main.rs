//! `thinc` as a user or a script runs it: the real binary, a real Xorg with the driver, real
//! sockets. Each test has its own folders, so all may run at once; each waits for events, never for
//! a time. Knows only the outside of the program.

mod broker;
mod broker_acme;
mod broker_admin;
mod broker_admission;
mod broker_desktops;
mod broker_devices;
mod broker_floods;
mod broker_guests;
mod broker_limits;
mod broker_logs;
mod broker_metrics;
mod broker_privileges;
mod broker_proxy;
mod broker_quic;
mod broker_real_time;
mod broker_restarts;
mod broker_tls;
mod ending;
mod files;
mod graphics;
mod harness;
mod max_rate;
mod microphone;
mod opening;
mod pace;
mod pipewire;
mod preferences;
mod printing;
mod priority;
mod quic;
mod sharing;
mod sound;
mod starting;
mod stdio;
mod strangers;
mod tracing;
mod viewers;
