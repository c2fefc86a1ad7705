// The session's sound in the page: the audio context, which a key or click starts, volume and mute.
// Path 13/13, beside the pixels: joins engine/sound.ts and worklet.ts; and the menu's controls.
// Knows the browser's audio and its rules; never what is played.

import type { ToEngine } from "../engine/messages";
import type { SoundSide } from "../ui/entries";
import type { FromPlayer, PlayerReport, ToPlayer } from "./messages";

/** What a browser counts as a wish to hear something. */
const GESTURES = ["keydown", "pointerdown", "pointerup", "touchend"] as const;
/** A step of the volume by a key. */
const VOLUME_STEP = 0.1;

export interface SoundOptions {
  mute: HTMLButtonElement;
  volume: HTMLInputElement;
  /** Both of them; shown where there is sound. */
  controls: HTMLElement;
  /** Of the address: "off", or nothing. */
  choice: string | null;
  /** Where worklet.js and sound.wasm are. */
  base: URL;
  send(message: ToEngine, transfer?: Transferable[]): void;
  notice(words: string): void;
  /** What `side` says is another. */
  changed(): void;
}

/** Why this browser plays no sound; undefined if it can. */
function missingFeature(): string | undefined {
  return typeof AudioWorkletNode === "function" ? undefined : "it has no AudioWorklet";
}

export class Sound {
  private context: AudioContext | undefined;
  private node: AudioWorkletNode | undefined;
  private starting = false;
  /** Why nothing can be played. */
  private failed: string | undefined;
  private players: readonly string[] = [];
  private muted = false;
  /** Numbers of the player, for scripts and tests. */
  report: PlayerReport | undefined;

  constructor(private readonly options: SoundOptions) {
    options.mute.addEventListener("click", () => this.setMuted(!this.muted));
    options.volume.addEventListener("input", () => this.tellVolume());
  }

  /** For the menu. */
  get side(): SoundSide {
    const { choice, volume } = this.options;
    return {
      isOff: choice === "off",
      missing: missingFeature(),
      failed: this.failed,
      waits: this.node === undefined,
      muted: this.muted,
      volume: Number(volume.value),
      players: this.players,
    };
  }

  /**
   * Tells the engine that this browser can play sound, if it can and the address lets it; so far
   * nobody hears it.
   */
  announce(): void {
    const { isOff, missing } = this.side;
    if (!isOff && missing === undefined) this.tellEngine();
  }

  /** A connection has sound, which begins with the next key or click; or it has none. */
  setOffered(offered: boolean): void {
    this.options.controls.hidden = !offered || this.failed !== undefined;
    this.players = [];
    if (this.options.controls.hidden) return;
    this.show();
    if (this.node !== undefined) return;
    for (const type of GESTURES) addEventListener(type, this.gesture, { capture: true });
    // A person has used the page before.
    if (navigator.userActivation?.hasBeenActive) this.gesture();
  }

  /** Sound has arrived while the audio was suspended. */
  arrived(): void {
    void this.resume();
  }

  /** These programs play. */
  showPlayers(names: readonly string[]): void {
    this.players = names;
    this.options.changed();
  }

  /** By a key, which shows nothing of it. */
  toggleMute(): void {
    this.setMuted(!this.muted);
    this.options.notice(this.muted ? "Muted" : "Not muted");
  }

  private setMuted(muted: boolean): void {
    this.muted = muted;
    this.tellEngine();
    this.show();
  }

  /** Louder by so many steps. */
  changeVolume(steps: number): void {
    const { volume } = this.options;
    volume.value = String(Math.min(1, Math.max(0, Number(volume.value) + steps * VOLUME_STEP)));
    this.tellVolume();
    this.options.notice(`Volume ${Math.round(Number(volume.value) * 100)} %`);
  }

