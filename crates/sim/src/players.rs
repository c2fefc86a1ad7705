//! Path 1/13, simulated: applications that play videos, through ports of XVideo and as pixels,
//! while windows move and the link stalls.
//! From workload.rs, which lets one act at times, to frames, covering windows and ends. Knows what
//! plays where; never what the session makes of it.

use std::collections::VecDeque;

use thinc_protocol::video::DecoderState;
use thinc_region::{Rect, Region, Size};
use thinc_ring::DrawHint;

use crate::op::Op;
use crate::random::Random;
use crate::surface::Fill;

/// Largest number of simultaneous videos.
const PLAYERS_MAX: usize = 2;
/// Smallest edge of a video area in session-core.
const AREA_EDGE: i32 = 97;

type Script = VecDeque<Op>;

/// A playing video.
#[derive(Clone, Copy, Debug)]
struct Player {
    port: u16,
    /// Size of a frame.
    source: Size,
    place: Rect,
    /// A menu that covers it.
    cover: Option<Rect>,
    window: u32,
}

/// All players.
#[derive(Debug)]
pub(crate) struct Players {
    screen: Size,
    list: Vec<Player>,
}

impl Players {
    pub(crate) fn new(screen: Size) -> Players {
        Players { screen, list: Vec::new() }
    }

    /// One of them plays for a while, or a new one starts.
    pub(crate) fn act(&mut self, random: &mut Random, script: &mut Script) {
        let (width, height) = (self.screen.width as i32, self.screen.height as i32);
        if width.min(height) > AREA_EDGE && random.one_in(8) {
            return self.play_in_pixels(random, script);
        }
        if self.list.is_empty() || self.list.len() < PLAYERS_MAX && random.one_in(4) {
            let ports = self.list.iter().map(|player| player.port).collect::<Vec<_>>();
            let port = if ports.contains(&3) { 5 } else { 3 };
            let mut player = Player {
                port,
                source: source(random),
                place: Rect::default(),
                cover: None,
                window: 0x20_0010,
            };
            self.place(&mut player, random);
            self.list.push(player);
        }
        let at = random.below(self.list.len() as u64) as usize;
        for _ in 0..random.between(2, 14) {
            let mut player = self.list[at];
            let seen = self.seen(&player);
            match random.below(24) {
                0 => self.place(&mut player, random),
                1 => player.source = source(random),
                2 => {
                    // The window moves with its contents, and the video plays on.
                    let (dx, dy) = (random.between(-9, 9), random.between(-9, 9));
                    script.push_back(Op::Copy {
                        region: seen.translated(dx, dy),
                        dx,
                        dy,
                        window: player.window,
                    });
                    script.push_back(Op::Finish);
                    player.place = player.place.translate(dx, dy);
                }
                3 | 4 if player.cover.is_none() => {
                    let menu = part(random, player.place.intersect(&self.screen.rect()));
                    let color = random.bits() as u32 & 0x00ff_ffff;
                    let (fill, hint) = (Fill::Text(color), DrawHint::Glyphs);
                    script.push_back(Op::Draw {
                        region: menu.into(),
                        fill,
                        hint,
                        window: 0x20_0002,
                    });
                    player.cover = Some(menu);
                }
                3..6 => {
                    // The area under the menu is drawn by the next frame, or by the window before
                    // it.
                    if let Some(menu) = player.cover.take().filter(|_| random.one_in(2)) {
                        let (fill, hint) = (Fill::Solid(0), DrawHint::Solid(0));
                        script.push_back(Op::Draw {
                            region: menu.into(),
                            fill,
                            hint,
                            window: player.window,
                        });
                    }
                }
                6 => script
                    .push_back(Op::Decoder(random.below(3) as usize, DecoderState::NeedsKeyframe)),
                7 if random.one_in(4) => {
                    script.push_back(Op::Decoder(random.below(3) as usize, DecoderState::Refused))
                }
                8 => script.push_back(Op::Stall(random.below(3) as usize)),
                9 => script.push_back(Op::Resume(random.below(3) as usize)),
                10 => script.push_back(Op::Wait(random.below(1_500_000))),
                11 if random.one_in(3) => {
                    script.push_back(Op::StopPort(player.port));
                    if random.one_in(2) {
                        let (fill, hint) = (Fill::Solid(0x0020_4060), DrawHint::Solid(0x0020_4060));
                        script.push_back(Op::Draw {
                            region: seen,
                            fill,
                            hint,
                            window: player.window,
                        });
                    }
                    self.list.remove(at);
                    return;
                }
                _ => {}
            }
            self.list[at] = player;
            let frame = self.frame(&player);
            self.show_frame(random, frame, script);
        }
    }

