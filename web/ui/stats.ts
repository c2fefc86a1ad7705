// The statistics overlay: round trip, input to photon, updates and bytes by command.
// Beside the path: asks the engine twice a second while it is open, and never otherwise.
// Knows numbers and how to write them.

import type { Stats, VideoStats } from "../engine/messages";

const PERIOD_MS = 500;

export class StatsOverlay {
  private timer: ReturnType<typeof setInterval> | undefined;
  private last: { stats: Stats; atMs: number } | undefined;

  constructor(
    private readonly element: HTMLElement,
    private readonly queryStats: () => Promise<Stats>,
  ) {}

  get open(): boolean {
    return this.timer !== undefined;
  }

  toggle(): void {
    if (this.timer !== undefined) {
      clearInterval(this.timer);
      this.timer = undefined;
      this.last = undefined;
      this.element.hidden = true;
      return;
    }
    this.element.hidden = false;
    this.timer = setInterval(() => void this.update(), PERIOD_MS);
    void this.update();
  }

  private async update(): Promise<void> {
    let stats: Stats;
    try {
      stats = await this.queryStats();
    } catch {
      return; // no viewer now: the last figures stay
    }
    if (!this.open) return;
    const atMs = performance.now();
    const before = this.last;
    this.last = { stats, atMs };
    const seconds = before ? (atMs - before.atMs) / 1000 : 0;
    const rate = (pick: (s: Stats) => number) =>
      before && seconds > 0 ? Math.max(0, (pick(stats) - pick(before.stats)) / seconds) : 0;

    const rows: [string, string][] = [
      ["Connection", transport(stats)],
      [
        "Round trip",
        stats.rttUs > 0
          ? `${milliseconds(stats.rttUs)} (minimum ${milliseconds(stats.rttMinUs)})`
          : "–",
      ],
      ["Input to photon", photons(stats.inputToPresentUs)],
      ...(stats.graphics === undefined
        ? []
        : [["3D", stats.graphics.replace(/^3D: /, "")] as [string, string]]),
      ["Screen", `${stats.width} × ${stats.height}, ${stats.presenter}`],
      [
        "Updates",
        `${stats.updates}, ${rate((s) => s.updates).toFixed(0)}/s, ` +
          `${stats.datagramUpdates} as datagrams`,
      ],
      ["Shown", `${stats.presents}, ${rate((s) => s.presents).toFixed(0)}/s`],
      ["Received", `${bytes(stats.bytesIn)}, ${bytes(rate((s) => s.bytesIn))}/s`],
      [
        "Video",
        video(
          stats.video,
          rate((s) => s.video.shown),
        ),
      ],
      ["Packed", `${bytes(stats.packedBytes)}, unpacked ${bytes(stats.unpackedBytes)}`],
      ["Lossless", lossless(stats.lossyPixels, stats.width * stats.height)],
      ["Sent", `${bytes(stats.bytesOut)}, ${bytes(rate((s) => s.bytesOut))}/s`],
      ...stats.commands.map((c): [string, string] => [c.name, `${c.count}, ${bytes(c.bytes)}`]),
    ];
    this.element.replaceChildren(
      ...rows.flatMap(([name, value]) => {
        const term = document.createElement("dt");
        const description = document.createElement("dd");
        term.textContent = name;
        description.textContent = value;
        return [term, description];
      }),
    );
  }
}

function transport({ transport, transportReason }: Stats): string {
  if (transport === undefined) return "–";
  const name = transport === "webtransport" ? "WebTransport over QUIC" : "WebSocket over TCP";
  return transportReason === undefined ? name : `${name}, since ${transportReason}`;
}

/** Frames shown, their decoding time, and those that were not shown. */
function video(stats: VideoStats, perSecond: number): string {
  if (stats.shown + stats.coded === 0) return "–";
  const decoded = stats.coded > 0 ? `, decoded in ${milliseconds(stats.delayUs)}` : "";
  const unshown =
    stats.skipped + stats.dropped > 0 ? `, ${stats.skipped + stats.dropped} not shown` : "";
  return `${stats.shown}, ${perSecond.toFixed(0)}/s${decoded}${unshown}`;
}

/** How much of the screen is lossless; never "all" while a pixel is lossy. */
function lossless(lossyPixels: number, area: number): string {
  if (lossyPixels === 0) return "all";
  const percent = Math.floor(((area - lossyPixels) * 1000) / Math.max(area, 1)) / 10;
  return `${percent.toFixed(1)} %, ${lossyPixels} pixels lossy`;
}

/** The median of the recorded inputs, and the last one. */
function photons(us: number[]): string {
  const last = us.at(-1);
  const median = [...us].sort((a, b) => a - b)[Math.floor(us.length / 2)];
  if (last === undefined || median === undefined) return "–";
  return `${milliseconds(median)} (last ${milliseconds(last)})`;
}

function milliseconds(us: number): string {
  return `${(us / 1000).toFixed(1)} ms`;
}

export function bytes(count: number): string {
  if (count < 1000) return `${count.toFixed(0)} B`;
  if (count < 1e6) return `${(count / 1e3).toFixed(1)} kB`;
  if (count < 1e9) return `${(count / 1e6).toFixed(1)} MB`;
  return `${(count / 1e9).toFixed(2)} GB`;
}
