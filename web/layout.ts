// How the keyboard here is laid out, where a browser lets one guess it, as X names layouts.
// Path back, beside keys.ts: to engine.ts, and to the session, whose keyboard follows that of who types.
// Knows a few common layouts by their keys; of others nothing is said, and what keys mean counts all the same.

import type { ToEngine } from "./messages";

/** The keys by which layouts are told apart. */
const CODES = (
  "Backquote Minus Equal KeyQ KeyW KeyY BracketLeft BracketRight KeyA Semicolon Quote Backslash IntlBackslash KeyZ KeyM Comma Period Slash " +
  "Digit1 Digit2"
).split(" ");

/** What each of them writes by itself in X's layouts (xkb-data 2.35.1); a blank for a dead key, which browsers say differently. */
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

/** Too few keys tell nothing. */
const KEYS_MIN = 12;

/** The one layout that has these keys; undefined where none does. The key left of Z tells nothing: half of all keyboards lack it. */
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

/** `de` or `de(nodeadkeys)` in its parts; undefined for what is no name of a layout. */
export function parseLayout(name: string): { layout: string; variant: string } | undefined {
  const parts = /^([A-Za-z0-9_][A-Za-z0-9_-]{0,63})(?:\(([A-Za-z0-9_-]{0,63})\))?$/.exec(name);
  return parts?.[1] === undefined ? undefined : { layout: parts[1], variant: parts[2] ?? "" };
}

interface KeyboardOfBrowser {
  getLayoutMap?(): Promise<{ get(code: string): string | undefined }>;
}

/** Says the layout to the session: `choice` is auto, session (nothing is said) or a name. */
export function followLayout(choice: string, send: (message: ToEngine) => void): void {
  if (choice === "session") return;
  if (choice !== "auto") {
    const named = parseLayout(choice);
    if (named) send({ type: "layout", ...named });
    else console.warn(`thinc: ${choice} is no name of a keyboard's layout`);
    return;
  }
  let last: string | undefined;
  const look = async () => {
    const keyboard = (navigator as { keyboard?: KeyboardOfBrowser }).keyboard;
    const map = await keyboard?.getLayoutMap?.().catch(() => undefined);
    const layout = map && guessLayout(map);
    if (layout === undefined || layout === last) return;
    last = layout;
    send({ type: "layout", layout, variant: "" });
  };
  // No browser says when it changes; it is changed outside of the page, or by keys that it does not see.
  addEventListener("focus", () => void look());
  void look();
}
