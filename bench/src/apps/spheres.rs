//! The image workload of GLXSpheres (VirtualGL study, section 1.1): shaded spheres on rings that
//! turn, on a plain ground. Rendered by one thread in software; all frames differ, and each has its
//! number as a bar code at both edges. Key n draws one frame; key g draws as fast as the X server
//! takes frames for the given time, then stops.

use std::time::{Duration, Instant};

use super::photo::mix;
use super::window::{Window, WindowEvent};
use crate::Error;
use crate::observe::barcode;
use crate::observe::picture::Rect;

/// Options of `thinc-bench app spheres`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Width of the window, pixels.
    #[arg(long, default_value_t = 1240)]
    width: u16,
    /// Height of the window, pixels.
    #[arg(long, default_value_t = 900)]
    height: u16,
    /// Seconds of a run.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// The key that draws one frame.
pub const KEY_NEXT: &str = "n";
/// The key that starts a run.
pub const KEY_START: &str = "g";

const RINGS: u32 = 3;
/// Spheres of a ring.
const RING: u32 = 14;
const GROUND: u32 = 0x26_2640;
/// Rotation of the inner ring in a frame: a full turn in 240 frames. The other rings turn slower,
/// so that no frame repeats.
const TURN: f32 = 1.0 / 240.0;

/// Shows the window and draws on keys.
pub fn run(options: &Options) -> Result<(), Error> {
    let (width, height) = (options.width, options.height);
    if u32::from(width) < barcode::WIDTH_MIN || u32::from(height) < 4 * barcode::HEIGHT {
        return Err(format!(
            "{width}x{height} has no room for bar codes: at least {} wide",
            barcode::WIDTH_MIN
        )
        .into());
    }
    let mut window = Window::open("spheres", (width, height), GROUND)?;
    let mut scene = Scene::new(width.into(), height.into());
    let mut number = 0;
    window.put_whole(0, 0, width, scene.draw(number))?;
    loop {
        let WindowEvent::Key(key) = window.wait()? else { continue };
        if key == u32::from(KEY_NEXT.as_bytes()[0]) {
            number += 1;
            window.put_whole(0, 0, width, scene.draw(number))?;
        } else if key == u32::from(KEY_START.as_bytes()[0]) {
            let end = Instant::now() + Duration::from_secs(options.seconds);
            while Instant::now() < end {
                number += 1;
                window.put_whole(0, 0, width, scene.draw(number))?;
            }
        }
    }
}

/// One sphere, projected.
struct ProjectedSphere {
    /// Depth, towards the viewer.
    near: f32,
    x: f32,
    y: f32,
    radius: u32,
    colour: u32,
}

struct Scene {
    width: u32,
    height: u32,
    pixels: Vec<u32>,
    /// By radius: light (0 to 255) of each pixel of the square around a sphere, 0 outside of it.
    discs: Vec<Option<Vec<u8>>>,
    spheres: Vec<ProjectedSphere>,
}

impl Scene {
    fn new(width: u32, height: u32) -> Scene {
        let pixels = vec![GROUND; (width * height) as usize];
        Scene { width, height, pixels, discs: vec![], spheres: vec![] }
    }

