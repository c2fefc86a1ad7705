// The microphone of this device, for programs of the session that record: a question the first
// time, then the browser's own; a mark with a way to stop it as long as it is open.
// Path back, beside the pixels: from the engine's word that a program records, to the audio thread.
// Knows the browser's microphone and what the user wants; never what is heard. It uses no camera.

import type { FromEngine, MicrophoneFormat, ToEngine } from "../engine/messages";
import type { CaptureOptions } from "../sound/capture";
import type { MicrophoneSide } from "./entries";
import type { Question, Questions } from "./questions";

const RATE = 48_000;
/**
 * 5 s: an AudioContext that does not run by then waits for a gesture, or, in Firefox, for a device
 * that plays sound, without which it has no clock.
 */
const START_MS_MAX = 5_000;

const QUESTION =
  "Programs in this session that record, now or later, would hear your microphone until you " +
  "close this page or turn it off (Ctrl+Alt+K). Ctrl+Alt+Y: microphone on; Ctrl+Alt+X: off.";

export interface MicrophoneOptions {
  questions: Questions;
  /** Asks whether programs may hear it. */
  question: HTMLElement;
  questionWords: HTMLElement;
  allow: HTMLButtonElement;
  refuse: HTMLButtonElement;
  /** Shown while it is open. */
  mark: HTMLElement;
  stop: HTMLButtonElement;
  /** Of the menu: turns it off at once, or on again; pressed while it stays off. */
  button: HTMLButtonElement;
  /** Where worklet.js is. */
  base: URL;
  /** Of the address: "on", "off", or nothing to ask. */
  choice: string | null;
  send(message: ToEngine, transfer?: Transferable[]): void;
  notice(words: string): void;
  /** What `side` says is another. */
  changed(): void;
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

/** Waits until its audio thread runs. */
async function started(context: AudioContext): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    const words = "its audio does not start. Is there a device that plays sound?";
    timer = setTimeout(() => reject(new Error(words)), START_MS_MAX);
  });
  await Promise.race([context.resume(), late]).finally(() => clearTimeout(timer));
}

export class Microphone {
  private readonly question: Question;
  /** What the user has answered; undefined: they were not asked. */
  private agreed: boolean | undefined;
  private wanted: MicrophoneFormat | undefined;
  /** Why it was lost, or could not be opened, since a program last began to record. */
  private failed: string | undefined;
  /** Stops what is open, or is being opened. */
  private closeOpened: (() => void) | undefined;
  private isOpen = false;

  constructor(private readonly options: MicrophoneOptions) {
    const { question, questionWords, allow, refuse, stop, button, choice } = options;
    if (choice === "on") this.agreed = true;
    this.question = {
      element: question,
      words: questionWords,
      yes: allow,
      no: refuse,
      answer: (agrees) => this.answer(agrees),
    };
    options.questions.add(this.question);
    stop.addEventListener("click", () => this.toggle());
    button.addEventListener("click", () => this.toggle());
    question.addEventListener("keydown", (event) => {
      if (event.key === "Escape") options.questions.answer(this.question, false);
    });
    this.show();
  }

  /** For the menu. */
  get side(): MicrophoneSide {
    return {
      isOff: this.options.choice === "off",
      missing: missingFeature(),
      failed: this.failed,
      refused: this.agreed === false,
      isWanted: this.wanted !== undefined,
      isOpen: this.isOpen,
    };
  }

  /** This browser can record, and the address lets it. */
  private get isPossible(): boolean {
    const { isOff, missing } = this.side;
    return !isOff && missing === undefined;
  }

  /** Tells the engine that this browser can record, if it can and may. */
  announce(): void {
    if (this.isPossible) this.options.send({ type: "microphone" });
  }

  /** A connection's session may want it, or never does. */
  setOffered(offered: boolean): void {
    this.options.button.hidden = !offered;
  }

