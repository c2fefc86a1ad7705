// Tables from browser keys to X keys: evdev codes for positions, keysyms for meanings.
// Path back: under input.ts.
// Knows names and numbers; never events, sockets or which keys are pressed.

/**
 * KeyboardEvent.code → evdev code (KEY_* of linux/input-event-codes.h). Names as in "UI Events
 * KeyboardEvent code Values", and the older ones of Firefox and Chromium. X has room for codes up
 * to 247; the few keys beyond it (Fn, MicrophoneMute) are sent by keysym alone.
 */
// biome-ignore format: a table reads best in rows
export const EVDEV: Readonly<Record<string, number>> = {
  Escape: 1, Digit1: 2, Digit2: 3, Digit3: 4, Digit4: 5, Digit5: 6, Digit6: 7, Digit7: 8, Digit8: 9,
  Digit9: 10, Digit0: 11, Minus: 12, Equal: 13, Backspace: 14, Tab: 15, KeyQ: 16, KeyW: 17,
  KeyE: 18, KeyR: 19, KeyT: 20, KeyY: 21, KeyU: 22, KeyI: 23, KeyO: 24, KeyP: 25, BracketLeft: 26,
  BracketRight: 27, Enter: 28, ControlLeft: 29, KeyA: 30, KeyS: 31, KeyD: 32, KeyF: 33, KeyG: 34,
  KeyH: 35, KeyJ: 36, KeyK: 37, KeyL: 38, Semicolon: 39, Quote: 40, Backquote: 41, ShiftLeft: 42,
  Backslash: 43, KeyZ: 44, KeyX: 45, KeyC: 46, KeyV: 47, KeyB: 48, KeyN: 49, KeyM: 50, Comma: 51,
  Period: 52, Slash: 53, ShiftRight: 54, NumpadMultiply: 55, AltLeft: 56, Space: 57, CapsLock: 58,
  F1: 59, F2: 60, F3: 61, F4: 62, F5: 63, F6: 64, F7: 65, F8: 66, F9: 67, F10: 68, NumLock: 69,
  ScrollLock: 70, Numpad7: 71, Numpad8: 72, Numpad9: 73, NumpadSubtract: 74, Numpad4: 75,
  Numpad5: 76, Numpad6: 77, NumpadAdd: 78, Numpad1: 79, Numpad2: 80, Numpad3: 81, Numpad0: 82,
  NumpadDecimal: 83, Lang5: 85, IntlBackslash: 86, F11: 87, F12: 88, IntlRo: 89, Lang3: 90,
  Lang4: 91, Convert: 92, KanaMode: 93, NonConvert: 94, NumpadEnter: 96, ControlRight: 97,
  NumpadDivide: 98, PrintScreen: 99, AltRight: 100, Home: 102, ArrowUp: 103, PageUp: 104,
  ArrowLeft: 105, ArrowRight: 106, End: 107, ArrowDown: 108, PageDown: 109, Insert: 110,
  Delete: 111, AudioVolumeMute: 113, AudioVolumeDown: 114, AudioVolumeUp: 115, Power: 116,
  NumpadEqual: 117, Pause: 119, ShowAllWindows: 120, NumpadComma: 121, Lang1: 122, Lang2: 123,
  IntlYen: 124, MetaLeft: 125, MetaRight: 126, ContextMenu: 127, BrowserStop: 128, Again: 129,
  Props: 130, Undo: 131, Select: 132, Copy: 133, Open: 134, Paste: 135, Find: 136, Cut: 137,
  Help: 138, LaunchApp2: 140, Sleep: 142, WakeUp: 143, LaunchScreenSaver: 152, LaunchMail: 155,
  BrowserFavorites: 156, LaunchApp1: 157, BrowserBack: 158, BrowserForward: 159, Eject: 161,
  MediaTrackNext: 163, MediaPlayPause: 164, MediaTrackPrevious: 165, MediaStop: 166,
  MediaRecord: 167, MediaRewind: 168, MediaSelect: 171, BrowserHome: 172, BrowserRefresh: 173,
  NumpadParenLeft: 179, NumpadParenRight: 180, F13: 183, F14: 184, F15: 185, F16: 186, F17: 187,
  F18: 188, F19: 189, F20: 190, F21: 191, F22: 192, F23: 193, F24: 194, MediaPause: 201,
  Suspend: 205, MediaPlay: 207, MediaFastForward: 208, PrintScreenSysRq: 210, BrowserSearch: 217,
  BrightnessDown: 224, BrightnessUp: 225, MailSend: 231, MailReply: 232, MailForward: 233,
  // Older names of the same keys.
  OSLeft: 125, OSRight: 126, VolumeMute: 113, VolumeDown: 114, VolumeUp: 115,
};