    /// The frame of this number.
    fn draw(&mut self, number: u32) -> &[u32] {
        self.pixels.fill(GROUND);
        let (middle_x, middle_y) = (self.width as f32 / 2.0, self.height as f32 / 2.0);
        self.spheres.clear();
        for ring in 0..RINGS {
            let size = middle_y * (0.35 + 0.27 * ring as f32);
            let turn = number as f32 * TURN / (1.0 + 0.37 * ring as f32);
            for i in 0..RING {
                let angle = std::f32::consts::TAU * (turn + i as f32 / RING as f32);
                let near = angle.sin() * 0.45;
                let scale = 1.0 / (1.0 - near * 0.6);
                let tilt = 0.75 - 0.2 * ring as f32;
                self.spheres.push(ProjectedSphere {
                    near,
                    x: middle_x + angle.cos() * size * scale,
                    y: middle_y + (angle.sin() * tilt + (angle * 2.0).cos() * 0.1) * size * scale,
                    radius: ((middle_y * 0.09 * scale) as u32).max(2),
                    colour: mix(u64::from(ring * RING + i)) as u32 | 0x40_4040,
                });
            }
        }
        self.spheres.sort_by(|a, b| a.near.total_cmp(&b.near));
        for sphere in &self.spheres {
            let at = sphere.radius as usize;
            if self.discs.len() <= at {
                self.discs.resize_with(at + 1, || None);
            }
            let disc = self.discs[at].get_or_insert_with(|| disc(sphere.radius));
            let (left, top) =
                (sphere.x as i32 - sphere.radius as i32, sphere.y as i32 - sphere.radius as i32);
            let side = (sphere.radius * 2) as usize;
            for (row, lights) in disc.chunks(side).enumerate() {
                let y = top + row as i32;
                if y < 0 || y >= self.height as i32 {
                    continue;
                }
                let line = y as usize * self.width as usize;
                for (column, &light) in lights.iter().enumerate() {
                    let x = left + column as i32;
                    if light > 0 && x >= 0 && x < self.width as i32 {
                        self.pixels[line + x as usize] = lit(sphere.colour, light);
                    }
                }
            }
        }
        let frame = Rect { x: 0, y: 0, width: self.width, height: self.height };
        for edge in [barcode::top(frame), barcode::bottom(frame)] {
            barcode::draw(number, &mut self.pixels, self.width as usize, edge);
        }
        &self.pixels
    }
}

/// Light on the pixels of a sphere that is lit from the upper left: ambient, diffuse and specular.
fn disc(radius: u32) -> Vec<u8> {
    let size = radius as f32;
    let mut lights = Vec::with_capacity((radius * radius * 4) as usize);
    for row in 0..radius * 2 {
        for column in 0..radius * 2 {
            let (x, y) = ((column as f32 + 0.5) / size - 1.0, (row as f32 + 0.5) / size - 1.0);
            let depth = 1.0 - x * x - y * y;
            if depth <= 0.0 {
                lights.push(0);
                continue;
            }
            let diffuse = (-0.5 * x - 0.5 * y + 0.707 * depth.sqrt()).max(0.0);
            lights.push((40.0 + 150.0 * diffuse + 64.0 * diffuse.powi(24)) as u8);
        }
    }
    lights
}

/// A colour under this light; above 200 it becomes white, which is the highlight.
fn lit(colour: u32, light: u8) -> u32 {
    let (light, white) = (u32::from(light.min(200)), u32::from(light.saturating_sub(200)) * 4);
    let channel = |shift: u32| ((colour >> shift & 0xff) * light / 200 + white).min(255) << shift;
    channel(16) | channel(8) | channel(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_the_same_for_a_number_and_new_for_the_next() {
        let mut scene = Scene::new(640, 480);
        let (first, other) = (scene.draw(1).to_vec(), scene.draw(2).to_vec());
        assert_eq!(first, scene.draw(1));
        let inner = 640 * barcode::HEIGHT as usize..640 * (480 - barcode::HEIGHT) as usize;
        let changed =
            first[inner.clone()].iter().zip(&other[inner]).filter(|(a, b)| a != b).count();
        assert!(changed > 640 * 480 / 50, "only {changed} pixels move");
    }

    #[test]
    fn a_frame_is_ground_and_many_shades() {
        let mut scene = Scene::new(1240, 900);
        let frame = scene.draw(7);
        let ground =
            frame.iter().filter(|&&pixel| pixel == GROUND).count() as f64 / frame.len() as f64;
        assert!((0.3..0.9).contains(&ground), "{ground} of the frame is ground");
        let mut shades = frame.to_vec();
        shades.sort_unstable();
        shades.dedup();
        assert!(shades.len() > 1000, "{} shades", shades.len());
    }

    #[test]
    fn both_edges_carry_the_number() {
        let mut scene = Scene::new(640, 480);
        let pixels = scene.draw(4711).to_vec();
        let frame = Rect { x: 0, y: 0, width: 640, height: 480 };
        let picture = crate::observe::picture::Picture { width: 640, height: 480, pixels };
        assert_eq!(barcode::read(&picture, barcode::top(frame)), Some(4711));
        assert_eq!(barcode::read(&picture, barcode::bottom(frame)), Some(4711));
    }
}
