//! Path back: from wheel and touchpad movement, to whole 1/120 notches.
//! A fraction is carried to the next event, so slow movement is not lost. Knows fractions; never
//! SDL or a connection.

/// Units of a wheel notch on the wire.
const UNITS_PER_NOTCH: f32 = 120.0;

/// The fractions carried to the next event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scroll {
    rest_x: f32,
    rest_y: f32,
}

impl Scroll {
    /// Adds a movement in notches (positive: right, down) and takes the whole units; None if both
    /// are 0.
    pub(crate) fn add(&mut self, notches_x: f32, notches_y: f32) -> Option<(i16, i16)> {
        let dx = take_units(&mut self.rest_x, notches_x);
        let dy = take_units(&mut self.rest_y, notches_y);
        (dx != 0 || dy != 0).then_some((dx, dy))
    }

    /// Drops the fractions: the next movement is a new one.
    pub(crate) fn reset(&mut self) {
        *self = Scroll::default();
    }
}

/// A movement beyond i16 (273 notches in one event) is clamped; nobody scrolls that far in one
/// event on purpose.
fn take_units(rest: &mut f32, notches: f32) -> i16 {
    if !notches.is_finite() {
        return 0;
    }
    let sum = *rest + notches * UNITS_PER_NOTCH;
    let whole = sum.trunc().clamp(f32::from(i16::MIN), f32::from(i16::MAX));
    let left = sum - whole;
    *rest = if left.abs() < 1.0 { left } else { 0.0 };
    whole as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notch_is_120() {
        assert_eq!(Scroll::default().add(0.0, 1.0), Some((0, 120)));
        assert_eq!(Scroll::default().add(-2.0, 0.0), Some((-240, 0)));
    }

    #[test]
    fn fractions_add_up_to_the_whole_movement() {
        let mut scroll = Scroll::default();
        let (mut sum, mut events) = (0i32, 0);
        for _ in 0..1000 {
            if let Some((dx, dy)) = scroll.add(0.0, 0.003) {
                assert_eq!(dx, 0);
                sum += i32::from(dy);
                events += 1;
            }
        }
        // 1000 × 0.003 notches = 360 units; each event brings 0.36 of one.
        assert!((359..=360).contains(&sum), "{sum}");
        assert!(events <= 360);
    }

    #[test]
    fn reversing_uses_the_carried_fraction() {
        let mut scroll = Scroll::default();
        assert_eq!(scroll.add(0.0, 0.0075), None, "0.9 units");
        assert_eq!(scroll.add(0.0, -0.0075), None, "back to 0");
        assert_eq!(scroll.add(0.0, 1.0), Some((0, 120)));
    }

    #[test]
    fn invalid_movements_are_bounded() {
        let mut scroll = Scroll::default();
        assert_eq!(scroll.add(f32::NAN, f32::INFINITY), None);
        assert_eq!(scroll.add(0.0, 1e9), Some((0, i16::MAX)));
        assert_eq!(scroll.add(0.0, 0.0), None, "the clamped part is not sent later");
    }
}
