//! Documents of print jobs on the disk, in a folder of the session's own. From printing.rs, to the
//! session process, which reads them, and back when the desk starts again. Knows files; never
//! requests. Its functions wait for the disk: they are called where nothing else waits.
//!
//! ```text
//! NUMBER/NAME.pdf   the document of a job
//! NUMBER/job        the job as the session process is told of it, once the document is complete
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use thinc_printing::link::{Document, MESSAGE_BYTES_MAX, Message};

const RECORD: &str = "job";
const NEW_RECORD: &str = "job.new";

/// 1 GiB of the disk stays free, as beside received files: programs fail in odd ways on a full one.
const RESERVE_BYTES: u64 = 1 << 30;

/// The folder.
#[derive(Clone, Debug)]
pub(crate) struct Spool {
    path: PathBuf,
    reserve: u64,
}

impl Spool {
    pub(crate) fn new(path: PathBuf) -> Spool {
        Spool { path, reserve: RESERVE_BYTES }
    }

    fn folder(&self, number: u32) -> PathBuf {
        self.path.join(number.to_string())
    }

    /// Fails with `StorageFull` if so many bytes more would leave too little room.
    fn check_space(&self, bytes: u64) -> io::Result<()> {
        let disk = rustix::fs::statvfs(&self.path)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if bytes.saturating_add(self.reserve) <= free {
            return Ok(());
        }
        let words = format!(
            "{free} bytes are free where documents wait, of which {} stay free; make room and \
                print again",
            self.reserve
        );
        Err(io::Error::new(io::ErrorKind::StorageFull, words))
    }

    /// Writes the next bytes of a document.
    pub(crate) fn write(&self, document: &mut File, bytes: &[u8]) -> io::Result<()> {
        self.check_space(bytes.len() as u64)?;
        document.write_all(bytes)
    }

    /// A new document, which nobody else may read.
    pub(crate) fn create(&self, number: u32, name: &str) -> io::Result<File> {
        self.check_space(0)?;
        let folder = self.folder(number);
        DirBuilder::new().mode(0o700).create(&folder)?;
        new_file(&folder.join(name))
    }

    /// The document of this job is complete.
    pub(crate) fn finish(&self, document: &Document) -> io::Result<()> {
        let folder = self.folder(document.number);
        let mut record = Vec::new();
        Message::Job(document.clone()).encode(&mut record);
        new_file(&folder.join(NEW_RECORD))?.write_all(&record)?;
        fs::rename(folder.join(NEW_RECORD), folder.join(RECORD))
    }

    /// Removes what there is of a job.
    pub(crate) fn remove(&self, number: u32) -> io::Result<()> {
        match fs::remove_dir_all(self.folder(number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// The jobs whose documents are complete, and their bytes, in the order of their numbers; what
    /// else there is is removed.
    pub(crate) fn load(&self) -> io::Result<Vec<(Document, u64)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            match read(&path) {
                Some(document) => found.push(document),
                None => fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path))?,
            }
        }
        found.sort_by_key(|(document, _)| document.number);
        Ok(found)
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The complete document in a folder, if there is one.
fn read(folder: &Path) -> Option<(Document, u64)> {
    let mut bytes = Vec::new();
    let record = File::open(folder.join(RECORD)).ok()?;
    record.take(MESSAGE_BYTES_MAX as u64).read_to_end(&mut bytes).ok()?;
    let Ok(Some((Message::Job(document), _))) = Message::decode(&bytes) else { return None };
    let is_named = folder.file_name().is_some_and(|name| *name == *document.number.to_string());
    let metadata = fs::symlink_metadata(folder.join(&document.file)).ok()?;
    (is_named && metadata.is_file()).then_some((document, metadata.len()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use thinc_printing::{Sides, Ticket};

    use super::*;

    fn document(number: u32) -> Document {
        let title = "Report".to_owned();
        let media = String::new();
        let ticket = Ticket { title, copies: 1, sides: Sides::One, colour: true, media };
        Document { number, ticket, file: "Report.pdf".to_owned() }
    }

    #[test]
    fn complete_documents_outlive_the_process_and_others_do_not() {
        let path = std::env::temp_dir().join(format!("thinc-spool-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        // Tests run where less than a gigabyte may be free.
        let spool = Spool { path: path.clone(), reserve: 0 };
        for number in [8, 7] {
            spool.create(number, "Report.pdf").unwrap().write_all(b"%PDF-1.7").unwrap();
            spool.finish(&document(number)).unwrap();
        }
        let mode = |name: &str| fs::metadata(path.join(name)).unwrap().permissions().mode();
        assert_eq!((mode("7") & 0o777, mode("7/Report.pdf") & 0o777), (0o700, 0o600));
        spool.create(9, "Report.pdf").unwrap();
        assert!(spool.create(9, "Report.pdf").is_err(), "a number has one document");
        fs::write(path.join("odd"), "x").unwrap();
        // A record that names another folder.
        DirBuilder::new().create(path.join("10")).unwrap();
        fs::copy(path.join("7/job"), path.join("10/job")).unwrap();
        fs::copy(path.join("7/Report.pdf"), path.join("10/Report.pdf")).unwrap();
        let loaded = spool.load().unwrap();
        assert_eq!(loaded, [(document(7), 8), (document(8), 8)]);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 2);
        spool.remove(7).unwrap();
        spool.remove(7).unwrap();
        assert_eq!(spool.load().unwrap(), [(document(8), 8)]);
        let mut file = spool.create(11, "Report.pdf").unwrap();
        spool.write(&mut file, b"%PDF-1.7").unwrap();
        // The disk fills.
        let spool = Spool { path: path.clone(), reserve: u64::MAX };
        let full = |error: io::Error| {
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            assert!(error.to_string().contains("make room"), "{error}");
        };
        full(spool.write(&mut file, b"more").unwrap_err());
        full(spool.create(12, "Report.pdf").unwrap_err());
        assert!(!path.join("12").exists());
        assert_eq!(file.metadata().unwrap().len(), 8);
        fs::remove_dir_all(&path).unwrap();
    }
}
