//! Path beside the pixels, in both directions: under endpoint.rs, one transfer that the other side
//! offers. Collects the entries of an offer, and accepts exactly the bytes that were offered, in
//! order, if their hashes are right. Knows one transfer; limits over all of them are endpoint.rs's.

use std::sync::Arc;

use thinc_protocol::Micros;
use thinc_protocol::file::{FILE_HASH_BYTES, FileEntry, FileOffer, FilePurpose};
use thinc_protocol::limits::FILE_PATHS_BYTES_MAX;

use crate::endpoint::FileError;
use crate::offer::{EntryHash, Offer};

/// Where a transfer goes on.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// All entries before this one are stored.
    pub entry: u32,
    /// So many bytes of this one are.
    pub offset: u64,
    /// Their hash.
    pub hash: EntryHash,
}

/// A transfer that the other side offers.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// The other side's number, which it may use again after the end.
    pub(crate) id: u32,
    /// The owner's number, which no other transfer of this connection has.
    pub(crate) key: u32,
    pub(crate) state: IncomingState,
    /// What has arrived, as TAKEN counts it.
    pub(crate) received: u64,
    /// What of it was taken.
    pub(crate) taken: u64,
    pub(crate) deadline: Micros,
}

impl Incoming {
    /// What it is for.
    pub(crate) fn purpose(&self) -> &FilePurpose {
        match &self.state {
            IncomingState::Collecting(collecting) => &collecting.purpose,
            IncomingState::Offered(offer) => offer.purpose(),
            IncomingState::Receiving(receiving) => receiving.offer.purpose(),
        }
    }
}

#[derive(Debug)]
pub(crate) enum IncomingState {
    /// Entries are missing.
    Collecting(Collecting),
    /// Its owner has not decided.
    Offered(Arc<Offer>),
    Receiving(Receiving),
}

/// An offer whose entries have arrived in part.
#[derive(Debug)]
pub(crate) struct Collecting {
    count: u32,
    total: u64,
    purpose: FilePurpose,
    entries: Vec<FileEntry>,
    path_bytes: usize,
}

impl Collecting {
    pub(crate) fn new(offer: &FileOffer) -> Collecting {
        let FileOffer { count, total, ref purpose, .. } = *offer;
        let purpose = purpose.clone();
        Collecting { count, total, purpose, entries: Vec::new(), path_bytes: 0 }
    }

    /// Adds a message's entries.
    pub(crate) fn add(&mut self, message: &FileOffer) -> Result<(), FileError> {
        let FileOffer { id, first, count, total, ref purpose, .. } = *message;
        if (count, total, purpose) != (self.count, self.total, &self.purpose)
            || first as usize != self.entries.len()
        {
            return Err(FileError::Continuation(id));
        }
        self.path_bytes += message.entries.iter().map(|entry| entry.path.len()).sum::<usize>();
        if self.path_bytes > FILE_PATHS_BYTES_MAX {
            return Err(FileError::Offer(crate::OfferError::Paths { bytes: self.path_bytes }));
        }
        self.entries.extend_from_slice(&message.entries);
        Ok(())
    }

    /// The offer, once it is complete.
    pub(crate) fn complete(&mut self) -> Result<Option<Offer>, FileError> {
        if self.entries.len() < self.count as usize {
            return Ok(None);
        }
        let offer = Offer::new(self.purpose.clone(), std::mem::take(&mut self.entries))?;
        if offer.total() != self.total {
            return Err(FileError::Total { announced: self.total, sum: offer.total() });
        }
        Ok(Some(offer))
    }
}

/// A transfer that was accepted.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) offer: Arc<Offer>,
    /// The file that arrives; the number of entries once all have.
    pub(crate) entry: usize,
    /// The next byte of it.
    offset: u64,
    hash: EntryHash,
    /// Bytes that are stored, on this connection or an earlier one.
    pub(crate) stored: u64,
}

/// What a chunk completes.
pub(crate) enum Chunk {
    /// It continues a file.
    Part,
    /// It ends a file, whose hash is right.
    Last,
    /// It ends a file, whose hash is wrong.
    Mismatch,
}

impl Receiving {
    pub(crate) fn new(offer: Arc<Offer>, start: Start) -> Receiving {
        let (entry, offset) = (start.entry as usize, start.offset);
        let stored = offer.bytes_before(entry, offset);
        let entry = if offset == 0 { offer.file_from(entry) } else { entry };
        Receiving { offer, entry, offset, hash: start.hash, stored }
    }

    /// Accepts the next chunk, and nothing else.
    pub(crate) fn accept(
        &mut self,
        id: u32,
        entry: u32,
        offset: u64,
        hash: Option<[u8; FILE_HASH_BYTES]>,
        bytes: &[u8],
    ) -> Result<Chunk, FileError> {
        let Some(file) = self.offer.entries().get(self.entry) else {
            return Err(FileError::Surplus(id));
        };
        let end = offset.saturating_add(bytes.len() as u64);
        let is_next = entry as usize == self.entry && offset == self.offset;
        if !is_next || end > file.size || hash.is_some() != (end == file.size) {
            return Err(FileError::Position { id, entry, offset, bytes: bytes.len() });
        }
        if bytes.is_empty() && hash.is_none() {
            return Err(FileError::Position { id, entry, offset, bytes: 0 });
        }
        self.hash.update(bytes);
        self.offset = end;
        let Some(hash) = hash else { return Ok(Chunk::Part) };
        if self.hash.take() != hash {
            return Ok(Chunk::Mismatch);
        }
        (self.entry, self.offset) = (self.offer.file_from(self.entry + 1), 0);
        Ok(Chunk::Last)
    }

    /// What has arrived: another connection goes on there.
    pub(crate) fn position(&self) -> Start {
        Start { entry: self.entry as u32, offset: self.offset, hash: self.hash.clone() }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.entry == self.offer.entries().len() && self.stored == self.offer.total()
    }
}
