// The microphone of this device, for programs of the session that record: a question the first
// time, then the browser's own; a mark with a way to stop it as long as it is open.
// Path back, beside the pixels: from the engine's word that a program records, to the audio thread.
// Knows the browser's microphone and what the user wants; never what is heard. It uses no camera.

import type { FromEngine, MicrophoneFormat, ToEngine } from "../engine/messages";
import type { CaptureOptions } from "../sound/capture";

const RATE = 48_000;

export interface MicrophoneOptions {
  /** Asks whether a program may hear it. */
  question: HTMLElement;
  allow: HTMLButtonElement;
  refuse: HTMLButtonElement;
  /** Shown while it is open. */
  mark: HTMLElement;
  stop: HTMLButtonElement;
  /** Of the menu: turns it off at once, or on again; and what this browser cannot do. */
  button: HTMLButtonElement;
  words: HTMLElement;
  /** Where worklet.js is. */
  base: URL;
  /** Of the address: "on", "off", or nothing to ask. */
  choice: string | null;
  send(message: ToEngine, transfer?: Transferable[]): void;
  notice(words: string): void;
  /** The focus goes back to the session. */
  left(): void;
}

/** Why this browser gives no microphone; undefined if it can. */
function missingFeature(): string | undefined {
  if (navigator.mediaDevices?.getUserMedia === undefined) return "it has no access to one";
  if (typeof AudioWorkletNode !== "function") return "it has no AudioWorklet";
  if (typeof AudioEncoder !== "function") return "it cannot code sound (AudioEncoder)";
  return undefined;
}

/** What a user can understand of a browser's refusal. */
function refusalOf(error: unknown): string {
  const name = error instanceof DOMException ? error.name : "";
  if (name === "NotAllowedError") return "this browser does not allow the microphone";
  if (name === "NotFoundError") return "this device has no microphone";
  if (name === "NotReadableError") return "another program has the microphone";
  return error instanceof Error ? error.message : String(error);
}

export class Microphone {
  /** What the user has answered; undefined: they were not asked. */
  private agreed: boolean | undefined;
  private wanted: MicrophoneFormat | undefined;
  /** Stops what is open, or is being opened. */
  private closeOpened: (() => void) | undefined;
  private isOpen = false;

  constructor(private readonly options: MicrophoneOptions) {
    const { allow, refuse, stop, button, choice } = options;
    if (choice === "on") this.agreed = true;
    allow.addEventListener("click", () => this.answer(true));
    refuse.addEventListener("click", () => this.answer(false));
    stop.addEventListener("click", () => this.toggle());
    button.addEventListener("click", () => this.toggle());
    options.question.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.answer(false);
    });
  }

  /** Tells the engine that this browser can record, if it can and the address lets it. */
  announce(): void {
    const { words, button, choice, send } = this.options;
    if (choice === "off") return;
    const missing = missingFeature();
    words.hidden = false;
    button.hidden = missing !== undefined;
    words.textContent =
      missing === undefined
        ? "Programs that record hear this microphone once you agree. Cameras are not used."
        : `This browser gives programs no microphone: ${missing}. Cameras are not used.`;
    if (missing === undefined) send({ type: "microphone" });
  }

  /** A program of the session records, or none does. */
  handle({ wanted, failed }: Extract<FromEngine, { type: "microphone" }>): void {
    this.close();
    this.wanted = wanted;
    if (failed !== undefined) this.options.notice(`The session gets no microphone: ${failed}`);
    this.options.question.hidden = wanted === undefined || this.agreed !== undefined;
    if (wanted === undefined) return;
    if (this.agreed) void this.open(wanted);
    else if (this.agreed === false) this.options.send({ type: "microphone", given: false });
  }

  /** The command of a key with Ctrl and Alt; undefined: it is not the microphone's. */
  shortcut(code: string): (() => void) | undefined {
    const isAsked = !this.options.question.hidden;
    if (code === "KeyY" && isAsked) return () => this.answer(true);
    if (code === "KeyX" && isAsked) return () => this.answer(false);
    if (code === "KeyK" && !this.options.button.hidden) return () => this.toggle();
    return undefined;
  }

  private answer(agrees: boolean): void {
    this.options.question.hidden = true;
    this.options.left();
    this.agreed = agrees;
    if (!agrees) this.options.send({ type: "microphone", given: false });
    else if (this.wanted !== undefined) void this.open(this.wanted);
  }

  /** Off at once, or on again. */
  private toggle(): void {
    const isOn = this.closeOpened !== undefined || (!this.wanted && this.agreed !== false);
    this.options.question.hidden = true;
    this.agreed = !isOn;
    this.close();
    if (isOn) this.options.send({ type: "microphone", given: false });
    else if (this.wanted !== undefined) void this.open(this.wanted);
    // It was refused: the session may ask again.
    else this.options.send({ type: "microphone", given: true });
    if (this.wanted !== undefined) this.options.left();
    else if (isOn) this.options.notice("The microphone stays off, whatever records");
    else this.options.notice("The microphone is on while a program of the session records");
    this.show();
  }

  private async open(wanted: MicrophoneFormat): Promise<void> {
    // Created within the user's click, or it may be suspended.
    const context = new AudioContext({ latencyHint: "interactive", sampleRate: RATE });
    let stream: MediaStream | undefined;
    let isClosed = false;
    const close = () => {
      isClosed = true;
      for (const track of stream?.getTracks() ?? []) track.stop();
      void context.close();
    };
    this.closeOpened = close;
    try {
      const [opened] = await Promise.all([
        navigator.mediaDevices.getUserMedia({
          // The browser knows what it plays, and removes it.
          audio: { channelCount: wanted.channels, echoCancellation: true },
        }),
        context.audioWorklet.addModule(new URL("worklet.js", this.options.base)),
      ]);
      stream = opened;
      if (isClosed) return close();
      const processorOptions: CaptureOptions = wanted;
      const node = new AudioWorkletNode(context, "thinc-capture", {
        numberOfInputs: 1,
        numberOfOutputs: 1,
        channelCount: wanted.channels,
        channelCountMode: "explicit",
        processorOptions,
      });
      const { port1, port2 } = new MessageChannel();
      node.port.postMessage(port1, [port1]);
      context.createMediaStreamSource(stream).connect(node);
      // Its output is silent; without it nothing would pull what it hears.
      node.connect(context.destination);
      await context.resume();
      if (isClosed) return;
      this.options.send({ type: "microphone", given: true, port: port2 }, [port2]);
      this.isOpen = true;
      this.show();
    } catch (error) {
      if (isClosed) return;
      this.close();
      this.agreed = false;
      this.options.send({ type: "microphone", given: false });
      this.options.notice(`The session gets no microphone: ${refusalOf(error)}`);
      for (const track of stream?.getTracks() ?? []) track.stop();
    }
  }

  private close(): void {
    this.closeOpened?.();
    this.closeOpened = undefined;
    this.isOpen = false;
    this.show();
  }

  private show(): void {
    const { mark, button } = this.options;
    mark.hidden = !this.isOpen;
    button.setAttribute("aria-pressed", String(this.agreed !== false));
  }
}
