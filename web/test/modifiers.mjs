// Modifiers as browsers report them on each system, and what the session has to receive for them.
// Used by keyboard.test.mjs and firefox.test.mjs: the page must do the same in both.
// Names and flags are those of Chromium 156 and Firefox 153 on X; other systems' are documented.

/** KeyboardEvent.code → the evdev code, and the keysym by KeyboardEvent.key. */
const [SHIFT, CONTROL, ALT, META] = [
  { Left: [42, 0xffe1], Right: [54, 0xffe2] },
  { Left: [29, 0xffe3], Right: [97, 0xffe4] },
  { Left: [56, 0xffe9], Right: [100, 0xffea] },
  { Left: [125, 0xffeb], Right: [126, 0xffec] },
];
const KINDS = { Shift: SHIFT, Control: CONTROL, Alt: ALT, Meta: META };
const ALTGR = [100, 0xfe03];

const down = (code, key, more = {}) => ["keydown", { code, key, ...more }];
const up = (code, key, more = {}) => ["keyup", { code, key, ...more }];
const sent = (sign, [code, keysym]) => `${sign}${code}:${keysym.toString(16)}`;
const flags = (...keys) =>
  Object.fromEntries(
    keys.map((key) => [key === "Control" ? "ctrlKey" : `${key.toLowerCase()}Key`, true]),
  );

/** What X's other levels make of a second modifier, where a browser reports that. */
const OTHER_LEVEL = {
  "Shift Alt": "Meta",
  // setxkbmap -option grp:alt_shift_toggle, grp:ctrl_shift_toggle, grp:ctrl_alt_toggle.
  "Alt Shift": "GroupNext",
  "Control Shift": "GroupNext",
  "Shift Control": "GroupNext",
  "Control Alt": "GroupNext",
};

/** Two modifiers of all kinds and sides, in both orders, called by their names or by another. */
function pairs() {
  const cases = [];
  const all = Object.keys(KINDS).flatMap((kind) => [`${kind}Left`, `${kind}Right`]);
  for (const first of all) {
    for (const second of all) {
      if (first === second) continue;
      const [a, b] = [first, second].map((code) => code.replace(/Left|Right/, ""));
      const of = (code, kind) => KINDS[kind][code.slice(kind.length)];
      for (const key of new Set([b, OTHER_LEVEL[`${a} ${b}`] ?? b])) {
        cases.push({
          name: `${first}, then ${second} as ${key}`,
          events: [
            down(first, a, flags(a)),
            down(second, key, flags(a, b)),
            up(second, key, flags(a)),
            up(first, a),
          ],
          wanted: [
            sent("+", of(first, a)),
            sent("+", of(second, b)),
            sent("-", of(second, b)),
            sent("-", of(first, a)),
          ],
        });
      }
    }
  }
  return cases;
}