/** KeyboardEvent.key, if it is a name and not a text → keysym (X11/keysymdef.h, XF86keysym.h). */
// biome-ignore format: a table reads best in rows
export const NAMED: Readonly<Record<string, number>> = {
  Backspace: 0xff08, Tab: 0xff09, Clear: 0xff0b, Enter: 0xff0d, Pause: 0xff13, ScrollLock: 0xff14,
  Escape: 0xff1b, Compose: 0xff20, KanjiMode: 0xff21, NonConvert: 0xff22, Convert: 0xff23,
  Romaji: 0xff24, Hiragana: 0xff25, Katakana: 0xff26, HiraganaKatakana: 0xff27, Zenkaku: 0xff28,
  Hankaku: 0xff29, ZenkakuHankaku: 0xff2a, KanaMode: 0xff2d, Eisu: 0xff30, Alphanumeric: 0xff30,
  HangulMode: 0xff31, HanjaMode: 0xff34, CodeInput: 0xff37, JunjaMode: 0xff38,
  SingleCandidate: 0xff3c, AllCandidates: 0xff3d, PreviousCandidate: 0xff3e, Home: 0xff50,
  ArrowLeft: 0xff51, ArrowUp: 0xff52, ArrowRight: 0xff53, ArrowDown: 0xff54, PageUp: 0xff55,
  PageDown: 0xff56, End: 0xff57, Select: 0xff60, PrintScreen: 0xff61, Execute: 0xff62,
  Insert: 0xff63, Undo: 0xff65, Redo: 0xff66, ContextMenu: 0xff67, Find: 0xff68, Cancel: 0xff69,
  Help: 0xff6a, ModeChange: 0xff7e, NumLock: 0xff7f, Shift: 0xffe1, Control: 0xffe3,
  CapsLock: 0xffe5, Alt: 0xffe9, Meta: 0xffeb, OS: 0xffeb, Super: 0xffeb, Hyper: 0xffed,
  AltGraph: 0xfe03, GroupLast: 0xfe0e, GroupFirst: 0xfe0c, GroupNext: 0xfe08, GroupPrevious: 0xfe0a,
  Delete: 0xffff, Attn: 0xfd0e, CrSel: 0xfd1c, ExSel: 0xfd1b, EraseEof: 0xfd06, Play: 0xfd16,
  PrintScreenSysRq: 0xff15, BrightnessUp: 0x1008ff02, BrightnessDown: 0x1008ff03,
  Standby: 0x1008ff10, AudioVolumeDown: 0x1008ff11, AudioVolumeMute: 0x1008ff12,
  AudioVolumeUp: 0x1008ff13, MediaPlay: 0x1008ff14, MediaPlayPause: 0x1008ff14,
  MediaStop: 0x1008ff15, MediaTrackPrevious: 0x1008ff16, MediaTrackNext: 0x1008ff17,
  BrowserHome: 0x1008ff18, LaunchMail: 0x1008ff19, BrowserSearch: 0x1008ff1b,
  MediaRecord: 0x1008ff1c, LaunchCalculator: 0x1008ff1d, LaunchApplication2: 0x1008ff1d,
  LaunchCalendar: 0x1008ff20, PowerOff: 0x1008ff2a, Power: 0x1008ff2a, WakeUp: 0x1008ff2b,
  Eject: 0x1008ff2c, LaunchScreenSaver: 0x1008ff2d, LaunchWebBrowser: 0x1008ff2e,
  BrowserBack: 0x1008ff26, BrowserForward: 0x1008ff27, BrowserStop: 0x1008ff28,
  BrowserRefresh: 0x1008ff29, BrowserFavorites: 0x1008ff30, MediaPause: 0x1008ff31,
  LaunchMediaPlayer: 0x1008ff32, LaunchMyComputer: 0x1008ff33, LaunchApplication1: 0x1008ff33,
  MediaRewind: 0x1008ff3e, Close: 0x1008ff56, Copy: 0x1008ff57, Cut: 0x1008ff58, LogOff: 0x1008ff61,
  New: 0x1008ff68, Open: 0x1008ff6b, Paste: 0x1008ff6d, MailReply: 0x1008ff72, Save: 0x1008ff77,
  MailSend: 0x1008ff7b, SpellCheck: 0x1008ff7c, ZoomIn: 0x1008ff8b, ZoomOut: 0x1008ff8c,
  MailForward: 0x1008ff90, MediaFastForward: 0x1008ff97, Hibernate: 0x1008ffa8,
  MicrophoneVolumeMute: 0x1008ffb2,
};

