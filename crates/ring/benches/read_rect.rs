//! What does it cost to copy pixels out of the shared framebuffer, compared with memcpy of private
//! memory?
//!
//! `cargo bench -p thinc-ring --bench read_rect`. The framebuffer is a memfd of 1024 x 768, sent
//! over a socket as by the driver; rectangles begin at odd and even pixels.

#[allow(dead_code, unreachable_pub, reason = "only the numbers of HELLO are needed")]
#[path = "../src/abi.rs"]
mod abi;

use std::hint::black_box;
use std::io::{IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept, bind, listen, recv, sendmsg, socket_with,
};
use thinc_region::Rect;

const WIDTH: usize = 1024;
const HEIGHT: usize = 768;

fn memory(bytes: &[u8]) -> OwnedFd {
    let fd = memfd_create("thinc-bench", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .expect("memfd");
    let mut file = std::fs::File::from(fd);
    file.write_all(bytes).expect("memory to write to");
    let fd = OwnedFd::from(file);
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW).expect("seals");
    fd
}

/// The part of a driver that an attachment needs: it answers ATTACH with HELLO and five
/// descriptors.
fn attached() -> thinc_ring::Attachment {
    let path = std::env::temp_dir().join(format!("thinc-read-rect-{}", std::process::id()));
    let listener =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .expect("socket");
    bind(&listener, &SocketAddrUnix::new(&path).expect("a short path")).expect("bind");
    listen(&listener, 1).expect("listen");
    let driver = std::thread::spawn(move || {
        let socket = accept(&listener).expect("the session connects");
        let mut request = [0u8; 64];
        recv(&socket, &mut request[..], RecvFlags::empty()).expect("the session sends ATTACH");
        let mut ring = vec![0; abi::RING_BYTES];
        for (at, value) in [
            (abi::HEADER_MAGIC, abi::MAGIC),
            (abi::HEADER_ABI_VERSION, abi::ABI_VERSION),
            (abi::HEADER_RING_BYTES, abi::RING_BYTES as u32),
        ] {
            ring[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let pixels: Vec<u8> = (0..WIDTH * HEIGHT * 4).map(|i| (i * 7 % 251) as u8).collect();
        let wake = eventfd(0, EventfdFlags::CLOEXEC).expect("eventfd");
        let input =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .expect("socket");
        let (ring, pixels, video) = (memory(&ring), memory(&pixels), memory(&[]));
        let descriptors =
            [ring.as_fd(), pixels.as_fd(), wake.as_fd(), input.as_fd(), video.as_fd()];
        let mut words = [0u32; abi::HELLO_BYTES / 4];
        words[..3].copy_from_slice(&[abi::MESSAGE_HELLO, abi::MAGIC, abi::ABI_VERSION]);
        words[abi::HELLO_FRAMEBUFFER / 4 + 1..][..4].copy_from_slice(&[
            1,
            WIDTH as u32,
            HEIGHT as u32,
            WIDTH as u32 * 4,
        ]);
        let hello: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)),
            "five descriptors fit"
        );
        sendmsg(&socket, &[IoSlice::new(&hello)], &mut ancillary, SendFlags::empty())
            .expect("HELLO is sent");
    });
    let attachment = thinc_ring::attach(&path).expect("HELLO is complete");
    driver.join().expect("the driver's thread does not panic");
    std::fs::remove_file(&path).expect("the socket was ours");
    attachment
}

/// The measured function: `./dev bench instructions` makes valgrind count inside this function
/// only.
#[inline(never)]
fn measured<R>(work: impl FnOnce() -> R) -> R {
    work()
}

fn benches(criterion: &mut Criterion) {
    let attachment = attached();
    let source = vec![0x0012_3456u32; WIDTH * HEIGHT];
    let mut target = vec![0u32; WIDTH * HEIGHT];
    for (name, rect) in [
        ("screen", Rect::new(0, 0, WIDTH as i32, HEIGHT as i32)),
        ("window at an odd pixel", Rect::at(101, 77, 600, 400)),
        ("line of text", Rect::at(20, 300, 640, 18)),
        ("glyph", Rect::at(301, 300, 9, 18)),
    ] {
        let (width, height) = (rect.width() as usize, rect.height() as usize);
        let start = rect.y1 as usize * WIDTH + rect.x1 as usize;
        let mut group = criterion.benchmark_group(format!("framebuffer, {name}"));
        group.throughput(Throughput::Bytes(rect.area() * 4));
        group.bench_function("memcpy (reference)", |b| {
            b.iter(|| {
                measured(|| {
                    let rows = black_box(&source)[start..].chunks(WIDTH).take(height);
                    for (row, line) in rows.zip(black_box(&mut target).chunks_exact_mut(width)) {
                        line.copy_from_slice(&row[..width]);
                    }
                });
            });
        });
        group.bench_function("read_rect", |b| {
            b.iter(|| {
                measured(|| {
                    attachment.framebuffer.read_rect(black_box(rect), black_box(&mut target), width)
                })
            });
        });
        group.finish();
    }
}

criterion_group!(read_rect, benches);
criterion_main!(read_rect);
