//! The server's files on this machine: `thinc` and its drivers, and what each needs of a host. From
//! the package's folders, or the folder of `--install-from`, to install.rs. Knows ELF files; never
//! hosts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Version;

const PROGRAM: &str = "thinc";
const DRIVER: &str = "thinc_drv.so";
/// Drivers for several X servers lie side by side under names of the user's choice, such as
/// thinc_drv-24.so.
const DRIVER_HEAD: &str = "thinc_drv";
/// 1 GiB: a file that is larger is none of thinc's; a thinc with debug symbols has 0.3 GB.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// What driver/src/abi.c writes before the two ABI versions.
const ABI_MARK: &[u8] = b"thinc_drv for video ABI ";

/// A file that may be copied.
#[derive(Clone, Debug)]
pub(super) struct ServerFile {
    /// Its name on the host.
    pub(super) name: &'static str,
    /// Its permissions there, as chmod takes them.
    pub(super) mode: &'static str,
    pub(super) bytes: Vec<u8>,
    needs: Needs,
}

/// All that may be copied to a host.
#[derive(Clone, Debug)]
pub(super) struct ServerFiles {
    pub(super) program: ServerFile,
    /// Drivers, and the major version of the video ABI that each was compiled for.
    pub(super) drivers: Vec<(u32, ServerFile)>,
}

/// What an ELF file needs of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    /// As `uname -m` says.
    pub(super) machine: &'static str,
    /// glibc, or a newer one.
    pub(super) glibc: Version,
}

impl ServerFiles {
    /// Reads the files from this folder, or from where the packages install them.
    ///
    /// # Errors
    /// What is missing and how to get it, for the user.
    pub(super) fn read(folder: Option<&Path>) -> Result<ServerFiles, String> {
        let (programs, drivers) = match folder {
            Some(folder) => places(folder),
            None => {
                let exe = std::env::current_exe().map_err(|error| error.to_string())?;
                own_places(exe.parent().unwrap_or(Path::new("/")))
            }
        };
        let how = match folder {
            Some(_) => {
                "The folder must hold both as the package thinc-desktop-server does: dpkg -x \
                    thinc-desktop-server_*.deb FOLDER"
            }
            None => {
                "Install the package thinc-desktop-server here too; or unpack it (dpkg -x \
                    thinc-desktop-server_*.deb FOLDER) and add --install-from FOLDER"
            }
        };
        let list = |places: &[PathBuf]| {
            let texts: Vec<String> = places.iter().map(|at| at.display().to_string()).collect();
            texts.join(", ")
        };
        let missing = |what: &str, places: &[PathBuf]| {
            format!("on this side there is no {what} in {}. {how}", list(places))
        };
        let program = programs.iter().map(|place| place.join(PROGRAM)).find(|path| path.is_file());
        let program = program.ok_or_else(|| missing(PROGRAM, &programs))?;
        let program = ServerFile::read(&program, PROGRAM, "755")?;
        let found = drivers.iter().map(|place| driver_paths(place)).find(|paths| !paths.is_empty());
        let found = found.ok_or_else(|| missing(DRIVER, &drivers))?;
        let mut read = Vec::new();
        for path in found {
            let file = ServerFile::read(&path, DRIVER, "644")?;
            let abi = video_abi(&file.bytes)
                .ok_or_else(|| format!("{} is no driver of this thinc", path.display()))?;
            let (of, for_machine) = (program.needs.machine, file.needs.machine);
            if for_machine != of {
                return Err(format!(
                    "{} is for {for_machine}, and thinc in {} for {of}. {how}",
                    path.display(),
                    list(&programs)
                ));
            }
            read.push((abi, file));
        }
        Ok(ServerFiles { program, drivers: read })
    }

    /// What the program and this driver need.
    pub(super) fn needs(&self, driver: &ServerFile) -> Needs {
        let Needs { machine, glibc } = self.program.needs.clone();
        Needs { machine, glibc: glibc.max(driver.needs.glibc.clone()) }
    }
}