  /** A program of the session records, or none does. */
  handle({ wanted, failed }: Extract<FromEngine, { type: "microphone" }>): void {
    const { questions, notice, send } = this.options;
    this.close();
    this.wanted = wanted;
    if (failed !== undefined) {
      this.failed = failed;
      notice(`The session gets no microphone: ${failed}`);
    } else if (wanted !== undefined) {
      this.failed = undefined;
    }
    this.show();
    if (wanted === undefined) questions.ask(this.question, undefined);
    else if (this.agreed) void this.open(wanted);
    else if (this.agreed === false) send({ type: "microphone", given: false });
    else questions.ask(this.question, { key: 0, words: QUESTION });
  }

  /** The command of a key with Ctrl and Alt; undefined: it is not the microphone's. */
  shortcut(code: string): (() => void) | undefined {
    return code === "KeyK" && this.isPossible ? () => this.toggle() : undefined;
  }

  private answer(agrees: boolean): void {
    this.agreed = agrees;
    this.options.questions.ask(this.question, undefined);
    if (!agrees) this.options.send({ type: "microphone", given: false });
    else if (this.wanted !== undefined) void this.open(this.wanted);
    this.show();
  }

  /** Off at once, or on again; a question is answered with no, and after a failure it retries. */
  private toggle(): void {
    const { questions, send, notice, left } = this.options;
    if (questions.isAsked(this.question)) {
      this.answer(false);
      return;
    }
    const isOn = this.agreed !== false && this.failed === undefined;
    this.failed = undefined;
    this.agreed = !isOn;
    this.close();
    if (isOn) send({ type: "microphone", given: false });
    else if (this.wanted !== undefined) void this.open(this.wanted);
    // It was refused: the session may ask again.
    else send({ type: "microphone", given: true });
    if (this.wanted !== undefined) left();
    else if (isOn) notice("The microphone stays off, whatever records");
    else notice("The microphone is on while a program of the session records");
  }

  private async open(wanted: MicrophoneFormat): Promise<void> {
    let context: AudioContext | undefined;
    let stream: MediaStream | undefined;
    let isClosed = false;
    const close = () => {
      isClosed = true;
      for (const track of stream?.getTracks() ?? []) {
        track.onended = null;
        track.stop();
      }
      // It may be closed already.
      context?.close().catch(() => undefined);
    };
    this.closeOpened = close;
    try {
      // Created within the user's click, or it may be suspended.
      context = new AudioContext({ latencyHint: "interactive", sampleRate: RATE });
      // What can fail comes before the browser's question, whose stream must have an owner.
      await context.audioWorklet.addModule(new URL("worklet.js", this.options.base));
      if (isClosed) return;
      stream = await navigator.mediaDevices.getUserMedia({
        // The browser knows what it plays, and removes it.
        audio: { channelCount: wanted.channels, echoCancellation: true },
      });
      // Closed while the browser asked.
      if (isClosed) return close();
      for (const track of stream.getTracks())
        track.onended = () => this.fail("this browser or device has closed the microphone");
      this.isOpen = true;
      this.show();
      this.options.notice("The microphone is open: programs of the session that record hear it");
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
      await started(context);
      if (isClosed) return;
      this.options.send({ type: "microphone", given: true, port: port2 }, [port2]);
    } catch (error) {
      if (!isClosed) this.fail(refusalOf(error));
    }
  }

  private fail(why: string): void {
    this.close();
    this.failed = why;
    this.show();
    this.options.send({ type: "microphone", given: false });
    this.options.notice(`The session gets no microphone: ${why}`);
  }

  private close(): void {
    this.closeOpened?.();
    this.closeOpened = undefined;
    this.isOpen = false;
    this.show();
  }

  private show(): void {
    const { mark, button, changed } = this.options;
    mark.hidden = !this.isOpen;
    button.setAttribute("aria-pressed", String(this.agreed === false));
    changed();
  }
}
