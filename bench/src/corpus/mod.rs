//! The corpus: pictures of real programs' screens, made anew on each machine, on which codecs are compared.
//! From `scenes.rs`, which has the programs, to a folder with an index that `thinc-bench codecs` and tests read.
//! Knows the format of the folder; never how a picture came about or what is done with it.

mod scenes;
mod studio;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::observe::picture::Picture;
use crate::run::parse_size;

/// How `corpus` runs.
#[derive(Args)]
pub struct Options {
    /// Where the pictures go; what the folder holds of an earlier corpus is replaced.
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    /// Only these scenes; all without it.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Screen of every program.
    #[arg(long, default_value = "1024x768", value_parser = parse_size)]
    size: (u32, u32),
}

/// What a picture is mostly made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Text, lines, and areas of one colour.
    Ui,
    /// Photographs beside them.
    Mix,
    /// Nearly nothing but a photograph.
    Photo,
}

impl Kind {
    /// What the index calls it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ui => "ui",
            Kind::Mix => "mix",
            Kind::Photo => "photo",
        }
    }
}

/// One picture in the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// What tables call it.
    pub name: String,
    /// The picture beside the index: a binary PPM of 8 bits.
    pub file: String,
    /// What it is mostly made of.
    pub kind: Kind,
    /// What is to be seen.
    pub about: String,
}

/// `index.json`. Its order is the one in which a viewer would have seen them: pictures of one program follow each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Of this format; 1.
    pub schema: u32,
    /// Of every picture, pixels.
    pub width: u32,
    /// Of every picture, pixels.
    pub height: u32,
    /// The pictures.
    pub captures: Vec<Capture>,
    /// Scenes that are not there, each with the reason.
    pub left_out: Vec<String>,
}

const SCHEMA: u32 = 1;
const INDEX: &str = "index.json";

/// Makes a corpus.
///
/// # Errors
/// A program did not show what it should, or the folder cannot be written. What is not installed is left out and said.
pub fn run(options: &Options) -> Result<(), Error> {
    fs::create_dir_all(&options.to).map_err(|error| format!("{}: {error}", options.to.display()))?;
    let mut index =
        Index { schema: SCHEMA, width: options.size.0, height: options.size.1, captures: vec![], left_out: vec![] };
    let chosen = scenes::choose(&options.only)?;
    for scene in chosen {
        if let Some(why) = scene.missing() {
            eprintln!("{} is left out: {why}", scene.name);
            index.left_out.push(format!("{}: {why}", scene.name));
            continue;
        }
        let shots = scene.shoot(options.size).map_err(|error| format!("{}: {error}", scene.name))?;
        for (name, picture) in shots {
            let capture = Capture {
                file: format!("{name}.ppm"),
                name: name.to_owned(),
                kind: scene.kind,
                about: scene.about.to_owned(),
            };
            write_ppm(&options.to.join(&capture.file), &picture)?;
            println!("{:<24} {:<6} {}", capture.name, capture.kind.name(), capture.about);
            index.captures.push(capture);
        }
        // After each scene, so that a failure leaves what is there readable.
        fs::write(options.to.join(INDEX), serde_json::to_vec_pretty(&index)?)?;
    }
    println!("{} pictures are in {}", index.captures.len(), options.to.display());
    Ok(())
}

/// Reads a corpus: its index, and the pictures in the same order.
///
/// # Errors
/// In words, where the folder holds no corpus of this format.
pub fn load(folder: &Path) -> Result<(Index, Vec<Picture>), Error> {
    let path = folder.join(INDEX);
    let text = fs::read(&path).map_err(|error| {
        format!("{}: {error}; make a corpus: thinc-bench corpus --to {}", path.display(), folder.display())
    })?;
    let index: Index = serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    if index.schema != SCHEMA {
        return Err(format!("{}: schema {}, not {SCHEMA}: make the corpus anew", path.display(), index.schema).into());
    }
    let pictures = index.captures.iter().map(|capture| {
        let path = folder.join(&capture.file);
        let picture = read_ppm(&path)?;
        if (picture.width, picture.height) == (index.width, index.height) {
            Ok(picture)
        } else {
            Err(Error::from(format!("{}: not of the size that the index names", path.display())))
        }
    });
    let pictures = pictures.collect::<Result<_, _>>()?;
    Ok((index, pictures))
}

fn write_ppm(path: &Path, picture: &Picture) -> Result<(), Error> {
    let mut file = Vec::with_capacity(picture.pixels.len() * 3 + 32);
    write!(file, "P6\n{} {}\n255\n", picture.width, picture.height)?;
    file.extend(picture.pixels.iter().flat_map(|pixel| [(pixel >> 16) as u8, (pixel >> 8) as u8, *pixel as u8]));
    fs::write(path, file).map_err(|error| format!("{}: {error}", path.display()).into())
}

fn read_ppm(path: &Path) -> Result<Picture, Error> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse_ppm(&bytes).ok_or_else(|| format!("{}: no PPM as `thinc-bench corpus` writes it", path.display()).into())
}

fn parse_ppm(bytes: &[u8]) -> Option<Picture> {
    let mut lines = bytes.splitn(4, |&byte| byte == b'\n');
    let mut line = || std::str::from_utf8(lines.next()?).ok();
    let (magic, size, most) = (line()?, line()?, line()?);
    let (width, height) = size.split_once(' ')?;
    let (width, height): (u32, u32) = (width.parse().ok()?, height.parse().ok()?);
    let pixels = lines.next()?;
    let whole = width as usize * height as usize * 3;
    (magic == "P6" && most == "255" && pixels.len() == whole).then(|| Picture {
        width,
        height,
        pixels: pixels
            .as_chunks::<3>()
            .0
            .iter()
            .map(|&[red, green, blue]| u32::from_be_bytes([0, red, green, blue]))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Folder;

    #[test]
    fn a_picture_is_read_as_it_was_written() {
        let folder = Folder::new("corpus-ppm").unwrap();
        let path = folder.path().join("a.ppm");
        // A line feed among the pixels ends no line.
        let pixels = (0..35_u32).map(|i| i.wrapping_mul(0x0a_0d_0a) & 0xff_ffff).collect();
        let picture = Picture { width: 7, height: 5, pixels };
        write_ppm(&path, &picture).unwrap();
        assert_eq!(read_ppm(&path).unwrap(), picture);
        let mut bytes = fs::read(&path).unwrap();
        bytes.pop();
        assert_eq!(parse_ppm(&bytes), None, "a pixel is missing");
        assert_eq!(parse_ppm(b"P5\n1 1\n255\nabc"), None);
        assert_eq!(parse_ppm(b"P6\n1 1\n"), None);
    }

    #[test]
    fn a_corpus_without_an_index_says_how_to_make_one() {
        let folder = Folder::new("corpus-none").unwrap();
        assert!(load(folder.path()).unwrap_err().to_string().contains("thinc-bench corpus --to"));
    }
}