impl ServerFile {
    fn read(path: &Path, name: &'static str, mode: &'static str) -> Result<ServerFile, String> {
        let unreadable = |error: io::Error| format!("cannot read {}: {error}", path.display());
        let length = path.metadata().map_err(unreadable)?.len();
        if length > FILE_BYTES_MAX {
            return Err(format!("{} has {length} bytes: it is none of thinc's", path.display()));
        }
        let bytes = fs::read(path).map_err(unreadable)?;
        let needs = Needs::of(&bytes).ok_or_else(|| {
            format!("{} is no program of 64 bits that thinc-view knows", path.display())
        })?;
        Ok(ServerFile { name, mode, bytes, needs })
    }
}

/// Folders of the program and of drivers below a folder that the user names: all in one, a prefix
/// such as /usr/local, or an unpacked package.
fn places(folder: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let all = |parts: [&str; 3]| parts.map(|part| folder.join(part)).to_vec();
    (all(["", "bin", "usr/bin"]), all(["", "lib/thinc", "usr/lib/thinc"]))
}

/// The same beside thinc-view: as packages install them, unpacked in one folder, or compiled in the
/// source tree (target/release).
fn own_places(folder: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mut drivers = vec![folder.to_owned()];
    let mut up = folder.ancestors().skip(1);
    drivers.extend(up.next().map(|prefix| prefix.join("lib/thinc")));
    drivers.extend(up.next().map(|tree| tree.join("driver/build")));
    (vec![folder.to_owned()], drivers)
}

fn driver_paths(place: &Path) -> Vec<PathBuf> {
    let is_driver = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(DRIVER_HEAD) && name.ends_with(".so") && path.is_file()
    };
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_driver).collect();
    paths.sort();
    paths
}

