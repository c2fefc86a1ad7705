// Texts of input methods and touch keyboards, through an invisible textarea.
// Path back: from the browser, to input.ts.
// Knows texts; never keys of a physical keyboard (keys.ts), pointers or sockets.

import { nowUs } from "../engine/messages";
import { type InputSink, isTouchOnly } from "./input";

const BACKSPACE = { code: 14, keysym: 0xff08 };
const DELETE = { code: 111, keysym: 0xffff };
/** Each character is an input, and a session ends a connection with more than 4000 in a second. */
const TEXT_CHARS_MAX = 2000;

export class Typing {
  /** The part of the composed text that has been sent. */
  private composed = "";

  constructor(
    private readonly area: HTMLTextAreaElement,
    private readonly sink: InputSink,
    /** Shows a message to the user for a few seconds. */
    private readonly notice: (words: string) => void,
  ) {
    area.addEventListener("beforeinput", (event) => this.beforeInput(event));
    area.addEventListener("input", (event) => {
      // A change during a composition would end it and lose its text.
      if (!(event as InputEvent).isComposing) this.resetText();
    });
    area.addEventListener("compositionstart", () => this.compositionStart());
    area.addEventListener("compositionupdate", (event) => this.compositionUpdate(event.data));
    area.addEventListener("compositionend", (event) => this.compositionEnd(event.data));
    this.resetText();
  }

  /** Takes the keyboard focus; a touch keyboard stays shown or hidden. */
  focus(): void {
    this.area.focus({ preventScroll: true });
  }

  /** An input method opens its window at this place; CSS pixels. */
  placeAt(x: number, y: number): void {
    this.area.style.left = `${x}px`;
    this.area.style.top = `${y}px`;
  }

  /** Browsers show a touch keyboard only in a gesture of the user. */
  showKeyboard(): void {
    this.area.inputMode = "text";
    // A focused field does not request the keyboard again.
    this.area.blur();
    this.focus();
  }

  /** The focus stays, so that keys of a physical keyboard still write. */
  hideKeyboard(): void {
    this.area.inputMode = "none";
    this.area.blur();
    this.focus();
  }

  private beforeInput(event: InputEvent): void {
    if (!this.sink.takesKeys) return;
    switch (event.inputType) {
      case "insertCompositionText":
      case "insertFromComposition":
      case "deleteCompositionText":
        return; // composition events have the text
      case "deleteContentBackward":
      case "deleteWordBackward":
      case "deleteSoftLineBackward":
        this.tap(BACKSPACE.code, BACKSPACE.keysym);
        break;
      case "deleteContentForward":
      case "deleteWordForward":
        this.tap(DELETE.code, DELETE.keysym);
        break;
      case "insertLineBreak":
      case "insertParagraph":
        this.text("\n");
        break;
      default:
        this.text(event.data ?? event.dataTransfer?.getData("text/plain") ?? "");
    }
    event.preventDefault();
  }

  private compositionStart(): void {
    this.composed = "";
    this.area.classList.add("composing");
  }

  /**
   * Touch keyboards compose plain text too, word by word, and users want to see each character; a
   * text in another script may change until it is chosen.
   */
  private compositionUpdate(text: string): void {
    // As wide as the text: characters of these scripts are at most as wide as high.
    this.area.style.width = `${[...text].length + 1}em`;
    if (this.sink.takesKeys && isTouchOnly() && /^[\u0020-\u024f]*$/.test(text)) this.compose(text);
  }

  private compositionEnd(text: string): void {
    if (this.sink.takesKeys) this.compose(text);
    this.composed = "";
    this.area.classList.remove("composing");
    this.area.style.width = "";
    this.resetText();
  }

  /** Sends what turns the sent part of the composition into `text`. */
  private compose(text: string): void {
    const before = [...this.composed];
    const after = [...text];
    let same = 0;
    while (same < before.length && before[same] === after[same]) same += 1;
    for (let i = same; i < before.length; i += 1) this.tap(BACKSPACE.code, BACKSPACE.keysym);
    this.text(after.slice(same).join(""));
    this.composed = text;
  }

  private text(text: string): void {
    const characters = [...text.replaceAll("\r\n", "\n")];
    if (characters.length > TEXT_CHARS_MAX)
      return this.notice("Too long to type: copy and paste it instead.");
    for (const character of characters)
      this.sink.send({ type: "char", codePoint: character.codePointAt(0) ?? 0 });
  }

  private tap(code: number, keysym: number): void {
    for (const down of [true, false])
      this.sink.send({ type: "key", code, keysym, down, timeUs: nowUs() });
  }

  /** Touch keyboards report a deletion only if there is something to delete. */
  private resetText(): void {
    this.area.value = "    ";
    this.area.setSelectionRange(4, 4);
  }
}
