// Texts: what input methods compose and on-screen keyboards write, through a textarea that nobody sees.
// Path back: from the browser, to input.ts.
// Knows texts; never keys of a keyboard (keys.ts), pointers or sockets.

import { isTouchOnly, type Outlet } from "./input";
import { nowUs } from "./messages";

const BACKSPACE = { code: 14, keysym: 0xff08 };
const DELETE = { code: 111, keysym: 0xffff };
/** Each character is an input of its own, and a session ends a connection that makes more than 4000 in a second. */
const TEXT_CHARS_MAX = 2000;

export class Typing {
  /** What has been sent of the text being composed. */
  private composed = "";

  constructor(
    private readonly area: HTMLTextAreaElement,
    private readonly outlet: Outlet,
    /** Says something to the person, for a moment. */
    private readonly notice: (words: string) => void,
  ) {
    area.addEventListener("beforeinput", (event) => this.beforeInput(event));
    area.addEventListener("input", (event) => {
      // Whoever changes the text in the middle of a composition ends it, and loses what is being composed.
      if (!(event as InputEvent).isComposing) this.resetText();
    });
    area.addEventListener("compositionstart", () => this.compositionStart());
    area.addEventListener("compositionupdate", (event) => this.compositionUpdate(event.data));
    area.addEventListener("compositionend", (event) => this.compositionEnd(event.data));
    this.resetText();
  }

  /** Takes the keyboard's focus; where there is an on-screen keyboard it stays as it is, shown or hidden. */
  focus(): void {
    this.area.focus({ preventScroll: true });
  }

  /** A window of an input method opens where the person is writing; CSS pixels. */
  placeAt(x: number, y: number): void {
    this.area.style.left = `${x}px`;
    this.area.style.top = `${y}px`;
  }

  /** Called in a gesture of the person, or the browser does not show it. */
  showKeyboard(): void {
    this.area.inputMode = "text";
    // A field that has the focus already does not ask for a keyboard anew.
    this.area.blur();
    this.focus();
  }

  /** The focus stays, so that keys of a real keyboard are still texts. */
  hideKeyboard(): void {
    this.area.inputMode = "none";
    this.area.blur();
    this.focus();
  }

  private beforeInput(event: InputEvent): void {
    if (!this.outlet.takesKeys) return;
    switch (event.inputType) {
      case "insertCompositionText":
      case "insertFromComposition":
      case "deleteCompositionText":
        return; // the composition events carry it
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
   * On-screen keyboards compose plain letters too, a word at a time, and a person wants to see each one; a text in
   * another script may still be anything until it is chosen.
   */
  private compositionUpdate(text: string): void {
    // As wide as the text: letters of these scripts are at most as wide as they are high.
    this.area.style.width = `${[...text].length + 1}em`;
    if (this.outlet.takesKeys && isTouchOnly() && /^[\u0020-\u024f]*$/.test(text)) this.compose(text);
  }

  private compositionEnd(text: string): void {
    if (this.outlet.takesKeys) this.compose(text);
    this.composed = "";
    this.area.classList.remove("composing");
    this.area.style.width = "";
    this.resetText();
  }

  /** Makes what has been sent of a composition into `text`. */
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
    if (characters.length > TEXT_CHARS_MAX) return this.notice("Too long to type: copy and paste it instead.");
    for (const character of characters) this.outlet.send({ type: "char", codePoint: character.codePointAt(0) ?? 0 });
  }

  private tap(code: number, keysym: number): void {
    for (const down of [true, false]) this.outlet.send({ type: "key", code, keysym, down, timeUs: nowUs() });
  }

  /** On-screen keyboards tell of a deletion only where there is something to delete. */
  private resetText(): void {
    this.area.value = "    ";
    this.area.setSelectionRange(4, 4);
  }
}
