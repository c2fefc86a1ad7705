//! Which GPU should draw a session's 3D programs. From `--gpu` and the kernel's list of render
//! nodes, to supervisor.rs, which names the node to the X server. Knows paths and names of kernel
//! drivers; never what can be drawn there, which graphics.rs finds out.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

/// Kernel drivers whose OpenGL and Vulkan are Mesa's, which draw in buffers that other processes
/// can map by GBM. Not NVIDIA's own: its programs need nothing of the X server. Virtual drivers
/// (vgem, vkms) draw nothing. The node of virtio's GPU belongs, by the kernel's release, to the
/// device that carries it.
const MESA_DRIVERS: [&str; 20] = [
    "amdgpu",
    "asahi",
    "etnaviv",
    "i915",
    "lima",
    "msm",
    "msm_dpu",
    "nouveau",
    "panfrost",
    "panthor",
    "powervr",
    "radeon",
    "tegra",
    "v3d",
    "vc4",
    "virtio-mmio",
    "virtio-pci",
    "virtio_gpu",
    "vmwgfx",
    "xe",
];

/// Of the kernel: the device number of everything in /dev/dri, and the smallest minor number of a
/// render node.
const DRM_MAJOR: u32 = 226;
const RENDER_MINOR_MIN: u32 = 128;

/// Where nodes are, below the root folder.
const NODES: &str = "dev/dri";
const CLASS: &str = "sys/class/drm";
/// NVIDIA's own driver: its name at a node, and the file of its first card, which is all that a
/// container may have of it.
const NVIDIA: &str = "nvidia";
const NVIDIA_CARD: &str = "dev/nvidia0";

/// `--gpu`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gpu {
    /// The first that this account may use.
    Auto,
    /// None.
    Off,
    /// This one.
    Node(PathBuf),
}

impl FromStr for Gpu {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Gpu, Self::Err> {
        Ok(match text {
            "auto" => Gpu::Auto,
            "off" => Gpu::Off,
            path => Gpu::Node(path.into()),
        })
    }
}

/// A node that was named and cannot be used.
#[derive(Debug, Error)]
pub(crate) enum GpuError {
    /// Something else, or nothing.
    #[error(
        "--gpu {} is no render node{}: name one of /dev/dri/renderD*, or say auto or off",
        .0.display(), reason(.1.as_ref())
    )]
    NoNode(PathBuf, Option<io::Error>),
    /// No driver answers there, for example.
    #[error("--gpu {} cannot be opened: {}", .0.display(), .1)]
    Unusable(PathBuf, io::Error),
    /// No rights.
    #[error("--gpu {}: this account may not use it ({error}): {}", .node.display(), advice(.group))]
    Locked {
        /// Which.
        node: PathBuf,
        /// Whose members may.
        group: String,
        /// Why.
        error: io::Error,
    },
}

fn reason(error: Option<&io::Error>) -> String {
    error.map(|error| format!(" ({error})")).unwrap_or_default()
}

fn advice(group: &str) -> String {
    format!("add it to the group {group}")
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// 3D programs draw on this GPU.
    Node(PathBuf),
    /// There is one, which this account may not open; whose members may.
    Locked(PathBuf, String),
    /// There is one, with NVIDIA's own driver.
    Nvidia,
    /// There is none.
    Nothing,
    /// None is wanted.
    Off,
}

impl Found {
    /// The node for the X server.
    pub(crate) fn node(&self) -> Option<&Path> {
        match self {
            Found::Node(path) => Some(path),
            Found::Locked(..) | Found::Nvidia | Found::Nothing | Found::Off => None,
        }
    }

    /// For people: why software draws. `because` is why a node that was found is not used, if
    /// anybody knows.
    pub(crate) fn why_software(&self, because: Option<&str>) -> String {
        match self {
            Found::Node(path) => {
                let why = because.unwrap_or("Mesa does not draw on it; does it have a driver?");
                format!("; there is a GPU at {}, but {why}", path.display())
            }
            Found::Locked(path, group) => format!(
                "; there is a GPU at {}, but this account may not use it: {}",
                path.display(),
                advice(group)
            ),
            Found::Nvidia => {
                "; there is a GPU of NVIDIA's: start programs with vglrun to use it".to_owned()
            }
            Found::Nothing => ", no GPU here".to_owned(),
            Found::Off => ", by --gpu off".to_owned(),
        }
    }
}