  private readonly gesture = (): void => {
    if (this.starting || this.node !== undefined) return;
    this.starting = true;
    this.start()
      .then((node) => {
        if (node !== undefined)
          for (const type of GESTURES) removeEventListener(type, this.gesture, { capture: true });
      })
      .catch((error: unknown) => this.fail(error))
      .finally(() => {
        this.starting = false;
      });
  };

  /** Starts the audio; undefined if this gesture does not suffice for the browser. */
  private async start(): Promise<AudioWorkletNode | undefined> {
    const { base } = this.options;
    // Created within the gesture, or it would be suspended.
    this.context ??= new AudioContext({ latencyHint: "interactive", sampleRate: 48_000 });
    const { context } = this;
    const [resumed, module] = await Promise.all([
      this.runs(context),
      fetch(new URL("sound.wasm", base)).then((response) => {
        if (!response.ok) throw new Error(`sound.wasm: the server answered ${response.status}`);
        return response.arrayBuffer();
      }),
      context.audioWorklet.addModule(new URL("worklet.js", base)),
    ]);
    if (!resumed) return undefined;
    const node = new AudioWorkletNode(context, "thinc-player", {
      numberOfInputs: 0,
      numberOfOutputs: 1,
      outputChannelCount: [2],
      processorOptions: { module },
    });
    node.onprocessorerror = () => this.fail(new Error("the player failed"));
    node.port.onmessage = (event: MessageEvent<FromPlayer>) => this.handle(event.data);
    node.connect(context.destination);
    this.node = node;
    const { port1, port2 } = new MessageChannel();
    this.tellPlayer({ type: "engine", port: port1 }, [port1]);
    this.tellVolume();
    context.onstatechange = () => this.tellEngine();
    this.tellEngine(port2);
    this.show();
    return node;
  }

  /** Whether the browser lets it run. It never settles where it does not. */
  private async runs(context: AudioContext): Promise<boolean> {
    if (context.state === "running") return true;
    const refused = new Promise<void>((resolve) => setTimeout(resolve, 1_000));
    await Promise.race([context.resume(), refused]);
    return (context.state as AudioContextState) === "running";
  }

  private handle(message: FromPlayer): void {
    const { context } = this;
    if (context === undefined) return;
    if (message.type === "silent") {
      void context.suspend();
      return;
    }
    this.report = message.report;
    const seconds = context.outputLatency ?? context.baseLatency;
    if (Number.isFinite(seconds)) this.tellPlayer({ type: "device", latencyUs: seconds * 1e6 });
  }

  private async resume(): Promise<void> {
    const { context } = this;
    if (context === undefined || context.state === "running" || this.node === undefined) return;
    this.tellPlayer({ type: "resumed" });
    await context.resume();
  }

  private fail(error: unknown): void {
    const why = error instanceof Error ? error.message : String(error);
    this.failed = why;
    this.muted = true;
    this.options.controls.hidden = true;
    for (const type of GESTURES) removeEventListener(type, this.gesture, { capture: true });
    this.node?.disconnect();
    this.tellEngine();
    this.options.notice(`There is no sound: ${why}`);
    this.options.changed();
  }

  private tellPlayer(message: ToPlayer, transfer: Transferable[] = []): void {
    this.node?.port.postMessage(message, transfer);
  }

  private tellVolume(): void {
    const { volume, changed } = this.options;
    this.tellPlayer({ type: "volume", volume: Number(volume.value) });
    volume.setAttribute("aria-valuetext", `${Math.round(Number(volume.value) * 100)} %`);
    changed();
  }

  private tellEngine(port?: MessagePort): void {
    const muted = this.muted || this.node === undefined;
    const suspended = this.context?.state !== "running";
    const message = { type: "sound" as const, muted, suspended };
    if (port === undefined) this.options.send(message);
    else this.options.send({ ...message, port }, [port]);
  }

  private show(): void {
    const { mute, changed } = this.options;
    mute.disabled = this.node === undefined;
    mute.setAttribute("aria-pressed", String(this.muted));
    changed();
  }
}
