//! The X server before which the client's user sits: an Xvfb whose framebuffer is a file.
//! Its pixels are read without asking it, so that looking costs the client nothing that is measured.
//! Knows one Xvfb; never what is shown on it.

use std::path::Path;
use std::process::Command;

use x11rb::rust_connection::RustConnection;

use super::picture::Picture;
use super::watch::Watch;
use crate::Error;

/// Where an Xvfb takes connections beside its socket in the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Nowhere.
    Unix,
    /// TCP port 6000 + display, from anybody: the namespace is the fence.
    Tcp,
}

/// A running Xvfb of the client.
pub struct ClientScreen {
    display: String,
    size: (u32, u32),
}

impl ClientScreen {
    /// Starts `command` ("Xvfb", already in its namespace and account) with a framebuffer file in `folder` on a free
    /// display, and hides its pointer: Xvfb draws the pointer into the framebuffer, where it would count as picture.
    pub fn start(command: Command, folder: &Path, size: (u32, u32), listen: Listen) -> Result<ClientScreen, Error> {
        let _ = (command, folder, size, listen);
        Err("not yet".into())
    }

    /// `:N`.
    pub fn display(&self) -> &str {
        &self.display
    }

    /// `HOST:N`, for programs on another host; only with [`Listen::Tcp`].
    pub fn address(&self, host: std::net::Ipv4Addr) -> String {
        format!("{host}{}", self.display)
    }

    /// Width and height, pixels.
    pub fn size(&self) -> (u32, u32) {
        self.size
    }

    /// A connection to it, for any use.
    pub fn connect(&self) -> Result<RustConnection, Error> {
        Ok(super::connect(&self.display, None)?)
    }

    /// What it shows now.
    pub fn picture(&self) -> Result<Picture, Error> {
        Err("not yet".into())
    }

    /// Begins to record changes.
    pub fn watch(&self) -> Result<Watch, Error> {
        Err("not yet".into())
    }
}