/// Major version of the video ABI that a driver was compiled for.
fn video_abi(driver: &[u8]) -> Option<u32> {
    let at = driver.windows(ABI_MARK.len()).position(|window| window == ABI_MARK)?;
    let rest = &driver[at + ABI_MARK.len()..];
    let digits = rest.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

impl Needs {
    /// From the header and the section of version needs (SHT_GNU_verneed; gABI and LSB, "Symbol
    /// Versioning"). `None`: no little-endian 64-bit ELF file of a known machine.
    fn of(elf: &[u8]) -> Option<Needs> {
        const CLASS_64_LITTLE: [u8; 2] = [2, 1];
        const SECTION_VERNEED: u32 = 0x6fff_fffe;
        const FLAG_WEAK: u16 = 2;
        /// As many libraries and versions as any file has; more are a loop in a damaged one.
        const ENTRIES_MAX: usize = 1000;
        if elf.get(..4)? != b"\x7fELF" || elf.get(4..6)? != CLASS_64_LITTLE {
            return None;
        }
        let machine = match u16_at(elf, 18)? {
            62 => "x86_64",
            183 => "aarch64",
            243 => "riscv64",
            _ => return None,
        };
        let mut glibc = Version::default();
        let (sections, size) = (u64_at(elf, 40)?, usize::from(u16_at(elf, 58)?));
        for index in 0..usize::from(u16_at(elf, 60)?) {
            let section = sections.checked_add(index.checked_mul(size)?)?;
            if u32_at(elf, section.checked_add(4)?)? != SECTION_VERNEED {
                continue;
            }
            let link = usize::try_from(u32_at(elf, section.checked_add(40)?)?).ok()?;
            let names =
                u64_at(elf, sections.checked_add(link.checked_mul(size)?)?.checked_add(24)?)?;
            let mut library = u64_at(elf, section.checked_add(24)?)?;
            for _ in 0..ENTRIES_MAX {
                let mut entry = library.checked_add(offset(elf, library.checked_add(8)?)?)?;
                for _ in 0..ENTRIES_MAX {
                    let name = names.checked_add(offset(elf, entry.checked_add(8)?)?)?;
                    let is_weak = u16_at(elf, entry.checked_add(4)?)? & FLAG_WEAK != 0;
                    if let Some(version) = glibc_version(elf.get(name..)?)
                        && !is_weak
                    {
                        glibc = glibc.max(version);
                    }
                    match offset(elf, entry.checked_add(12)?)? {
                        0 => break,
                        next => entry = entry.checked_add(next)?,
                    }
                }
                match offset(elf, library.checked_add(12)?)? {
                    0 => break,
                    next => library = library.checked_add(next)?,
                }
            }
        }
        Some(Needs { machine, glibc })
    }
}

/// The version in a name such as GLIBC_2.34; other libraries have other names.
fn glibc_version(name: &[u8]) -> Option<Version> {
    let name = &name[..name.iter().take(32).position(|byte| *byte == 0)?];
    Version::parse(std::str::from_utf8(name).ok()?.strip_prefix("GLIBC_")?)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn offset(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32_at(bytes, at)?).ok()
}

fn u64_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?)).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use std::env::consts::ARCH;

    use super::*;

    /// Files that need this of a host.
    pub(in crate::install) fn files(
        machine: &'static str,
        glibc: &str,
        abis: &[u32],
    ) -> ServerFiles {
        let file = |name, glibc: &str| ServerFile {
            name,
            mode: "755",
            bytes: vec![0; 1_000_000],
            needs: Needs { machine, glibc: Version::parse(glibc).unwrap() },
        };
        ServerFiles {
            program: file(PROGRAM, glibc),
            drivers: abis.iter().map(|abi| (*abi, file(DRIVER, "2.4"))).collect(),
        }
    }

    /// An ELF file with the given version needs of one library each.
    fn elf(libraries: &[&[(&str, u16)]]) -> Vec<u8> {
        let (mut needs, mut names) = (Vec::new(), vec![0]);
        for (index, versions) in libraries.iter().enumerate() {
            let next =
                if index + 1 == libraries.len() { 0 } else { 16 + 16 * versions.len() as u32 };
            needs.extend([1, 0, versions.len() as u8, 0, 0, 0, 0, 0, 16, 0, 0, 0]);
            needs.extend(next.to_le_bytes());
            for (index, (name, flags)) in versions.iter().enumerate() {
                needs.extend([0; 4]);
                needs.extend(flags.to_le_bytes());
                needs.extend([0; 2]);
                needs.extend((names.len() as u32).to_le_bytes());
                needs.extend(if index + 1 == versions.len() { [0; 4] } else { [16, 0, 0, 0] });
                names.extend(name.bytes().chain([0]));
            }
        }
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(64, 0);
        elf[18] = 62;
        elf[58] = 64;
        elf[60] = 2;
        let needs_at = elf.len();
        elf.extend(&needs);
        let names_at = elf.len();
        elf.extend(&names);
        let sections_at = elf.len() as u64;
        elf[40..48].copy_from_slice(&sections_at.to_le_bytes());
        for (kind, at, link) in [(0x6fff_fffe_u32, needs_at, 1_u32), (3, names_at, 0)] {
            let mut section = vec![0; 64];
            section[4..8].copy_from_slice(&kind.to_le_bytes());
            section[24..32].copy_from_slice(&(at as u64).to_le_bytes());
            section[40..44].copy_from_slice(&link.to_le_bytes());
            elf.extend(section);
        }
        elf
    }

    #[test]
    fn the_newest_glibc_that_a_file_cannot_do_without_is_found() {
        let libraries: [&[_]; 3] = [
            &[("GLIBCXX_3.4.99", 0), ("CXXABI_1.3", 0)],
            &[("GLIBC_2.9", 0), ("GLIBC_2.34", 0), ("GLIBC_2.2.5", 0), ("GLIBC_2.99", 2)],
            &[("GLIBC_2.29", 0), ("GLIBC_PRIVATE", 0)],
        ];
        let needs = Needs::of(&elf(&libraries)).unwrap();
        assert_eq!((needs.machine, needs.glibc.to_string()), ("x86_64", "2.34".to_owned()));
    }

    #[test]
    fn damaged_files_are_refused_or_read_but_never_harm() {
        let whole = elf(&[&[("GLIBC_2.34", 0)], &[("GLIBC_2.2", 0)]]);
        for end in 0..whole.len() {
            let _ = Needs::of(&whole[..end]);
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                let _ = Needs::of(&damaged);
            }
        }
        assert_eq!(Needs::of(b"#!/bin/sh\nexit 0\n"), None);
        assert_eq!(Needs::of(&{ [&whole[..18], &[3], &whole[19..]].concat() }), None, "i386");
    }

    #[test]
    fn this_program_is_read_too() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let needs = Needs::of(&own).unwrap();
        assert_eq!(needs.machine, std::env::consts::ARCH);
        assert!(needs.glibc >= Version::parse("2.2").unwrap(), "{}", needs.glibc);
    }

    #[test]
    fn a_driver_names_its_abi() {
        assert_eq!(video_abi(b"\0thinc_drv for video ABI 25.2 and input ABI 24.4\0"), Some(25));
        assert_eq!(video_abi(b"thinc_drv for video ABI "), None);
        assert_eq!(video_abi(b"thinc_drv for video ABI x"), None);
        assert_eq!(video_abi(b"another driver"), None);
    }

    #[test]
    fn the_files_of_the_packages_and_of_the_source_tree_are_found() {
        let (programs, drivers) = own_places(Path::new("/usr/bin"));
        assert_eq!(programs, [Path::new("/usr/bin")]);
        assert!(drivers.contains(&"/usr/lib/thinc".into()), "{drivers:?}");
        let (_, drivers) = own_places(Path::new("/home/me/thinc/target/release"));
        assert!(drivers.contains(&"/home/me/thinc/driver/build".into()), "{drivers:?}");
    }

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        let folder = std::env::temp_dir().join(format!("thinc-files-{}", std::process::id()));
        fs::create_dir_all(folder.join("usr/bin")).unwrap();
        let error = ServerFiles::read(Some(&folder)).unwrap_err();
        assert!(error.contains("there is no thinc in") && error.contains("dpkg -x"), "{error}");
        fs::copy(std::env::current_exe().unwrap(), folder.join("usr/bin/thinc")).unwrap();
        let error = ServerFiles::read(Some(&folder)).unwrap_err();
        assert!(error.contains("there is no thinc_drv.so in"), "{error}");
        fs::write(folder.join("thinc_drv.so"), "text").unwrap();
        let error = ServerFiles::read(Some(&folder)).unwrap_err();
        assert!(error.contains("thinc_drv.so is no program"), "{error}");
        // For the machine of this program.
        let number = match ARCH {
            "aarch64" => 183,
            "riscv64" => 243,
            _ => 62,
        };
        let with_mark = |abi: &str| {
            let mut driver = [&elf(&[])[..], ABI_MARK, abi.as_bytes()].concat();
            driver[18] = number;
            driver
        };
        fs::write(folder.join("thinc_drv.so"), with_mark("25.2")).unwrap();
        let mut foreign = with_mark("24.1");
        foreign[18] = if ARCH == "riscv64" { 183 } else { 243 };
        fs::write(folder.join("thinc_drv-24.so"), foreign).unwrap();
        let error = ServerFiles::read(Some(&folder)).unwrap_err();
        assert!(error.contains("thinc_drv-24.so is for ") && error.contains(ARCH), "{error}");
        fs::write(folder.join("thinc_drv-24.so"), with_mark("24.1")).unwrap();
        let files = ServerFiles::read(Some(&folder)).unwrap();
        let abis: Vec<u32> = files.drivers.iter().map(|(abi, _)| *abi).collect();
        assert_eq!(abis, [24, 25]);
        assert_eq!(files.drivers[0].1.name, "thinc_drv.so");
        // As in an unpacked package.
        fs::create_dir_all(folder.join("usr/lib/thinc")).unwrap();
        fs::remove_file(folder.join("thinc_drv-24.so")).unwrap();
        fs::rename(folder.join("thinc_drv.so"), folder.join("usr/lib/thinc/thinc_drv.so")).unwrap();
        assert_eq!(ServerFiles::read(Some(&folder)).unwrap().drivers[0].0, 25);
        fs::remove_dir_all(&folder).unwrap();
    }
}
