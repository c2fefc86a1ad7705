// Guesses the layout of this keyboard, if the browser permits it, and names it as X does.
// Path back, beside keys.ts: to engine.ts and the session, whose keyboard follows the typing
// viewer's.
// Knows common layouts by their keys; an unknown layout is not sent, and keysyms are sent anyway.

import type { ToEngine } from "../engine/messages";

/** The keys that distinguish layouts. */
const CODES = (
  "Backquote Minus Equal KeyQ KeyW KeyY BracketLeft BracketRight KeyA Semicolon Quote Backslash " +
  "IntlBackslash KeyZ KeyM Comma Period Slash Digit1 Digit2"
).split(" ");

/**
 * What each of them writes without modifiers in X's layouts (xkb-data 2.35.1); a blank for a dead
 * key, which browsers report in different ways.
 */
const LAYOUTS: readonly (readonly [name: string, keys: string])[] = [
  ["us", "`-=qwy[]a;'\\<zm,./12"],
  ["gb", "`-=qwy[]a;'#\\zm,./12"],
  ["de", " ß qwzü+aöä#<ym,.-12"],
  ["ch", "§' qwzü aöä$<ym,.-12"],
  ["fr", "²)=azy $qmù*<w,;:!&é"],
  ["be", "²)-azy $qmùµ<w,;:=&é"],
  ["es", "º'¡qwy +añ ç<zm,.-12"],
  ["latam", "|'¿qwy +añ{}<zm,.-12"],
  ["it", "\\'ìqwyè+aòàù<zm,.-12"],
  ["pt", "\\'«qwy+ açº <zm,.-12"],
  ["br", "'-=qwy [aç ]\\zm,.;12"],
  ["se", "§+ qwyå aöä'<zm,.-12"],
  ["dk", "½+ qwyå aæø'<zm,.-12"],
  ["no", "|+\\qwyå aøæ'<zm,.-12"],
  ["nl", "@/°qwy *a+ <]zm,.-12"],
  ["cz", ";= qwzú)aů§ \\ym,.-+ě"],
  ["hu", "0üóqwzőúaéáűíym,.-12"],
  ["jp", " -^qwy@[a;:]<zm,./12"],
  ["tr", '"*-qwyğüaşi,<zmöç.12'],
];

/** Fewer known keys identify no layout. */
const KEYS_MIN = 12;

/**
 * The layout with these keys; undefined if there is none. The key left of Z is not compared: half
 * of all keyboards do not have it.
 */
export function guessLayout(map: { get(code: string): string | undefined }): string | undefined {
  const fits = ([, keys]: readonly [string, string]) => {
    let compared = 0;
    for (const [at, code] of CODES.entries()) {
      const [here, there] = [map.get(code), keys[at]];
      if (here === undefined || there === " " || code === "IntlBackslash") continue;
      if (here !== there) return false;
      compared += 1;
    }
    return compared >= KEYS_MIN;
  };
  return LAYOUTS.find(fits)?.[0];
}

/** `de` or `de(nodeadkeys)` in its parts; undefined if it is not a layout's name. */
export function parseLayout(name: string): { layout: string; variant: string } | undefined {
  const parts = /^([A-Za-z0-9_][A-Za-z0-9_-]{0,63})(?:\(([A-Za-z0-9_-]{0,63})\))?$/.exec(name);
  return parts?.[1] === undefined ? undefined : { layout: parts[1], variant: parts[2] ?? "" };
}

interface KeyboardOfBrowser {
  getLayoutMap?(): Promise<{ get(code: string): string | undefined }>;
}

/** Sends the layout: `choice` is auto, session (nothing is sent) or a name. */
export function followLayout(choice: string, send: (message: ToEngine) => void): void {
  if (choice === "session") return;
  if (choice !== "auto") {
    const named = parseLayout(choice);
    if (named) send({ type: "layout", ...named });
    else console.warn(`thinc: ?layout=${choice} is not the name of a keyboard layout`);
    return;
  }
  let last: string | undefined;
  const sendLayout = async () => {
    const keyboard = (navigator as { keyboard?: KeyboardOfBrowser }).keyboard;
    const map = await keyboard?.getLayoutMap?.().catch(() => undefined);
    const layout = map && guessLayout(map);
    if (layout === undefined || layout === last) return;
    last = layout;
    send({ type: "layout", layout, variant: "" });
  };
  // Browsers report no change of layout; it is changed outside of the page, or by keys that it does
  // not see.
  addEventListener("focus", () => void sendLayout());
  void sendLayout();
}