    /// Its visible part.
    fn seen(&self, player: &Player) -> Region {
        let mut seen = Region::from(player.place);
        seen.intersect_rect(&self.screen.rect());
        player.cover.iter().for_each(|cover| seen.subtract_rect(cover));
        seen
    }

    fn frame(&self, player: &Player) -> Op {
        let Player { port, source, place, window, .. } = *player;
        Op::Frame { port, source, place, region: self.seen(player), window }
    }

    /// Any place, at times half outside the screen.
    fn place(&self, player: &mut Player, random: &mut Random) {
        let (width, height) = (self.screen.width as i32, self.screen.height as i32);
        let (w, h) = (random.between(4, width), random.between(4, height));
        player.place = Rect::at(
            random.between(-w / 2, width - w / 2),
            random.between(-h / 2, height - h / 2),
            w,
            h,
        );
        player.cover = None;
    }

    /// A frame is drawn, and the session processes it to some stage.
    fn show_frame(&self, random: &mut Random, frame: Op, script: &mut Script) {
        let viewer = random.below(3) as usize;
        script.push_back(frame.clone());
        match random.below(12) {
            0..5 => {
                script.extend([Op::Finish, Op::Idle, Op::Shell, Op::Wait(random.below(40_000))])
            }
            5 => script.extend([
                Op::Finish,
                Op::Read(usize::MAX),
                Op::Wait(3_000),
                Op::Commit(viewer),
            ]),
            6 => {
                // The next frame is drawn before this one has been read.
                let (steps, next) = (random.below(600) as usize, Some(Box::new(frame)));
                script.extend([Op::Finish, Op::Idle, Op::Read(usize::MAX), Op::Commit(viewer)]);
                script.push_back(Op::Snapshot(viewer, steps, next));
            }
            7 => script.extend([Op::Snapshot(viewer, 0, None), Op::Encode(viewer, 0)]),
            8 => script.push_back(Op::Cancel(viewer)),
            9 => script.push_back(Op::Transmit(viewer)),
            10 => script.extend([Op::Finish, Op::Wait(30_000)]),
            _ => {}
        }
    }

    /// A page with a video, as drawn by browsers; its controls are text.
    fn play_in_pixels(&mut self, random: &mut Random, script: &mut Script) {
        let (width, height) = (self.screen.width as i32, self.screen.height as i32);
        let (w, h) = (random.between(AREA_EDGE, width), random.between(AREA_EDGE, height));
        let place = Rect::at(random.between(0, width - w), random.between(0, height - h), w, h);
        for turn in 0..random.between(10, 40) {
            let mut drawn = Region::from(place);
            if random.one_in(4) {
                drawn = part(random, place).into();
            }
            let window = 0x20_0011;
            script.push_back(Op::Draw {
                region: drawn,
                fill: Fill::Distinct,
                hint: DrawHint::Image,
                window,
            });
            if random.one_in(10) {
                let (region, color) = (part(random, place), random.bits() as u32 & 0x00ff_ffff);
                let (fill, hint) = (Fill::Ink(color), DrawHint::Glyphs);
                script.push_back(Op::Draw { region: region.into(), fill, hint, window });
            }
            script.extend([Op::Finish, Op::Idle, Op::Shell]);
            if turn < 30 {
                script.push_back(Op::VideoArea(place));
            }
            script.push_back(Op::Wait(random.below(60_000)));
            if random.one_in(40) {
                return;
            }
        }
    }
}

fn source(random: &mut Random) -> Size {
    Size { width: random.between(2, 90) as u32, height: random.between(2, 70) as u32 }
}

fn part(random: &mut Random, of: Rect) -> Rect {
    let (w, h) = (random.between(1, of.width()), random.between(1, of.height()));
    Rect::at(
        of.x1 + random.between(0, of.width() - w),
        of.y1 + random.between(0, of.height() - h),
        w,
        h,
    )
}
