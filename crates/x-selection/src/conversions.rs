//! Path beside the pixels: under fetch.rs, which has contents converted.
//! Conversions on threads of their own, with numbers, and the way their results return to the
//! client's thread. Knows numbers; thinc-clip-convert converts.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use thinc_clip_convert::{Conversion, Converter};
use thinc_files_disk::{CopyError, Folders, pack, unpack};
use thinc_protocol::clip::ClipEnd;

use crate::files;

/// 4: threads that read or write copied files; more are refused.
const FILES_MAX: usize = 4;

type Converted = (u64, Result<Vec<u8>, ClipEnd>);

#[derive(Debug)]
pub(crate) struct Conversions {
    converter: Converter,
    last_number: u64,
    sender: Sender<Converted>,
    results: Receiver<Converted>,
    /// Wakes the client's thread.
    wake: Arc<OwnedFd>,
    /// Without them files are not exchanged.
    folders: Option<Folders>,
    /// Threads that read or write copied files.
    with_files: Arc<AtomicUsize>,
}

impl Conversions {
    pub(crate) fn new(folders: Option<Folders>, wake: Arc<OwnedFd>) -> Conversions {
        let (sender, results) = channel();
        Conversions {
            converter: Converter::default(),
            last_number: 0,
            sender,
            results,
            wake,
            folders,
            with_files: Arc::default(),
        }
    }

    /// True if files are exchanged.
    pub(crate) fn has_files(&self) -> bool {
        self.folders.is_some()
    }

    /// Starts a conversion; its number is that of the result.
    pub(crate) fn start(
        &mut self,
        conversion: Conversion,
        content: Vec<u8>,
        bytes_max: usize,
        deadline: Instant,
    ) -> Result<u64, ClipEnd> {
        self.last_number += 1;
        let (number, sender, wake) = (self.last_number, self.sender.clone(), self.wake.clone());
        self.converter.start(conversion, content, bytes_max, deadline, move |result| {
            // Fails only once the client's thread has ended.
            let _ = sender.send((number, result));
            crate::wake(&wake);
        })?;
        Ok(number)
    }

    /// Reads copied files; the result is a content of the protocol.
    pub(crate) fn pack(&mut self, paths: Vec<PathBuf>, bytes_max: u64) -> Result<u64, ClipEnd> {
        self.start_files(move |_| pack(&paths, bytes_max))
    }

    /// Writes files that are pasted; the result is their `text/uri-list`.
    pub(crate) fn unpack(&mut self, bundle: Vec<u8>) -> Result<u64, ClipEnd> {
        self.start_files(move |folders| {
            let paths = unpack(&bundle, &folders.pasted(), &folders.home)?;
            Ok(files::uri_list(&paths))
        })
    }

    fn start_files(
        &mut self,
        work: impl FnOnce(&Folders) -> Result<Vec<u8>, CopyError> + Send + 'static,
    ) -> Result<u64, ClipEnd> {
        let Some(folders) = self.folders.clone() else { return Err(ClipEnd::Unavailable) };
        if self.with_files.load(Ordering::Relaxed) >= FILES_MAX {
            return Err(ClipEnd::Failed);
        }
        self.last_number += 1;
        let (number, sender, wake) = (self.last_number, self.sender.clone(), self.wake.clone());
        let running = self.with_files.clone();
        running.fetch_add(1, Ordering::Relaxed);
        let started = thread::Builder::new().name("copied files".to_owned()).spawn({
            let running = running.clone();
            move || {
                let result = work(&folders).map_err(|error| match error {
                    CopyError::TooLarge { bytes, limit } => ClipEnd::TooLarge { bytes, limit },
                    _ => ClipEnd::Failed,
                });
                running.fetch_sub(1, Ordering::Relaxed);
                // Fails only once the client's thread has ended.
                let _ = sender.send((number, result));
                crate::wake(&wake);
            }
        });
        if started.is_err() {
            running.fetch_sub(1, Ordering::Relaxed);
            return Err(ClipEnd::Failed);
        }
        Ok(number)
    }

    /// The next result.
    pub(crate) fn poll(&self) -> Option<Converted> {
        self.results.try_recv().ok()
    }
}