impl Gpu {
    /// Looks for it on this machine.
    pub(crate) fn find(&self) -> Result<Found, GpuError> {
        match self {
            Gpu::Auto => Ok(first(Path::new("/"), open)),
            Gpu::Off => Ok(Found::Off),
            Gpu::Node(path) => named(path, open),
        }
    }
}

fn open(node: &Path) -> io::Result<()> {
    fs::File::options().read(true).write(true).open(node).map(drop)
}

/// The first of Mesa's that can be opened, in the order of their numbers; else what else there is.
fn first(root: &Path, open: impl Fn(&Path) -> io::Result<()>) -> Found {
    let entries = fs::read_dir(root.join(CLASS)).into_iter().flatten();
    let mut numbers: Vec<u32> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("renderD")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let mut found = match root.join(NVIDIA_CARD).exists() {
        true => Found::Nvidia,
        false => Found::Nothing,
    };
    for number in numbers {
        let name = format!("renderD{number}");
        let driver = fs::read_link(root.join(CLASS).join(&name).join("device/driver"));
        let driver = driver.ok().and_then(|link| Some(link.file_name()?.to_owned()));
        let is_mesa = |driver: &OsString| MESA_DRIVERS.iter().any(|mesa| driver == *mesa);
        if !driver.as_ref().is_some_and(is_mesa) {
            if found == Found::Nothing && driver.is_some_and(|driver| driver == NVIDIA) {
                found = Found::Nvidia;
            }
            continue;
        }
        let node = root.join(NODES).join(name);
        match open(&node) {
            Ok(()) => return Found::Node(node),
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {}
            Err(_) if matches!(found, Found::Locked(..)) => {}
            Err(_) => found = Found::Locked(node.clone(), group(&node)),
        }
    }
    found
}

fn named(path: &Path, open: impl Fn(&Path) -> io::Result<()>) -> Result<Found, GpuError> {
    let no_node = |error| GpuError::NoNode(path.to_owned(), error);
    // Of the links in /dev/dri/by-path too: xorg.conf gets the node's own name.
    let node = fs::canonicalize(path).map_err(|error| no_node(Some(error)))?;
    let status = fs::metadata(&node).map_err(|error| no_node(Some(error)))?;
    let number = status.rdev();
    if !status.file_type().is_char_device()
        || rustix::fs::major(number) != DRM_MAJOR
        || rustix::fs::minor(number) < RENDER_MINOR_MIN
        || node.to_string_lossy().contains(['"', '\n', '\r'])
    {
        return Err(no_node(None));
    }
    match open(&node) {
        Ok(()) => Ok(Found::Node(node)),
        Err(error) => Err(not_opened(node, error)),
    }
}

fn not_opened(node: PathBuf, error: io::Error) -> GpuError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => GpuError::Locked { group: group(&node), node, error },
        _ => GpuError::Unusable(node, error),
    }
}

