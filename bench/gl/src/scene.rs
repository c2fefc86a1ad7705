//! The scenes: which shapes stand where in a frame of a given number, and the points of each shape.
//! Pure: the same number gives the same frame, and no two that follow each other are alike. Knows
//! geometry; never OpenGL or time.

use std::f32::consts::TAU;

use thinc_bench::apps::gl::Scene;

/// A 4x4 matrix, column by column, as OpenGL has it.
pub(crate) type Matrix = [f32; 16];

/// One of the shapes whose points are uploaded once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A lit sphere of radius 1.
    Sphere,
    /// The wires of a torus, whose larger radius is 1.
    Torus,
}

/// The points of a shape.
pub(crate) struct Mesh {
    /// Place and normal of each point: six numbers.
    pub(crate) points: Vec<f32>,
    /// Triangles of a sphere, lines of a torus.
    pub(crate) indices: Vec<u16>,
}

/// A shape in a frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Object {
    pub(crate) shape: Shape,
    /// From the shape's own space to the eye's: the eye is at 0 and looks along -z.
    pub(crate) place: Matrix,
    /// Red, green and blue.
    pub(crate) colour: [f32; 3],
}

/// Numbers of a point in [`Mesh::points`].
pub(crate) const POINT_NUMBERS: usize = 6;
/// A sphere has twice their product of triangles, 1024 as GLXSpheres'.
const SLICES: u16 = 32;
const STACKS: u16 = 16;
/// Wires of a torus along and around it.
const WIRES: (u16, u16) = (96, 32);
/// Smaller radius of the torus.
const TUBE: f32 = 0.35;
/// From the eye to the middle of the scene. What is one unit above the middle is at the upper edge.
const DISTANCE: f32 = 4.0;
/// Of the view, in front of the eye.
const NEAR_FAR: (f32, f32) = (1.0, 10.0);
/// A full turn of the innermost ring in so many frames. The others turn slower.
const TURN_FRAMES: f32 = 240.0;
/// Frames after which the rings are where they were, with a remainder that nobody sees: angles of
/// larger numbers would lose digits.
const FRAMES_MAX: u32 = 1 << 20;

/// Colour of the ground.
pub(crate) fn ground(scene: Scene) -> [f32; 3] {
    match scene {
        Scene::Study => [0.15, 0.15, 0.25],
        Scene::Spheres | Scene::Wireframe => [0.0; 3],
    }
}

/// Everything in the frame of this number.
pub(crate) fn objects(scene: Scene, number: u32) -> Vec<Object> {
    let turn = (number % FRAMES_MAX) as f32 / TURN_FRAMES;
    match scene {
        Scene::Study => rings(&STUDY_RINGS, 14, 0.09, turn),
        Scene::Spheres => {
            let middle = Object {
                shape: Shape::Sphere,
                place: placed([0.0; 3], 0.42),
                colour: [0.75, 0.75, 0.8],
            };
            let mut all = vec![middle];
            all.extend(rings(&LARGE_RINGS, 20, 0.13, turn));
            all
        }
        Scene::Wireframe => [(1.0, 0.95), (-1.37, 0.65), (1.81, 0.38)]
            .iter()
            .zip(0..)
            .map(|(&(speed, size), index)| Object {
                shape: Shape::Torus,
                place: turned(turn * speed, 0.4 * turn + 0.3 * index as f32, size),
                colour: hue(index),
            })
            .collect(),
    }
}

/// Radius, tilt and speed of each ring.
type Ring = (f32, f32, f32);
const STUDY_RINGS: [Ring; 3] = [(0.35, 0.75, 1.0), (0.62, 0.55, 0.73), (0.86, 0.35, 0.57)];
const LARGE_RINGS: [Ring; 3] = [(0.66, 1.0, 1.0), (0.84, -0.7, -0.73), (1.02, 0.35, 0.57)];

fn rings(rings: &[Ring], spheres: u32, radius: f32, turn: f32) -> Vec<Object> {
    let mut all = Vec::new();
    for (ring, &(size, tilt, speed)) in rings.iter().enumerate() {
        for i in 0..spheres {
            let angle = TAU * (turn * speed + i as f32 / spheres as f32);
            let at = [
                angle.cos() * size,
                (angle.sin() * tilt + (angle * 2.0).cos() * 0.1) * size * 0.8,
                angle.sin() * 0.8 * size,
            ];
            let place = placed(at, radius);
            let colour = hue(ring as u32 * spheres + i);
            all.push(Object { shape: Shape::Sphere, place, colour });
        }
    }
    all
}

/// At this place before the middle of the scene, so large.
fn placed([x, y, z]: [f32; 3], size: f32) -> Matrix {
    let s = size;
    [s, 0.0, 0.0, 0.0, 0.0, s, 0.0, 0.0, 0.0, 0.0, s, 0.0, x, y, z - DISTANCE, 1.0]
}

/// In the middle of the scene, turned about y and then about x, in turns.
fn turned(about_y: f32, about_x: f32, size: f32) -> Matrix {
    let ((sy, cy), (sx, cx)) = ((TAU * about_y).sin_cos(), (TAU * about_x).sin_cos());
    let columns = [[cy, sx * sy, -cx * sy], [0.0, cx, sx], [sy, -sx * cy, cx * cy]];
    let mut matrix = [0.0; 16];
    for (column, values) in columns.iter().enumerate() {
        for (row, value) in values.iter().enumerate() {
            matrix[column * 4 + row] = value * size;
        }
    }
    matrix[14] = -DISTANCE;
    matrix[15] = 1.0;
    matrix
}

