// The keyboard tables against the system's headers: linux/input-event-codes.h and X11's keysyms.
// Beside the path: input.ts must name keys as the kernel and X do.
// Fails if a header is missing: the build needs them anyway.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { before, test } from "node:test";
import { load } from "./modules.mjs";

let keymap;
let pointer;
before(async () => {
  keymap = await load("input/keymap.ts");
  pointer = await load("input/pointer.ts");
});

function defines(path, pattern) {
  const found = new Map();
  for (const [, name, value] of readFileSync(path, "utf8").matchAll(pattern))
    found.set(name, Number(value));
  assert.ok(found.size > 100, `${path} has ${found.size} names`);
  return found;
}

// KeyboardEvent.code → KEY_*, if the kernel's name is not the browser's in capitals.
// biome-ignore format: a table reads best in rows
const KERNEL = {
  Escape: "ESC", BracketLeft: "LEFTBRACE", BracketRight: "RIGHTBRACE", ControlLeft: "LEFTCTRL",
  Quote: "APOSTROPHE", Backquote: "GRAVE", ShiftLeft: "LEFTSHIFT", Period: "DOT",
  ShiftRight: "RIGHTSHIFT", NumpadMultiply: "KPASTERISK", AltLeft: "LEFTALT",
  NumpadSubtract: "KPMINUS", NumpadAdd: "KPPLUS", NumpadDecimal: "KPDOT", Lang5: "ZENKAKUHANKAKU",
  IntlBackslash: "102ND", IntlRo: "RO", Lang3: "KATAKANA", Lang4: "HIRAGANA", Convert: "HENKAN",
  KanaMode: "KATAKANAHIRAGANA", NonConvert: "MUHENKAN", NumpadEnter: "KPENTER",
  ControlRight: "RIGHTCTRL", NumpadDivide: "KPSLASH", PrintScreen: "SYSRQ", AltRight: "RIGHTALT",
  ArrowUp: "UP", ArrowLeft: "LEFT", ArrowRight: "RIGHT", ArrowDown: "DOWN", AudioVolumeMute: "MUTE",
  AudioVolumeDown: "VOLUMEDOWN", AudioVolumeUp: "VOLUMEUP", NumpadEqual: "KPEQUAL",
  ShowAllWindows: "SCALE", NumpadComma: "KPCOMMA", Lang1: "HANGEUL", Lang2: "HANJA", IntlYen: "YEN",
  MetaLeft: "LEFTMETA", MetaRight: "RIGHTMETA", ContextMenu: "COMPOSE", BrowserStop: "STOP",
  Select: "FRONT", LaunchApp2: "CALC", WakeUp: "WAKEUP", LaunchScreenSaver: "COFFEE",
  LaunchMail: "MAIL", BrowserFavorites: "BOOKMARKS", LaunchApp1: "COMPUTER", BrowserBack: "BACK",
  BrowserForward: "FORWARD", Eject: "EJECTCD", MediaTrackNext: "NEXTSONG",
  MediaPlayPause: "PLAYPAUSE", MediaTrackPrevious: "PREVIOUSSONG", MediaStop: "STOPCD",
  MediaRecord: "RECORD", MediaRewind: "REWIND", MediaSelect: "CONFIG", BrowserHome: "HOMEPAGE",
  BrowserRefresh: "REFRESH", NumpadParenLeft: "KPLEFTPAREN", NumpadParenRight: "KPRIGHTPAREN",
  MediaPause: "PAUSECD", MediaPlay: "PLAY", MediaFastForward: "FASTFORWARD",
  PrintScreenSysRq: "PRINT", BrowserSearch: "SEARCH", BrightnessDown: "BRIGHTNESSDOWN",
  BrightnessUp: "BRIGHTNESSUP", MailSend: "SEND", MailReply: "REPLY", MailForward: "FORWARDMAIL",
  OSLeft: "LEFTMETA", OSRight: "RIGHTMETA", VolumeMute: "MUTE", VolumeDown: "VOLUMEDOWN",
  VolumeUp: "VOLUMEUP",
};

test("every key has the kernel's number", () => {
  const kernel = defines(
    "/usr/include/linux/input-event-codes.h",
    /^#define\s+KEY_(\w+)\s+(0x[0-9a-f]+|\d+)\b/gm,
  );
  for (const [code, evdev] of Object.entries(keymap.EVDEV)) {
    const name =
      KERNEL[code] ??
      code
        .toUpperCase()
        .replace(/^(DIGIT|KEY)(?=.$)/, "")
        .replace(/^NUMPAD(?=\d)/, "KP");
    assert.equal(evdev, kernel.get(name), `${code} is KEY_${name}`);
    assert.ok(evdev <= 247, `${code}: X keycodes end at 255`);
  }
});