const HABITS = [
  {
    name: "Alt with a Shift that was pressed elsewhere",
    events: [down("AltLeft", "Meta", flags("Shift", "Alt")), up("AltLeft", "Meta")],
    wanted: [sent("+", ALT.Left), sent("-", ALT.Left)],
  },
  {
    name: "Alt and Super exchanged in the layout, alone and with Shift",
    events: [
      down("AltLeft", "Meta", flags("Meta")),
      up("AltLeft", "Meta"),
      down("MetaLeft", "Alt", flags("Alt")),
      up("MetaLeft", "Alt"),
      down("ShiftLeft", "Shift", flags("Shift")),
      down("MetaLeft", "Meta", flags("Shift", "Alt")),
      up("MetaLeft", "Meta", flags("Shift")),
      down("AltRight", "Meta", flags("Shift")),
      up("AltRight", "Meta", flags("Shift", "Meta")),
      up("ShiftLeft", "Shift"),
    ],
    wanted: [
      sent("+", [56, 0xffeb]),
      sent("-", [56, 0xffeb]),
      sent("+", [125, 0xffe9]),
      sent("-", [125, 0xffe9]),
      sent("+", SHIFT.Left),
      sent("+", [125, 0xffe9]),
      sent("-", [125, 0xffe9]),
      sent("+", [100, 0xffec]),
      sent("-", [100, 0xffec]),
      sent("-", SHIFT.Left),
    ],
  },
  {
    name: "Control and Caps Lock exchanged in the layout, with Shift",
    events: [
      down("ShiftLeft", "Shift", flags("Shift")),
      down("CapsLock", "Control", flags("Shift", "Control")),
      up("CapsLock", "Control", flags("Shift")),
      down("ControlLeft", "CapsLock", flags("Shift")),
      up("ControlLeft", "CapsLock", flags("Shift")),
      up("ShiftLeft", "Shift"),
    ],
    wanted: [
      sent("+", SHIFT.Left),
      sent("+", [58, 0xffe3]),
      sent("-", [58, 0xffe3]),
      sent("+", [29, 0xffe5]),
      sent("-", [29, 0xffe5]),
      sent("-", SHIFT.Left),
    ],
  },
  {
    name: "AltGr with Shift, both orders",
    events: [
      down("ShiftLeft", "Shift", flags("Shift")),
      down("AltRight", "AltGraph", { ...flags("Shift"), modifierAltGraph: true }),
      up("ShiftLeft", "Shift"),
      down("ShiftRight", "Shift", { ...flags("Shift"), modifierAltGraph: true }),
      up("ShiftRight", "Shift"),
      up("AltRight", "AltGraph"),
    ],
    wanted: [
      sent("+", SHIFT.Left),
      sent("+", ALTGR),
      sent("-", SHIFT.Left),
      sent("+", SHIFT.Right),
      sent("-", SHIFT.Right),
      sent("-", ALTGR),
    ],
  },
  {
    name: "AltGr on Windows, which presses Control with it",
    platform: "Win32",
    events: [
      down("ControlLeft", "Control", flags("Control")),
      down("AltRight", "AltGraph", { ...flags("Control", "Alt"), modifierAltGraph: true }),
      down("KeyQ", "@", { ...flags("Control", "Alt"), modifierAltGraph: true }),
      up("KeyQ", "@", { ...flags("Control", "Alt"), modifierAltGraph: true }),
      up("ControlLeft", "Control", flags("Alt")),
      up("AltRight", "AltGraph"),
    ],
    wanted: [
      sent("+", CONTROL.Left),
      sent("-", CONTROL.Left),
      sent("+", ALTGR),
      sent("+", [16, 0x40]),
      sent("-", [16, 0x40]),
      sent("-", ALTGR),
    ],
  },
  {
    name: "AltGr on Windows as Control and Alt, and then a shortcut with both",
    platform: "Win32",
    events: [
      down("ControlLeft", "Control", flags("Control")),
      down("AltLeft", "Alt", flags("Control", "Alt")),
      down("KeyQ", "@", { ...flags("Control", "Alt"), modifierAltGraph: true }),
      up("KeyQ", "@", { ...flags("Control", "Alt"), modifierAltGraph: true }),
      down("KeyT", "t", flags("Control", "Alt")),
      up("KeyT", "t", flags("Control", "Alt")),
      up("AltLeft", "Alt", flags("Control")),
      up("ControlLeft", "Control"),
    ],
    wanted: [
      sent("+", CONTROL.Left),
      sent("+", ALT.Left),
      sent("-", CONTROL.Left),
      sent("-", ALT.Left),
      sent("+", [16, 0x40]),
      sent("-", [16, 0x40]),
      sent("+", CONTROL.Left),
      sent("+", ALT.Left),
      sent("+", [20, 0x74]),
      sent("-", [20, 0x74]),
      sent("-", ALT.Left),
      sent("-", CONTROL.Left),
    ],
  },
  {
    name: "Option on macOS writes a character, is Alt with others, and Alt alone",
    platform: "MacIntel",
    events: [
      down("AltLeft", "Alt", flags("Alt")),
      down("KeyL", "@", flags("Alt")),
      up("KeyL", "@", flags("Alt")),
      up("AltLeft", "Alt"),
      down("AltRight", "Alt", flags("Alt")),
      down("ArrowLeft", "ArrowLeft", flags("Alt")),
      up("ArrowLeft", "ArrowLeft", flags("Alt")),
      down("KeyN", "~", flags("Alt")),
      up("KeyN", "~", flags("Alt")),
      up("AltRight", "Alt"),
      down("AltLeft", "Alt", flags("Alt")),
      up("AltLeft", "Alt"),
      down("ControlLeft", "Control", flags("Control")),
      down("AltLeft", "Alt", flags("Control", "Alt")),
      down("KeyT", "†", flags("Control", "Alt")),
      up("KeyT", "†", flags("Control", "Alt")),
      up("AltLeft", "Alt", flags("Control")),
      up("ControlLeft", "Control"),
    ],
    wanted: [
      sent("+", [38, 0x40]),
      sent("-", [38, 0x40]),
      sent("+", ALT.Right),
      sent("+", [105, 0xff51]),
      sent("-", [105, 0xff51]),
      sent("-", ALT.Right),
      sent("+", [49, 0x7e]),
      sent("-", [49, 0x7e]),
      sent("+", ALT.Left),
      sent("-", ALT.Left),
      sent("+", CONTROL.Left),
      sent("+", ALT.Left),
      sent("+", [20, 0x01002020]),
      sent("-", [20, 0x01002020]),
      sent("-", ALT.Left),
      sent("-", CONTROL.Left),
    ],
  },
  {
    name: "Option on macOS with a click is Alt",
    platform: "MacIntel",
    events: [
      down("AltLeft", "Alt", flags("Alt")),
      ["pointerdown", { button: 0, buttons: 1 }],
      ["pointerup", { button: 0, buttons: 0 }],
      up("AltLeft", "Alt"),
    ],
    wanted: [sent("+", ALT.Left), "+button 1", "-button 1", sent("-", ALT.Left)],
  },
  {
    name: "Command on macOS, under which other keys are not released",
    platform: "MacIntel",
    events: [
      down("MetaRight", "Meta", flags("Meta")),
      down("KeyS", "s", flags("Meta")),
      up("MetaRight", "Meta"),
      down("ShiftLeft", "Shift", flags("Shift")),
      down("MetaLeft", "Meta", flags("Shift", "Meta")),
      up("MetaLeft", "Meta", flags("Shift")),
    ],
    wanted: [
      sent("+", META.Right),
      sent("+", [31, 0x73]),
      sent("-", META.Right),
      sent("-", [31, 0x73]),
      sent("+", SHIFT.Left),
      sent("+", META.Left),
      sent("-", META.Left),
      sent("-", SHIFT.Left),
    ],
  },
];

/** The cases of one platform, as `navigator.platform` names it. */
export function modifierCases(platform) {
  return [...pairs(), ...HABITS].filter((one) => (one.platform ?? "Linux x86_64") === platform);
}
export const PLATFORMS = ["Linux x86_64", "Win32", "MacIntel"];

/** Runs in the page: dispatches the events of one case. */
export const dispatch = `(events) => {
  const stage = document.getElementById("stage");
  stage.setPointerCapture = () => undefined; // there is no such pointer to capture
  for (const [type, init] of events) {
    if (type.startsWith("key")) window.dispatchEvent(new window.KeyboardEvent(type, init));
    else
      stage.dispatchEvent(
        new window.PointerEvent(type, { ...init, pointerType: "mouse", pointerId: 1, clientX: 50,
          clientY: 50, bubbles: true, cancelable: true }),
      );
  }
}`;

/** What a scripted session has received, in the words of the cases. */
export function received(viewer) {
  return viewer.received.flatMap((m) => {
    const sign = m.down ? "+" : "-";
    if (m.kind === "key") return [`${sign}${m.code}:${m.keysym.toString(16)}`];
    return m.kind === "button" ? [`${sign}button ${m.button}`] : [];
  });
}