/// Perspective of a window of this size: one unit is half of its height.
pub(crate) fn perspective(width: u32, height: u32) -> Matrix {
    let (near, far) = NEAR_FAR;
    let mut matrix = [0.0; 16];
    matrix[0] = DISTANCE * height as f32 / width as f32;
    matrix[5] = DISTANCE;
    matrix[10] = (near + far) / (near - far);
    matrix[11] = -1.0;
    matrix[14] = 2.0 * near * far / (near - far);
    matrix
}

/// A colour that is far from its neighbours': steps of the golden ratio round the circle of hues.
fn hue(index: u32) -> [f32; 3] {
    let hue = (index as f32 * 0.618_034).fract() * 6.0;
    [0.0, 2.0, 4.0].map(|shift: f32| {
        let distance = ((hue - shift).rem_euclid(6.0) - 3.0).abs();
        0.25 + 0.75 * (distance - 1.0).clamp(0.0, 1.0)
    })
}

/// The points of a shape.
pub(crate) fn mesh(shape: Shape) -> Mesh {
    match shape {
        Shape::Sphere => sphere(),
        Shape::Torus => torus(),
    }
}

fn sphere() -> Mesh {
    let mut points = Vec::new();
    for stack in 0..=STACKS {
        let (s, c) = (TAU * 0.5 * f32::from(stack) / f32::from(STACKS)).sin_cos();
        for slice in 0..=SLICES {
            let (y, x) = (TAU * f32::from(slice) / f32::from(SLICES)).sin_cos();
            let at = [x * s, c, y * s];
            points.extend(at.into_iter().chain(at));
        }
    }
    let row = SLICES + 1;
    let squares = (0..STACKS).flat_map(|stack| (0..SLICES).map(move |slice| stack * row + slice));
    let indices = squares
        .flat_map(|corner| {
            [corner, corner + 1, corner + row, corner + row, corner + 1, corner + row + 1]
        })
        .collect();
    Mesh { points, indices }
}

fn torus() -> Mesh {
    let (along, around) = WIRES;
    let mut points = Vec::new();
    for i in 0..along {
        let (s, c) = (TAU * f32::from(i) / f32::from(along)).sin_cos();
        for j in 0..around {
            let (t, d) = (TAU * f32::from(j) / f32::from(around)).sin_cos();
            let far = (1.0 - TUBE) + TUBE * d;
            points.extend([c * far, TUBE * t, s * far, c * d, t, s * d]);
        }
    }
    let mut indices = Vec::new();
    for i in 0..along {
        for j in 0..around {
            let here = i * around + j;
            indices.extend([here, i * around + (j + 1) % around]);
            indices.extend([here, (i + 1) % along * around + j]);
        }
    }
    Mesh { points, indices }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENES: [Scene; 3] = [Scene::Study, Scene::Spheres, Scene::Wireframe];

    #[test]
    fn a_frame_is_the_same_for_a_number_and_new_for_the_next() {
        for scene in SCENES {
            for number in [0, 1, 239, 240, 5000, FRAMES_MAX, u32::MAX - 1] {
                assert_eq!(objects(scene, number), objects(scene, number));
                assert_ne!(objects(scene, number), objects(scene, number.wrapping_add(1)));
            }
        }
        assert_eq!(objects(Scene::Study, 0).len(), 42, "three rings of fourteen");
        assert_eq!(objects(Scene::Spheres, 0).len(), 61, "as GLXSpheres has");
    }

    #[test]
    fn everything_is_before_the_eye_and_within_the_view() {
        let (near, far) = NEAR_FAR;
        for scene in SCENES {
            for number in (0..2000).step_by(37) {
                for object in objects(scene, number) {
                    let [x, y, z] = [12, 13, 14].map(|i| object.place[i]);
                    let size = object.place[..3].iter().map(|v| v * v).sum::<f32>().sqrt();
                    assert!(-z - size > near && -z + size < far, "{scene:?} {number}: {z} {size}");
                    // The projection of 1240x900.
                    let (right, top) = (DISTANCE * 900.0 / 1240.0 * x / -z, DISTANCE * y / -z);
                    assert!(right.abs() < 1.0 && top.abs() < 1.0, "{scene:?} {number}");
                }
            }
        }
    }

    #[test]
    fn points_have_normals_of_length_one_and_indices_name_points() {
        for shape in [Shape::Sphere, Shape::Torus] {
            let mesh = mesh(shape);
            let points = mesh.points.chunks_exact(POINT_NUMBERS);
            assert_eq!(points.remainder(), [0.0; 0]);
            let count = points.len();
            for point in points {
                let length: f32 = point[3..].iter().map(|v| v * v).sum();
                assert!((length - 1.0).abs() < 1e-4, "{shape:?}: {point:?}");
            }
            assert!(mesh.indices.iter().all(|&index| usize::from(index) < count));
            // No index is left out: each point is used.
            let mut used = mesh.indices.clone();
            used.sort_unstable();
            used.dedup();
            assert_eq!(used.len(), count, "{shape:?}");
        }
        assert_eq!(mesh(Shape::Sphere).indices.len() / 3, 1024);
    }

    #[test]
    fn what_is_one_unit_high_reaches_the_edge() {
        let matrix = perspective(1240, 900);
        // Row y of the product with (0, 1, -DISTANCE, 1), over its row w.
        let (y, w) = (matrix[5], -matrix[11] * DISTANCE);
        assert!((y / w - 1.0).abs() < 1e-6);
        assert!((matrix[0] / matrix[5] - 900.0 / 1240.0).abs() < 1e-6);
    }
}