test("all keys of a full keyboard are in the table", () => {
  const alphabet = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZ"].map((c) => `Key${c}`);
  const digits = [..."0123456789"].flatMap((c) => [`Digit${c}`, `Numpad${c}`]);
  const functions = Array.from({ length: 24 }, (_, i) => `F${i + 1}`);
  const others = (
    "Backquote Minus Equal BracketLeft BracketRight Backslash Semicolon Quote Comma Period Slash " +
    "IntlBackslash IntlRo IntlYen Space Tab Enter Backspace Escape CapsLock ShiftLeft ShiftRight " +
    "ControlLeft ControlRight AltLeft AltRight MetaLeft MetaRight ContextMenu Insert Delete Home " +
    "End PageUp PageDown ArrowUp ArrowDown ArrowLeft ArrowRight NumLock NumpadAdd NumpadSubtract " +
    "NumpadMultiply NumpadDivide NumpadDecimal NumpadEnter NumpadEqual NumpadComma " +
    "PrintScreen ScrollLock Pause Convert NonConvert KanaMode Lang1 Lang2 Lang3 Lang4 Lang5"
  ).split(" ");
  for (const code of [...alphabet, ...digits, ...functions, ...others])
    assert.ok(keymap.EVDEV[code] > 0, code);
});

test("no two keys share a number, except for older names", () => {
  const older = new Set(["OSLeft", "OSRight", "VolumeMute", "VolumeDown", "VolumeUp"]);
  const seen = new Map();
  for (const [code, evdev] of Object.entries(keymap.EVDEV)) {
    if (older.has(code)) continue;
    assert.equal(seen.get(evdev), undefined, `${code} and ${seen.get(evdev)}`);
    seen.set(evdev, code);
  }
});

// [key, location, X's name]
// biome-ignore format: a table reads best in rows
const NAMED = [
  ["Enter", 0, "Return"], ["Enter", 3, "KP_Enter"], ["Backspace", 0, "BackSpace"],
  ["Tab", 0, "Tab"], ["Escape", 0, "Escape"], ["Delete", 0, "Delete"], ["Delete", 3, "KP_Delete"],
  ["Insert", 3, "KP_Insert"], ["ArrowLeft", 0, "Left"], ["ArrowLeft", 3, "KP_Left"],
  ["ArrowUp", 0, "Up"], ["ArrowUp", 3, "KP_Up"], ["ArrowRight", 0, "Right"],
  ["ArrowRight", 3, "KP_Right"], ["ArrowDown", 0, "Down"], ["ArrowDown", 3, "KP_Down"],
  ["Home", 0, "Home"], ["Home", 3, "KP_Home"], ["End", 0, "End"], ["End", 3, "KP_End"],
  ["PageUp", 0, "Page_Up"], ["PageUp", 3, "KP_Page_Up"], ["PageDown", 0, "Page_Down"],
  ["PageDown", 3, "KP_Page_Down"], ["Clear", 3, "KP_Begin"], ["7", 3, "KP_7"], ["0", 3, "KP_0"],
  [".", 3, "KP_Decimal"], [",", 3, "KP_Separator"], ["+", 3, "KP_Add"], ["-", 3, "KP_Subtract"],
  ["*", 3, "KP_Multiply"], ["/", 3, "KP_Divide"], ["=", 3, "KP_Equal"], ["Shift", 1, "Shift_L"],
  ["Shift", 2, "Shift_R"], ["Control", 1, "Control_L"], ["Control", 2, "Control_R"],
  ["Alt", 1, "Alt_L"], ["Alt", 2, "Alt_R"], ["Meta", 1, "Super_L"], ["Meta", 2, "Super_R"],
  ["AltGraph", 2, "ISO_Level3_Shift"], ["CapsLock", 0, "Caps_Lock"], ["NumLock", 0, "Num_Lock"],
  ["ScrollLock", 0, "Scroll_Lock"], ["Pause", 0, "Pause"], ["PrintScreen", 0, "Print"],
  ["ContextMenu", 0, "Menu"], ["F1", 0, "F1"], ["F12", 0, "F12"], ["F24", 0, "F24"],
  ["F35", 0, "F35"], ["Compose", 0, "Multi_key"], ["Help", 0, "Help"], ["Undo", 0, "Undo"],
  ["Redo", 0, "Redo"], ["Find", 0, "Find"], ["Cancel", 0, "Cancel"], ["Execute", 0, "Execute"],
  ["Select", 0, "Select"], ["ModeChange", 0, "Mode_switch"], ["Hyper", 1, "Hyper_L"],
  ["KanjiMode", 0, "Kanji"], ["NonConvert", 0, "Muhenkan"], ["Convert", 0, "Henkan"],
  ["Romaji", 0, "Romaji"], ["Hiragana", 0, "Hiragana"], ["Katakana", 0, "Katakana"],
  ["HiraganaKatakana", 0, "Hiragana_Katakana"], ["Zenkaku", 0, "Zenkaku"],
  ["Hankaku", 0, "Hankaku"], ["ZenkakuHankaku", 0, "Zenkaku_Hankaku"], ["KanaMode", 0, "Kana_Lock"],
  ["Alphanumeric", 0, "Eisu_toggle"], ["HangulMode", 0, "Hangul"], ["HanjaMode", 0, "Hangul_Hanja"],
  ["JunjaMode", 0, "Hangul_Jeonja"], ["CodeInput", 0, "Codeinput"],
  ["SingleCandidate", 0, "SingleCandidate"], ["AllCandidates", 0, "MultipleCandidate"],
  ["PreviousCandidate", 0, "PreviousCandidate"], ["GroupNext", 0, "ISO_Next_Group"],
  ["GroupPrevious", 0, "ISO_Prev_Group"], ["GroupFirst", 0, "ISO_First_Group"],
  ["GroupLast", 0, "ISO_Last_Group"], ["Attn", 0, "3270_Attn"], ["CrSel", 0, "3270_CursorSelect"],
  ["ExSel", 0, "3270_ExSelect"], ["EraseEof", 0, "3270_EraseEOF"], ["Play", 0, "3270_Play"],
];

