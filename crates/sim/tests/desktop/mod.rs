//! A desktop whose windows are redrawn and typed into: under the tests of what delays an input
//! response. From draws and keys, to the simulated session and back. Knows the simulator's public
//! interface; never what else is sent.

use thinc_protocol::Micros;
use thinc_protocol::viewer::InputEvent;
use thinc_region::{Rect, Size};
use thinc_ring::DrawHint;
use thinc_sim::{Fill, Ids, Op, World};

pub(crate) const SIZE: Size = Size { width: 320, height: 200 };
/// The window that is typed into, and one that is only redrawn.
pub(crate) const WINDOW: u32 = 0x20_0001;
pub(crate) const OTHER: u32 = 0x20_0002;

pub(crate) trait Desktop {
    fn world(&mut self) -> &mut World<Ids>;

    /// Time passes for everybody.
    fn wait(&mut self, time: Micros);

    fn draw(&mut self, rect: Rect, window: u32) {
        let draw = Op::Draw {
            region: rect.into(),
            fill: Fill::Distinct,
            hint: DrawHint::Composite,
            window,
        };
        for op in [draw, Op::Finish, Op::Idle] {
            self.world().apply(&op).unwrap();
        }
    }

    /// Presses a key, which draws `rect` once X has it; returns the time until the viewer showed
    /// that.
    fn key(&mut self, delay: Micros, rect: Rect) -> Micros {
        self.world().echoes.clear();
        let start = self.world().now;
        for down in [true, false] {
            let key = InputEvent::Key { code: 30, keysym: 0, down };
            self.world().apply(&Op::Input(0, key)).unwrap();
        }
        self.wait(delay + 3_000);
        self.world().apply(&Op::Deliver(WINDOW)).unwrap();
        self.draw(rect, WINDOW);
        for _ in 0..400 {
            self.wait(1_000);
            if let Some(&(at, _)) = self.world().echoes.first() {
                return at - start;
            }
        }
        panic!("the key got no input response");
    }
}