/// The group that may open a node: "render" on most systems, and where only root may.
fn group(node: &Path) -> String {
    let id = fs::metadata(node).map_or(0, |status| status.gid());
    let group = match id {
        0 => None,
        id => nix::unistd::Group::from_gid(nix::unistd::Gid::from_raw(id)).ok().flatten(),
    };
    group.map_or_else(|| "render".to_owned(), |group| group.name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A root folder with nodes and their drivers.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, nodes: &[(&str, &str)]) -> Tree {
            let root =
                std::env::temp_dir().join(format!("thinc-gpu-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            fs::create_dir_all(root.join(NODES)).unwrap();
            for (node, driver) in nodes {
                let device = root.join(CLASS).join(node).join("device");
                fs::create_dir_all(&device).unwrap();
                symlink(format!("../../../bus/pci/drivers/{driver}"), device.join("driver"))
                    .unwrap();
                fs::write(root.join(NODES).join(node), "").unwrap();
            }
            Tree(root)
        }

        fn node(&self, name: &str) -> PathBuf {
            self.0.join(NODES).join(name)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn locked(_: &Path) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    #[test]
    fn the_first_node_of_a_driver_of_mesa_is_taken() {
        let tree = Tree::new(
            "first",
            &[
                ("card0", "i915"),
                ("renderD128", "nvidia"),
                ("renderD129", "vgem"),
                ("renderD1000", "i915"),
                ("renderD130", "amdgpu"),
            ],
        );
        assert_eq!(first(&tree.0, open), Found::Node(tree.node("renderD130")));
        // A node without a file is none, as in a container.
        fs::remove_file(tree.node("renderD130")).unwrap();
        assert_eq!(first(&tree.0, open), Found::Node(tree.node("renderD1000")));
    }

    #[test]
    fn without_a_driver_of_mesa_there_is_nothing() {
        let tree = Tree::new("none", &[("renderD128", "vgem"), ("card1", "amdgpu")]);
        assert_eq!(first(&tree.0, open), Found::Nothing);
        assert_eq!(first(&tree.0.join("nowhere"), open), Found::Nothing);
        // Of NVIDIA's driver a container has the card alone.
        fs::write(tree.0.join(NVIDIA_CARD), "").unwrap();
        assert_eq!(first(&tree.0, open), Found::Nvidia);
        let tree = Tree::new("nvidia", &[("renderD128", "nvidia")]);
        assert_eq!(first(&tree.0, open), Found::Nvidia);
    }

    #[test]
    fn a_node_that_may_not_be_opened_is_named() {
        let tree = Tree::new("locked", &[("renderD128", "i915"), ("renderD129", "xe")]);
        let found = first(&tree.0, locked);
        let Found::Locked(node, _) = &found else { panic!("{found:?}") };
        assert_eq!(*node, tree.node("renderD128"));
        assert_eq!(found.node(), None);
        let second = tree.node("renderD129");
        let found = first(&tree.0, |node| if node == second { Ok(()) } else { locked(node) });
        assert_eq!(found, Found::Node(second));
        // NVIDIA's card beside it says less.
        fs::write(tree.0.join(NVIDIA_CARD), "").unwrap();
        assert!(matches!(first(&tree.0, locked), Found::Locked(..)));
    }

    #[test]
    fn a_path_that_is_no_render_node_is_refused_in_words() {
        let tree = Tree::new("named", &[("renderD128", "i915")]);
        for path in [tree.node("renderD128"), "/dev/null".into(), tree.0.clone()] {
            let error = named(&path, open).unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "--gpu {} is no render node: name one of /dev/dri/renderD*, or say auto or off",
                    path.display()
                )
            );
        }
        let error = named(&tree.node("renderD9"), open).unwrap_err().to_string();
        assert!(error.contains("renderD9 is no render node (No such file"), "{error}");
    }

    #[test]
    fn only_who_lacks_rights_is_told_of_a_group() {
        let node = || PathBuf::from("/dev/dri/renderD128");
        let error = not_opened(node(), io::ErrorKind::PermissionDenied.into()).to_string();
        assert!(error.contains("may not use it (permission denied): add it to the"), "{error}");
        let error = not_opened(node(), rustix::io::Errno::NODEV.into()).to_string();
        assert_eq!(
            error,
            "--gpu /dev/dri/renderD128 cannot be opened: No such device (os error 19)"
        );
    }

    #[test]
    fn the_option_is_a_word_or_a_path() {
        assert_eq!("auto".parse(), Ok(Gpu::Auto));
        assert_eq!("off".parse(), Ok(Gpu::Off));
        assert_eq!("/dev/dri/x".parse(), Ok(Gpu::Node("/dev/dri/x".into())));
        assert_eq!(Gpu::Off.find().unwrap(), Found::Off);
    }
}