/** The right key of a pair (KeyboardEvent.location 2). */
// biome-ignore format: a table reads best in rows
const RIGHT: Readonly<Record<string, number>> = {
  Shift: 0xffe2, Control: 0xffe4, Alt: 0xffea, Meta: 0xffec, OS: 0xffec, Super: 0xffec,
  Hyper: 0xffee,
};

/** On the numeric keypad (KeyboardEvent.location 3). */
// biome-ignore format: a table reads best in rows
const KEYPAD: Readonly<Record<string, number>> = {
  " ": 0xff80, Tab: 0xff89, Enter: 0xff8d, Home: 0xff95, ArrowLeft: 0xff96, ArrowUp: 0xff97,
  ArrowRight: 0xff98, ArrowDown: 0xff99, PageUp: 0xff9a, PageDown: 0xff9b, End: 0xff9c,
  Clear: 0xff9d, Insert: 0xff9e, Delete: 0xff9f, "*": 0xffaa, "+": 0xffab, ",": 0xffac, "-": 0xffad,
  ".": 0xffae, "/": 0xffaf, "=": 0xffbd,
};

/**
 * The keysym of one Unicode code point: Latin-1 as itself, control characters as their keys, others
 * 0x01000000 + code.
 */
export function keysymOfCodePoint(codePoint: number): number {
  if (codePoint === 0x0a || codePoint === 0x0d) return 0xff0d;
  if (codePoint === 0x09) return 0xff09;
  if (codePoint === 0x08) return 0xff08;
  if (codePoint < 0x20 || (codePoint >= 0x7f && codePoint < 0xa0)) return 0;
  if (codePoint < 0x100) return codePoint;
  return 0x01000000 + codePoint;
}

/**
 * The keysym of `KeyboardEvent.key` at `KeyboardEvent.location`; 0 if the browser gives no meaning.
 */
export function keysymOf(key: string, location: number): number {
  if (location === 3) {
    const keypad = KEYPAD[key];
    if (keypad !== undefined) return keypad;
    if (key >= "0" && key <= "9" && key.length === 1) return 0xffb0 + Number(key);
  }
  if (location === 2) {
    const right = RIGHT[key];
    if (right !== undefined) return right;
  }
  const named = NAMED[key];
  if (named !== undefined) return named;
  const f = /^F([1-9]|[12][0-9]|3[0-5])$/.exec(key);
  if (f) return 0xffbd + Number(f[1]);
  const codePoint = key.codePointAt(0);
  if (codePoint === undefined || key.length !== String.fromCodePoint(codePoint).length) return 0;
  return keysymOfCodePoint(codePoint);
}