test("named keys have X's keysyms", () => {
  const x = defines("/usr/include/X11/keysymdef.h", /^#define\s+XK_(\w+)\s+(0x[0-9a-f]+)/gm);
  for (const [key, location, name] of NAMED) {
    assert.equal(
      keymap.keysymOf(key, location),
      x.get(name),
      `${key} at ${location} is XK_${name}`,
    );
  }
});

// Likewise, from XF86keysym.h.
const MEDIA = {
  BrightnessUp: "MonBrightnessUp",
  BrightnessDown: "MonBrightnessDown",
  Standby: "Standby",
  AudioVolumeDown: "AudioLowerVolume",
  AudioVolumeMute: "AudioMute",
  AudioVolumeUp: "AudioRaiseVolume",
  MediaPlay: "AudioPlay",
  MediaPlayPause: "AudioPlay",
  MediaStop: "AudioStop",
  MediaTrackPrevious: "AudioPrev",
  MediaTrackNext: "AudioNext",
  BrowserHome: "HomePage",
  LaunchMail: "Mail",
  BrowserSearch: "Search",
  MediaRecord: "AudioRecord",
  LaunchCalculator: "Calculator",
  LaunchCalendar: "Calendar",
  PowerOff: "PowerOff",
  WakeUp: "WakeUp",
  Eject: "Eject",
  LaunchScreenSaver: "ScreenSaver",
  LaunchWebBrowser: "WWW",
  BrowserBack: "Back",
  BrowserForward: "Forward",
  BrowserStop: "Stop",
  BrowserRefresh: "Refresh",
  BrowserFavorites: "Favorites",
  MediaPause: "AudioPause",
  LaunchMediaPlayer: "AudioMedia",
  LaunchMyComputer: "MyComputer",
  MediaRewind: "AudioRewind",
  Close: "Close",
  Copy: "Copy",
  Cut: "Cut",
  LogOff: "LogOff",
  New: "New",
  Open: "Open",
  Paste: "Paste",
  MailReply: "Reply",
  Save: "Save",
  MailSend: "Send",
  SpellCheck: "Spell",
  ZoomIn: "ZoomIn",
  ZoomOut: "ZoomOut",
  MailForward: "MailForward",
  MediaFastForward: "AudioForward",
  Hibernate: "Hibernate",
  MicrophoneVolumeMute: "AudioMicMute",
};

test("keys of media keyboards have XFree86's keysyms", () => {
  const x = defines(
    "/usr/include/X11/XF86keysym.h",
    /^#define\s+XF86XK_(\w+)\s+(0x[0-9a-fA-F]+)/gm,
  );
  for (const [key, name] of Object.entries(MEDIA)) {
    assert.equal(keymap.keysymOf(key, 0), x.get(name), `${key} is XF86XK_${name}`);
  }
});

test("characters are Latin-1 or Unicode keysyms", () => {
  for (const [key, keysym] of [
    ["a", 0x61],
    ["A", 0x41],
    [" ", 0x20],
    ["~", 0x7e],
    ["é", 0xe9],
    ["ÿ", 0xff],
    ["\u00a0", 0xa0],
    ["€", 0x010020ac],
    ["ő", 0x01000151],
    ["я", 0x0100044f],
    ["漢", 0x01006f22],
    ["😀", 0x0101f600],
  ]) {
    assert.equal(keymap.keysymOf(key, 0), keysym, key);
  }
  for (const key of ["Dead", "Unidentified", "Process", "Fn", ""])
    assert.equal(keymap.keysymOf(key, 0), 0, key);
});

test("a notch of the wheel is a notch in every form that browsers report", () => {
  const event = { deltaX: 0, deltaY: 0, deltaMode: 0 };
  assert.deepEqual(pointer.notchesOf({ ...event, deltaY: 53, wheelDeltaX: 0, wheelDeltaY: -120 }), {
    x: 0,
    y: 1,
  });
  assert.deepEqual(pointer.notchesOf({ ...event, deltaX: -53, wheelDeltaX: 120, wheelDeltaY: 0 }), {
    x: -1,
    y: 0,
  });
  assert.deepEqual(pointer.notchesOf({ ...event, deltaY: 3, deltaMode: 1 }), { x: 0, y: 1 });
  assert.deepEqual(pointer.notchesOf({ ...event, deltaY: -1, deltaMode: 2 }), { x: 0, y: -1 });
  assert.deepEqual(pointer.notchesOf({ ...event, deltaY: 25 }), { x: 0, y: 0.25 });
});
